"""The first boot of a kernel: a host on which it panics, hangs or has no network returns to the old kernel by itself.

So does a host on which it does not find the root file system, or ends in emergency mode: dracut and systemd reboot
instead of waiting for somebody at a shell, and a timer in the initramfs does so if neither gets there.

Everything is on the command line of that one boot entry, or does nothing in a boot without the mark there.

That command line spreads: without a configured one, kernel-install copies the running one into new entries. So the mark
is valid for one trial only, and mark and end delimit the trial's words from the host's own.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from ansible_collections.kernel_thp.fleet.plugins.module_utils import command, files

# The dot makes them parameters of a module that does not exist: neither the kernel nor init minds.
MARK, END = "kernel_thp.trial", "kernel_thp.trial_end"
# dracut's: a reboot if the root file system does not appear. Without these, dracut waits at a shell for somebody.
# systemd's: a reboot if systemd itself crashes. Without this it freezes, and none of its timers ends the boot.
INSTEAD_OF_WAITING = ("rd.shell=0", "rd.emergency=reboot", "systemd.crash_reboot=1")
# A processor that schedules nothing for 20 s, or no RCU grace period for 21 s, is otherwise a message in the log.
LOCKUPS = dict.fromkeys(("kernel/softlockup_panic", "kernel/hardlockup_panic", "kernel/panic_on_rcu_stall"), "1")
# As kernel-thp starts.
NO_LOCKUPS = dict.fromkeys(LOCKUPS, "0")
# The same on the command line. The first two are in force when drivers start, the third one only from init on.
LOCKUP_WORDS = ("softlockup_panic=1", "nmi_watchdog=panic", "sysctl.kernel.panic_on_rcu_stall=1")
# A task that waits for a disk or a lock for two minutes and cannot be killed. If it is systemd, no timer ends the boot.
# Only until the kernel is confirmed: a host in service is drained before it is rebooted.
BLOCKED, BLOCKED_WORD = "kernel/hung_task_panic", "sysctl.kernel.hung_task_panic=1"
# If somebody removed the end, match the words that always follow the mark.
FIXED = ("oops=panic", *INSTEAD_OF_WAITING, *LOCKUP_WORDS, BLOCKED_WORD)
OURS = "|".join((r"panic=\d+", *map(re.escape, FIXED), r"systemd\.watchdog_sec=\d+"))
WORDS = re.compile(
    rf"\s*(?<!\S){re.escape(MARK)}(?:=\S*)?(?!\S)"
    rf"(?:.*?\s{re.escape(END)}(?!\S)|(?:\s+(?:{OURS})(?!\S))*)"
)
TIMER, SERVICE = "kernel-thp-trial.timer", "kernel-thp-trial.service"
PANIC = "kernel-thp-trial-panic.service"
UNITS = "etc/systemd/system"
# Those that the boot starts.
WANTED = (TIMER, PANIC)
# Written when the trial timed out: the kernel ran, but nobody confirmed it, for lack of a network or a controller.
NOTE = "var/lib/kernel-thp/unconfirmed"
# Counts from the start of the kernel, however long the firmware took before that.
# Starts early and survives emergency mode, which is one way a boot can fail. Never runs in the old kernel, even with
# the mark: kernel-install may have rewritten its entry during the trial.
TIMER_TEXT = """\
[Unit]
Description=Roll back to the old kernel unless the new one is confirmed
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
# Not a clean shutdown: nothing that hangs may block it. File systems are still unmounted.
SERVICE_TEXT = """\
[Unit]
Description=Reboot into the default kernel, because nobody confirmed this one
DefaultDependencies=no
SuccessAction=reboot-force

[Service]
Type=oneshot
ExecStart=-/usr/bin/touch /{note}
"""
# Lasts until the next boot. The last file wins for tuned, which applies sysctl.d again with every profile. SELinux may
# keep systemd-sysctl from a file that a unit wrote, so the unit sets the values itself, after it. Until then, the
# command line is in effect, but for what sysctl.d has changed.
SYSCTL = "run/sysctl.d/zz-kernel-thp-trial.conf"
PANIC_TEXT = """\
[Unit]
Description=Reboot on panic, oops, lockups and blocked tasks during the trial, whatever sysctl.d says
ConditionKernelVersion={uname}
ConditionKernelCommandLine={mark}
DefaultDependencies=no
After=systemd-sysctl.service
Before=sysinit.target

[Service]
Type=oneshot
ExecStart=/bin/sh -c 'mkdir -p /run/sysctl.d; {{ {lines}; }} > /{sysctl}; {{ {writes}; }} 2> /dev/null; true'
"""
# A reboot at once where systemd would wait for somebody at a console, for example because this kernel cannot mount what
# is in fstab. In the initramfs as well, which is made before the trial is armed: any mark will do, for that kernel. Not
# where kdump saves a crash, with an initramfs that may be of the time of the trial: nothing may cut that off.
GIVEN_UP = "kernel-thp-trial-given-up.service"
GIVEN_UP_TEXT = """\
[Unit]
Description=Reboot into the default kernel, because this one does not get any further
ConditionKernelVersion={uname}
ConditionKernelCommandLine={mark}
ConditionPathExists=!/proc/vmcore
DefaultDependencies=no
SuccessAction=reboot-force

[Service]
Type=oneshot
ExecStart=-/bin/true
"""
# The timer of the initramfs ends where the real system begins, and lasts through dracut's emergency mode.
INITRD_TIMER = "kernel-thp-trial-initrd.timer"
# Only the systemd of an initramfs starts the first target.
GIVEN_UP_WANTED = {"initrd.target": INITRD_TIMER, "emergency.target": GIVEN_UP}
INITRD_TIMER_TEXT = """\
[Unit]
Description=Roll back to the old kernel if the new one does not find its root file system
DefaultDependencies=no
IgnoreOnIsolate=yes
Conflicts=initrd-switch-root.target shutdown.target
Before=initrd-switch-root.target shutdown.target

[Timer]
Unit={given_up}
OnBootSec={seconds}s
AccuracySec=1s
"""
# What dracut puts into each initramfs that it makes.
DRACUT = "etc/dracut.conf.d/kernel-thp-trial.conf"
DRACUT_TEXT = """\
# For the trial of a kernel, by the fleet rollout of kernel-thp, which deletes this file afterwards.
install_items+=" {items} "
"""


