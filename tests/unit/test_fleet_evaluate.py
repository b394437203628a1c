"""What the fleet rollout decides by: readiness, packages, settings, the soak, the kernel's log, tuned's profiles."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.kernel_thp.fleet.plugins.filter import fleet
from ansible_collections.kernel_thp.fleet.plugins.module_utils import (
    command,
    counters,
    drivers,
    files,
    hugepages,
    packages,
    repository,
    snapshot,
    soaking,
    tuned,
)
from ansible_collections.kernel_thp.fleet.plugins.module_utils import record as records
from ansible_collections.kernel_thp.fleet.plugins.module_utils.counters import Counters
from ansible_collections.kernel_thp.fleet.plugins.module_utils.problem import Problem
from ansible_collections.kernel_thp.fleet.plugins.module_utils.record import Store
from ansible_collections.kernel_thp.fleet.plugins.module_utils.soaking import Limits
from ansible_collections.kernel_thp.fleet.plugins.modules import evaluate, profile
from ansible_collections.kernel_thp.fleet.plugins.plugin_utils import ready

from tools.thp_validate import secure_boot
from tools.thp_validate.system import System

MIB = 1 << 20
TARGET = {"release": "1", "uname": "1.x86_64+thp.cloud", "packages": ["core-1", "tools-1"]}


def seen(**host: object) -> dict[str, Any]:
    """Return a host on which everything is as it should be, but for what is given."""
    boot = {"loader": "systemd-boot", "problems": [], "free_bytes": 300 * MIB, "path": "/efi"}
    good: dict[str, Any] = {
        "root": True,
        "machine": "x86_64",
        "rpm": True,
        "dnf": True,
        "uname": "6.1.0-56-amd64",
        "boot": boot,
        "root_free_bytes": 2000 * MIB,
        "tuned_gone": False,
        "fips": False,
        "no_watchdog": None,
        "counters": {"pressure_us": 1},
        "configured_sysctls": {"kernel/panic": "10"},
    }
    return {"host": {**good, **host}, "record": None}


def record(phase: str, release: str = "1", tools: str = "tools-1") -> dict[str, Any]:
    target = {"release": release, "uname": f"{release}.x86_64+thp.cloud", "packages": [tools, "core-1"]}
    return {"phase": phase, "target": target, "previous": None}


# Readiness


def test_a_good_host_is_fit_and_not_hindered() -> None:
    assert ready.unfit(seen()) == []
    assert ready.hindered(seen(), TARGET, 200, 1024, need_watchdog=True) == []
    assert ready.remarks(seen()) == []


@pytest.mark.parametrize(
    ("lacks", "instead", "message"),
    [
        ("root", False, "needs root"),
        ("rpm", False, "no RPM host"),
        ("dnf", False, "dnf is missing"),
        ("machine", "aarch64", "this is aarch64, and kernel-thp is for x86_64"),
    ],
)
def test_a_host_that_is_not_one_of_ours_is_refused(lacks: str, instead: object, message: str) -> None:
    (sentence,) = ready.unfit(seen(**{lacks: instead}))
    assert message in sentence


@pytest.mark.parametrize(
    ("host", "message"),
    [
        ({"root_free_bytes": 1023 * MIB}, "/ has 1023 MiB free, 1024 MiB are needed"),
        ({"var_free_bytes": {"/var/log": 255 * MIB}}, "/var/log has 255 MiB free, 256 MiB are needed; make room"),
        (
            {"multipath": "/ is on multipath, and x"},
            "/ is on multipath, and x; have dracut add it (add_dracutmodules+=",
        ),
        ({"tuned_gone": True}, "tuned-adm is missing"),
        ({"fips": True}, "FIPS mode is on, and nobody has certified kernel-thp; set thp_preflight_allow_fips"),
        ({"no_watchdog": "there is no hardware watchdog"}, "thp_preflight_require_watchdog"),
        ({"boot": {"loader": None, "problems": ["no boot loader"], "free_bytes": 0, "path": ""}}, "no boot loader"),
        ({"boot": {"loader": "grub", "problems": [], "free_bytes": MIB, "path": "/boot"}}, "/boot has 1 MiB free"),
    ],
)
def test_what_has_to_be_fixed_first_is_named(host: dict[str, Any], message: str) -> None:
    (sentence,) = ready.hindered(seen(**host), TARGET, 200, 1024, need_watchdog=True, var_mib=256)
    assert message in sentence


def test_a_file_system_below_var_of_its_own_is_measured(tmp_path: Path) -> None:
    """The links stand for mounts: what counts is that the file system is another one."""
    (tmp_path / "var/cache").mkdir(parents=True)
    (tmp_path / "var/log").symlink_to("/dev/shm")
    (tmp_path / "var/tmp").symlink_to("/dev/shm")
    assert snapshot.var_free_bytes(tmp_path) == {str(tmp_path / "var/log"): shutil.disk_usage("/dev/shm").free}


@pytest.mark.parametrize(
    ("enabled", "line", "message"),
    [
        (True, "root=x crashkernel=256M", "kdump is enabled: it makes an initramfs of its own"),
        (True, "root=x", "kdump is enabled, and the new kernel gets no crashkernel="),
        (False, "root=x", None),
    ],
)
def test_kdump_is_a_remark(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, enabled: bool, line: str, message: str | None
) -> None:
    (tmp_path / "etc/kernel").mkdir(parents=True)
    (tmp_path / "etc/kernel/cmdline").write_text(f"{line}\n")
    (tmp_path / "systemctl").write_text(f"#!/bin/sh\nexit {int(not enabled)}\n")
    (tmp_path / "systemctl").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    found = snapshot.kdump(tmp_path)
    remarks = ready.remarks(seen(kdump=found))
    assert remarks == [] if message is None else message in remarks[0]


def test_modules_of_third_parties_are_a_remark(tmp_path: Path) -> None:
    for name, taint in (("zfs", "POE"), ("nvidia", "P"), ("falcon_lsm", "OE"), ("ext4", ""), ("raid456", "X")):
        (tmp_path / "sys/module" / name).mkdir(parents=True)
        (tmp_path / "sys/module" / name / "taint").write_text(f"{taint}\n")
    found = drivers.third_party(tmp_path)
    assert found == ["falcon_lsm", "nvidia", "zfs"]
    (remark,) = ready.remarks(seen(third_party=found))
    assert remark.startswith("third-party modules are loaded (falcon_lsm, nvidia, zfs): unless something")
    assert ready.hindered(seen(third_party=found), TARGET, 200, 1024, need_watchdog=True) == []


def test_a_kernel_that_is_installed_has_to_have_them(tmp_path: Path) -> None:
    """The one that runs has loaded them, from wherever; what an uninstalled one has left behind does not count."""
    new, running, gone = ((tmp_path / "lib/modules" / name) for name in (TARGET["uname"], snapshot.uname(), "6.0"))
    for folder in (new, running, gone):
        folder.mkdir(parents=True)
    for folder in (new, running):
        (folder / "vmlinuz").touch()
    (new / "modules.dep").write_text("extra/falcon-lsm.ko.xz: kernel/lib/x.ko\nkernel/lib/x.ko:\n")
    (new / "modules.builtin").write_text("kernel/drivers/net/wireguard/wireguard.ko\n")
    not_built = snapshot.not_built(["falcon_lsm", "wireguard", "zfs"], tmp_path)
    assert not_built == {TARGET["uname"]: ["zfs"]}
    host = seen(not_built=not_built)
    (sentence,) = ready.hindered(host, TARGET, 200, 1024, need_watchdog=True)
    assert "is installed already, without the third-party modules that are loaded (zfs); build them for it" in sentence
    assert ready.hindered(host, TARGET, 200, 1024, need_watchdog=True, check_drivers=False) == []
    assert ready.hindered(host, {**TARGET, "uname": "2"}, 200, 1024, need_watchdog=True) == []


def test_a_survey_has_remarks_about_every_host_of_ours() -> None:
    host = seen(third_party=["zfs"])
    assert [len(ready.surveyed(host, why_not)["remarks"]) for why_not in ([], ["no room"])] == [1, 1]
    assert ready.surveyed(seen(third_party=["zfs"], rpm=False), ["no RPM host"])["remarks"] == []


def test_a_host_with_secure_boot_takes_part_and_is_reminded_of_the_certificate() -> None:
    host = seen(secure_boot=True)
    assert ready.hindered(host, TARGET, 200, 1024, need_watchdog=True) == []
    (remark,) = ready.remarks(host)
    assert "whether the host trusts the certificate" in remark


@pytest.mark.parametrize(
    ("variables", "enforced"),
    [
        ({}, False),
        ({"SecureBoot": 0}, False),
        ({"SecureBoot": 1}, True),
        ({"SecureBoot": 1, "SetupMode": 0}, True),
        ({"SecureBoot": 1, "SetupMode": 1}, False),
        ({"SecureBoot": 1, "MokListRT": 0, "MokSBStateRT": 0}, True),
        ({"SecureBoot": 1, "MokListRT": 0, "MokSBStateRT": 1}, False),
        # Without shim, nobody reads what it wrote once.
        ({"SecureBoot": 1, "MokSBStateRT": 1}, True),
    ],
)
@pytest.mark.parametrize("table", [True, False])
def test_secure_boot_is_on_if_thp_validate_says_so(
    tmp_path: Path, variables: dict[str, int], enforced: bool, table: bool
) -> None:
    for name, value in variables.items():
        place, ours = tmp_path / snapshot.EFI / "efivars", name.startswith("Mok")
        path = place.with_name("mok-variables") / name if table and ours else place / name
        path = path if table and ours else path.with_name(f"{name}-{snapshot.SHIM if ours else snapshot.GLOBAL}")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes((b"" if table and ours else bytes((6, 0, 0, 0))) + bytes((value,)))
    assert snapshot.secure_boot(tmp_path) == enforced
    assert bool(secure_boot.collect(System(tmp_path), []).enforced) == enforced


def test_the_command_line_of_the_next_kernel_is_that_of_the_first_file(tmp_path: Path) -> None:
    for name, line in (("proc", "root=p"), ("usr/lib/kernel", "root=u"), ("etc/kernel", "root=e crashkernel=256M")):
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name / "cmdline").write_text(f"{line}\n")
        assert snapshot.next_options(tmp_path) == line


@pytest.mark.parametrize(
    ("phase", "release", "needs_room"),
    [
        ("armed", "1", False),
        ("done", "1", False),
        ("installing", "1", True),
        ("done", "0", True),
        ("rolled-back", "1", True),
    ],
)
def test_what_is_installed_already_needs_no_more_room(phase: str, release: str, needs_room: bool) -> None:
    host = {**seen(root_free_bytes=0), "record": record(phase, release)}
    assert bool(ready.hindered(host, TARGET, 200, 1024, need_watchdog=False)) == needs_room


def test_another_flavour_of_what_is_installed_needs_room() -> None:
    host = {**seen(root_free_bytes=0), "record": record("done")}
    assert ready.hindered(host, {**TARGET, "uname": "1.x86_64+thp"}, 200, 1024, need_watchdog=False)


@pytest.mark.parametrize(
    ("phase", "release", "uname", "finished"),
    [
        ("done", "1", "1.x86_64+thp.cloud", True),
        # Somebody has started the old kernel: that is for its evaluation to say.
        ("done", "1", "6.1.0-56-amd64", True),
        ("done", "0", "1.x86_64+thp.cloud", False),
        ("booted", "1", "1.x86_64+thp.cloud", False),
    ],
)
def test_only_a_host_whose_rollout_is_finished_is_left_alone(
    phase: str, release: str, uname: str, finished: bool
) -> None:
    assert ready.finished({**seen(uname=uname), "record": record(phase, release)}, TARGET) == finished


def test_a_host_that_could_have_newer_tools_is_not_done() -> None:
    host = {**seen(uname="1.x86_64+thp.cloud"), "record": record("done", tools="tools-0")}
    assert not ready.finished(host, TARGET)
    # They need no room for a kernel.
    host["host"]["boot"]["free_bytes"] = 0
    assert ready.hindered(host, TARGET, 200, 1024, need_watchdog=False) == []


def test_the_remarks_name_what_a_host_can_do_without() -> None:
    message = ready.remarks(seen(no_watchdog="there is no hardware watchdog", counters={"pressure_us": None}))
    assert len(message) == 2
    assert message[0] == (
        "there is no hardware watchdog: a systemd that hangs, or a lockup that the kernel does not notice, "
        "would need a reset by hand"
    )
    assert "there is no memory pressure to compare with" in message[1]


def test_the_remarks_name_what_would_keep_a_kernel_that_panics_from_rebooting() -> None:
    (message,) = ready.remarks(seen(configured_sysctls={"kernel/panic": "10", "kernel/panic_on_oops": "0"}))
    assert message.startswith("sysctl.d sets kernel.panic_on_oops = 0: ")


def test_of_what_sysctl_d_sets_the_last_one_counts() -> None:
    output = "# /usr/lib/sysctl.d/50-a.conf\n# kernel.panic = 5\nkernel.panic=10\nkernel.pid_max = 1\n"
    assert snapshot.configured(output) == {"kernel/panic": "10"}
    assert snapshot.configured(f"{output}\n# /etc/sysctl.d/99-b.conf\n-kernel/panic = 0\n") == {"kernel/panic": "0"}
    assert snapshot.configured("no such config\n") == {}


# Outcome


def test_a_host_that_is_gone_is_lost_and_one_that_is_there_has_failed() -> None:
    assert fleet.outcome({"failed": True, "lost_contact": True}) == "lost"
    assert fleet.outcome({"failed": True, "msg": "x"}) == "failed"


@pytest.mark.parametrize(
    ("seen", "failed", "result"),
    [
        ({}, {"lost_contact": True}, "unreachable"),
        ({}, {}, "refused"),
        (seen(), {"msg": "the repository cannot be used"}, "refused"),
        ({**seen(), "record": record("done")}, {"msg": "run r1 works on this host"}, "refused"),
        ({**seen(), "record": record("rolled-back")}, {"lost_contact": True}, "unreachable"),
        ({**seen(), "record": record("booted")}, {"msg": "run r1 works on this host"}, "failed"),
        ({**seen(), "record": record("rolling-back")}, {"lost_contact": True}, "lost"),
    ],
)
def test_a_host_that_was_in_the_middle_is_not_called_refused(
    seen: dict[str, Any], failed: dict[str, Any], result: str
) -> None:
    assert fleet.turned_away(failed, seen) == result


def test_a_host_with_many_problems_has_the_first_ten_named() -> None:
    assert evaluate.message([str(number) for number in range(10)]) == "0 / 1 / 2 / 3 / 4 / 5 / 6 / 7 / 8 / 9"
    assert evaluate.message(["x"] * 12).endswith(" / x (and 2 more)")


def test_the_reason_is_one_line() -> None:
    assert fleet.why({"msg": "a\n  b"}) == "a b"
    assert fleet.why({"stderr": "a\nb"}) == "a b"
    assert fleet.why({"msg": "no result", "module_stderr": "x\nKeyError: 1\nShared y\n"}) == "no result: KeyError: 1"
    assert fleet.why({"module_stdout": "x\r\nlab.Error: 1\r\n"}) == "lab.Error: 1"
    assert fleet.why({"msg": "of https://me:p@ss@host/a"}) == "of https://me:...@host/a"
    assert fleet.why({}) == "no reason was given; read Ansible's output"


@pytest.mark.parametrize(
    "said",
    [
        "SyntaxError: future feature annotations is not defined",
        "TypeError: 'type' object is not subscriptable",
        "ansible-core requires a minimum of Python version 3.9. Current version: 3.6.8",
    ],
)
def test_a_python_that_is_too_old_is_named(said: str) -> None:
    """As EL 8's python3, which is 3.6, answers; of that Ansible itself says only that there was no result."""
    old = f'File "<stdin>", line 3\n    from __future__ import annotations\n{said}\n'
    why = fleet.why({"msg": "Module result deserialization failed", "module_stderr": old})
    assert why.startswith(f"Module result deserialization failed: {said}; ")
    assert why.endswith("hosts need Python 3.9 or later: install it, and name it in ansible_python_interpreter")


