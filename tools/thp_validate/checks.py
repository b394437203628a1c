"""The judgement: one check a function, each with what it found and what to do about it.

What could not be seen is never taken for good: it makes a host degraded, with the reason.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from . import kernel as kernels
from . import profile as profiles
from . import taint
from .facts import Facts
from .taint import DEGRADED, OK, UNSUPPORTED

UNSEEN, SKIPPED = "unseen", "skipped"
# A limit below this share of a huge page splits those that programs do use.
LOWEST_LIMIT = 0.1


@dataclass(frozen=True)
class Check:
    """`result` is ok, degraded, unsupported, unseen or skipped; the first and the last have nothing to do."""

    id: str
    result: str
    what: str
    todo: str = ""

    @property
    def verdict(self) -> str:
        return {UNSEEN: DEGRADED, SKIPPED: OK}.get(self.result, self.result)


def judge(facts: Facts) -> list[Check]:
    return [check(facts) for check in CHECKS]


def verdict(checks: list[Check]) -> str:
    """Return the worst: unsupported, degraded or supported."""
    found = {check.verdict for check in checks}
    return next((word for word in (UNSUPPORTED, DEGRADED) if word in found), "supported")


def _variant(facts: Facts) -> Check:
    name, uname = "kernel-variant", facts.kernel.uname
    if facts.kernel.variant == kernels.NORMAL:
        return Check(name, OK, f"{uname} is kernel-thp")
    if facts.kernel.variant == kernels.DEBUG:
        return Check(name, UNSUPPORTED, f"{uname} is the debug kernel, which is too slow to serve", "boot kernel-thp")
    boot = "install kernel-thp and boot it"
    if not uname:
        return Check(name, UNSEEN, "this system does not say which kernel runs", "mount /proc, then run this again")
    if facts.thp.shrink_underused is None:
        return Check(name, UNSUPPORTED, f"{uname} does not give zero-filled parts of huge pages back", boot)
    what = f"{uname} is not kernel-thp; it has an underused shrinker of its own, without our series"
    return Check(name, DEGRADED, what, boot)


def _package(facts: Facts) -> Check:
    name, kernel = "kernel-package", facts.kernel
    if kernel.variant == kernels.OTHER:
        return Check(name, SKIPPED, "another kernel runs")
    if kernel.nevra:
        return Check(name, OK, kernel.nevra)
    if facts.host.container:
        return _host_only(name, "the kernel's package", facts.host.container)
    if "rpm" in facts.unseen:
        return Check(name, UNSEEN, f"rpm could not be asked: {facts.unseen['rpm']}", "run this where rpm is")
    what = f"no package owns /lib/modules/{kernel.uname}/vmlinuz"
    return Check(name, UNSUPPORTED, what, "install kernel-thp from its repository, not by hand, and boot it")


def _signature(facts: Facts) -> Check:
    name, kernel = "kernel-signature", facts.kernel
    if kernel.nevra is None:
        return Check(name, SKIPPED, "no package")
    again = "import the repository's key with `rpm --import`, then `dnf reinstall` the package"
    if kernel.signature is None:
        return Check(name, UNSUPPORTED, f"{kernel.nevra} is not signed", again)
    if not kernel.key_known:
        return Check(name, DEGRADED, f"rpm does not know the key that signed {kernel.nevra}", again)
    return Check(name, OK, kernel.signature)


def _files(facts: Facts) -> Check:
    name, kernel = "kernel-files", facts.kernel
    if kernel.nevra is None:
        return Check(name, SKIPPED, "no package")
    if kernel.changed is None:
        why = facts.unseen.get("rpm -V", "it gave no answer")
        return Check(name, UNSEEN, f"rpm could not verify the kernel's files: {why}", "run `rpm -V kernel-thp-core`")
    if kernel.changed:
        count = len(kernel.changed)
        what = f"{count} file(s) are not as they were packaged: {', '.join(kernel.changed[:3])}"
        return Check(name, UNSUPPORTED, what, f"`dnf reinstall {kernel.nevra}` and its -modules, then reboot")
    unread = [path for path in facts.unseen if path.startswith(f"/lib/modules/{kernel.uname}/")]
    if unread:
        return Check(name, UNSEEN, f"{len(unread)} file(s) of the kernel are not readable", "run this as root")
    return Check(name, OK, "as they were packaged")


def _taint(facts: Facts) -> Check:
    name, mask = "kernel-taint", facts.kernel.tainted
    if mask is None:
        return Check(name, UNSEEN, "/proc/sys/kernel/tainted cannot be read", "mount /proc, then run this again")
    bad = [flag for flag in taint.flags(mask) if flag.verdict != OK]
    if not bad:
        return Check(name, OK, f"taint {mask}")
    worst = UNSUPPORTED if UNSUPPORTED in (flag.verdict for flag in bad) else DEGRADED
    what = "the kernel is tainted: " + "; ".join(f"{flag.letter}, {flag.meaning}" for flag in bad)
    return Check(name, worst, what, "find the cause in `journalctl -k`, remove it, reboot")


def _present(facts: Facts) -> Check:
    name, thp = "thp-present", facts.thp
    if not thp.present:
        if not facts.sysfs:
            return Check(name, UNSEEN, "/sys/kernel is not there", "mount /sys, or run this outside of the sandbox")
        return Check(name, UNSUPPORTED, "this kernel has no transparent huge pages", "boot kernel-thp")
    if thp.enabled is None or thp.subpages is None:
        return Check(name, UNSEEN, "the state of transparent huge pages is not readable", "run this as root")
    return Check(name, OK, f"{thp.subpages} pages of {thp.page_bytes} bytes")


def _enabled(facts: Facts) -> Check:
    name, thp = "thp-enabled", facts.thp
    value = thp.enabled_in_force
    if value is None:
        return Check(name, SKIPPED, "thp-present says why")
    if value == "always":
        return Check(name, OK, value)
    if value != thp.enabled and thp.huge_page_bytes:
        node = f"hugepages-{thp.huge_page_bytes >> 10}kB/enabled"
        what = f"{node} is {value} and overrides enabled={thp.enabled}"
        return Check(name, DEGRADED, what, f"write inherit to {node}")
    what = f"transparent_hugepage/enabled is {value}, so programs that do not ask get no huge pages"
    todo = "`tuned-adm profile thp-shrinker`, with nothing else in /etc/tuned/thp-shrinker-variables.conf"
    return Check(name, DEGRADED, what, todo)


def _command_line(facts: Facts) -> Check:
    name, words = "thp-command-line", facts.kernel.command_line
    if not words:
        return Check(name, OK, "leaves huge pages alone")
    what = f"`{' '.join(words)}` on the kernel command line: tuned does not apply its own value then"
    return Check(name, DEGRADED, what, "take it out of the boot entry and of /etc/kernel/cmdline, then reboot")


def _switch(facts: Facts) -> Check:
    name, value = "shrinker-switch", facts.thp.shrink_underused
    if not facts.thp.present:
        return Check(name, SKIPPED, "thp-present says why")
    if value is None:
        return Check(name, UNSUPPORTED, "this kernel has no underused shrinker", "boot kernel-thp")
    if value == 0:
        return Check(name, DEGRADED, "shrink_underused is 0: nothing is given back", "`tuned-adm profile thp-shrinker`")
    return Check(name, OK, "on")


def _limit(facts: Facts) -> Check:
    name, thp = "shrinker-limit", facts.thp
    if thp.shrink_underused is None or thp.subpages is None:
        return Check(name, SKIPPED, "no shrinker")
    apply = "`tuned-adm profile thp-shrinker`"
    if thp.limit is None:
        return Check(name, UNSEEN, "khugepaged/max_ptes_none is not readable", "run this as root")
    if thp.limit >= thp.subpages - 1:
        what = f"the limit is {thp.limit} of {thp.subpages} pages, so no huge page that holds any data is given back"
        return Check(name, DEGRADED, what, apply)
    if thp.limit < LOWEST_LIMIT * thp.subpages:
        what = f"the limit is {thp.limit} of {thp.subpages} pages, so huge pages in full use are split"
        return Check(name, DEGRADED, what, apply)
    return Check(name, OK, f"{thp.limit} of {thp.subpages} pages")


def _profile(facts: Facts) -> Check:
    name, profile = "profile-active", facts.profile
    apply = "`tuned-adm profile thp-shrinker`"
    if facts.host.container:
        return _host_only(name, "the tuned profile", facts.host.container)
    if not profile.installed:
        why = facts.unseen.get("tuned-adm", "not installed")
        if why == "not installed":
            todo = f"install tuned and tuned-profiles-thp, then {apply}"
            return Check(name, DEGRADED, "tuned is not installed, so nothing sets these values at boot", todo)
        return Check(name, UNSEEN, f"tuned-adm could not be asked: {why}", "run this as root on the host")
    if not profile.running:
        return Check(name, DEGRADED, "the tuned daemon is not running", f"`systemctl enable --now tuned`, then {apply}")
    if profile.ours and profile.at_boot is False:
        what = f"{profile.ours} is active, but tuned does not start at boot"
        return Check(name, DEGRADED, what, "`systemctl enable tuned`")
    if profile.ours:
        return Check(name, OK, " ".join(profile.active))
    if profiles.BASELINE in profile.active:
        what = f"{profiles.BASELINE} is active: this host was returned to the distribution's default"
        return Check(name, DEGRADED, what, apply)
    have = f"the active profile is {' '.join(profile.active)}" if profile.active else "no tuned profile is active"
    return Check(name, DEGRADED, f"{have}, none of {', '.join(profiles.OURS)}", apply)


def _verified(facts: Facts) -> Check:
    name, profile = "profile-verified", facts.profile
    if not profile.ours:
        return Check(name, SKIPPED, "profile-active says why")
    if profile.verified:
        return Check(name, OK, "tuned finds its values in force")
    if profile.verified is None:
        why = profile.said or "tuned-adm verify gave no answer"
        return Check(name, UNSEEN, f"tuned could not verify the profile: {why}", "run `tuned-adm verify` as root")
    todo = "read /var/log/tuned/tuned.log, mend what it names, then apply the profile again"
    return Check(name, DEGRADED, "tuned finds other values than the profile's", todo)


def _selftests(facts: Facts) -> Check:
    name, run = "selftests", facts.selftests
    if run is None:
        return Check(name, SKIPPED, "--selftests runs them")
    if run.reasons:
        what = f"{len(run.reasons)} reason(s) to refuse the selftests: {'; '.join(run.reasons[:3])}"
        if run.skips_only:
            return Check(name, UNSEEN, what, "run them on a host that has what they ask for")
        return Check(name, UNSUPPORTED, what, "boot the kernel before this one, and report it with `sos report`")
    return Check(name, OK, f"{run.accepted} of {len(run.tests)} accepted")


def _host_only(name: str, what: str, container: str) -> Check:
    return Check(name, UNSEEN, f"{what} cannot be seen from a container ({container})", "run this on the host")


CHECKS: tuple[Callable[[Facts], Check], ...] = (
    _variant,
    _package,
    _signature,
    _files,
    _taint,
    _present,
    _enabled,
    _command_line,
    _switch,
    _limit,
    _profile,
    _verified,
    _selftests,
)
