"""The JSON object that --json prints. schema.py makes its schema from these annotations."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from . import schema
from .blocks import Blocks
from .checks import RESULTS, VERDICTS
from .counters import Watch
from .debugging import Debugging
from .estimate import Estimate
from .host import Host
from .installed import Installed
from .kernel import Kernel
from .profile import Profile
from .secure_boot import SecureBoot
from .selftests import Selftests
from .taint import DEGRADED, UNSUPPORTED
from .thp import Thp
from .waivers import Waivers

SCHEMA = 1
SCHEMAS = (SCHEMA,)
REJECTED = (DEGRADED, UNSUPPORTED)


@dataclass
class Reason:
    """A check that found a problem."""

    id: Annotated[str, "the name of the check"]
    verdict: Annotated[str, "of this check alone", REJECTED]
    what: str
    hint: Annotated[str, "what to do about it"]


@dataclass
class Document:
    """The verdict on one host and what it is based on. Sizes are in bytes and times in seconds unless a name says
    otherwise. Null: not there, or not readable. A later version can have more fields.
    """

    schema: Annotated[int, "raised when a change could mislead a reader of this version", SCHEMAS]
    version: Annotated[str, "of thp-validate"]
    time: Annotated[str, "when the checks ran, UTC, as in ISO 8601"]
    verdict: Annotated[str, "the worst verdict of all checks", VERDICTS]
    reasons: Annotated[list[Reason], "every check that found a problem; empty if and only if the verdict is supported"]
    checks: Annotated[
        dict[str, Annotated[str, "its result", RESULTS]],
        "every check; unseen counts as degraded, skipped does not apply",
    ]
    host: Host
    kernel: Kernel
    installed: Installed
    secure_boot: SecureBoot
    debugging: Debugging
    thp: Thp
    blocks: Annotated[Blocks | None, "from /proc/kpageflags; null where root or that file is missing"]
    profile: Profile
    counters: Annotated[dict[str, int], "from /proc/vmstat, and psi_memory_some_us from /proc/pressure/memory"]
    waivers: Annotated[Waivers | None, "null: there is no file of them"]
    watch: Watch | None
    selftests: Selftests | None
    estimate: Estimate | None
    unseen: Annotated[dict[str, str], "files that could not be read and programs that could not run, and why"]


def json_schema() -> schema.Schema:
    return schema.document(Document, "What thp-validate --json prints")