# Packages


def test_what_a_transaction_changed_is_the_difference() -> None:
    changed = packages.change(["a-1", "tests-1"], ["a-1", "b-1", "tests-2"])
    assert changed == {"added": ["b-1", "tests-2"], "removed": ["tests-1"]}


# As dnf 5.4 says it, with a file that a power failure has emptied.
STATE = "Loading system state TOML file /usr/lib/sysimage/libdnf5/packages.toml"


def test_of_a_lost_state_of_dnf_the_way_out_is_named() -> None:
    done = command.Done(1, "", f"{STATE} failed (see dnf5-system-state(7)): [error]\n  | -- in this table\n")
    problem = str(packages.failure(["remove", "kernel-thp"], done, "see the log", []))
    assert problem.startswith(f"dnf remove ended with 1: {STATE} failed")
    assert "; move that file away, as dnf5-system-state(7) says" in problem


@pytest.mark.parametrize(
    ("output", "reason"),
    [
        ("Error: \n Problem: conflicting requests\n  - nothing provides x needed by y\n", "- nothing provides x"),
        ("Importing GPG key 0x1:\nError: Failed to download metadata: Bad GPG signature\n", "Bad GPG signature"),
        ("Public key for k.rpm is not installed\nError: GPG check FAILED\n", "Public key for k.rpm"),
        ("However, you do not have any GPG public keys installed. You need\nname: x\nusername:\n", "GPG public keys"),
        (f"{STATE} failed (see dnf5-system-state(7)): [error]\n --> f\n  |\n 0 |\n  | -- in this table\n", STATE),
        ("something else\n", "something else"),
        ("", "it printed nothing"),
    ],
)
def test_of_what_dnf_says_the_reason_is_kept(output: str, reason: str) -> None:
    found = packages.reason("100 % |##########|\n" if "something" not in output and output else "", output)
    assert reason in found
    assert "####" not in found


