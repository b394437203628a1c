"""The profiles on kernel-thp: what they set, what they compose with, which values return."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from lab import snapshots
from lab.host import Host
from lab.vm import Vm
from scripts.console import UserError
from tests.tuned.daemon import DEFRAG_MODE, VARIABLES, Tuned, Values, path
from tests.tuned.expected import BASELINE, SHRINKER, TIGHT, in_force

RECIPE = snapshots.KERNEL_THP
WATCH_WRITES = Path(__file__).with_name("watch_writes.py")


def writes(vm: Vm, action: str) -> list[str]:
    """Return the kernel's files that a command wrote to, in that order.

    We write the last one back as it is: whoever sees that write would have seen the command's.
    """
    vm.write("/root/watch_writes.py", WATCH_WRITES.read_text())
    nodes = {path(node): node for node in (*SHRINKER, "khugepaged/max_ptes_none")}
    *_, last = nodes
    script = (
        f"python3 -I /root/watch_writes.py {' '.join(nodes)} > /run/writes & watcher=$!; "
        f"until grep -q ready /run/writes; do sleep 0.2; done; {action}; sleep 2; "
        f"value=$(cat {last}); echo $value > {last}; sleep 1; kill $watcher; cat /run/writes"
    )
    *seen, end = [line for line in vm.run(script).text.splitlines() if line in nodes] or [""]
    assert end == last, "writes are not seen"
    return [nodes[line] for line in seen]


# What is set


def test_a_refusal_is_not_overlooked(tuned: Tuned) -> None:
    """All other tests rely on it."""
    with pytest.raises(UserError, match="no-such-profile"):
        tuned.profile("no-such-profile")


@pytest.mark.parametrize(
    ("profile", "expected"),
    [
        ("thp-shrinker", SHRINKER),
        pytest.param("thp-shrinker-tight", TIGHT, marks=pytest.mark.full),
        pytest.param("thp-baseline", BASELINE, marks=pytest.mark.full),
    ],
)
def test_profile_is_in_force_and_verified(tuned: Tuned, initial: Values, profile: str, expected: Values) -> None:
    tuned.profile(profile)
    assert tuned.values() == {**initial, **expected}
    assert tuned.verify()[0], tuned.verify()[1]


@pytest.mark.full
def test_threshold_is_in_force_before_there_are_more_huge_pages(tuned: Tuned) -> None:
    order = writes(tuned.vm, "tuned-adm profile thp-shrinker")
    assert order.index("underused_max_ptes_none") < order.index("enabled")
    assert order.index("shrink_underused") < order.index("enabled")


def test_operators_values_are_applied_and_kept_apart_by_profile(tuned: Tuned) -> None:
    tuned.vm.write(VARIABLES, "[thp-shrinker]\nthreshold_percent=50\nenabled=madvise\ndefrag_mode=0\n")
    tuned.profile("thp-shrinker")
    assert in_force(tuned, {"underused_max_ptes_none": "256", "enabled": "madvise", DEFRAG_MODE: "0"})
    assert tuned.verify()[0]


@pytest.mark.full
def test_a_mistake_in_the_variables_is_refused_and_the_active_profile_stays(tuned: Tuned, initial: Values) -> None:
    tuned.profile("thp-shrinker-tight")
    tuned.vm.write(VARIABLES, "[thp-shrinker]\nenabled=alwyas\n")
    refused = tuned.adm("profile", "thp-shrinker")
    assert refused.code == 1
    assert len(refused.lines) == 1
    assert f"enabled=alwyas in {VARIABLES} is not possible, it can be always, madvise" in refused.text
    assert tuned.settle({**initial, **TIGHT}) == {**initial, **TIGHT}
    assert tuned.active() == "thp-shrinker-tight"


# Composition


def test_composes_with_the_general_profile(tuned: Tuned) -> None:
    tuned.profile("throughput-performance", "thp-shrinker")
    assert in_force(tuned, SHRINKER)
    assert tuned.vm.run("sysctl -n vm.dirty_ratio").text == "40"
    log = tuned.verify()[1]
    assert re.search(r"verify: passed: '\['/usr/lib/tuned/\S*thp-shrinker/thp_profile'\]'", log)


@pytest.mark.full
def test_composes_with_a_profile_that_has_its_own_variables_file(tuned: Tuned) -> None:
    tuned.vm.write("/etc/tuned/test-variables.conf", "ratio=37\n")
    included = "[variables]\ninclude=/etc/tuned/test-variables.conf\n"
    tuned.define("test-base", f"{included}[sysctl]\nvm.dirty_ratio=${{ratio}}\n")
    tuned.profile("test-base", "thp-shrinker")
    assert in_force(tuned, SHRINKER)
    assert tuned.vm.run("sysctl -n vm.dirty_ratio").text == "37"
    assert tuned.verify()[0]


@pytest.mark.full
def test_last_profile_decides(tuned: Tuned) -> None:
    other = {"enabled": "never", "underused_max_ptes_none": "222", DEFRAG_MODE: "0"}
    sections = ("vm]\ntransparent_hugepages", f"sysfs]\n{path('underused_max_ptes_none')}", "sysctl]\nvm.defrag_mode")
    tuned.define("test-other", "".join(f"[{name}={value}\n" for name, value in zip(sections, other.values())))
    tuned.profile("test-other", "thp-shrinker")
    assert in_force(tuned, SHRINKER)
    assert tuned.verify()[0]
    tuned.profile("thp-shrinker", "test-other")
    assert in_force(tuned, other)
    passed, log = tuned.verify()
    assert not passed
    for node, value in other.items():
        assert f"{path(node)} is {value}, expected {SHRINKER[node]}: " in log


@pytest.mark.full
def test_script_of_another_profile_runs_beside_ours(tuned: Tuned) -> None:
    tuned.define("test-script", "[script]\nscript=mark.sh\n")
    script = f"{tuned.folder()}/test-script/mark.sh"
    tuned.vm.run(f"printf '#!/bin/sh\\necho $1 >> /run/mark\\n' > {script} && chmod +x {script}; rm -f /run/mark")
    for names in (("test-script", "thp-shrinker"), ("thp-shrinker", "test-script")):
        tuned.profile(*names)
        assert in_force(tuned, SHRINKER)
        tuned.adm("off")
    assert tuned.vm.run("cat /run/mark").text.split() == ["start", "stop", "start", "stop"]


# Which values return


@pytest.mark.parametrize(
    "command",
    [
        "tuned-adm off",
        pytest.param("tuned-adm profile balanced", marks=pytest.mark.full),
        pytest.param("systemctl stop tuned", marks=pytest.mark.full),
    ],
)
def test_all_values_return(tuned: Tuned, initial: Values, command: str) -> None:
    tuned.profile("thp-shrinker-tight")
    tuned.vm.run(command)
    assert tuned.settle(initial) == initial


@pytest.mark.full
def test_baseline_switches_the_defrag_mode_off_until_it_goes(tuned: Tuned, initial: Values) -> None:
    on = {**initial, DEFRAG_MODE: "1"}
    tuned.write(on)
    tuned.profile("thp-baseline")
    assert in_force(tuned, {DEFRAG_MODE: "0"})
    tuned.adm("off")
    assert tuned.settle(on) == on


@pytest.mark.full
def test_applied_twice_is_as_applied_once(tuned: Tuned, initial: Values) -> None:
    tuned.profile("thp-shrinker")
    tuned.profile("thp-shrinker")
    assert tuned.values() == {**initial, **SHRINKER}
    tuned.profile("thp-shrinker-tight")
    assert tuned.values() == {**initial, **TIGHT}
    tuned.adm("off")
    assert tuned.settle(initial) == initial


@pytest.mark.full
def test_a_killed_daemon_leaves_the_values_for_good(tuned: Tuned, initial: Values) -> None:
    tuned.profile("thp-shrinker")
    tuned.vm.run("systemctl kill -s KILL tuned; sleep 2")
    assert tuned.values() == {**initial, **SHRINKER}
    tuned.vm.run("systemctl reset-failed tuned; systemctl start tuned && tuned-adm active")
    assert tuned.verify()[0]
    tuned.adm("off")
    assert tuned.values() == {**initial, **SHRINKER}


# Recommendation


@pytest.mark.full
def test_recommendation_adds_the_profile_to_the_general_one(tuned: Tuned, host: Host) -> None:
    before = tuned.adm("recommend").text
    host.install("tuned-profiles-thp-recommend")
    assert tuned.adm("recommend").text == f"{before} thp-shrinker"
    tuned.vm.run("dnf -y remove tuned-profiles-thp-recommend", timeout=600)
    assert tuned.adm("recommend").text == before


# A reboot; this comes last


@pytest.mark.full
def test_a_reboot_applies_the_profile_again_over_the_kernels_defaults(tuned: Tuned, host: Host) -> None:
    tuned.profile("thp-shrinker")
    tuned.vm.run("systemctl enable tuned")
    host.boot_once(tuned.vm.run("uname -r").text)
    tuned.vm.run("systemctl is-system-running --wait", check=False)
    assert tuned.active() == "thp-shrinker"
    assert tuned.verify()[0]
    assert in_force(tuned, SHRINKER)
    tuned.adm("off")
    kernel = {**BASELINE, "shrink_underused": "1"}
    assert tuned.settle(kernel) == kernel
