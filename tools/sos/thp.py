"""What support needs to know about kernel-thp, beyond what other plugins of sos take already.

Left to them: /proc/vmstat and settings (memory), profiles and their log (tuned), boot entries of GRUB (grub2), taint,
command line and kernel log (kernel), the list of packages (rpm).
"""

from sos.report.plugins import DebianPlugin, IndependentPlugin, Plugin, RedHatPlugin

OURS = "kernel-thp* tuned-profiles-thp* thp-tools*"
# Packages that make the grub2 plugin run, which takes the entries in /boot/loader itself.
GRUB = ("grub2", "grub2-efi", "grub2-common")


# Independent alone would say it all, but sos 4.0 and its Debian policy do not load such a plugin.
class Thp(Plugin, IndependentPlugin, RedHatPlugin, DebianPlugin):  # type: ignore[misc]
    """Is this host set up as kernel-thp supports it, are the packages' files as they were signed, which kernels can
    the boot loader start, and how far did a rollout get.
    """

    short_desc = "Transparent huge pages that are given back (kernel-thp)"
    plugin_name = "thp"
    profiles = ("system", "kernel", "memory", "performance")
    commands = ("thp-validate",)

    def setup(self) -> None:
        # Counters at two times in one object: whether anything is given back shows in their difference only.
        self.add_cmd_output("thp-validate --json --watch 5", suggest_filename="thp-validate.json", stderr=False)
        self._packages()
        self._boot()
        self.add_copy_spec("/var/lib/kernel-thp")

    def _packages(self) -> None:
        listed = self.exec_cmd(f"rpm -qa --qf '%{{NVRA}}\\n' {OURS}")
        if listed["status"] == 0 and listed["output"].split():
            packages = " ".join(sorted(listed["output"].split()))
            self.add_cmd_output(f"rpm -V {packages}", suggest_filename="rpm_-V")

    def _boot(self) -> None:
        self.add_cmd_output(["bootctl status --no-pager", "bootctl list --no-pager"])
        # Named one by one: both places also hold secrets, a random seed and signing keys.
        places = ["/efi/loader", "/boot/efi/loader"]
        if not any(self.is_installed(name) for name in GRUB):
            places.append("/boot/loader")
        for place in places:
            self.add_copy_spec([f"{place}/entries", f"{place}/entries.srel", f"{place}/loader.conf"])
        self.add_copy_spec([f"/etc/kernel/{name}" for name in ("cmdline", "tries", "entry-token", "install.conf")])