def test_what_a_program_said_is_cut_off_without_a_part_of_a_password() -> None:
    said = f"{'x' * 280} https://deploy:quite-a-secret@repo.example.org/"
    assert command.Done(1, "", said).last[280:] == " https://deploy:...@"


def test_a_package_manager_at_work_is_noticed(tmp_path: Path) -> None:
    note = tmp_path / "var/cache/dnf/metadata_lock.pid"
    note.parent.mkdir(parents=True)
    note.write_text("4711")
    assert packages.busy(tmp_path) is None, "a note of a process that is gone holds nothing"
    process = tmp_path / "proc/4711/cmdline"
    process.parent.mkdir(parents=True)
    process.write_text("dnf\0upgrade\0")
    assert packages.busy(tmp_path) == "pid 4711 (dnf upgrade)"


def test_packages_of_other_machines_are_not_chosen() -> None:
    lines = ["k 1-1 k-1-1.i686", "k 1-1 k-1-1.x86_64", "t 2-1 t-2-1.noarch", "s 1-1 s-1-1.src"]
    assert repository.choose(lines, "x86_64") == {"k": ("1-1", "k-1-1.x86_64"), "t": ("2-1", "t-2-1.noarch")}


def test_the_kernel_package_says_which_uname_it_is() -> None:
    provides = [
        "kernel-thp-cloud-core = 1-1",
        "kernel-thp-cloud-core-uname-r = 1-1.x86_64+thp.cloud",
        "installonlypkg(kernel)",
    ]
    assert repository.uname(provides) == "1-1.x86_64+thp.cloud"
    with pytest.raises(Problem, match="do not say"):
        repository.uname(provides[:1])


