"""How to boot another kernel that is installed."""

from __future__ import annotations

from .system import System

# In the order of Boot Loader Specification: /boot, and where the ESP is mounted. Only root can read the latter.
FOLDERS = ("/boot/loader/entries", "/efi/loader/entries", "/boot/efi/loader/entries")
LOADER = "/sys/firmware/efi/efivars/LoaderInfo-4a67b082-0a4c-41cf-b6c7-440b29bb8c4f"
GRUB = ("/usr/sbin/grub2-reboot", "/usr/sbin/grub-reboot", "/usr/bin/grub2-reboot")


def hint(system: System, uname: str) -> str:
    """Return how to boot a kernel once, by the loader that booted this host; the default stays as it is."""
    entries = _entries(system)
    named = next((name for name, version in entries.items() if version == uname), None)
    if entries and named is None and not set(FOLDERS) & set(system.unseen):
        return f"it has no boot entry: `kernel-install add {uname} /lib/modules/{uname}/vmlinuz`, then boot it"
    # After four bytes of attributes, UTF-16.
    if (system.bytes_of(LOADER) or b"")[4:].decode("utf-16-le", "replace").startswith("systemd-boot"):
        return f"`bootctl set-oneshot {named or '<its entry, see bootctl list>'}`, then `reboot`"
    grub = next((name for name in GRUB if system.path(name).exists()), None)
    if grub and named:
        return f"`{grub.rpartition('/')[2]} {named[: -len('.conf')]}`, then `reboot`"
    return "reboot, and choose it in the boot menu"


def _entries(system: System) -> dict[str, str]:
    """Return the version of each boot entry by the name of its file."""
    found: dict[str, str] = {}
    for folder in FOLDERS:
        try:
            names = sorted(path.name for path in system.path(folder).iterdir())
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError as error:
            system.unseen[folder] = error.strerror or type(error).__name__
            continue
        for name in (name for name in names if name.endswith(".conf")):
            for line in (system.read(f"{folder}/{name}") or "").splitlines():
                key, _, value = line.strip().partition(" ")
                if key == "version":
                    found.setdefault(name, value.strip())
    return found
