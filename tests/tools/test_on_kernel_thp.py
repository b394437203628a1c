"""thp-validate on a host with kernel-thp, which gets a profile and is then broken."""

from __future__ import annotations

import json

import jsonschema
import pytest

from lab import snapshots
from lab.host import Host
from lab.vm import Vm
from scripts.flavours import CLOUD
from tests.tools.on_host import (
    GROUP,
    STDERR,
    SYSFS,
    expect_exact,
    problems,
    start_sparse,
    stop_sparse,
    validate,
)
from tests.validated import SCHEMA

RECIPE = snapshots.KERNEL_THP
SELFTESTS_TIMEOUT = 1200.0
WAIVER = "[test]\ntaint = U\nreason = a test sets it\nexpires = 9999-12-31\n"
NOBODY = "setpriv --reuid=65534 --regid=65534 --clear-groups"


@pytest.fixture(scope="module")
def profile(host: Host) -> None:
    """thp-shrinker as an operator applies it. The tests before those that use it are about a host on its way there."""
    host.vm.run("systemctl enable --now tuned && tuned-adm profile thp-shrinker")


def test_fresh_kernel_lacks_only_its_settings(vm: Vm) -> None:
    found = validate(vm)
    assert found["kernel"]["flavour"] == CLOUD.name
    assert found["kernel"]["nevra"].startswith(f"{CLOUD.core}-")
    assert found["kernel"]["key_known"] is True
    assert found["kernel"]["changed"] == []
    assert found["kernel"]["config_sha256"]
    assert found["kernel"]["series"]
    assert (found["secure_boot"]["uefi"], found["secure_boot"]["enforced"]) == (True, False)
    assert found["installed"]["kernels"] == [found["kernel"]["uname"]]
    assert {found["kernel"]["nevra"]} <= set(found["installed"]["packages"])
    assert found["profile"]["version"] == vm.run("tuned-adm --version").text.split()[-1]
    assert found["debugging"]["btf"] == (vm.run("test -e /sys/kernel/btf/vmlinux", check=False).code == 0)
    defaults = {"shrink_underused": 1, "underused_max_ptes_none": "khugepaged", "max_ptes_none": 511}
    defaults |= {"defrag_mode": 0, "swapin_enabled": "never"}
    assert defaults.items() <= found["thp"].items()
    assert problems(found) == {"shrinker-threshold": "degraded", "profile-active": "degraded"}
    assert found["verdict"] == "degraded"


def free_blocks(vm: Vm) -> int:
    pages = vm.run("""awk '$1 == "nr_free_pages_blocks" { print $2 }' /proc/zoneinfo""").text.split()
    return sum(map(int, pages)) // 512


def test_free_blocks_are_those_that_the_kernel_counts(vm: Vm) -> None:
    before, found, after = free_blocks(vm), validate(vm)["blocks"], free_blocks(vm)
    assert found["complete"]
    # Other programs run as well.
    assert min(before, after) - 20 <= found["free"] <= max(before, after) + 20


def test_profile_makes_it_supported(vm: Vm) -> None:
    """The acceptance of the project on one host."""
    vm.run("systemctl start tuned && tuned-adm profile thp-shrinker && tuned-adm verify")
    assert any(reason["hint"] == "`systemctl enable tuned`" for reason in validate(vm)["reasons"])
    vm.run("systemctl enable tuned")
    found = validate(vm)
    assert found["reasons"] == []
    assert found["verdict"] == "supported"
    assert found["thp"]["defrag_mode"] == 1
    assert found["profile"]["verified"] is True
    assert vm.run("thp-validate | tail -n 1").text == "supported"


