"""Everything that thp-validate collects about a host before it runs the checks."""

from __future__ import annotations

from dataclasses import dataclass, field

from . import blocks, counters, debugging, host, installed, kernel, profile, secure_boot, thp
from .blocks import Blocks
from .counters import Watch
from .debugging import Debugging
from .estimate import Estimate
from .host import Host
from .installed import Installed
from .kernel import Kernel
from .profile import Profile
from .secure_boot import SecureBoot
from .selftests import Selftests
from .system import System
from .thp import Thp
from .waivers import Waivers


@dataclass
class Facts:
    host: Host
    kernel: Kernel
    installed: Installed
    secure_boot: SecureBoot
    debugging: Debugging
    thp: Thp
    profile: Profile
    counters: dict[str, int]
    sysfs: bool
    blocks: Blocks | None = None
    waivers: Waivers | None = None
    watch: Watch | None = None
    selftests: Selftests | None = None
    estimate: Estimate | None = None
    unseen: dict[str, str] = field(default_factory=dict)


def collect(system: System, to_boot: str | None = None) -> Facts:
    """Collect everything. The signature is that of one kernel, or of the newest that is installed."""
    found, ours = thp.collect(system), installed.collect(system)
    return Facts(
        host=host.collect(system),
        kernel=kernel.collect(system),
        installed=ours,
        secure_boot=secure_boot.collect(system, [to_boot] if to_boot else ours.kernels),
        debugging=debugging.collect(system),
        thp=found,
        profile=profile.collect(system),
        counters=counters.collect(system),
        sysfs=system.path("/sys/kernel").is_dir(),
        blocks=blocks.collect(system, found),
        unseen=system.unseen,
    )