# Settings


@pytest.fixture
def settings(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / hugepages.FOLDER
    (folder / "khugepaged").mkdir(parents=True)
    (folder / "enabled").write_text("always [madvise] never\n")
    (folder / "khugepaged" / "max_ptes_none").write_text("511\n")
    (folder / "hpage_pmd_size").write_text("2097152\n")
    (folder / "hpage_pmd_size").chmod(0o444)
    yield tmp_path


def test_settings_are_those_that_can_be_written_as_they_are_in_force(settings: Path) -> None:
    assert hugepages.read(settings) == {"enabled": "madvise", "khugepaged/max_ptes_none": "511"}


def test_only_what_differs_is_written_and_what_this_kernel_lacks_is_left_out(settings: Path) -> None:
    path = settings / hugepages.FOLDER / "khugepaged" / "max_ptes_none"
    wanted = {"enabled": "madvise", "khugepaged/max_ptes_none": "409", "shrink_underused": "1"}
    assert hugepages.different(wanted, settings) == {"khugepaged/max_ptes_none": "511"}
    hugepages.restore(wanted, settings)
    assert path.read_text() == "409"
    assert (settings / hugepages.FOLDER / "enabled").read_text() == "always [madvise] never\n"
    assert hugepages.different(wanted, settings) == {}


def test_a_file_is_put_back_or_taken_away(tmp_path: Path) -> None:
    path = tmp_path / "new" / "file"
    assert files.put(path, "a", mode=0o755)
    assert not files.put(path, "a")
    assert path.stat().st_mode & 0o777 == 0o755
    assert files.put(path, None)
    assert not path.exists()
    assert not files.put(path, None)


# tuned


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ([], ["thp-shrinker"]),
        (["virtual-guest"], ["virtual-guest", "thp-shrinker"]),
        (["virtual-guest", "kernel_settings"], ["virtual-guest", "thp-shrinker", "kernel_settings"]),
        (["thp-shrinker-tight", "x"], ["x", "thp-shrinker"]),
    ],
)
def test_our_profile_comes_after_the_others_and_before_kernel_settings(before: list[str], after: list[str]) -> None:
    assert tuned.with_profile(before, "thp-shrinker") == after


