"""The kernel's log since the boot. If it cannot be read, the gate fails."""

from __future__ import annotations

from ansible_collections.kernel_thp.fleet.plugins.module_utils import command, splat_list
from ansible_collections.kernel_thp.fleet.plugins.module_utils.problem import Problem


def read() -> str:
    for words in splat_list.READERS:
        done = command.run(words)
        if done.code == 0 and splat_list.START in done.out:
            return done.out
    raise Problem("the kernel's log since the boot cannot be read", "check whether journalctl -k -b shows it")
