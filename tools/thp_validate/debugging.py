"""What somebody needs who looks for a problem of this kernel: BTF for tracers, kdump for a crash."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from .system import System

BTF = "/sys/kernel/btf/vmlinux"
LOADED, RESERVED = "/sys/kernel/kexec_crash_loaded", "/sys/kernel/kexec_crash_size"


@dataclass
class Debugging:
    """What helps to find problems of this kernel. It does not change the verdict."""

    btf: Annotated[bool, "whether programs of BPF that need the kernel's types can run (bpftrace)"]
    kdump_loaded: Annotated[bool | None, "whether a crash would be dumped; null: this kernel has no kdump"]
    kdump_reserved_bytes: Annotated[int | None, "memory that crashkernel= reserves for that"]


def collect(system: System) -> Debugging:
    loaded, reserved = system.word(LOADED), system.word(RESERVED) or ""
    return Debugging(
        btf=system.path(BTF).exists(),
        kdump_loaded=None if loaded is None else loaded == "1",
        kdump_reserved_bytes=int(reserved) if reserved.isdecimal() else None,
    )


def text(found: Debugging) -> str:
    """Return one line about it, with a hint where memory is reserved in vain."""
    btf = "BTF" if found.btf else "no BTF"
    if found.kdump_loaded:
        return f"{btf}, kdump is ready"
    if found.kdump_reserved_bytes:
        mib = found.kdump_reserved_bytes >> 20
        return f"{btf}, kdump is not loaded, although {mib} MiB are reserved: see `systemctl status kdump`"
    return f"{btf}, no kdump"