@pytest.mark.parametrize(
    ("output", "names"),
    [
        ("Current active profile: virtual-guest thp-shrinker\n", ["virtual-guest", "thp-shrinker"]),
        ("No current active profile.\n", []),
        ("Cannot talk to TuneD daemon via DBus.\nPreset profile: thp-shrinker\n", []),
    ],
)
def test_only_what_is_in_force_counts_as_active(output: str, names: list[str]) -> None:
    assert tuned.active(output) == names


@pytest.mark.parametrize(("added", "applied"), [([], 0), (["tuned-profiles-thp-2-1.noarch"], 1)])
def test_a_profile_that_is_in_force_is_applied_again_when_its_package_is_newer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, added: list[str], applied: int
) -> None:
    state = tuned.State(True, True, "enabled", ["virtual-guest", "thp-shrinker"], None, None)
    store = Store(tmp_path)
    store.write(
        {
            "schema": records.SCHEMA,
            "phase": records.BOOTED,
            "before": {"tuned": state.as_dict()},
            "packages": {"added": added, "removed": []},
        }
    )
    applied_profiles: list[list[str]] = []
    monkeypatch.setattr(profile, "Store", lambda: store)
    monkeypatch.setattr(tuned, "read", lambda: state)
    monkeypatch.setattr(tuned, "verified", lambda: None)
    monkeypatch.setattr(tuned, "apply", lambda profiles, timeout: applied_profiles.append(profiles))
    found = profile.apply({"name": "thp-shrinker", "timeout": 60}, check=False)
    assert (found["changed"], applied_profiles) == (bool(applied), [state.active] * applied)


