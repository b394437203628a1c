"""How a rollout reads boot entries and configures boot loaders, on trees; GRUB's program writes its environment."""

from __future__ import annotations

import fnmatch
import os
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest
from ansible_collections.kernel_thp.fleet.plugins.module_utils import bls, grub, snapshot, systemd_boot, trial
from ansible_collections.kernel_thp.fleet.plugins.module_utils.grub import Grub
from ansible_collections.kernel_thp.fleet.plugins.module_utils.problem import Problem
from ansible_collections.kernel_thp.fleet.plugins.module_utils.systemd_boot import SystemdBoot

STOCK, SERVER = "6.1.0-56-amd64", "6.1.187-1.x86_64+thp"
CLOUD = f"{SERVER}.cloud"
ENTRY = """\
title      Debian
version    {version}
options    root=PARTLABEL=lab-root rw panic=10
linux      /lab/{version}/linux
initrd     /lab/{version}/initrd
"""


def make_entry(boot: Path, version: str, tries: str = "") -> Path:
    path = boot / "loader" / "entries" / f"lab-{version}{tries}.conf"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(ENTRY.format(version=version))
    for name in ("linux", "initrd"):
        file = boot / "lab" / version / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("x")
    return path


@pytest.mark.parametrize(("tries", "counted"), [("", False), ("+3", True), ("+2-1", True), ("+0-3", True)])
def test_tries_are_told_from_the_plus_of_the_kernel(tmp_path: Path, tries: str, counted: bool) -> None:
    make_entry(tmp_path, SERVER, tries)
    make_entry(tmp_path, STOCK)
    entry = bls.find(tmp_path / "loader" / "entries", SERVER)
    assert (entry.name, entry.counted) == (f"lab-{SERVER}", counted)


def test_a_kernel_without_an_entry_is_a_problem(tmp_path: Path) -> None:
    make_entry(tmp_path, STOCK)
    with pytest.raises(Problem, match=r"no boot entry for 6\.1\.187"):
        bls.find(tmp_path / "loader" / "entries", SERVER)


def test_of_several_entries_the_one_named_after_the_kernel_counts(tmp_path: Path) -> None:
    make_entry(tmp_path, SERVER)
    other = tmp_path / "loader" / "entries" / "mine.conf"
    other.write_text(ENTRY.format(version=SERVER))
    assert bls.find(other.parent, SERVER).file == f"lab-{SERVER}.conf"


@pytest.mark.parametrize("tries", ["", "+3", "+2-1"])
@pytest.mark.parametrize("later", ["", "+3", "+2-1", "+0-3", "+13-0"])
@pytest.mark.parametrize("uname", [STOCK, SERVER, CLOUD])
def test_the_pattern_finds_the_entry_whatever_becomes_of_its_tries(uname: str, tries: str, later: str) -> None:
    wanted = bls.pattern(bls.parse(f"lab-{uname}{tries}.conf", ""))
    # As systemd-boot does: of names in small letters, by rules that are fnmatch's.
    assert fnmatch.fnmatchcase(f"lab-{uname}{later}.conf".lower(), wanted.lower())


@pytest.mark.parametrize(
    "other", [f"{SERVER}.debug", CLOUD, STOCK, f"{SERVER}x", SERVER.replace("-1", "-2"), f"{SERVER}+x"]
)
@pytest.mark.parametrize("tries", ["", "+3", "+2-1"])
def test_the_pattern_finds_no_other_entry_also_none_that_comes_later(other: str, tries: str) -> None:
    assert not fnmatch.fnmatchcase(f"lab-{other}{tries}.conf", bls.pattern(bls.parse(f"lab-{SERVER}+3.conf", "")))


@pytest.mark.parametrize("other", [SERVER, f"{SERVER}.debug", CLOUD.replace("-1", "-2")])
@pytest.mark.parametrize("tries", ["", "+3", "+2-1"])
def test_the_pattern_of_the_cloud_flavour_finds_no_other_one(other: str, tries: str) -> None:
    assert not fnmatch.fnmatchcase(f"lab-{other}{tries}.conf", bls.pattern(bls.parse(f"lab-{CLOUD}+3.conf", "")))


