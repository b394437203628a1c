"""Build the disk image of a lab host: Debian with dracut, dnf, an empty rpm database, and a boot loader by its kind.

Needs root (mmdebstrap makes device nodes and mounts /proc for package scripts) but neither KVM nor loop devices.
"""

from __future__ import annotations

import argparse
import fcntl
import hashlib
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from lab import apt, secure_boot
from scripts.console import BUILD, UserError, main, run_logged, say, step

HERE = Path(__file__).resolve().parent
LAB = BUILD / "lab"
IMAGES = LAB / "images"
KEY = LAB / "id_ed25519"
MIB = 1 << 20
ROOT_MIB = 6 * 1024
TOOLS = ("mmdebstrap", "qemu-img", "mke2fs", "mkfs.vfat", "mcopy", "sfdisk", "ssh-keygen", "apt-get")


@dataclass(frozen=True)
class Partition:
    """One beside the root file system; `label` is also the name under which fstab finds it."""

    label: str
    mountpoint: str
    mib: int
    esp: bool = False

    @property
    def format(self) -> tuple[str, ...]:
        """The command that makes its file system in `label`.img, with the content if the tool can do that."""
        name = f"{self.label}.img"
        if self.esp:
            return ("mkfs.vfat", "-F", "32", "-n", "ESP", name)
        return ("mke2fs", "-q", "-t", "ext4", "-L", self.label, "-d", self.label, name)


@dataclass(frozen=True)
class Kind:
    """A kind of host; the directory of its name has its packages, files and boot loader.

    The first suite is the host's; a package whose version is named may come from the others.
    """

    name: str
    suites: tuple[str, ...]
    partitions: tuple[Partition, ...]

    @property
    def directory(self) -> Path:
        return HERE / self.name


BOOKWORM = Kind(apt.SUITE, (apt.SUITE,), (Partition("lab-esp", "/efi", 512, esp=True),))
# Mount points inside others come later.
GRUB = Kind(
    "grub",
    ("sid", apt.SUITE),
    (Partition("lab-boot", "/boot", 768), Partition("lab-esp", "/boot/efi", 64, esp=True)),
)
KINDS = {kind.name: kind for kind in (BOOKWORM, GRUB)}
# `make HOST=grub` sets it.
CHOICE = "LAB_HOST"
ROOT_PARTITION = Partition("lab-root", "/", ROOT_MIB)


def chosen() -> Kind:
    """Return the kind of host that was asked for."""
    name = os.environ.get(CHOICE, BOOKWORM.name)
    if name not in KINDS:
        raise UserError(f"there is no kind of host called `{name}`", f"give HOST one of: {', '.join(KINDS)}")
    return KINDS[name]


def ssh_key() -> Path:
    """Return the private key that opens every lab host, made on first use."""
    if not KEY.exists():
        LAB.mkdir(parents=True, exist_ok=True)
        command = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "lab", "-f", str(KEY)]
        subprocess.run(command, check=True, stdin=subprocess.DEVNULL)
    return KEY


def inputs(kind: Kind) -> list[Path]:
    """Return every file that makes the image what it is."""
    folders = (HERE / "rootfs", kind.directory)
    tree = [path for folder in folders for path in folder.rglob("*") if path.is_symlink() or path.is_file()]
    named = ["apt.py", "image.py", "packages.txt", "host-provides.spec", "customize.sh"]
    keys = [ssh_key().with_suffix(".pub"), secure_boot.certificate()]
    return sorted([*tree, *(HERE / name for name in named), *keys])


def digest(kind: Kind | None = None) -> str:
    """Return the hash of all inputs: content, name, and whether a file is executable."""
    kind = kind or chosen()
    total = hashlib.sha256(kind.name.encode())
    for path in inputs(kind):
        content = os.fsencode(path.readlink()) if path.is_symlink() else path.read_bytes()
        executable = not path.is_symlink() and os.access(path, os.X_OK)
        total.update(f"{path.name}:{len(content)}:{executable}\n".encode() + content)
    return total.hexdigest()[:16]


def image_path(kind: Kind | None = None) -> Path:
    kind = kind or chosen()
    return IMAGES / f"{kind.name}-{digest(kind)}.qcow2"


def packages(kind: Kind) -> list[str]:
    lines = [line for folder in (HERE, kind.directory) for line in (folder / "packages.txt").read_text().splitlines()]
    return [line.strip() for line in lines if line.strip() and not line.startswith("#")]


def check_tools() -> None:
    missing = [tool for tool in TOOLS if shutil.which(tool) is None]
    if missing:
        raise UserError(f"missing program(s): {', '.join(missing)}", "run `make deps`")
    if os.geteuid() != 0:
        raise UserError("the lab image can only be built by root", "run `make image` as root")


