"""The checks, on a recorded tree of a good kernel-thp host with one problem at a time."""

from __future__ import annotations

import dataclasses
import os
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from scripts import flavours
from scripts.flavours import Flavour
from tests.validated import SCHEMA
from tools.thp_validate import checks, counters, facts, kernel, profile, report, taint, thp
from tools.thp_validate.blocks import Blocks
from tools.thp_validate.facts import Facts
from tools.thp_validate.outcomes import Outcome
from tools.thp_validate.selftests import Selftests
from tools.thp_validate.system import Output, System

UNAME = "6.1.187-1.x86_64+thp.cloud"
SYSFS = "sys/kernel/mm/transparent_hugepage"
GOOD = {
    "proc/sys/kernel/osrelease": UNAME,
    "proc/sys/kernel/hostname": "good",
    "proc/sys/kernel/tainted": "0",
    "proc/sys/vm/defrag_mode": "1",
    "proc/cmdline": "root=LABEL=root rw quiet",
    "proc/vmstat": "nr_anon_transparent_hugepages 7\nthp_underused_scan_page 5\nthp_underused_split_page 2\nnr_free 1",
    "proc/meminfo": "MemTotal:        2014000 kB\nAnonHugePages:     14336 kB",
    "etc/os-release": 'NAME="Toy"\nPRETTY_NAME="Toy Linux 1"',
    f"lib/modules/{UNAME}/config": "CONFIG_TRANSPARENT_HUGEPAGE=y",
    f"{SYSFS}/enabled": "[always] madvise never",
    f"{SYSFS}/defrag": "always defer defer+madvise [madvise] never",
    f"{SYSFS}/hpage_pmd_size": str(2 << 20),
    f"{SYSFS}/shrink_underused": "1",
    f"{SYSFS}/underused_max_ptes_none": "409",
    f"{SYSFS}/khugepaged/max_ptes_none": "511",
    f"{SYSFS}/swapin_enabled": "always [madvise] never",
}
STOCK = {
    "proc/sys/vm/defrag_mode": None,
    "proc/sys/kernel/osrelease": "6.1.0-56-amd64",
    f"{SYSFS}/shrink_underused": None,
    f"{SYSFS}/underused_max_ptes_none": None,
    f"{SYSFS}/swapin_enabled": None,
}
UNSEEN_IN_CONTAINERS = dict.fromkeys(("kernel-log", "secure-boot", "profile-active"), "unseen")
UPSTREAM = {
    "proc/sys/vm/defrag_mode": None,
    "proc/sys/kernel/osrelease": "6.12.117",
    f"{SYSFS}/underused_max_ptes_none": None,
    f"{SYSFS}/swapin_enabled": None,
}


def collected(tmp_path: Path, changes: dict[str, str | None]) -> Facts:
    """Collect the facts of the good tree with changes, then add what only programs could have reported."""
    for name, text in {**GOOD, **changes}.items():
        if text is not None:
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / name).write_text(f"{text}\n")
    found = facts.collect(System(tmp_path))
    found.unseen.clear()
    # test_validate_blocks.py has the rest.
    found.blocks = Blocks(2 << 20, True, 100, 50, 30, 5, 5, 10, 0)
    if found.kernel.flavour != "other":
        found.kernel.nevra, found.kernel.changed = "kernel-thp-cloud-core-6.1.187-1.x86_64", []
        found.kernel.signature, found.kernel.key_known = "RSA/SHA256, Fri Nov 20 2026, Key ID 0123456789abcdef", True
    if not found.host.container:
        found.kernel.splats = []
        found.profile = profile.Profile(True, "2.20.0", True, True, ["thp-shrinker"], True)
    return found


def wrong(found: Facts) -> dict[str, str]:
    return {check.id: check.result for check in checks.evaluate(found) if check.verdict != "ok"}


