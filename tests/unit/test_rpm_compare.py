"""The comparison of two builds leaves out the key's work, and nothing else."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from scripts import rpm_compare
from scripts.console import UserError

SPEC = """\
Name: toy
Version: 1
Release: 1
Summary: Toy
License: GPL-2.0-only
BuildArch: noarch
%define source_date_epoch_from_changelog 1
%define use_source_date_epoch_as_buildtime 1
%define clamp_mtime_to_source_date_epoch 1
%define _buildhost toy.invalid
%description
Toy.
%install
mkdir -p %{buildroot}/toy
cp -r CONTENT/. %{buildroot}/toy
%files
/toy
%changelog
* Fri Nov 20 2026 kernel-thp project <kernel-thp@example.org> - 1-1
- Toy.
"""


def signed(content: bytes, signature: bytes) -> bytes:
    info = rpm_compare.SIGNATURE_INFO.pack(0, 0, 2, 0, 0, len(signature))
    return content + signature + info + rpm_compare.SIGNED


def build(folder: Path, **contents: bytes) -> Path:
    """Build the toy package with these files, and return the folder it is in."""
    (folder / "content").mkdir(parents=True)
    for name, content in contents.items():
        (folder / "content" / name.replace("_", ".")).write_bytes(content)
    (folder / "toy.spec").write_text(SPEC.replace("CONTENT", str(folder / "content")))
    command = ["rpmbuild", "-bb", f"--define=_topdir {folder}", str(folder / "toy.spec")]
    subprocess.run(command, check=True, capture_output=True)
    return folder / "RPMS" / "noarch"


def test_signature_is_taken_off_and_nothing_else() -> None:
    assert rpm_compare.without_signature(signed(b"code", b"first key")) == b"code"
    assert rpm_compare.without_signature(b"code") == b"code"


def test_same_files_are_the_same_payload(tmp_path: Path) -> None:
    one, other = (build(tmp_path / name, text=b"same") for name in ("one", "another"))
    (found,) = rpm_compare.compare_all(one, other)
    assert found.same
    assert found.different == []


def test_another_key_is_told_from_other_code(tmp_path: Path) -> None:
    one = build(tmp_path / "one", a_ko=signed(b"code", b"first key"), b_ko=signed(b"code", b"key"))
    other = build(tmp_path / "other", a_ko=signed(b"code", b"second key!"), b_ko=signed(b"mode", b"key"))
    (found,) = rpm_compare.compare_all(one, other)
    assert not found.same
    assert found.by_key == ["/toy/a.ko"]
    assert found.different == ["/toy/b.ko"]


KERNEL = """\
char system_certificate_list[] = "CERTIFICATE";
unsigned long system_certificate_list_size = sizeof(system_certificate_list);
char __start_notes[] = "BUILD ID";
char __stop_notes[1] = "";
int _start(void) { return CODE; }
"""


def kernel(folder: Path, certificate: str, build_id: str, code: int) -> Path:
    """Link what has the symbols by which the certificates and the build id of a kernel are found."""
    folder.mkdir()
    text = KERNEL.replace("CERTIFICATE", certificate).replace("BUILD ID", build_id).replace("CODE", str(code))
    (folder / "kernel.c").write_text(text)
    options = ["-nostdlib", "-static", "-fno-pie", "-no-pie", "-fno-toplevel-reorder", "-Wl,--build-id=none"]
    subprocess.run(["gcc", *options, "-o", str(folder / "vmlinux"), str(folder / "kernel.c")], check=True)
    return folder / "vmlinux"


def test_kernel_with_debug_information_is_compared_without_the_key(tmp_path: Path) -> None:
    first = rpm_compare.essence(kernel(tmp_path / "one", "first", "12345678", 1))
    assert rpm_compare.essence(kernel(tmp_path / "two", "other", "87654321", 1)) == first
    assert rpm_compare.essence(kernel(tmp_path / "three", "first", "12345678", 2)) != first


def test_sum_of_a_kernel_follows_from_the_kernel(tmp_path: Path) -> None:
    one, other = (build(tmp_path / name, _vmlinuz_hmac=name.encode()) for name in ("one", "other"))
    for folder in (one, other):
        assert "/toy/.vmlinuz.hmac" in rpm_compare.query(next(folder.glob("*.rpm")), "[%{FILENAMES}\\n]")
    (found,) = rpm_compare.compare_all(one, other)
    assert found.by_key == ["/toy/.vmlinuz.hmac"]


def test_a_file_more_is_noticed(tmp_path: Path) -> None:
    one, other = build(tmp_path / "one", text=b"same"), build(tmp_path / "other", text=b"same", more=b"more")
    (found,) = rpm_compare.compare_all(one, other)
    assert found.different == ["/toy/more"]


def test_missing_package_is_one_clear_line(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="do not hold the same packages"):
        rpm_compare.compare_all(build(tmp_path / "one", text=b""), tmp_path)
