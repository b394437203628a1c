"""The kinds of lab hosts: their parts fit together, and the firmware of one with Secure Boot knows the lab."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from lab import apt, image, secure_boot, vm
from lab.image import BOOKWORM, GRUB, KINDS, Kind
from scripts.console import UserError

kinds = pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS.keys())


@kinds
def test_fstab_mounts_the_partitions_of_the_image(kind: Kind) -> None:
    lines = (kind.directory / "rootfs" / "etc" / "fstab").read_text().splitlines()
    mounted = {tuple(line.split()[:3]) for line in lines if not line.startswith("#")}
    parts = (*kind.partitions, image.ROOT_PARTITION)
    assert mounted == {(f"PARTLABEL={part.label}", part.mountpoint, "vfat" if part.esp else "ext4") for part in parts}


@kinds
def test_no_mount_point_hides_an_earlier_one(kind: Kind) -> None:
    """They are mounted in this order."""
    points = [Path(part.mountpoint) for part in kind.partitions]
    assert not any(earlier.is_relative_to(later) for later in points for earlier in points[: points.index(later)])


@kinds
def test_no_package_is_listed_twice(kind: Kind) -> None:
    names = [line.partition("=")[0] for line in image.packages(kind)]
    assert sorted(set(names)) == sorted(names)


def test_a_boot_entry_names_files_of_its_partition(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no boot entry"):
        image.check_entries(GRUB, tmp_path)
    entries = tmp_path / "lab-boot" / "loader" / "entries"
    entries.mkdir(parents=True)
    (tmp_path / "lab-boot" / "vmlinuz").touch()
    entry = "title Linux\nlinux   {linux}\n"
    (entries / "one.conf").write_text(entry.format(linux="/vmlinuz"))
    image.check_entries(GRUB, tmp_path)
    # As kernel-install writes it where /boot is not mounted.
    (entries / "two.conf").write_text(entry.format(linux="/boot/vmlinuz"))
    with pytest.raises(UserError, match=r"two\.conf names /boot/vmlinuz, which is not on lab-boot"):
        image.check_entries(GRUB, tmp_path)


def test_what_one_kind_has_makes_no_new_image_of_the_other() -> None:
    ours, theirs = set(image.inputs(GRUB)), set(image.inputs(BOOKWORM))
    assert {path.relative_to(image.HERE).parts[0] for path in ours ^ theirs} == {"grub", "bookworm"}
    assert image.digest(GRUB) != image.digest(BOOKWORM)


def test_the_kind_is_chosen_by_make(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(image.CHOICE, raising=False)
    assert image.chosen() == BOOKWORM
    monkeypatch.setenv(image.CHOICE, "grub")
    assert image.chosen() == GRUB
    monkeypatch.setenv(image.CHOICE, "rhel")
    with pytest.raises(UserError, match="no kind of host called `rhel`; give HOST one of: bookworm, grub"):
        image.chosen()


def test_a_suite_that_apt_lacks_comes_from_the_archive_it_has() -> None:
    mine = apt.sources(apt.SUITE)
    assert any(source.endswith(f" {apt.SUITE} main") for source in mine)
    (other,) = apt.sources("sid")
    assert other == f"deb [signed-by={apt.KEYRING}] {apt.archive('sid')} sid main"
    assert any(apt.archive("sid") in source for source in mine)


def test_the_certificate_is_made_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("KEY", "CERTIFICATE"):
        monkeypatch.setattr(secure_boot, name, tmp_path / "new" / getattr(secure_boot, name).name)
    monkeypatch.setattr(secure_boot, "FOLDER", tmp_path / "new")
    made = secure_boot.certificate().read_bytes()
    assert secure_boot.certificate().read_bytes() == made
    assert secure_boot.KEY.stat().st_mode & 0o077 == 0


def test_the_firmware_knows_the_lab(tmp_path: Path) -> None:
    _, template = vm.firmware(secure=True)
    variables = tmp_path / "vars.fd"
    shutil.copyfile(template, variables)
    secure_boot.enroll(variables)
    tool = secure_boot.FIRMWARE_VARIABLES
    listed = subprocess.run([tool, "-i", variables, "-p", "-v"], capture_output=True, text=True, check=True).stdout
    assert f"subject CN={secure_boot.NAME}" in listed.partition("name=MokList ")[2].partition("\nname=")[0]
    assert "Microsoft Corporation UEFI CA 2011" in listed.partition("name=db ")[2].partition("\nname=")[0]


def test_a_program_that_fails_is_named(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("not a program")
    with pytest.raises(UserError, match=r"`sbsign .*/text` failed: file is too small"):
        secure_boot.sign(tmp_path / "text", tmp_path / "signed")
    assert not (tmp_path / "signed").exists()