def test_a_good_host_is_supported(tmp_path: Path) -> None:
    found = collected(tmp_path, {})
    assert wrong(found) == {}
    assert checks.verdict(checks.evaluate(found)) == "supported"


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"proc/sys/kernel/osrelease": "6.1.187-1.x86_64+thp"}, {}),
        ({"proc/sys/kernel/osrelease": "6.1.187-1.x86_64+thp.debug"}, {"kernel-flavour": "unsupported"}),
        ({"proc/sys/kernel/osrelease": "6.1.187-1.x86_64+thp.other"}, {"kernel-flavour": "degraded"}),
        (UPSTREAM, {"kernel-flavour": "degraded", "shrinker-threshold": "degraded"}),
        ({**UPSTREAM, f"{SYSFS}/khugepaged/max_ptes_none": "409"}, {"kernel-flavour": "degraded"}),
        (STOCK, {"kernel-flavour": "unsupported", "shrinker-switch": "unsupported"}),
        ({"proc/sys/kernel/tainted": str(1 << 9)}, {"kernel-taint": "degraded"}),
        ({"proc/sys/kernel/tainted": str(1 << 9 | 1 << 5)}, {"kernel-taint": "unsupported"}),
        ({"proc/sys/kernel/tainted": str(1 << 11)}, {}),
        ({"proc/sys/kernel/tainted": str(1 << 40)}, {"kernel-taint": "degraded"}),
        ({"proc/sys/kernel/tainted": None}, {"kernel-taint": "unseen"}),
        ({f"{SYSFS}/enabled": "always [madvise] never"}, {"thp-enabled": "degraded"}),
        ({f"{SYSFS}/enabled": "always madvise [never]"}, {"thp-enabled": "degraded"}),
        ({f"{SYSFS}/enabled": None}, {"thp-present": "unseen"}),
        ({f"{SYSFS}/hugepages-2048kB/enabled": "always [inherit] madvise never"}, {}),
        ({f"{SYSFS}/hugepages-2048kB/enabled": "always inherit madvise [never]"}, {"thp-enabled": "degraded"}),
        (
            {
                f"{SYSFS}/enabled": "always madvise [never]",
                f"{SYSFS}/hugepages-2048kB/enabled": "[always] inherit madvise never",
            },
            {},
        ),
        ({"proc/cmdline": "transparent_hugepage=always rw"}, {"thp-command-line": "degraded"}),
        ({f"{SYSFS}/shrink_underused": "0"}, {"shrinker-switch": "degraded"}),
        # Whether it is as the profile wants it, tuned verifies.
        ({"proc/sys/vm/defrag_mode": "0"}, {}),
        ({"proc/sys/vm/defrag_mode": None}, {}),
        ({f"{SYSFS}/underused_max_ptes_none": "511"}, {"shrinker-threshold": "degraded"}),
        ({f"{SYSFS}/underused_max_ptes_none": "khugepaged"}, {"shrinker-threshold": "degraded"}),
        ({f"{SYSFS}/underused_max_ptes_none": "4"}, {"shrinker-threshold": "degraded"}),
        ({"run/systemd/container": "lxc"}, UNSEEN_IN_CONTAINERS),
        ({"run/.containerenv": ""}, UNSEEN_IN_CONTAINERS),
    ],
)
def test_one_thing_wrong(tmp_path: Path, changes: dict[str, str | None], expected: dict[str, str]) -> None:
    found = collected(tmp_path, changes)
    assert wrong(found) == expected


def test_a_profile_that_sets_nothing_on_this_kernel_is_not_to_be_applied_again(tmp_path: Path) -> None:
    found = collected(tmp_path, {f"{SYSFS}/shrink_underused": None})
    found.profile.verified = False
    (check,) = (check for check in checks.evaluate(found) if check.id == "profile-verified")
    assert (check.result, check.hint) == ("degraded", "see kernel-flavour")


