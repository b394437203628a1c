"""The first boot of a kernel: a host on which it panics, hangs or stays without a network comes back by itself.

All of it is on the command line of that one boot entry, or does nothing on a boot without the mark there.

That command line gets around: where no file says what it has to be, kernel-install takes the one that runs for a new
entry. So the mark counts for one trial only, and what is between it and the end can be told from the host's own.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from ansible_collections.kernel_thp.fleet.plugins.module_utils import command, files

# The dot makes them parameters of a module that does not exist: neither the kernel nor init minds.
MARK, END = "kernel_thp.trial", "kernel_thp.trial_end"
# Where somebody has taken the end away, what always comes after the mark.
WORDS = re.compile(
    rf"\s*(?<!\S){re.escape(MARK)}(?:=\S*)?(?!\S)"
    rf"(?:.*?\s{re.escape(END)}(?!\S)|(?:\s+(?:panic=\d+|oops=panic|systemd\.watchdog_sec=\d+)(?!\S))*)"
)
TIMER, SERVICE = "kernel-thp-trial.timer", "kernel-thp-trial.service"
PANIC = "kernel-thp-trial-panic.service"
UNITS = "etc/systemd/system"
# What the boot starts of them.
WANTED = (TIMER, PANIC)
# Left when the time was over: the kernel did run, but nobody came, be it for want of a network or of a controller.
NOTE = "var/lib/kernel-thp/unconfirmed"
# Early, and kept in emergency mode: that is one of the ways a boot can fail. Never in the old kernel, also with the
# mark: its entry may have been written anew while the other one was tried.
TIMER_TEXT = """\
[Unit]
Description=Go back to the old kernel unless the new one is confirmed
ConditionKernelVersion={uname}
ConditionKernelCommandLine={mark}
DefaultDependencies=no
IgnoreOnIsolate=yes
Conflicts=shutdown.target
Before=shutdown.target

[Timer]
OnBootSec={seconds}s
AccuracySec=1s
"""
# Not a clean shutdown: whatever hangs must not keep it from happening. File systems are unmounted all the same.
SERVICE_TEXT = """\
[Unit]
Description=Reboot into the default kernel, nobody having confirmed this one
DefaultDependencies=no
SuccessAction=reboot-force

[Service]
Type=oneshot
ExecStart=-/usr/bin/touch /{note}
"""
# Gone with the boot. The last file counts: for systemd, and for tuned, which sets what is in sysctl.d anew whenever it
# applies a profile. Until then what the command line says is in force.
SYSCTL = "run/sysctl.d/zz-kernel-thp-trial.conf"
PANIC_TEXT = """\
[Unit]
Description=Have the kernel that is tried reboot on panic and oops, whatever sysctl.d says
ConditionKernelVersion={uname}
ConditionKernelCommandLine={mark}
DefaultDependencies=no
Before=systemd-sysctl.service

[Service]
Type=oneshot
ExecStart=/bin/sh -c 'mkdir -p /run/sysctl.d; {{ {lines}; }} > /{sysctl}'
"""


def mark(armed_in: str) -> str:
    """Return the word of a trial, by the boot in which it is armed: the id of a boot does not come again."""
    return f"{MARK}={armed_in}"


def arguments(armed_in: str, panic: int, watchdog: int, more: Sequence[str]) -> list[str]:
    """Return what the trial adds to a command line. Reboot on panic, panic on oops, and reset when systemd hangs."""
    words = [mark(armed_in), f"panic={panic}", "oops=panic"]
    # Known to systemd 251 and later; earlier ones leave the watchdog as it is configured.
    words += [f"systemd.watchdog_sec={watchdog}"] if watchdog else []
    return [*words, *more, END]


def without(options: str) -> str:
    """Return a command line without what trials have added to it, this one or those before it."""
    return WORDS.sub("", options).lstrip()


def marked(options: str) -> bool:
    """Say whether there is anything of a trial on a command line."""
    return without(options) != options


def sysctls(panic: int) -> dict[str, str]:
    """Return what the trial sets, below /proc/sys."""
    return {"kernel/panic": str(panic), "kernel/panic_on_oops": "1"}


def sysctl_lines(panic: int) -> list[str]:
    """Return the same as sysctl.d has it."""
    return [f"{name.replace('/', '.')} = {value}" for name, value in sysctls(panic).items()]


def keep_sysctls(root: Path, panic: int | None) -> bool:
    """Have whoever applies sysctl.d set these until the host reboots, or for None no more; say whether that is new."""
    content = None if panic is None else "".join(f"{line}\n" for line in sysctl_lines(panic))
    return files.put(root / SYSCTL, content)


def _paths(root: Path) -> dict[Path, str]:
    return {root / UNITS / TIMER: TIMER_TEXT, root / UNITS / SERVICE: SERVICE_TEXT, root / UNITS / PANIC: PANIC_TEXT}


def _wanted(root: Path) -> list[Path]:
    return [root / UNITS / "sysinit.target.wants" / name for name in WANTED]


def arm(root: Path, uname: str, armed_in: str, seconds: int, panic: int) -> None:
    """Have the next boot of a kernel with the mark end by itself after some time, and on panic and oops."""
    lines = "; ".join(f"echo {line}" for line in sysctl_lines(panic))
    words = {"uname": uname, "mark": mark(armed_in), "seconds": seconds, "note": NOTE, "lines": lines, "sysctl": SYSCTL}
    for path, content in _paths(root).items():
        text = content.format_map(words)
        files.put(path, text)
    (root / NOTE).unlink(missing_ok=True)
    for link in _wanted(root):
        link.parent.mkdir(parents=True, exist_ok=True)
        if not link.is_symlink():
            link.symlink_to(Path("..") / link.name)


def armed(root: Path) -> bool:
    return any(link.is_symlink() for link in _wanted(root)) or any(path.exists() for path in _paths(root))


def unconfirmed(root: Path) -> bool:
    """Say whether the last trial ended because nobody confirmed it."""
    return (root / NOTE).exists()


def disarm(root: Path) -> bool:
    """Confirm the running boot: it does not end by itself any more. Say whether there was anything to do."""
    (root / NOTE).unlink(missing_ok=True)
    if not armed(root):
        return False
    command.run(["systemctl", "stop", TIMER])
    for path in (*_wanted(root), *_paths(root)):
        path.unlink(missing_ok=True)
    command.run(["systemctl", "daemon-reload"])
    return True