CHOSEN, PICKED = "manual\n", "auto\n"


@pytest.mark.parametrize(
    ("found", "now", "mode", "wanted"),
    [
        # The host was done and gets a new rollout: profiles chosen since then count, and the next time as well.
        (["balanced"], ["throughput-performance"], CHOSEN, ["throughput-performance", "thp-shrinker"]),
        (["balanced"], ["throughput-performance", "thp-shrinker"], CHOSEN, ["throughput-performance", "thp-shrinker"]),
        ([], ["throughput-performance"], CHOSEN, ["throughput-performance", "thp-shrinker"]),
        (["balanced"], ["balanced", "thp-shrinker"], CHOSEN, ["balanced", "thp-shrinker"]),
        (["balanced"], ["thp-shrinker"], CHOSEN, ["balanced", "thp-shrinker"]),
        (["balanced"], [], CHOSEN, ["balanced", "thp-shrinker"]),
        # tuned itself picks one when it is started for the first time, by a rollout that was cut off for example.
        ([], ["virtual-guest"], PICKED, ["thp-shrinker"]),
        (["balanced"], ["virtual-guest"], None, ["balanced", "thp-shrinker"]),
    ],
)
def test_ours_comes_beside_what_an_operator_has_chosen_since_the_rollout_began(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    found: list[str],
    now: list[str],
    mode: str | None,
    wanted: list[str],
) -> None:
    before = tuned.State(True, bool(found), "enabled", found, None, None)
    state = tuned.State(True, True, "enabled", now, None, mode)
    store = Store(tmp_path)
    about = {"before": {"tuned": before.as_dict()}, "packages": {"added": [], "removed": []}}
    store.write({"schema": records.SCHEMA, "phase": records.BOOTED, **about})
    monkeypatch.setattr(profile, "Store", lambda: store)
    monkeypatch.setattr(tuned, "read", lambda: state)
    assert profile.apply({"name": "thp-shrinker", "timeout": 60}, check=True)["active"] == wanted


