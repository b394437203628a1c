"""Build the disk image of a lab host: Debian with systemd-boot, dracut, dnf and an empty rpm database.

Needs root (mmdebstrap makes device nodes and mounts /proc for package scripts) but neither KVM nor loop devices.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from scripts.console import BUILD, UserError, main, run_logged, say, step

HERE = Path(__file__).resolve().parent
LAB = BUILD / "lab"
IMAGES = LAB / "images"
KEY = LAB / "id_ed25519"
SUITE = "bookworm"
MIB = 1 << 20
ESP_MIB = 512
ROOT_MIB = 6 * 1024
TOOLS = ("mmdebstrap", "qemu-img", "mke2fs", "mkfs.vfat", "mcopy", "sfdisk", "ssh-keygen", "apt-get")
# Of the host's apt settings, those that decide whether a source can be reached and believed.
APT_SETTINGS = ("::Proxy", "Acquire::Check-", "Acquire::Retries")


def ssh_key() -> Path:
    """Return the private key that opens every lab host, made on first use."""
    if not KEY.exists():
        LAB.mkdir(parents=True, exist_ok=True)
        command = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "lab", "-f", str(KEY)]
        subprocess.run(command, check=True, stdin=subprocess.DEVNULL)
    return KEY


def inputs() -> list[Path]:
    """Return every file that makes the image what it is."""
    tree = [path for path in (HERE / "rootfs").rglob("*") if path.is_symlink() or path.is_file()]
    named = ["image.py", "packages.txt", "host-provides.spec", "customize.sh"]
    return sorted([*tree, *(HERE / name for name in named), ssh_key().with_suffix(".pub")])


def digest() -> str:
    """Return the hash of all inputs: content, name, and whether a file is executable."""
    total = hashlib.sha256()
    for path in inputs():
        content = os.fsencode(path.readlink()) if path.is_symlink() else path.read_bytes()
        executable = not path.is_symlink() and os.access(path, os.X_OK)
        total.update(f"{path.name}:{len(content)}:{executable}\n".encode() + content)
    return total.hexdigest()[:16]


def image_path() -> Path:
    return IMAGES / f"{digest()}.qcow2"


def packages() -> list[str]:
    lines = (HERE / "packages.txt").read_text().splitlines()
    return [line.strip() for line in lines if line.strip() and not line.startswith("#")]


def apt_sources() -> list[str]:
    """Return one-line apt sources for the suite, taken from the sources this machine is configured with."""
    fields = "$(ORIGIN) $(CREATED_BY) $(CODENAME) $(REPO_URI) $(COMPONENT)"
    listing = subprocess.run(
        ["apt-get", "indextargets", "--format", fields], check=True, capture_output=True, text=True
    ).stdout
    found = set()
    for line in listing.splitlines():
        origin, kind, codename, uri, component = line.split()
        if origin == "Debian" and kind == "Packages" and codename.split("-")[0] == SUITE:
            found.add(f"deb {uri} {codename} {component}")
    if not any(f" {SUITE} main" in source for source in found):
        raise UserError(
            f"apt on this machine has no index of Debian {SUITE} main",
            "add that suite to the apt sources and run `apt-get update`, then `make image` again",
        )
    return sorted(found)


def apt_options() -> list[str]:
    dump = subprocess.run(["apt-config", "dump", "Acquire"], check=True, capture_output=True, text=True).stdout
    return [line for line in dump.splitlines() if any(setting in line for setting in APT_SETTINGS)]


def check_tools() -> None:
    missing = [tool for tool in TOOLS if shutil.which(tool) is None]
    if missing:
        raise UserError(f"missing program(s): {', '.join(missing)}", "run `make deps`")
    if os.geteuid() != 0:
        raise UserError("the lab image can only be built by root", "run `make image` as root")


def bootstrap(work: Path, log: Path) -> None:
    """Make the root file system in work/root, and the content of the ESP in work/esp."""
    command = ["unshare", "--mount", "mmdebstrap", "--mode=root", "--variant=apt", "--format=directory"]
    command += [f"--include={','.join(packages())}"]
    command += [f"--aptopt={option}" for option in apt_options()]
    # Debian's kernel hooks would make a second initramfs; the image goes the way of an RPM host, by kernel-install.
    for pattern in ("/etc/kernel/postinst.d/*", "/usr/share/doc/*", "/usr/share/man/*", "/usr/share/locale/*"):
        command.append(f"--dpkgopt=path-exclude={pattern}")
    command += ["--dpkgopt=force-confold", f'--essential-hook=cp -a {HERE}/rootfs/. "$1"']
    command += [f'--customize-hook={HERE}/customize.sh "$1"', SUITE, str(work / "root"), *apt_sources()]
    (work / "esp").mkdir()
    env = {"LAB_FILES": str(HERE), "LAB_ESP": str(work / "esp"), "LAB_KEY": str(ssh_key().with_suffix(".pub"))}
    run_logged(command, log, "mmdebstrap", "read the log; `make image` starts again", env=env)


def sparse(path: Path, mebibytes: int) -> Path:
    with path.open("wb") as handle:
        handle.truncate(mebibytes * MIB)
    return path


def assemble(work: Path, log: Path) -> Path:
    """Make the disk from the two trees, without mounting anything."""

    def tool(*command: str) -> None:
        run_logged(command, log, command[0], "read the log; `make image` starts again", cwd=work)

    sparse(work / "esp.img", ESP_MIB)
    sparse(work / "root.img", ROOT_MIB)
    sparse(work / "disk.img", ESP_MIB + ROOT_MIB + 2)
    tool("mkfs.vfat", "-F", "32", "-n", "ESP", "esp.img")
    tool("mcopy", "-s", "-i", "esp.img", *(str(path) for path in sorted((work / "esp").iterdir())), "::")
    tool("mke2fs", "-q", "-t", "ext4", "-L", "lab-root", "-d", "root", "root.img")
    table = "label: gpt\n"
    table += f"start=1MiB, size={ESP_MIB}MiB, type=uefi, name=lab-esp\n"
    table += f"start={ESP_MIB + 1}MiB, size={ROOT_MIB}MiB, type=linux, name=lab-root\n"
    subprocess.run(["sfdisk", "--quiet", str(work / "disk.img")], input=table, text=True, check=True)
    for part, start in (("esp.img", 1), ("root.img", ESP_MIB + 1)):
        tool("dd", f"if={part}", "of=disk.img", "bs=1M", f"seek={start}", "conv=notrunc,sparse")
    tool("qemu-img", "convert", "-O", "qcow2", "disk.img", "disk.qcow2")
    return work / "disk.qcow2"


@contextmanager
def alone() -> Iterator[None]:
    """Wait until no other command builds an image."""
    IMAGES.mkdir(parents=True, exist_ok=True)
    with (IMAGES / "lock").open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def build() -> Path:
    """Return the image for the present inputs, built if it is not there. An older image stays when a build fails."""
    check_tools()
    with alone():
        target = image_path()
        if target.exists():
            return target
        with step(f"lab image {target.name}"):
            work = IMAGES / "work"
            shutil.rmtree(work, ignore_errors=True)
            work.mkdir()
            bootstrap(work, IMAGES / "mmdebstrap.log")
            assemble(work, IMAGES / "disk.log").replace(target)
            shutil.rmtree(work)
        for old in IMAGES.glob("*.qcow2"):
            if old != target:
                old.unlink()
        return target


def command() -> None:
    say(f"lab image: {build()}")


if __name__ == "__main__":
    main(command)
