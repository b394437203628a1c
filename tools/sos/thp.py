"""Collect what support needs to know about kernel-thp, beyond what other sos plugins collect.

They collect /proc/vmstat and settings (memory), profiles and their log (tuned), boot entries of GRUB (grub2), taint,
command line and kernel log (kernel), and the list of packages (rpm).
"""

from sos.report.plugins import DebianPlugin, IndependentPlugin, Plugin, RedHatPlugin

OURS = "kernel-thp* tuned-profiles-thp* thp-tools*"
# If one of these packages is installed, the grub2 plugin runs, and collects the entries in /boot/loader.
GRUB = ("grub2", "grub2-efi", "grub2-common")


# IndependentPlugin alone would be enough, but sos 4.0 and its Debian policy do not load such a plugin.
class Thp(Plugin, IndependentPlugin, RedHatPlugin, DebianPlugin):  # type: ignore[misc]
    """Whether this host is set up as kernel-thp supports it, and what somebody waived; whether the packages' files are
    as signed, which kernels the boot loader can start, and how far a rollout got.
    """

    short_desc = "Reclaim of underused transparent huge pages (kernel-thp)"
    plugin_name = "thp"
    profiles = ("system", "kernel", "memory", "performance")
    commands = ("thp-validate",)

    def setup(self) -> None:
        # Counters at two times in one object: only their difference shows whether anything is reclaimed.
        self.add_cmd_output("thp-validate --json --watch 5", suggest_filename="thp-validate.json", stderr=False)
        self._packages()
        self._boot()
        self.add_copy_spec(["/var/lib/kernel-thp", "/etc/thp-validate.conf"])

    def _packages(self) -> None:
        listed = self.exec_cmd(f"rpm -qa --qf '%{{NVRA}}\\n' {OURS}")
        if listed["status"] == 0 and listed["output"].split():
            packages = " ".join(sorted(listed["output"].split()))
            self.add_cmd_output(f"rpm -V {packages}", suggest_filename="rpm_-V")

    def _boot(self) -> None:
        self.add_cmd_output(["bootctl status --no-pager", "bootctl list --no-pager"])
        # Each file is listed: both directories also contain secrets, a random seed and signing keys.
        folders = ["/efi/loader", "/boot/efi/loader"]
        if not any(self.is_installed(name) for name in GRUB):
            folders.append("/boot/loader")
        for folder in folders:
            self.add_copy_spec([f"{folder}/entries", f"{folder}/entries.srel", f"{folder}/loader.conf"])
        self.add_copy_spec([f"/etc/kernel/{name}" for name in ("cmdline", "tries", "entry-token", "install.conf")])