@pytest.mark.parametrize(
    "wanted",
    [
        f"lab-{SERVER}+3.conf",
        f"LAB-{SERVER.upper()}.conf",
        f"lab-{SERVER}[+.][0-9c][-.0-9o]*",
        f"lab-{SERVER}.conf",
        f"lab-{SERVER}",
    ],
)
def test_a_default_is_recognised_in_every_form(wanted: str) -> None:
    assert bls.names(bls.parse(f"lab-{SERVER}+3.conf", ""), wanted)


@pytest.mark.parametrize(
    "wanted", [None, "", "lab-6.1.0-56-amd64.conf", f"lab-{SERVER}.debug.conf", "@saved", "lab-*", f"lab-{SERVER}*"]
)
def test_another_default_is_not_taken_for_it(wanted: str | None) -> None:
    assert not bls.names(bls.parse(f"lab-{SERVER}.conf", ""), wanted)


def test_only_the_command_line_of_an_entry_changes_and_can_be_had_back() -> None:
    before = ENTRY.format(version=SERVER)
    changed = bls.with_options(before, lambda options: f"{options} x=1")
    assert changed.splitlines() == [f"{line} x=1" if "options" in line else line for line in before.splitlines()]
    assert bls.with_options(changed, lambda options: options.replace(" x=1", "")) == before


def test_an_entry_without_a_command_line_gets_one_only_if_there_are_words_for_it() -> None:
    assert bls.with_options("title x\n", lambda options: options) == "title x\n"
    assert bls.with_options("title x\n", lambda options: f"{options}x=1") == "title x\noptions x=1\n"


def test_an_entry_whose_initramfs_is_missing_or_empty_is_incomplete(tmp_path: Path) -> None:
    make_entry(tmp_path, SERVER)
    loader = SystemdBoot(Path("/"), tmp_path)
    assert loader.incomplete(loader.entry(SERVER)) == []
    (tmp_path / "lab" / SERVER / "initrd").write_text("")
    assert loader.incomplete(loader.entry(SERVER)) == [f"/lab/{SERVER}/initrd"]


def efi_variable(root: Path, name: str, value: str) -> None:
    path = root / systemd_boot.VARIABLES / f"{name}-{systemd_boot.VENDOR}"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"\x06\0\0\0" + f"{value}\0".encode("utf-16-le"))


def test_efi_variables_are_read(tmp_path: Path) -> None:
    efi_variable(tmp_path, systemd_boot.DEFAULT, f"lab-{SERVER}*.conf")
    assert SystemdBoot(tmp_path, tmp_path).settings() == {"default": f"lab-{SERVER}*.conf"}
    assert systemd_boot.variable(tmp_path, systemd_boot.ONCE) is None


def test_another_loader_that_sets_the_same_variable_is_not_systemd_boot(tmp_path: Path) -> None:
    efi_variable(tmp_path, systemd_boot.INFO, "GRUB 2.12")
    assert SystemdBoot.find(tmp_path) is None


# GRUB

CONFIG = """\
if [ "${next_entry}" ] ; then set default="${next_entry}"; else set default="${saved_entry}"; fi
blscfg
"""


@pytest.fixture
def grub_host(tmp_path: Path) -> Grub:
    directory = tmp_path / "boot" / "grub2"
    directory.mkdir(parents=True)
    (directory / "grub.cfg").write_text(CONFIG)
    make_entry(tmp_path / "boot", STOCK)
    make_entry(tmp_path / "boot", SERVER)
    editenv = shutil.which("grub2-editenv") or shutil.which("grub-editenv")
    assert editenv, "run `make deps`: GRUB's own program is not here"
    subprocess.run([editenv, str(directory / "grubenv"), "create"], check=True)
    return Grub(tmp_path, editenv, directory)


