"""What of kernel-thp is installed: kernels, whether they run or not, and packages."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Annotated

from . import boot, kernel
from .system import System

PACKAGES = ("kernel-thp*", "tuned-profiles-thp*", "thp-tools*", "tuned")


@dataclass
class Installed:
    """What of kernel-thp is installed. In a container, that of the host is not visible."""

    kernels: Annotated[
        list[str], "uname -r of each kernel with an image in /lib/modules, the newest first, without the debug kernel"
    ] = field(default_factory=list)
    to_boot: Annotated[str | None, "how to boot the newest of these; null: there is none"] = None
    packages: Annotated[list[str] | None, "NEVRA of each of our packages and of tuned; null: rpm did not run"] = None


def collect(system: System) -> Installed:
    if system.container():
        return Installed()
    found = Installed(kernels(system))
    if found.kernels:
        found.to_boot = boot.hint(system, found.kernels[0])
    listed = system.run(["rpm", "-qa", "--qf", "%{NEVRA}\n", *PACKAGES])
    if listed and listed.code == 0:
        found.packages = sorted(listed.text.split())
    elif listed:
        system.unseen["rpm"] = (listed.text.splitlines() or ["it printed nothing"])[0]
    return found


def image(uname: str) -> str:
    return f"/lib/modules/{uname}/vmlinuz"


def kernels(system: System) -> list[str]:
    found = [path.parent.name for path in system.path("/lib/modules").glob("*/vmlinuz")]
    ours = [name for name in found if kernel.flavour(name) in (kernel.CLOUD, kernel.SERVER)]
    return sorted(ours, key=_by_number, reverse=True)


def _by_number(uname: str) -> list[tuple[int, str]]:
    """Return what to sort by: numbers as numbers, and before words."""
    return [(int(part), "") if part.isdigit() else (-1, part) for part in re.findall(r"\d+|[^\d.]+", uname)]