# The soak

LIMITS = Limits(pressure=10.0, oom_kills=0, fallback=20.0, faults=100)


def at(uptime: float, pressure_us: int | None = 0, **events: int) -> Counters:
    return Counters(0.0, uptime, {}, events, pressure_us)


def evaluated(before: Counters, since: Counters, until: Counters, over: bool = True) -> list[str]:
    return soaking.evaluate(soaking.past(before), soaking.figures(since, until), LIMITS, over)


def test_a_host_that_fares_as_before_passes() -> None:
    before = at(1000, 150_000_000, oom_kill=10, thp_fault_alloc=700, thp_fault_fallback=300)
    # 15 % of the time, a kill in 100 s, 30 % of the faults: each is what it was before.
    until = at(150, 15_000_000, oom_kill=1, thp_fault_alloc=700, thp_fault_fallback=300)
    assert evaluated(before, at(50), until) == []


@pytest.mark.parametrize(
    ("until", "message"),
    [
        (at(150, 10_100_000), "memory was waited for in 10.1 % of the time, 10.0 % is allowed"),
        (at(150, 0, oom_kill=1), "1 processes were OOM-killed, 0 are allowed"),
        (at(150, 0, thp_fault_alloc=78, thp_fault_fallback=22), "22.0 % of 100 faults got no huge page, 20.0 % are"),
        (at(150, None), "cannot be checked"),
    ],
)
def test_a_host_that_fares_worse_does_not(until: Counters, message: str) -> None:
    (sentence,) = evaluated(at(1000), at(50), until)
    assert message in sentence


@pytest.mark.parametrize(
    "until",
    [at(150, 10_000_000), at(150, 0, thp_fault_alloc=80, thp_fault_fallback=20), at(150, 0, thp_fault_fallback=99)],
)
def test_at_the_limit_and_with_too_few_faults_it_still_passes(until: Counters) -> None:
    assert evaluated(at(1000), at(50), until) == []


def test_pressure_is_not_checked_where_there_were_no_figures_before_either() -> None:
    assert evaluated(at(1000, None), at(50, None), at(150, None)) == []
    # What the old kernel had is not known, so the limit alone counts.
    (sentence,) = evaluated(at(1000, None), at(50), at(150, 10_100_000))
    assert "10.0 % is allowed" in sentence


def test_until_it_is_over_only_kills_count() -> None:
    until = at(60, 9_000_000, oom_kill=1)
    assert len(evaluated(at(1000), at(50), until, over=False)) == 1
    assert len(evaluated(at(1000), at(50), until)) == 2


DAY = 86400.0


