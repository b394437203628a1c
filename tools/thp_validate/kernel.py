"""Which kernel runs, and whether it matches its signed package."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass, field
from typing import Annotated, ClassVar

from . import taint
from .system import System
from .taint import Flag

CLOUD, SERVER, DEBUG, OTHER = "cloud", "server", "debug", "other"
# How `uname -r` of each flavour ends, and its package.
SUFFIXES = {"+thp.cloud": CLOUD, "+thp": SERVER, "+thp.debug": DEBUG}
FLAVOURS = (CLOUD, SERVER, DEBUG, OTHER)
PACKAGES = {CLOUD: "kernel-thp-cloud", SERVER: "kernel-thp", DEBUG: "kernel-thp-debug"}
KEY = re.compile(r"Key (?:ID|Fingerprint:?) ([0-9a-fA-F]{8,})")
# What `rpm -V` prints before a file name, nine tests: `.` passed, `?` could not run, a letter failed.
ATTRIBUTES = re.compile(r"^(missing|[.?A-Z5]{8,9})\s+(?:[a-z] )?\s*(/.*)$")
NOT_ALLOWED = "(Permission denied)"


@dataclass
class Kernel:
    """The running kernel."""

    COMPUTED: ClassVar = ("taints",)
    uname: Annotated[str, "uname -r"] = ""
    flavour: Annotated[str, "of kernel-thp, by the end of uname; other: not kernel-thp", FLAVOURS] = OTHER
    nevra: Annotated[str | None, "package that owns the running kernel; null for other kernels"] = None
    signature: Annotated[str | None, "as rpm prints it"] = None
    key_known: Annotated[bool | None, "whether rpm has the key of that signature"] = None
    changed: Annotated[list[str] | None, "files that rpm -V reports as changed"] = None
    series: Annotated[str | None, "SHA-256 of the list of patches, /lib/modules/UNAME/series"] = None
    config_sha256: Annotated[str | None, "SHA-256 of the kernel's configuration file"] = None
    tainted: int | None = None
    modules: Annotated[dict[str, str], "the loaded modules that taint the kernel, and the letters of their flags"] = (
        field(default_factory=dict)
    )
    splats: Annotated[
        list[str] | None, "lines of the kernel's log since the boot that report a defect, each once; null: not readable"
    ] = None
    command_line: Annotated[list[str], "the parameters on the kernel command line that set huge pages"] = field(
        default_factory=list
    )

    @property
    def taints(self) -> list[Flag]:
        """The flags in tainted."""
        return taint.flags(self.tainted or 0)


def collect(system: System) -> Kernel:
    kernel = Kernel(uname=system.word("/proc/sys/kernel/osrelease") or "")
    kernel.flavour = flavour(kernel.uname)
    tainted = system.word("/proc/sys/kernel/tainted") or ""
    kernel.tainted = int(tainted) if tainted.isdecimal() else None
    kernel.modules = _modules(system)
    words = (system.read("/proc/cmdline") or "").split()
    kernel.command_line = [word for word in words if word.startswith("transparent_hugepage=")]
    kernel.config_sha256 = _configuration(system, kernel.uname)
    series = system.bytes_of(f"/lib/modules/{kernel.uname}/series")
    kernel.series = None if series is None else hashlib.sha256(series).hexdigest()
    _package(system, kernel)
    return kernel


def _modules(system: System) -> dict[str, str]:
    names = sorted(path.parent.name for path in system.path("/sys/module").glob("*/taint"))
    letters = {name: system.word(f"/sys/module/{name}/taint") or "" for name in names}
    return {name: found for name, found in letters.items() if found}


def flavour(uname: str) -> str:
    return next((name for suffix, name in SUFFIXES.items() if uname.endswith(suffix)), OTHER)


def of(system: System) -> str:
    """Return the flavour of the running kernel."""
    return flavour(system.word("/proc/sys/kernel/osrelease") or "")


def _configuration(system: System, uname: str) -> str | None:
    for name in (f"/lib/modules/{uname}/config", f"/boot/config-{uname}"):
        content = system.bytes_of(name)
        if content is not None:
            return hashlib.sha256(content).hexdigest()
    return None


def _package(system: System, kernel: Kernel) -> None:
    """Collect from rpm, except in a container: its rpm database does not have the host's kernel."""
    if kernel.flavour == OTHER or system.container():
        return
    image = f"/lib/modules/{kernel.uname}/vmlinuz"
    owner = system.run(["rpm", "-qf", "--qf", "%{NAME} %{NEVRA} %{EVR}\n", image])
    if owner is None:
        return
    if owner.code != 0:
        failures = failed(owner.text)
        if failures:
            system.unseen["rpm"] = failures[0]
        return
    name, kernel.nevra, release = owner.text.split()[:3]
    kernel.signature = signature(_output(system, "-qi", kernel.nevra))
    keys = _output(system, "-q", "--qf", "%{VERSION}\n", "gpg-pubkey").split()
    kernel.key_known = None if kernel.signature is None else key_known(kernel.signature, keys)
    modules = f"{name[: -len('core')]}modules-{release}"
    parts = [part for part in (kernel.nevra, modules) if _installed(system, part)]
    verified = system.run(["rpm", "-V", "--nodeps", "--noscripts", *parts])
    if verified is None:
        return
    changed, unread, messages = changes(verified.text)
    for path in unread:
        system.unseen[path] = "not readable, so rpm could not verify it"
    if messages:
        system.unseen["rpm -V"] = messages[0]
    else:
        kernel.changed = changed


def _output(system: System, *options: str) -> str:
    output = system.run(["rpm", *options])
    return output.text if output and output.code == 0 else ""


def _installed(system: System, package: str) -> bool:
    output = system.run(["rpm", "-q", package])
    return output is not None and output.code == 0


def failed(text: str) -> list[str]:
    """Return the errors of rpm itself: it also reports a file as not owned when it cannot open its database."""
    errors = [line for line in text.splitlines() if line.startswith("error:")]
    return [
        line for line in errors if not (line.startswith("error: file ") and line.endswith("No such file or directory"))
    ]


def signature(information: str) -> str | None:
    """Return the signature from `rpm -qi`; newer rpm prints it on its own line."""
    match = re.search(r"^Signature\s*:\s*(\S.*)$", information, re.MULTILINE)
    return match.group(1).strip() if match and KEY.search(match.group(1)) else None


def key_known(signed: str, keys: list[str]) -> bool:
    """Return whether the key of a signature is among the versions of the gpg-pubkey packages, short or long ids."""
    match = KEY.search(signed)
    return match is not None and match.group(1).lower()[-8:] in [key.lower()[-8:] for key in keys]


def changes(verified: str) -> tuple[list[str], list[str], list[str]]:
    """Return the files that `rpm -V` finds changed, those it could not read, and its other messages."""
    changed, unread, messages = [], [], []
    for line in verified.splitlines():
        match = ATTRIBUTES.match(line)
        if match is None:
            messages += [line.strip()] if line.strip() else []
        elif set(match.group(1)) <= {".", "?"} or line.endswith(NOT_ALLOWED):
            unread.append(match.group(2).replace(NOT_ALLOWED, "").rstrip())
        else:
            changed.append(f"{match.group(2)} ({match.group(1)})")
    return changed, unread, messages