@pytest.mark.usefixtures("profile")
def test_watching_confirms_the_estimate(vm: Vm) -> None:
    """The estimate predicts what the threshold in force reclaims; under memory pressure, the counters confirm it."""
    start_sparse(vm)
    estimate = validate(vm, "--estimate", "--cgroup", "/sparse")["estimate"]
    expect_exact(estimate)
    predicted = next(threshold for threshold in estimate["total"]["thresholds"] if threshold["in_force"])
    reclaim = f"for i in $(seq 20); do echo 4M > {GROUP}/memory.reclaim; done"
    vm.run(f"rm -f {STDERR}; (until grep -q watch: {STDERR}; do sleep 0.2; done; {reclaim}) > /dev/null 2>&1 &")
    watch = validate(vm, "--watch", "15")["watch"]
    assert watch["change"]["thp_underused_split_page"] == predicted["split"]
    assert watch["change"]["thp_zero_subpages_dropped"] * 4096 == predicted["bytes"]
    assert f"{predicted['split']} underused huge pages were split" in watch["meaning"]
    stop_sparse(vm)


@pytest.mark.usefixtures("profile")
def test_another_user_gets_what_is_out_of_reach_as_unseen(vm: Vm) -> None:
    found = validate(vm, prefix=NOBODY)
    assert not found["host"]["root"]
    assert found["checks"]["kernel-flavour"] == "ok"
    # Only root can read System.map, so what rpm reports about the files is incomplete.
    assert found["checks"]["kernel-files"] == "unseen"
    assert found["blocks"] is None
    assert found["verdict"] == "degraded"
    refused = vm.run(f"{NOBODY} thp-validate --estimate --pid 1", check=False)
    assert refused.code == 3
    assert "run this as root" in refused.text


@pytest.mark.full
@pytest.mark.usefixtures("profile")
def test_selftests_run_and_are_accepted(host: Host, vm: Vm) -> None:
    host.install("kernel-thp-selftests")
    found = validate(vm, "--selftests", "--junit /tmp/junit.xml", timeout=SELFTESTS_TIMEOUT)
    assert found["selftests"]["reasons"] == []
    assert found["checks"]["selftests"] == "ok"
    assert found["selftests"]["accepted"] == len(found["selftests"]["tests"]) > 100
    assert "selftests: 1 of" in vm.run(f"cat {STDERR}").text
    assert 'name="oom.lives' in vm.run("cat /tmp/junit.xml").text


@pytest.mark.full
@pytest.mark.usefixtures("profile")
def test_sos_collects_the_verdict(vm: Vm) -> None:
    vm.run("mkdir -p /var/lib/kernel-thp && echo '{}' > /var/lib/kernel-thp/rollout.json")
    vm.write("/etc/thp-validate.conf", WAIVER)
    vm.run("rm -rf /tmp/sos && mkdir /tmp/sos")
    vm.run("sos report --batch --only-plugins thp,memory --tmp-dir /tmp/sos --build", timeout=300)
    folder = vm.run("ls -d /tmp/sos/sosreport-*/").text.splitlines()[0]
    found = json.loads(vm.run(f"cat {folder}/sos_commands/thp/thp-validate.json").text)
    jsonschema.validate(found, SCHEMA)
    assert found["watch"]["seconds"] >= 5
    assert found["waivers"]["valid"][0]["name"] == "test"
    assert {"installed", "debugging", "secure_boot"} <= set(found)
    collected = vm.run(f"cd {folder} && find . -type f").text
    entry = f"{CLOUD.suffix}.conf"
    ours = ("./sos_commands/thp/rpm_-V", "./var/lib/kernel-thp/rollout.json", "./etc/thp-validate.conf")
    for name in (*ours, entry, "bootctl_list"):
        assert name in collected
    assert "random-seed" not in collected
    vm.run("rm /etc/thp-validate.conf")