def test_grub_boots_once_and_forgets(grub_host: Grub) -> None:
    grub_host.set_once(grub_host.entry(SERVER))
    assert grub_host.once() == f"lab-{SERVER}"
    grub_host.set_once(None)
    assert grub_host.once() is None
    # What GRUB leaves behind once it has started that entry.
    subprocess.run([grub_host.editenv, str(grub_host.block), "set", "next_entry="], check=True)
    assert grub_host.once() is None


def test_grub_keeps_an_entry_and_is_put_back(grub_host: Grub) -> None:
    before = grub_host.settings()
    grub_host.keep(grub_host.entry(SERVER))
    assert grub_host.kept(grub_host.entry(SERVER))
    assert not grub_host.kept(grub_host.entry(STOCK))
    guards = [grub_host.root / path for path in grub.GUARDS]
    assert [path.name[:3] for path in guards] == ["21-", "99-"], "after GRUB's own plugin, and after all others"
    for guard in guards:
        assert os.access(guard, os.X_OK)
        text = guard.read_text()
        guard.unlink()
        assert not grub_host.kept(grub_host.entry(SERVER)), "without one of them, an install is not safe"
        guard.write_text(text)
    grub_host.restore(before)
    assert grub_host.settings() == before
    assert [path for path in guards if path.exists()] == []


def test_the_guard_takes_the_default_back_from_a_kernel_that_was_added(grub_host: Grub) -> None:
    grub_host.keep(grub_host.entry(SERVER))
    # The paths of a real host, in the tree of this one.
    (guard,) = {(grub_host.root / path).read_text() for path in grub.GUARDS}
    for path in ("/var/lib/kernel-thp/default", "/boot/loader/entries"):
        assert path in guard
        guard = guard.replace(path, f"{grub_host.root}{path}")
    editenv = [grub_host.editenv, str(grub_host.block)]
    for command, kept in (("add", SERVER), ("remove", STOCK)):
        subprocess.run([*editenv, "set", f"saved_entry=lab-{STOCK}"], check=True)
        subprocess.run(["sh", "-c", guard, "guard", command, "6.1.0-57-amd64"], check=True)
        assert grub_host.settings()["saved_entry"] == f"lab-{kept}"
    (grub_host.folder / f"lab-{SERVER}.conf").unlink()
    subprocess.run(["sh", "-c", guard, "guard", "add", "6.1.0-57-amd64"], check=True)
    assert grub_host.settings()["saved_entry"] == f"lab-{STOCK}"


def test_a_guard_that_can_do_nothing_keeps_no_plugin_from_its_work(grub_host: Grub) -> None:
    """kernel-install ends at a plugin that fails, and the next ones make the initramfs."""
    grub_host.keep(grub_host.entry(SERVER))
    text = (grub_host.root / grub.GUARDS[0]).read_text().replace(" /var", f" {grub_host.root}/var")
    text = text.replace('"/boot', f'"{grub_host.root}/boot')
    grub_host.block.write_text("no environment block")
    done = subprocess.run(["sh", "-c", text, "guard", "add", "6.1.0-57-amd64"], capture_output=True, text=True)
    assert (done.returncode, f"GRUB's default is not lab-{SERVER} any more" in done.stderr) == (0, True), done


@pytest.mark.parametrize(
    ("word", "message"),
    [("blscfg", "BLS entries"), ("saved_entry", "saved default"), ("next_entry", "one-time boots")],
)
def test_grub_that_cannot_do_it_says_so(grub_host: Grub, word: str, message: str) -> None:
    assert grub_host.problems() == []
    grub_host.config.write_text(CONFIG.replace(word, "x"))
    (problem,) = grub_host.problems()
    assert message in problem