def mark(armed_in: str) -> str:
    """Return the mark of a trial, from the id of the boot that arms it, which is unique."""
    return f"{MARK}={armed_in}"


def arguments(
    armed_in: str, panic: int, watchdog: int, more: Sequence[str], lockups: bool = True, blocked: bool = True
) -> list[str]:
    """Return what the trial adds to a command line: reboot on panic, panic on oops, reset if systemd hangs."""
    words = [mark(armed_in), f"panic={panic}", "oops=panic", *INSTEAD_OF_WAITING, *(LOCKUP_WORDS if lockups else ())]
    words += [BLOCKED_WORD] if blocked else []
    # systemd 251 and later know this; earlier ones leave the watchdog as configured.
    words += [f"systemd.watchdog_sec={watchdog}"] if watchdog else []
    return [*words, *more, END]


def without(options: str) -> str:
    """Return a command line without the words of any trial."""
    return WORDS.sub("", options).lstrip()


def marked(options: str) -> bool:
    """Say whether a command line has words of a trial."""
    return without(options) != options


def sysctls(panic: int, lockups: bool, blocked: bool = False) -> dict[str, str]:
    """Return what the trial sets, below /proc/sys; `blocked` until the kernel is confirmed."""
    found = {"kernel/panic": str(panic), "kernel/panic_on_oops": "1", **(LOCKUPS if lockups else {})}
    return {**found, BLOCKED: "1"} if blocked else found