@pytest.mark.usefixtures("profile")
def test_monitoring_gets_its_line_and_its_metrics(vm: Vm) -> None:
    line = vm.run("thp-validate --quiet --prometheus /tmp/thp.prom").text
    assert line.startswith("THP OK - supported: ") and " | problems=0;;;0 anon_huge=" in line
    metrics = vm.run("cat /tmp/thp.prom").text.splitlines()
    verdict = 'thp_validate_verdict{verdict="supported"} 1'
    assert {verdict, "thp_shrinker_enabled 1", "thp_defrag_mode_enabled 1"} <= set(metrics)
    assert any(sample.startswith("thp_zero_subpages_dropped_total ") for sample in metrics)
    vm.run("echo 0 > /sys/kernel/mm/transparent_hugepage/shrink_underused")
    done = vm.run("thp-validate --quiet", check=False)
    vm.run("echo 1 > /sys/kernel/mm/transparent_hugepage/shrink_underused")
    assert (done.code, done.text.startswith("THP WARNING - degraded: shrinker-switch: ")) == (1, True)


@pytest.mark.usefixtures("profile")
@pytest.mark.parametrize(
    ("breaks", "fixes", "expected"),
    [
        pytest.param(
            f"echo madvise > {SYSFS}/enabled",
            f"echo always > {SYSFS}/enabled",
            {"thp-enabled": "degraded", "profile-verified": "degraded"},
            marks=pytest.mark.full,
        ),
        pytest.param(
            f"echo 0 > {SYSFS}/shrink_underused",
            f"echo 1 > {SYSFS}/shrink_underused",
            {"shrinker-switch": "degraded", "profile-verified": "degraded"},
            marks=pytest.mark.full,
        ),
        (
            f"echo 511 > {SYSFS}/underused_max_ptes_none",
            f"echo 409 > {SYSFS}/underused_max_ptes_none",
            {"shrinker-threshold": "degraded", "profile-verified": "degraded"},
        ),
        pytest.param(
            "echo 0 > /proc/sys/vm/defrag_mode",
            "echo 1 > /proc/sys/vm/defrag_mode",
            {"profile-verified": "degraded"},
            marks=pytest.mark.full,
        ),
        pytest.param(
            "tuned-adm profile thp-baseline",
            "tuned-adm profile thp-shrinker",
            {"profile-active": "degraded"},
            marks=pytest.mark.full,
        ),
        pytest.param(
            "systemctl stop tuned",
            "systemctl start tuned",
            {"profile-active": "degraded"},
            marks=pytest.mark.full,
        ),
        (
            "echo '# changed' >> /lib/modules/$(uname -r)/config",
            "sed -i '$d' /lib/modules/$(uname -r)/config && touch -r /lib/modules/$(uname -r)/vmlinuz "
            "/lib/modules/$(uname -r)/config",
            {"kernel-files": "unsupported"},
        ),
        # The last ones: a taint stays until the next boot, and so does the log.
        ("echo 64 > /proc/sys/kernel/tainted", "true", {"kernel-taint": "degraded"}),
        ("echo 'list_add corruption. prev is NULL.' > /dev/kmsg", "true", {"kernel-log": "unsupported"}),
    ],
)
def test_a_problem_is_named(vm: Vm, breaks: str, fixes: str, expected: dict[str, str]) -> None:
    vm.run(breaks)
    found = validate(vm)
    vm.run(fixes)
    assert expected.items() <= problems(found).items()
    assert found["verdict"] == ("unsupported" if "unsupported" in expected.values() else "degraded")


@pytest.mark.usefixtures("profile")
def test_a_waiver_takes_a_taint_away_until_it_ends(vm: Vm) -> None:
    """After the tests above, which leave a taint and a complaint."""
    vm.run("echo 64 > /proc/sys/kernel/tainted")
    vm.write("/etc/thp-validate.conf", WAIVER)
    found = validate(vm)
    assert (found["checks"]["kernel-taint"], found["checks"]["waivers"]) == ("ok", "ok")
    assert {"what": "U", "waiver": "test"} in found["waivers"]["waived"]
    vm.write("/etc/thp-validate.conf", WAIVER.replace("9999", "2020"))
    found = validate(vm)
    assert problems(found).items() >= {"kernel-taint": "degraded", "waivers": "degraded"}.items()
    vm.run("rm /etc/thp-validate.conf")