@pytest.mark.parametrize(
    ("past", "uptime", "allowed"),
    [
        # A host without a kill in its past is allowed none, however long that is.
        (0, 90 * DAY, 0),
        (0, 60.0, 0),
        # Three in ninety days: none is expected in five minutes, and one is chance.
        (3, 90 * DAY, 1),
        (1, 365 * DAY, 1),
        # One a day, one an hour, one in each soak, ten in each soak.
        (90, 90 * DAY, 1),
        (90 * 24, 90 * DAY, 1),
        (90 * 288, 90 * DAY, 4),
        (900 * 288, 90 * DAY, 20),
        # A boot of a minute has no rate.
        (1, 60.0, 4),
        (1, 0.0, 4),
    ],
)
def test_as_many_may_be_killed_as_the_past_lets_expect(past: int, uptime: float, allowed: int) -> None:
    before = soaking.past(at(uptime, 0, oom_kill=past))
    limits = Limits(pressure=None, oom_kills=0, fallback=None, faults=1, seconds=300)
    # At the first look as well as at the end: all of them may come at once.
    for seconds, over in ((30.0, False), (300.0, True)):
        for killed, passes in ((allowed, True), (allowed + 1, False)):
            found = soaking.figures(at(50), at(50 + seconds, 0, oom_kill=killed))
            assert (soaking.evaluate(before, found, limits, over) == []) == passes, (seconds, killed)


@pytest.mark.parametrize(("limit", "passes"), [(1, False), (2, True)])
def test_what_an_operator_allows_comes_on_top(limit: int, passes: bool) -> None:
    limits = Limits(pressure=None, oom_kills=limit, fallback=None, faults=1, seconds=300)
    found = soaking.figures(at(50), at(350, 0, oom_kill=3))
    assert (soaking.evaluate(soaking.past(at(90 * DAY, 0, oom_kill=3)), found, limits, True) == []) == passes


@pytest.mark.parametrize(("recent", "allowed"), [(0.0, "15.0"), (14.9, "24.9"), (40.0, "50.0"), (None, "15.0")])
def test_pressure_may_be_what_it_was_on_average_or_just_before(recent: float | None, allowed: str) -> None:
    """A rollout at the busiest hour must not fail for what that hour brings."""
    before = Counters(0.0, 1000.0, {}, {}, 50_000_000, recent)
    edge = round(float(allowed) * 1_000_000)
    assert evaluated(before, at(50), at(150, edge)) == []
    (sentence,) = evaluated(before, at(50), at(150, edge + 100_000))
    assert f"{allowed} % is allowed" in sentence


def test_a_soak_that_is_too_short_has_no_share_of_time() -> None:
    assert evaluated(at(1000), at(50), at(59, 9_000_000)) == []
    assert evaluated(at(1000), at(50), at(50, 0)) == []
    assert len(evaluated(at(1000), at(50), at(59, None))) == 1


def test_a_figure_without_a_limit_is_not_checked() -> None:
    nothing = Limits(pressure=None, oom_kills=None, fallback=None, faults=1)
    bad = soaking.figures(at(50), at(150, 99_000_000, oom_kill=9, thp_fault_fallback=9))
    assert soaking.evaluate(soaking.figures(None, at(1000)), bad, nothing, over=True) == []


def test_counters_are_read_as_the_kernel_writes_them(tmp_path: Path) -> None:
    proc = tmp_path / "proc"
    (proc / "pressure").mkdir(parents=True)
    (proc / "uptime").write_text("12.50 20.00\n")
    (proc / "meminfo").write_text("MemTotal:  2048 kB\nBuffers:  1 kB\nAnonHugePages:  4 kB\n")
    (proc / "vmstat").write_text("nr_free_pages 1\nthp_fault_alloc 3\noom_kill 2\n")
    (proc / "pressure" / "memory").write_text(
        "some avg10=0.00 avg60=0.00 avg300=1.25 total=77\nfull avg10=0.00 avg300=9.00 total=5\n"
    )
    found = counters.read(tmp_path)
    assert (found.uptime, found.pressure_us, found.pressure_recent) == (12.5, 77, 1.25)
    assert found.memory == {"MemTotal": 2048 << 10, "AnonHugePages": 4 << 10}
    assert found.events == {"thp_fault_alloc": 3, "oom_kill": 2}
    assert counters.from_dict(found.as_dict()) == found
    # As an earlier release recorded it.
    older = {name: value for name, value in found.as_dict().items() if name != "pressure_recent"}
    assert counters.from_dict(older).pressure_recent is None