def sysctl_lines(wanted: Mapping[str, str]) -> list[str]:
    """Return the same in the format of sysctl.d. tuned passes over what a kernel does not have."""
    return [f"{name.replace('/', '.')} = {value}" for name, value in wanted.items()]


def keep_sysctls(root: Path, wanted: Mapping[str, str] | None) -> bool:
    """Make sysctl.d set these until the reboot, or undo that for None; say whether it changed."""
    content = None if wanted is None else "".join(f"{line}\n" for line in sysctl_lines(wanted))
    return files.put(root / SYSCTL, content)


def _paths(root: Path) -> dict[Path, str]:
    return {root / UNITS / TIMER: TIMER_TEXT, root / UNITS / SERVICE: SERVICE_TEXT, root / UNITS / PANIC: PANIC_TEXT}


def _initrd_paths(root: Path) -> dict[Path, str]:
    return {
        root / UNITS / INITRD_TIMER: INITRD_TIMER_TEXT,
        root / UNITS / GIVEN_UP: GIVEN_UP_TEXT,
        root / DRACUT: DRACUT_TEXT,
    }


def _wanted(root: Path) -> list[Path]:
    return [root / UNITS / "sysinit.target.wants" / name for name in WANTED]


def _given_up_wanted(root: Path) -> list[Path]:
    return [root / UNITS / f"{target}.wants" / name for target, name in GIVEN_UP_WANTED.items()]


def _link(link: Path) -> bool:
    """Make a target want a unit; say whether that changed anything."""
    if link.is_symlink():
        return False
    link.parent.mkdir(parents=True, exist_ok=True)
    link.symlink_to(Path("..") / link.name)
    return True


def prepare(root: Path, uname: str, seconds: int) -> bool:
    """Before the install, because that makes the initramfs; say whether it changed anything."""
    units = [Path("/", UNITS, name) for name in GIVEN_UP_WANTED.values()]
    items = " ".join(map(str, [*units, *_given_up_wanted(Path("/"))]))
    words = {"uname": uname, "mark": MARK, "seconds": seconds, "given_up": GIVEN_UP, "items": items}
    changed = [files.put(path, content.format_map(words)) for path, content in _initrd_paths(root).items()]
    return any([*changed, *map(_link, _given_up_wanted(root))])


def arm(root: Path, uname: str, armed_in: str, seconds: int, wanted: Mapping[str, str]) -> None:
    """Make the next boot with the mark end by itself, after some time, and set these sysctls."""
    lines = "; ".join(f"echo {line}" for line in sysctl_lines(wanted))
    writes = "; ".join(f"echo {value} > /proc/sys/{name}" for name, value in wanted.items())
    words = {"uname": uname, "mark": mark(armed_in), "seconds": seconds, "note": NOTE}
    words |= {"lines": lines, "sysctl": SYSCTL, "writes": writes}
    for path, content in _paths(root).items():
        text = content.format_map(words)
        files.put(path, text)
    (root / NOTE).unlink(missing_ok=True)
    for link in _wanted(root):
        _link(link)


def _everything(root: Path) -> list[Path]:
    return [*_wanted(root), *_given_up_wanted(root), *_paths(root), *_initrd_paths(root)]


def armed(root: Path) -> bool:
    return any(path.is_symlink() or path.exists() for path in _everything(root))


def unconfirmed(root: Path) -> bool:
    """Say whether the last trial ended because nobody confirmed it."""
    return (root / NOTE).exists()


def disarm(root: Path) -> bool:
    """Confirm the running boot: it no longer ends by itself. Say whether there was anything to do."""
    (root / NOTE).unlink(missing_ok=True)
    if not armed(root):
        return False
    command.run(["systemctl", "stop", TIMER])
    for path in _everything(root):
        path.unlink(missing_ok=True)
    command.run(["systemctl", "daemon-reload"])
    return True