def bootstrap(kind: Kind, work: Path, log: Path) -> None:
    """Make the root file system in work/root, and the content of each other partition in work/LABEL."""
    root = work / "root"
    command = ["unshare", "--mount", "mmdebstrap", "--mode=root", "--variant=apt", "--format=directory"]
    command += [f"--include={','.join(packages(kind))}"]
    command += [f"--aptopt={option}" for option in apt.settings()]
    # It would write another machine-id, without a label of SELinux.
    command.append("--skip=cleanup/reproducible")
    # Debian's kernel hooks would make a second initramfs; the image goes the way of an RPM host, by kernel-install.
    for pattern in ("/etc/kernel/postinst.d/*", "/usr/share/doc/*", "/usr/share/man/*", "/usr/share/locale/*"):
        command.append(f"--dpkgopt=path-exclude={pattern}")
    command.append("--dpkgopt=force-confold")
    command += [f'--essential-hook=cp -a {folder}/rootfs/. "$1"' for folder in (HERE, kind.directory)]
    command += [f'--customize-hook={HERE}/customize.sh "$1"', kind.suites[0], str(root)]
    command += [source for suite in kind.suites for source in apt.sources(suite)]
    env = {
        "LAB_FILES": str(HERE),
        "LAB_KIND": str(kind.directory),
        "LAB_PARTITIONS": " ".join(f"{partition.label}={partition.mountpoint}" for partition in kind.partitions),
        "LAB_TREES": str(work),
        "LAB_KEY": str(ssh_key().with_suffix(".pub")),
        "LAB_SIGN_KEY": str(secure_boot.KEY),
        "LAB_SIGN_CERT": str(secure_boot.certificate()),
    }
    run_logged(command, log, "mmdebstrap", "read the log; `make image` starts again", env=env)


def check_entries(kind: Kind, work: Path) -> None:
    """Fail unless there is a boot entry, and each names files of its own partition: the loader sees no other."""
    trees = [work / partition.label for partition in kind.partitions]
    entries = [(tree, entry) for tree in trees for entry in sorted(tree.glob("loader/entries/*.conf"))]
    if not entries:
        raise UserError("the image has no boot entry", f"see what kernel-install says in {IMAGES / 'mmdebstrap.log'}")
    for tree, entry in entries:
        for key, _, path in (line.partition(" ") for line in entry.read_text().splitlines()):
            if key in ("linux", "initrd") and not (tree / path.strip().lstrip("/")).is_file():
                what = f"the boot entry {entry.name} names {path.strip()}, which is not on {tree.name}"
                raise UserError(what, "see what kernel-install took for a mount point")


def sparse(path: Path, mebibytes: int) -> Path:
    with path.open("wb") as handle:
        handle.truncate(mebibytes * MIB)
    return path


def assemble(kind: Kind, work: Path, log: Path) -> Path:
    """Make the disk from the trees, without mounting anything."""

    def tool(*command: str) -> None:
        run_logged(command, log, command[0], "read the log; `make image` starts again", cwd=work)

    (work / "root").rename(work / ROOT_PARTITION.label)
    # The firmware finds the ESP wherever it is; people expect it first.
    partitions = sorted((*kind.partitions, ROOT_PARTITION), key=lambda partition: not partition.esp)
    table, start = "label: gpt\n", 1
    for partition in partitions:
        sort = "uefi" if partition.esp else "linux"
        table += f"start={start}MiB, size={partition.mib}MiB, type={sort}, name={partition.label}\n"
        start += partition.mib
    sparse(work / "disk.img", start + 1)
    subprocess.run(["sfdisk", "--quiet", str(work / "disk.img")], input=table, text=True, check=True)
    start = 1
    for partition in partitions:
        sparse(work / f"{partition.label}.img", partition.mib)
        tool(*partition.format)
        if partition.esp:
            content = (str(path) for path in sorted((work / partition.label).iterdir()))
            tool("mcopy", "-s", "-i", f"{partition.label}.img", *content, "::")
        tool("dd", f"if={partition.label}.img", "of=disk.img", "bs=1M", f"seek={start}", "conv=notrunc,sparse")
        start += partition.mib
    tool("qemu-img", "convert", "-O", "qcow2", "disk.img", "disk.qcow2")
    return work / "disk.qcow2"


@contextmanager
def alone() -> Iterator[None]:
    """Wait until no other command builds an image."""
    IMAGES.mkdir(parents=True, exist_ok=True)
    with (IMAGES / "lock").open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def build(kind: Kind | None = None) -> Path:
    """Return the image for the present inputs, built if it is not there. An older image stays when a build fails."""
    kind = kind or chosen()
    check_tools()
    with alone():
        target = image_path(kind)
        if target.exists():
            return target
        with step(f"lab image {target.name}"):
            work = IMAGES / "work"
            shutil.rmtree(work, ignore_errors=True)
            work.mkdir()
            bootstrap(kind, work, IMAGES / "mmdebstrap.log")
            check_entries(kind, work)
            assemble(kind, work, IMAGES / "disk.log").replace(target)
            shutil.rmtree(work)
        for old in IMAGES.glob(f"{kind.name}-*.qcow2"):
            if old != target:
                old.unlink()
        return target


def command() -> None:
    argparse.ArgumentParser(description=__doc__).parse_args()
    say(f"lab image: {build()}")


if __name__ == "__main__":
    main(command)
