"""Choose how qemu executes the guest's instructions."""

from __future__ import annotations

import functools
import os
import subprocess
from pathlib import Path

from scripts.console import say

QEMU = "qemu-system-x86_64"
# With ERMS or FSRM, Linux and glibc copy and clear memory by string instructions on bytes. These are emulated byte by
# byte, and a boot takes a third longer. A walk of five levels of page tables takes longer than one of four.
TCG = ["-accel", "tcg,thread=multi,tb-size=512", "-cpu", "max,-erms,-fsrm,-la57"]
KVM = ["-accel", "kvm", "-cpu", "host"]


def kvm_usable() -> tuple[bool, str]:
    """Return whether KVM can run a kernel here, and why. A device node alone is not enough."""
    flags = Path("/proc/cpuinfo").read_text().split()
    if "vmx" not in flags and "svm" not in flags:
        return False, "the processor offers no virtualization (no vmx or svm flag)"
    if not os.access("/dev/kvm", os.R_OK | os.W_OK):
        return False, "/dev/kvm cannot be opened"
    probe = [QEMU, "-accel", "kvm", "-machine", "q35", "-display", "none", "-nodefaults", "-monitor", "stdio"]
    try:
        done = subprocess.run(probe, input="quit\n", text=True, capture_output=True, timeout=20)
    except subprocess.TimeoutExpired:
        return False, "a probe under KVM hung"
    if done.returncode != 0:
        return False, f"a probe under KVM failed: {done.stderr.strip().splitlines()[-1:]}"
    return True, "the probe succeeded"


@functools.cache
def accelerator() -> tuple[str, ...]:
    """Return qemu's options for the best accelerator of this machine, and print which it is."""
    usable, why = kvm_usable()
    say(f"lab: {'KVM' if usable else 'TCG (emulation, slow)'}: {why}")
    return tuple(KVM if usable else TCG)
