"""Kernels of kernel-thp that are installed and do not run, and how a host can boot them; on recorded trees."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from scripts.console import ROOT
from tests.unit.test_validate_checks import STOCK, UPSTREAM, collected, wrong
from tools.thp_validate import boot, checks, debugging, installed
from tools.thp_validate.checks import Check
from tools.thp_validate.debugging import Debugging
from tools.thp_validate.system import System

OLD, NEW = "6.1.99-1.x86_64+thp.cloud", "6.1.187-10.x86_64+thp.cloud"
SYSTEMD_BOOT = b"\x06\0\0\0" + "systemd-boot 252.39\0".encode("utf-16-le")


def tree(root: Path, *files: str) -> None:
    for name in files:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).touch()


def flavour(tmp_path: Path, changes: dict[str, str | None]) -> Check:
    found = collected(tmp_path, changes)
    (check,) = (each for each in checks.evaluate(found) if each.id == "kernel-flavour")
    return check


def test_the_newest_comes_first_by_its_numbers(tmp_path: Path) -> None:
    names = (OLD, "6.1.187-9.x86_64+thp.cloud", NEW, "6.1.187-10.x86_64+thp.debug", "6.1.0-56-amd64")
    tree(tmp_path, *(f"lib/modules/{name}/vmlinuz" for name in names), "lib/modules/6.1.200-1.x86_64+thp/config")
    assert installed.kernels(System(tmp_path)) == [NEW, "6.1.187-9.x86_64+thp.cloud", OLD]


@pytest.mark.parametrize(("changes", "result"), [(STOCK, "unsupported"), (UPSTREAM, "degraded")])
def test_a_host_that_runs_another_kernel_has_to_boot_the_installed_one(
    tmp_path: Path, changes: dict[str, str | None], result: str
) -> None:
    assert flavour(tmp_path, changes).hint.startswith("install kernel-thp-cloud (virtual machines)")
    tree(tmp_path, f"lib/modules/{OLD}/vmlinuz", f"lib/modules/{NEW}/vmlinuz")
    found = flavour(tmp_path, changes)
    assert found.result == result
    assert found.what.endswith(f", and {NEW} is installed")
    assert found.hint == f"boot {NEW}: reboot, and choose it in the boot menu"


def test_the_debug_kernel_gives_way_to_the_installed_one(tmp_path: Path) -> None:
    tree(tmp_path, f"lib/modules/{NEW}/vmlinuz")
    found = flavour(tmp_path, {"proc/sys/kernel/osrelease": "6.1.187-1.x86_64+thp.debug"})
    assert (found.result, NEW in found.hint) == ("unsupported", True)


def test_a_container_does_not_see_the_kernels_of_the_host(tmp_path: Path) -> None:
    tree(tmp_path, f"lib/modules/{NEW}/vmlinuz", ".dockerenv")
    assert installed.collect(System(tmp_path)).kernels == []


def entry(root: Path, folder: str, name: str, uname: str) -> None:
    tree(root, f"{folder}/{name}")
    (root / folder / name).write_text(f"title Toy\nversion    {uname}\nlinux /vmlinuz\n")


def test_systemd_boot_takes_the_name_of_the_file(tmp_path: Path) -> None:
    name = f"1234-{NEW}+3.conf"
    tree(tmp_path, boot.LOADER.lstrip("/"))
    (tmp_path / boot.LOADER.lstrip("/")).write_bytes(SYSTEMD_BOOT)
    assert boot.hint(System(tmp_path), NEW).startswith("`bootctl set-oneshot <its entry")
    entry(tmp_path, "efi/loader/entries", "1234-old.conf", OLD)
    entry(tmp_path, "efi/loader/entries", name, NEW)
    assert boot.hint(System(tmp_path), NEW) == f"`bootctl set-oneshot {name}`, then `reboot`"


@pytest.mark.parametrize("program", ["grub2-reboot", "grub-reboot"])
def test_grub_takes_the_id_of_the_entry(tmp_path: Path, program: str) -> None:
    tree(tmp_path, f"usr/sbin/{program}")
    assert "boot menu" in boot.hint(System(tmp_path), NEW)
    entry(tmp_path, "boot/loader/entries", f"1234-{NEW}.conf", NEW)
    assert boot.hint(System(tmp_path), NEW) == f"`{program} 1234-{NEW}`, then `reboot`"


def test_a_kernel_without_an_entry_needs_one_first(tmp_path: Path) -> None:
    entry(tmp_path, "boot/loader/entries", "1234-old.conf", OLD)
    assert boot.hint(System(tmp_path), NEW).startswith(f"it has no boot entry: `kernel-install add {NEW} ")


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to become another user")
def test_entries_that_only_root_can_read_are_not_missing() -> None:
    # Other users do not get into the directories that pytest makes.
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        place.chmod(0o755)
        entry(place, "boot/loader/entries", "1234-old.conf", OLD)
        entry(place, "efi/loader/entries", "1234-new.conf", NEW)
        expect_hidden(place)


def expect_hidden(place: Path) -> None:
    script = (
        "import os, sys; from pathlib import Path; from tools.thp_validate import boot, system; os.seteuid(65534)\n"
        "asked = system.System(Path(sys.argv[1])); print(boot.hint(asked, sys.argv[2])); print(*asked.unseen)"
    )
    for mode, hint, unseen in ((0o700, "boot menu", "/efi/loader/entries"), (0o755, "boot menu", "")):
        (place / "efi").chmod(mode)
        command = [sys.executable, "-c", script, str(place), NEW]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
        first, second = done.stdout.splitlines()
        assert hint in first
        assert second == unseen


@pytest.mark.parametrize(
    ("files", "expected", "text"),
    [
        ({}, Debugging(False, None, None), "no BTF, no kdump"),
        ({"loaded": "0", "size": "0"}, Debugging(False, False, 0), "no BTF, no kdump"),
        ({"loaded": "1", "size": "268435456"}, Debugging(False, True, 268435456), "no BTF, kdump is ready"),
        ({"loaded": "0", "size": "268435456"}, Debugging(False, False, 268435456), "although 256 MiB are reserved"),
    ],
)
def test_what_helps_to_find_problems_is_information(
    tmp_path: Path, files: dict[str, str], expected: Debugging, text: str
) -> None:
    changes: dict[str, str | None] = {f"sys/kernel/kexec_crash_{name}": value for name, value in files.items()}
    found = collected(tmp_path, changes)
    assert found.debugging == expected
    assert text in debugging.text(found.debugging)
    assert wrong(found) == {}
    tree(tmp_path, debugging.BTF.lstrip("/"))
    assert debugging.text(debugging.collect(System(tmp_path))).startswith("BTF, ")
