"""What thp-validate says of this host."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from ansible_collections.kernel_thp.fleet.plugins.module_utils import command
from ansible_collections.kernel_thp.fleet.plugins.module_utils.problem import Problem

# With exit codes 0 to 2 it has printed a verdict.
VERDICTS = (0, 1, 2)
# What it says of a kernel that Secure Boot would boot.
TRUSTED = "trusted"


def run(options: Sequence[str] = (), timeout: float = command.TIMEOUT) -> dict[str, Any]:
    """Return its JSON."""
    words = ["thp-validate", "--json", *options]
    done = command.run(words, timeout)
    if done.code not in VERDICTS:
        raise Problem(f"`{' '.join(words)}` gave no verdict: {done.last}", "install thp-tools")
    return dict(json.loads(done.out))


def not_booted(uname: str) -> str | None:
    """Return why Secure Boot would refuse an installed kernel, with a hint, or None."""
    try:
        found = run(["--kernel", uname])
    except Problem:
        # Older tools do not have that option, and check the newest kernel.
        found = run()
    if found["secure_boot"]["state"] == TRUSTED:
        # What else it says is about the kernel that runs.
        return None
    reasons = (reason for reason in found["reasons"] if reason["id"] == "secure-boot")
    return next((f"{reason['what']}; {reason['hint']}" for reason in reasons), None)