@pytest.mark.parametrize(("default", "problems"), [("saved", 0), ("0", 1), ("lab-menu-entry", 1)])
def test_a_default_that_is_not_the_saved_one_is_seen_in_what_grub_itself_writes(
    grub_host: Grub, default: str, problems: int
) -> None:
    """Whatever the default, it has a function that saves one, and a block for one that was saved before."""
    header = Path("/etc/grub.d/00_header")
    assert header.exists(), "run `make deps`: GRUB's own script is not here"
    # The variables that grub-mkconfig exports. A console, because otherwise it searches this machine's disks for fonts.
    given = {"pkgdatadir": "/usr/share/grub", "GRUB_TERMINAL_OUTPUT": "console", "GRUB_DEFAULT": default}
    environment = {**os.environ, **given}
    written = subprocess.run([header], env=environment, capture_output=True, text=True, check=True).stdout
    assert "saved_entry" in written
    grub_host.config.write_text(f"{written}blscfg\n")
    found = grub_host.problems()
    assert len(found) == problems and all("does not obey the saved default" in problem for problem in found), found


@pytest.mark.parametrize(
    ("line", "is_obeyed"),
    [
        ('   set default="${saved_entry}"', True),
        ("set default=$saved_entry", True),
        ('# set default="${saved_entry}"', False),
        ('set default="${saved_entry_of_mine}"', False),
        ('set saved_entry="${prev_saved_entry}"', False),
    ],
)
def test_only_a_line_that_is_in_force_makes_the_saved_default_obeyed(line: str, is_obeyed: bool) -> None:
    assert grub.obeys(f"load_env\n{line}\nfi\n", "saved_entry") == is_obeyed


def test_the_file_system_of_a_path_is_found() -> None:
    table = (
        "22 1 253:0 / / rw - xfs /dev/mapper/root rw\n"
        "30 22 8:2 / /boot rw shared:1 - ext4 /dev/sda2 rw\n"
        "31 30 8:1 / /boot/efi rw - vfat /dev/sda1 rw\n"
    )
    assert grub.mounted(table, "/boot/grub2/grubenv") == ("ext4", "/dev/sda2")
    assert grub.mounted(table, "/boot/efi/EFI/x/grubenv") == ("vfat", "/dev/sda1")
    assert grub.mounted(table, "/bootleg") == ("xfs", "/dev/mapper/root")


# The trial