@pytest.mark.parametrize("subpages", [512, 8192])
def test_every_threshold_of_the_profiles_is_good(tmp_path: Path, subpages: int) -> None:
    found = collected(tmp_path, {})
    found.thp.huge_page_bytes = subpages * found.thp.page_bytes
    for percent in range(10, 100):
        found.thp.underused_max_ptes_none = str(subpages * percent // 100)
        assert wrong(found) == {}, f"{percent} %"
    found.thp.underused_max_ptes_none = str(subpages * 10 // 100 - 1)
    assert wrong(found) == {"shrinker-threshold": "degraded"}


@pytest.mark.parametrize("flavour", flavours.FLAVOURS.values(), ids=list(flavours.FLAVOURS))
def test_every_flavour_is_known_by_its_uname_and_its_package(flavour: Flavour) -> None:
    assert kernel.flavour(f"6.1.187-1.x86_64{flavour.suffix}") == flavour.name
    assert kernel.PACKAGES[flavour.name] == flavour.package
    assert set(kernel.PACKAGES) == set(flavours.FLAVOURS)


@pytest.mark.parametrize(
    ("changes", "hint"),
    [
        (STOCK, "install kernel-thp-cloud (virtual machines) or kernel-thp (bare metal), and boot it"),
        (UPSTREAM, "install kernel-thp-cloud (virtual machines) or kernel-thp (bare metal), and boot it"),
        ({}, "install kernel-thp-cloud from its repository, not by hand, and boot it"),
        (
            {"proc/sys/kernel/osrelease": "6.1.187-1.x86_64+thp"},
            "install kernel-thp from its repository, not by hand, and boot it",
        ),
    ],
)
def test_a_hint_names_the_package_of_the_flavour(tmp_path: Path, changes: dict[str, str | None], hint: str) -> None:
    found = collected(tmp_path, changes)
    found.kernel.nevra = None
    assert hint in [check.hint for check in checks.evaluate(found)]


def test_a_kernel_without_huge_pages(tmp_path: Path) -> None:
    without = {name: None for name in GOOD if name.startswith(SYSFS)}
    found = collected(tmp_path, {**without, **STOCK, "sys/kernel/vmcoreinfo": "1"})
    assert wrong(found) == {"kernel-flavour": "unsupported", "thp-present": "unsupported"}


def test_without_sys_nothing_is_said_of_huge_pages(tmp_path: Path) -> None:
    found = collected(tmp_path, {name: None for name in GOOD if name.startswith("sys")})
    assert wrong(found) == {"thp-present": "unseen"}


@pytest.mark.parametrize(
    ("of", "changes", "expected"),
    [
        ("kernel", {"nevra": None}, {"kernel-package": "unsupported"}),
        ("kernel", {"signature": None}, {"kernel-signature": "unsupported"}),
        ("kernel", {"key_known": False}, {"kernel-signature": "degraded"}),
        ("kernel", {"changed": None}, {"kernel-files": "unseen"}),
        ("kernel", {"changed": ["/lib/modules/x (S.5......)"]}, {"kernel-files": "unsupported"}),
        ("profile", {"verified": False}, {"profile-verified": "degraded"}),
        ("profile", {"verified": None}, {"profile-verified": "unseen"}),
        ("profile", {"active": ["thp-baseline"]}, {"profile-active": "degraded"}),
        ("profile", {"active": ["balanced"]}, {"profile-active": "degraded"}),
        ("profile", {"active": []}, {"profile-active": "degraded"}),
        ("profile", {"active": ["throughput-performance", "thp-shrinker-tight", "x"]}, {}),
        ("profile", {"running": False}, {"profile-active": "degraded"}),
        ("profile", {"at_boot": False}, {"profile-active": "degraded"}),
        ("profile", {"at_boot": None}, {}),
        ("profile", {"installed": False}, {"profile-active": "degraded"}),
    ],
)
def test_what_rpm_and_tuned_can_say(tmp_path: Path, of: str, changes: dict[str, Any], expected: dict[str, str]) -> None:
    found = collected(tmp_path, {})
    setattr(found, of, dataclasses.replace(getattr(found, of), **changes))
    assert {name: result for name, result in wrong(found).items() if name in expected} == expected
    assert set(wrong(found)) - set(expected) <= {"profile-verified"}


def test_without_rpm_the_package_is_unseen_and_not_absent(tmp_path: Path) -> None:
    found = collected(tmp_path, {})
    found.kernel.nevra, found.unseen["rpm"] = None, "not installed"
    assert wrong(found) == {"kernel-package": "unseen"}


def test_files_that_rpm_may_not_read_are_unseen(tmp_path: Path) -> None:
    found = collected(tmp_path, {})
    found.unseen[f"/lib/modules/{UNAME}/System.map"] = "not readable"
    assert wrong(found) == {"kernel-files": "unseen"}


def test_a_failed_selftest_is_unsupported(tmp_path: Path) -> None:
    found = collected(tmp_path, {})
    outcome = Outcome("oom.lives", "thp:thp_oom", "fail", False, 1.0, "killed")
    found.selftests = Selftests(1.0, [outcome], ["oom.lives: fail: killed"])
    assert wrong(found) == {"selftests": "unsupported"}
    suite = ET.fromstring(report.as_junit(found, checks.evaluate(found)))
    assert suite.find("testcase[@name='oom.lives']/failure") is not None


def test_a_selftest_that_could_not_run_is_unseen(tmp_path: Path) -> None:
    found = collected(tmp_path, {})
    skipped = Outcome("swap.a", "thp:thp_swap", "skip", False, 1.0, "cgroup v1")
    found.selftests = Selftests(1.0, [skipped], ["swap.a: skip: cgroup v1"])
    assert wrong(found) == {"selftests": "unseen"}
    found.selftests.reasons.append("thp:thp_swap: no plan")
    assert wrong(found) == {"selftests": "unsupported"}


@pytest.mark.parametrize("changes", [{}, STOCK, UPSTREAM, {"run/.containerenv": ""}, {"proc/meminfo": None}])
def test_json_is_what_the_schema_says(tmp_path: Path, changes: dict[str, str | None]) -> None:
    found = collected(tmp_path, changes)
    found.watch = counters.Watch(1.0, {"thp_split_page": -1}, "nothing")
    found.selftests = Selftests(1.0, [Outcome("a", "thp:b", "skip", True, 0.5, "one node")], [])
    results = checks.evaluate(found)
    made = report.as_json(found, results)
    jsonschema.validate(made, SCHEMA, format_checker=jsonschema.FormatChecker())
    assert (made["verdict"] == "supported") == (made["reasons"] == [])
    assert all(reason["what"] and reason["hint"] for reason in made["reasons"])
    found.blocks = None
    jsonschema.validate(report.as_json(found, results), SCHEMA)


def test_fragmentation_does_not_change_the_verdict(tmp_path: Path) -> None:
    found = collected(tmp_path, {})
    found.blocks = Blocks(2 << 20, True, 100, 0, 0, 50, 50, 0, 0)
    made = report.as_json(found, checks.evaluate(found))
    assert made["blocks"]["fragmented"] is True
    assert (made["verdict"], made["reasons"]) == ("supported", [])


def test_junit_counts_what_is_wrong(tmp_path: Path) -> None:
    found = collected(tmp_path, {f"{SYSFS}/shrink_underused": "0", "proc/sys/kernel/tainted": None})
    suite = ET.fromstring(report.as_junit(found, checks.evaluate(found)))
    assert (suite.get("failures"), suite.get("errors"), suite.get("skipped")) == ("1", "1", "2")
    assert suite.get("tests") == str(len(checks.CHECKS))
    assert suite.find("testcase[@name='shrinker-switch']/failure") is not None
    assert suite.find("testcase[@name='kernel-taint']/error") is not None


def test_text_says_what_to_do(tmp_path: Path) -> None:
    found = collected(tmp_path, {f"{SYSFS}/shrink_underused": "0"})
    text = report.as_text(found, checks.evaluate(found))
    settings = "always, shrinker off, threshold 409 of 512, defrag madvise, defrag mode on, swap-in madvise"
    assert f"THP       {settings}" in text
    assert "shrink_underused is 0" in text
    assert "hint        `tuned-adm profile thp-shrinker`" in text
    assert text.splitlines()[-1] == "degraded"


def test_text_does_not_show_a_profile_as_active_that_is_only_configured(tmp_path: Path) -> None:
    found = collected(tmp_path, {})
    found.profile.running = False
    assert "thp-shrinker, but tuned is not running" in report.as_text(found, checks.evaluate(found))


def test_a_recorded_tree_is_never_asked_by_programs(tmp_path: Path) -> None:
    system = System(tmp_path)
    assert system.run(["true"]) is None
    assert "true" in system.unseen


@pytest.mark.parametrize(
    ("code", "text", "running", "active"),
    [
        (0, "Current active profile: balanced thp-shrinker\n", True, ["balanced", "thp-shrinker"]),
        (1, "No current active profile.\n", True, []),
        (
            0,
            "It seems that tuned daemon is not running, preset profile is not activated.\nPreset profile: balanced\n",
            False,
            ["balanced"],
        ),
    ],
)
def test_tuned_says_what_is_active(code: int, text: str, running: bool, active: list[str]) -> None:
    assert profile.names(Output(code, text)) == (running, active)


def test_tuned_that_gives_no_verdict_is_not_a_verdict() -> None:
    good = "Verfication succeeded, current system settings match the preset profile.\n"
    bad = "Verification failed, current system settings differ from the preset profile.\n"
    assert profile.verdict(Output(0, good))[0] is True
    assert profile.verdict(Output(0, good.replace("Verf", "Verif")))[0] is True
    assert profile.verdict(Output(1, bad))[0] is False
    assert profile.verdict(Output(1, "Not supported in no_daemon mode.\n"))[0] is None
    assert profile.verdict(Output(0, ""))[0] is None


def test_taint_flags_are_the_kernels(tmp_path: Path) -> None:
    assert [flag.bit for flag in taint.FLAGS] == list(range(len(taint.FLAGS)))
    assert "".join(flag.letter for flag in taint.FLAGS) == "PFSRMBUDAWCIOELKXTNJ"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({}, "no counter of underused"),
        ({counters.SPLIT: 3}, "3 underused huge pages were split"),
        ({counters.SPLIT: 3, counters.DROPPED: 256}, f"{256 * os.sysconf('SC_PAGE_SIZE') >> 10} KiB"),
        ({counters.SPLIT: 0, counters.SCANNED: 9}, "9 huge pages were checked"),
        ({counters.SPLIT: 0, counters.SCANNED: 0}, "does not report whether memory was short"),
        ({counters.SPLIT: 0, counters.PRESSURE: 0}, "memory was not short"),
        ({counters.SPLIT: 0, counters.PRESSURE: 7}, "memory was short"),
    ],
)
def test_a_change_of_counters_has_a_meaning(change: dict[str, int], message: str) -> None:
    assert message in counters.meaning(change, thp.Thp())


def test_watching_takes_the_difference(tmp_path: Path) -> None:
    vmstat = tmp_path / "proc" / "vmstat"
    vmstat.parent.mkdir()
    vmstat.write_text("thp_underused_split_page 2\nthp_split_page 5\n")
    system = System(tmp_path)

    def later(_: float) -> None:
        vmstat.write_text("thp_underused_split_page 6\nthp_split_page 5\n")

    found = counters.watch(system, thp.Thp(), 1.0, later)
    assert found.change == {"thp_underused_split_page": 4, "thp_split_page": 0}
