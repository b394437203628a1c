"""The checks: one function each, with what it found and a hint what to do about it.

Something that cannot be read never counts as good: it makes the host degraded, and the check says why.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from . import kernel as kernels
from . import kernel_log, secure_boot, taint, waivers
from . import profile as profiles
from .facts import Facts
from .kernel import Kernel
from .secure_boot import SecureBoot
from .taint import DEGRADED, OK, UNSUPPORTED, Flag

UNSEEN, SKIPPED = "unseen", "skipped"
RESULTS = (*taint.VERDICTS, UNSEEN, SKIPPED)
SUPPORTED = "supported"
VERDICTS = (SUPPORTED, DEGRADED, UNSUPPORTED)
CHOICE = "kernel-thp-cloud (virtual machines) or kernel-thp (bare metal)"
BOOT = f"boot {CHOICE}"
# tuned switches every profile off that is not named.
APPLY = "`tuned-adm profile thp-shrinker`, with the host's own profiles (`tuned-adm active`) named before it"
# threshold_percent of the profiles is 10 or more, rounded down to pages. Below that, huge pages in full use are split.
LOWEST_PERCENT = 10


@dataclass(frozen=True)
class Check:
    """`result` is one of RESULTS; ok and skipped have no hint."""

    id: str
    result: str
    what: str
    hint: str = ""

    @property
    def verdict(self) -> str:
        return {UNSEEN: DEGRADED, SKIPPED: OK}.get(self.result, self.result)


def evaluate(facts: Facts) -> list[Check]:
    return [check(facts) for check in CHECKS]


def verdict(checks: list[Check]) -> str:
    """Return the worst verdict: unsupported, degraded or supported."""
    found = {check.verdict for check in checks}
    return next((word for word in (UNSUPPORTED, DEGRADED) if word in found), SUPPORTED)


def _flavour(facts: Facts) -> Check:
    name, uname, flavour = "kernel-flavour", facts.kernel.uname, facts.kernel.flavour
    if flavour in (kernels.CLOUD, kernels.SERVER):
        return Check(name, OK, f"{uname} is {kernels.PACKAGES[flavour]}")
    newest, to_boot = next(iter(facts.installed.kernels), None), facts.installed.to_boot
    ready = f", and {newest} is installed" if newest else ""
    boot = f"boot {newest}: {to_boot}" if newest else f"install {CHOICE}, and boot it"
    if facts.secure_boot.enforced and facts.secure_boot.state not in (None, secure_boot.TRUSTED):
        boot = f"first do what the check secure-boot says, then {boot}"
    if flavour == kernels.DEBUG:
        return Check(name, UNSUPPORTED, f"{uname} is the debug kernel, too slow for production{ready}", boot)
    if not uname:
        return Check(name, UNSEEN, "/proc does not show which kernel runs", "mount /proc, then run this again")
    if facts.thp.shrink_underused is None:
        return Check(name, UNSUPPORTED, f"{uname} does not reclaim zero-filled pages of huge pages{ready}", boot)
    what = f"{uname} is not kernel-thp; it has its own underused shrinker, without our series{ready}"
    return Check(name, DEGRADED, what, boot)


def _package(facts: Facts) -> Check:
    name, kernel = "kernel-package", facts.kernel
    if kernel.flavour == kernels.OTHER:
        return Check(name, SKIPPED, "another kernel runs")
    if kernel.nevra:
        return Check(name, OK, kernel.nevra)
    if facts.host.container:
        return _host_only(name, "the kernel's package", facts.host.container)
    if "rpm" in facts.unseen:
        return Check(name, UNSEEN, f"rpm failed: {facts.unseen['rpm']}", "run this where rpm is installed")
    what = f"no package owns /lib/modules/{kernel.uname}/vmlinuz"
    hint = f"install {kernels.PACKAGES[kernel.flavour]} from its repository, not by hand, and boot it"
    return Check(name, UNSUPPORTED, what, hint)


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
        why = facts.unseen.get("rpm -V", "it printed nothing")
        return Check(name, UNSEEN, f"rpm could not verify the kernel's files: {why}", f"run `rpm -V {kernel.nevra}`")
    if kernel.changed:
        count = len(kernel.changed)
        what = f"{count} file(s) differ from the package: {', '.join(kernel.changed[:3])}"
        return Check(name, UNSUPPORTED, what, f"`dnf reinstall {kernel.nevra}` and its -modules, then reboot")
    unread = [path for path in facts.unseen if path.startswith(f"/lib/modules/{kernel.uname}/")]
    if unread:
        return Check(name, UNSEEN, f"{len(unread)} file(s) of the kernel are not readable", "run this as root")
    return Check(name, OK, "as packaged")


def _taint(facts: Facts) -> Check:
    name, mask = "kernel-taint", facts.kernel.tainted
    if mask is None:
        return Check(name, UNSEEN, "/proc/sys/kernel/tainted cannot be read", "mount /proc, then run this again")
    waived = {each.what for each in facts.waivers.waived} if facts.waivers else set()
    bad = [flag for flag in facts.kernel.taints if flag.verdict != OK and flag.letter not in waived]
    if not bad:
        return Check(name, OK, f"taint {mask}")
    if UNSUPPORTED in (flag.verdict for flag in bad):
        worst, hint = UNSUPPORTED, "find the cause in `journalctl -k`, remove it, reboot"
    else:
        worst, hint = DEGRADED, f"find the cause in `journalctl -k`, remove it, reboot; or waive it in {waivers.FILE}"
    return Check(name, worst, "the kernel is tainted: " + "; ".join(_flag(flag, facts.kernel) for flag in bad), hint)


def _flag(flag: Flag, kernel: Kernel) -> str:
    modules = [name for name, letters in kernel.modules.items() if flag.letter in letters]
    return f"{flag.letter}, {flag.meaning}" + (f" ({', '.join(modules)})" if modules else "")


def _waivers(facts: Facts) -> Check:
    name, found = "waivers", facts.waivers
    if found is None:
        if waivers.FILE in facts.unseen:
            return Check(name, UNSEEN, f"{waivers.FILE} is not readable", "run this as root")
        return Check(name, SKIPPED, f"there is no {waivers.FILE}")
    if found.problems:
        more = f" (and {len(found.problems) - 3} more)" if len(found.problems) > 3 else ""
        what = f"not waived: {'; '.join(found.problems[:3])}{more}"
        return Check(name, DEGRADED, what, f"correct, renew or remove it in {found.file}, see thp-validate(1)")
    return Check(name, OK, f"{len(found.valid)} valid")


def _log(facts: Facts) -> Check:
    name, splats = "kernel-log", facts.kernel.splats
    if splats:
        verdict, hint = kernel_log.meaning(splats)
        more = f" (and {len(splats) - 3} more)" if len(splats) > 3 else ""
        return Check(name, verdict, f"the kernel complained: {'; '.join(splats[:3])}{more}", hint)
    if facts.host.container:
        return _host_only(name, "the kernel's log", facts.host.container)
    if splats is None or kernel_log.NAME in facts.unseen:
        why = facts.unseen.get(kernel_log.NAME, "nobody read it")
        what = f"not all of the kernel's log since the boot is there: {why}"
        hint = "raise SystemMaxUse= in journald.conf for the next boot" if facts.host.root else "run this as root"
        return Check(name, UNSEEN, what, hint)
    return Check(name, OK, "no complaint since the boot")


def _secure_boot(facts: Facts) -> Check:
    name, found = "secure-boot", facts.secure_boot
    if facts.host.container:
        return _host_only(name, "the firmware's variables", facts.host.container)
    if found.enforced is None and found.uefi:
        what = "the firmware's variables are not readable, so whether Secure Boot is enforced is not known"
        return Check(name, UNSEEN, what, f"mount efivarfs at {secure_boot.EFI}/efivars")
    if not found.enforced:
        return Check(name, OK, "not enforced")
    if found.subject is None:
        return Check(name, SKIPPED, "enforced, and no kernel-thp is installed whose signature could be checked")
    if found.state is None:
        return Check(name, UNSEEN, f"Secure Boot is enforced, and {found.subject} is not readable", "run this as root")
    if found.state != secure_boot.TRUSTED:
        return Check(name, DEGRADED, *_not_booted(found))
    if facts.kernel.flavour != kernels.OTHER and found.lockdown == "none":
        what = "Secure Boot is enforced, but the kernel is not locked down, so root can load code that nobody signed"
        return Check(name, DEGRADED, what, "add lockdown=integrity to the kernel command line, then reboot")
    return Check(name, OK, f"enforced, and {found.subject} is trusted")


def _not_booted(found: SecureBoot) -> tuple[str, str]:
    """Return why Secure Boot refuses what is installed, and what to do about it."""
    refused = f"Secure Boot is enforced, and this host would not boot {found.subject}:"
    signed = "install one that is signed"
    if found.state == secure_boot.UNSIGNED:
        return f"{refused} it is not signed", f"{signed}, or switch Secure Boot off in the firmware's setup"
    if found.state == secure_boot.DAMAGED:
        return f"{refused} it is no EFI image, or not the one that was signed", "`dnf reinstall` its package"
    if found.state == secure_boot.REVOKED:
        return f"{refused} it, or its certificate ({found.signer}), is revoked in dbx or MokListX", signed
    places = "db or the MOK list" if found.shim else "db"
    what = f"{refused} its certificate ({found.signer or 'not in the image'}) is not in {places}"
    if not found.shim:
        file = found.certificate or secure_boot.ELSEWHERE
        return what, f"enrol {file} in db in the firmware's setup; without shim, the MOK list does not count"
    if found.import_pending:
        return what, "reboot, and confirm the import that is pending in MokManager"
    named = "" if found.certificate else f" (FILE: {secure_boot.ELSEWHERE})"
    confirm = "reboot, and confirm in MokManager with the password you chose"
    return what, f"`mokutil --import {found.certificate or 'FILE'}`{named}, {confirm}"


def _present(facts: Facts) -> Check:
    name, thp = "thp-present", facts.thp
    if not thp.present:
        if not facts.sysfs:
            return Check(name, UNSEEN, "/sys/kernel is missing", "mount /sys, or run this outside of the sandbox")
        return Check(name, UNSUPPORTED, "this kernel has no transparent huge pages", BOOT)
    if thp.enabled is None or thp.subpages is None:
        return Check(name, UNSEEN, "the settings of transparent huge pages are not readable", "run this as root")
    return Check(name, OK, f"{thp.subpages} pages of {thp.page_bytes} bytes")


def _enabled(facts: Facts) -> Check:
    name, thp = "thp-enabled", facts.thp
    value = thp.enabled_in_force
    if value is None:
        return Check(name, SKIPPED, "see thp-present")
    if value == "always":
        return Check(name, OK, value)
    if value != thp.enabled and thp.huge_page_bytes:
        node = f"hugepages-{thp.huge_page_bytes >> 10}kB/enabled"
        what = f"{node} is {value} and overrides enabled={thp.enabled}"
        return Check(name, DEGRADED, what, f"write inherit to {node}")
    what = f"transparent_hugepage/enabled is {value}, so programs get no huge pages unless they request them"
    hint = f"{APPLY}, and nothing else in /etc/tuned/thp-shrinker-variables.conf"
    return Check(name, DEGRADED, what, hint)


def _command_line(facts: Facts) -> Check:
    name, words = "thp-command-line", facts.kernel.command_line
    if not words:
        return Check(name, OK, "does not set huge pages")
    what = f"`{' '.join(words)}` is on the kernel command line, so tuned does not apply its own value"
    return Check(name, DEGRADED, what, "remove it from the boot entry and from /etc/kernel/cmdline, then reboot")


def _switch(facts: Facts) -> Check:
    name, value = "shrinker-switch", facts.thp.shrink_underused
    if not facts.thp.present:
        return Check(name, SKIPPED, "see thp-present")
    if value is None:
        return Check(name, UNSUPPORTED, "this kernel has no underused shrinker", BOOT)
    if value == 0:
        what = "shrink_underused is 0, so underused huge pages are never split"
        return Check(name, DEGRADED, what, APPLY)
    return Check(name, OK, "on")


def _threshold(facts: Facts) -> Check:
    name, thp = "shrinker-threshold", facts.thp
    if thp.shrink_underused is None or thp.subpages is None:
        return Check(name, SKIPPED, "no shrinker")
    if thp.threshold is None:
        return Check(name, UNSEEN, "khugepaged/max_ptes_none is not readable", "run this as root")
    if thp.threshold >= thp.subpages - 1:
        what = f"the threshold is {thp.threshold} of {thp.subpages} pages, so no huge page that holds data is split"
        return Check(name, DEGRADED, what, APPLY)
    if thp.threshold < thp.subpages * LOWEST_PERCENT // 100:
        what = f"the threshold is {thp.threshold} of {thp.subpages} pages, so huge pages in use are split"
        return Check(name, DEGRADED, what, APPLY)
    return Check(name, OK, f"{thp.threshold} of {thp.subpages} pages")


def _profile(facts: Facts) -> Check:
    name, profile = "profile-active", facts.profile
    if facts.host.container:
        return _host_only(name, "the tuned profile", facts.host.container)
    if not profile.installed:
        why = facts.unseen.get("tuned-adm", "not installed")
        if why == "not installed":
            hint = f"install tuned and tuned-profiles-thp, then {APPLY}"
            return Check(name, DEGRADED, "tuned is not installed, so nothing sets these values at boot", hint)
        return Check(name, UNSEEN, f"tuned-adm could not run: {why}", "run this as root on the host")
    if not profile.running:
        return Check(name, DEGRADED, "the tuned daemon is not running", f"`systemctl enable --now tuned`, then {APPLY}")
    if profile.ours and profile.at_boot is False:
        what = f"{profile.ours} is active, but tuned does not start at boot"
        return Check(name, DEGRADED, what, "`systemctl enable tuned`")
    if profile.ours:
        return Check(name, OK, " ".join(profile.active))
    if profiles.BASELINE in profile.active:
        what = f"{profiles.BASELINE} is active, which restores the distribution's defaults"
        return Check(name, DEGRADED, what, APPLY)
    have = f"the active profile is {' '.join(profile.active)}" if profile.active else "no tuned profile is active"
    return Check(name, DEGRADED, f"{have}, none of {', '.join(profiles.OURS)}", APPLY)


def _verified(facts: Facts) -> Check:
    name, profile = "profile-verified", facts.profile
    if not profile.ours:
        return Check(name, SKIPPED, "see profile-active")
    if profile.verified:
        return Check(name, OK, "tuned finds its values in force")
    if profile.verified is None:
        why = profile.message or "tuned-adm verify gave no verdict"
        return Check(name, UNSEEN, f"tuned could not verify the profile: {why}", "run `tuned-adm verify` as root")
    if facts.thp.shrink_underused is None:
        return Check(name, DEGRADED, f"{profile.ours} sets nothing on this kernel", "see kernel-flavour")
    hint = "read /var/log/tuned/tuned.log, fix what it names, then apply the profile again"
    return Check(name, DEGRADED, "values differ from the profile's", hint)


def _selftests(facts: Facts) -> Check:
    name, run = "selftests", facts.selftests
    if run is None:
        return Check(name, SKIPPED, "run them with --selftests")
    if run.reasons:
        what = f"{len(run.reasons)} reason(s) to reject the selftests: {'; '.join(run.reasons[:3])}"
        if run.skips_only:
            return Check(name, UNSEEN, what, "run them on a host that has what they need")
        return Check(name, UNSUPPORTED, what, "boot the previous kernel, and report this with `sos report`")
    return Check(name, OK, f"{run.accepted} of {len(run.tests)} accepted")


def _host_only(name: str, what: str, container: str) -> Check:
    return Check(name, UNSEEN, f"a container ({container}) cannot see {what}", "run this on the host")


CHECKS: tuple[Callable[[Facts], Check], ...] = (
    _flavour,
    _package,
    _signature,
    _files,
    _taint,
    _waivers,
    _log,
    _secure_boot,
    _present,
    _enabled,
    _command_line,
    _switch,
    _threshold,
    _profile,
    _verified,
    _selftests,
)