@pytest.fixture
def systemctl(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Replace systemctl by a program that only logs its arguments, because this machine must not change."""
    program, log = tmp_path / "bin" / "systemctl", tmp_path / "log"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\necho "$@" >> {log}\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(program.parent), prepend=os.pathsep)
    return log


def test_the_trial_leaves_units_for_the_marked_boot_only_and_takes_them_away(tmp_path: Path, systemctl: Path) -> None:
    host = tmp_path / "host"
    trial.arm(host, SERVER, "b0", 600, trial.sysctls(30, lockups=True))
    trial.arm(host, SERVER, "b0", 600, trial.sysctls(30, lockups=True))
    for name in trial.WANTED:
        unit = host / trial.UNITS / name
        assert (host / trial.UNITS / "sysinit.target.wants" / name).resolve() == unit.resolve()
        assert f"ConditionKernelCommandLine={trial.mark('b0')}" in unit.read_text().splitlines()
    assert "OnBootSec=600s" in (host / trial.UNITS / trial.TIMER).read_text().splitlines()
    assert trial.mark("b0") in trial.arguments("b0", 30, 60, [])
    assert trial.disarm(host)
    assert [path for path in (host / trial.UNITS).rglob("*") if not path.is_dir()] == []
    assert systemctl.read_text().splitlines() == [f"stop {trial.TIMER}", "daemon-reload"]
    assert not trial.disarm(host)


def test_in_the_trial_a_panic_reboots_whatever_sysctl_d_has_set(tmp_path: Path) -> None:
    """As systemd would start it, on a tree in place of the host's. What it leaves is what confirming leaves."""
    trial.arm(tmp_path, SERVER, "b0", 600, trial.sysctls(30, lockups=True))
    lines = (tmp_path / trial.UNITS / trial.PANIC).read_text().splitlines()
    # After sysctl.d, and before tuned, which reads the file.
    assert [line for line in lines if "systemd-sysctl" in line] == ["After=systemd-sysctl.service"]
    assert "Before=sysinit.target" in lines
    (start,) = (line.removeprefix("ExecStart=") for line in lines if line.startswith("ExecStart="))
    (tmp_path / "proc/sys/kernel").mkdir(parents=True)
    (tmp_path / "proc/sys/kernel/panic").write_text("0")
    for folder in ("/run", "/proc/sys"):
        start = start.replace(folder, f"{tmp_path}{folder}")
    assert start.count("/proc/sys") == start.count(f"{tmp_path}/proc/sys"), "this would set up the machine of the tests"
    subprocess.run(shlex.split(start), check=True)
    assert (tmp_path / "proc/sys/kernel/panic").read_text() == "30\n"
    left = (tmp_path / trial.SYSCTL).read_text()
    assert snapshot.configured(left) == {"kernel/panic": "30", "kernel/panic_on_oops": "1"}
    assert left.splitlines()[2:] == [
        "kernel.softlockup_panic = 1",
        "kernel.hardlockup_panic = 1",
        "kernel.panic_on_rcu_stall = 1",
    ]
    assert not trial.keep_sysctls(tmp_path, trial.sysctls(30, lockups=True))
    assert trial.keep_sysctls(tmp_path, None)
    assert not (tmp_path / trial.SYSCTL).exists()
    assert trial.keep_sysctls(tmp_path, trial.sysctls(30, lockups=True))
    assert (tmp_path / trial.SYSCTL).read_text() == left


def test_a_trial_that_nobody_confirmed_is_known_until_the_next_one(tmp_path: Path) -> None:
    trial.arm(tmp_path, SERVER, "b0", 600, trial.sysctls(30, lockups=True))
    service = (tmp_path / trial.UNITS / trial.SERVICE).read_text()
    assert f"ExecStart=-/usr/bin/touch /{trial.NOTE}" in service.splitlines()
    (tmp_path / trial.NOTE).parent.mkdir(parents=True)
    (tmp_path / trial.NOTE).touch()
    assert trial.unconfirmed(tmp_path)
    trial.arm(tmp_path, SERVER, "b0", 600, trial.sysctls(30, lockups=True))
    assert not trial.unconfirmed(tmp_path)


def test_no_watchdog_means_no_word_about_it() -> None:
    assert not [word for word in trial.arguments("b0", 30, 0, []) if "watchdog_sec" in word]


@pytest.mark.parametrize(
    ("state", "systemd", "why"),
    [
        (None, "0", "there is no hardware watchdog"),
        ("inactive", "0", None),
        ("active", "1min", None),
        ("active", "0", "another program than systemd uses watchdog0"),
    ],
)
def test_a_watchdog_that_another_program_uses_stays_with_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, state: str | None, systemd: str, why: str | None
) -> None:
    systemctl = tmp_path / "systemctl"
    systemctl.write_text(f"#!/bin/sh\n[ $1 = --version ] && echo systemd 252 || echo {systemd}\n")
    systemctl.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    if state:
        device = tmp_path / "sys/class/watchdog/watchdog0"
        device.mkdir(parents=True)
        (device / "state").write_text(f"{state}\n")
    assert snapshot.watchdog(tmp_path) == why


def test_a_kernel_that_lacks_a_sysctl_is_not_asked_for_it(tmp_path: Path) -> None:
    """As one without the hard lockup detector."""
    (tmp_path / "proc/sys/kernel").mkdir(parents=True)
    (tmp_path / "proc/sys/kernel/panic").write_text("0\n")
    assert snapshot.set_sysctls(trial.sysctls(30, lockups=True), tmp_path)
    assert [(path.name, path.read_text()) for path in (tmp_path / "proc/sys/kernel").iterdir()] == [("panic", "30")]
    assert not snapshot.set_sysctls(trial.sysctls(30, lockups=True), tmp_path)
