"""tuned on a lab host: the real daemon, controlled by tuned-adm, and the kernel's settings of huge pages."""

from __future__ import annotations

import time
from pathlib import PurePosixPath

from lab.vm import Result, Vm
from scripts.console import UserError

THP = "/sys/kernel/mm/transparent_hugepage"
DEFRAG_MODE = "/proc/sys/vm/defrag_mode"
NODES = (
    "enabled",
    "defrag",
    "shrink_underused",
    "underused_max_ptes_none",
    "khugepaged/max_ptes_none",
    "swapin_enabled",
    DEFRAG_MODE,
)
LOG = "/var/log/tuned/tuned.log"
VARIABLES = "/etc/tuned/thp-shrinker-variables.conf"
# After a refusal, tuned-adm returns before the daemon has activated the previous profile again.
SETTLE = 30.0

Values = dict[str, str]


def path(node: str) -> str:
    """Return where a file is: below THP, unless its name says where."""
    return str(PurePosixPath(THP, node))


class Tuned:
    def __init__(self, vm: Vm) -> None:
        self.vm = vm

    def adm(self, *words: str) -> Result:
        """Run tuned-adm, and return its output and exit code."""
        return self.vm.run(f"tuned-adm {' '.join(words)}", check=False)

    def profile(self, *names: str) -> None:
        done = self.adm("profile", *names)
        if done.code != 0 or done.text:
            raise UserError(f"tuned-adm profile {' '.join(names)} ended with {done.code}: {done.text}", f"read {LOG}")

    def active(self) -> str:
        return self.adm("active").text.splitlines()[0].removeprefix("Current active profile: ")

    def verify(self) -> tuple[bool, str]:
        """Return the verdict of `tuned-adm verify`, and the lines that tuned logged meanwhile."""
        self.vm.run(f": > {LOG}")
        done = self.adm("verify")
        return done.code == 0, self.vm.run(f"cat {LOG}").text

    def values(self) -> Values:
        """Return the values in force, for the files that this kernel has."""
        script = f"cd {THP} && for f in {' '.join(NODES)}; do [ ! -e $f ] || echo $f $(cat $f); done"
        found = {}
        for line in self.vm.run(script).text.splitlines():
            node, _, text = line.partition(" ")
            found[node] = text.partition("[")[2].partition("]")[0] or text
        return found

    def write(self, values: Values) -> None:
        """Change values as another program would."""
        self.vm.run("; ".join(["set -e", *(f"echo {value} > {path(node)}" for node, value in values.items())]))

    def settle(self, expected: Values) -> Values:
        """Wait for these values, and return those in force at the end."""
        deadline = time.monotonic() + SETTLE
        while (found := self.values()) != expected and time.monotonic() < deadline:
            time.sleep(1)
        return found

    def define(self, name: str, text: str) -> None:
        """Create a profile, as an administrator or another tool would."""
        self.vm.write(f"{self.folder()}/{name}/tuned.conf", f"[main]\nsummary=test\n{text}")

    def folder(self) -> str:
        """Return where an administrator's profiles are: tuned 2.23 moved them, together with its own."""
        moved = self.vm.run("[ -e /usr/lib/tuned/profiles/balanced ]", check=False).code == 0
        return "/etc/tuned/profiles" if moved else "/etc/tuned"
