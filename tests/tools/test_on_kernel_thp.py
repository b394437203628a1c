"""thp-validate on a host with kernel-thp, on its way to a supported one and into trouble.

The tests build on each other: the host gets the profile, and is then broken.
"""

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
    SAID,
    SCHEMA,
    SYSFS,
    ask,
    expect_exact,
    start_sparse,
    stop_sparse,
    wrong,
)

RECIPE = snapshots.KERNEL_THP
SELFTESTS_TIMEOUT = 1200.0


def test_fresh_kernel_lacks_its_settings_only(host: Vm) -> None:
    Host(host).install("thp-tools", "kernel-thp-selftests")
    found = ask(host)
    assert found["kernel"]["flavour"] == CLOUD.name
    assert found["kernel"]["nevra"].startswith(f"{CLOUD.core}-")
    assert found["kernel"]["key_known"] is True
    assert found["kernel"]["changed"] == []
    assert found["kernel"]["config_sha256"]
    assert found["kernel"]["series"]
    defaults = {"shrink_underused": 1, "underused_max_ptes_none": "khugepaged", "max_ptes_none": 511}
    assert defaults.items() <= found["thp"].items()
    assert set(wrong(found)) <= {"shrinker-threshold", "profile-active", "thp-enabled"}
    assert found["verdict"] == "degraded"


def test_profile_makes_it_supported(host: Vm) -> None:
    """The acceptance of the project on one host."""
    Host(host).install("tuned-profiles-thp")
    host.run("systemctl start tuned && tuned-adm profile thp-shrinker && tuned-adm verify")
    assert any(reason["hint"] == "`systemctl enable tuned`" for reason in ask(host)["reasons"])
    host.run("systemctl enable tuned")
    found = ask(host)
    assert found["reasons"] == []
    assert found["verdict"] == "supported"
    assert found["profile"]["verified"] is True
    assert host.run("thp-validate | tail -n 1").text == "supported"


def test_watching_sees_what_the_estimate_foretold(host: Vm) -> None:
    """The estimate predicts what the threshold in force reclaims; under memory pressure, the counters confirm it."""
    start_sparse(host)
    estimate = ask(host, "--estimate", "--cgroup", "/sparse")["estimate"]
    expect_exact(estimate)
    foretold = next(threshold for threshold in estimate["total"]["thresholds"] if threshold["in_force"])
    reclaim = f"for i in $(seq 20); do echo 4M > {GROUP}/memory.reclaim; done"
    host.run(f"rm -f {SAID}; (until grep -q watch: {SAID}; do sleep 0.2; done; {reclaim}) > /dev/null 2>&1 &")
    watch = ask(host, "--watch", "15")["watch"]
    assert watch["change"]["thp_underused_split_page"] == foretold["split"]
    assert watch["change"]["thp_zero_subpages_dropped"] * 4096 == foretold["bytes"]
    assert f"{foretold['split']} underused huge pages were split" in watch["meaning"]
    stop_sparse(host)


def test_another_user_is_told_what_is_out_of_reach(host: Vm) -> None:
    found = ask(host, prefix="setpriv --reuid=65534 --regid=65534 --clear-groups")
    assert not found["host"]["root"]
    assert found["checks"]["kernel-flavour"] == "ok"
    # System.map is for root only, so what rpm says of the files is not the whole truth.
    assert found["checks"]["kernel-files"] == "unseen"
    assert found["verdict"] == "degraded"
    refused = host.run("setpriv --reuid=65534 --clear-groups thp-validate --estimate --pid 1", check=False)
    assert refused.code == 3
    assert "run this as root" in refused.text


def test_selftests_are_run_and_accepted(host: Vm) -> None:
    found = ask(host, "--selftests", "--junit /tmp/junit.xml", timeout=SELFTESTS_TIMEOUT)
    assert found["selftests"]["reasons"] == []
    assert found["checks"]["selftests"] == "ok"
    assert found["selftests"]["accepted"] == len(found["selftests"]["tests"]) > 100
    assert "selftests: 1 of" in host.run(f"cat {SAID}").text
    assert 'name="oom.lives' in host.run("cat /tmp/junit.xml").text


def test_sos_takes_the_verdict_along(host: Vm) -> None:
    host.run("mkdir -p /var/lib/kernel-thp && echo '{}' > /var/lib/kernel-thp/rollout.json")
    host.run("rm -rf /tmp/sos && mkdir /tmp/sos")
    host.run("sos report --batch --only-plugins thp,memory --tmp-dir /tmp/sos --build", timeout=300)
    place = host.run("ls -d /tmp/sos/sosreport-*/").text.splitlines()[0]
    found = json.loads(host.run(f"cat {place}/sos_commands/thp/thp-validate.json").text)
    jsonschema.validate(found, SCHEMA)
    assert found["watch"]["seconds"] >= 5
    taken = host.run(f"cd {place} && find . -type f").text
    for name in ("./sos_commands/thp/rpm_-V", "./var/lib/kernel-thp/rollout.json", "+thp.conf", "bootctl_list"):
        assert name in taken
    assert "random-seed" not in taken


@pytest.mark.parametrize(
    ("breaks", "fixes", "expected"),
    [
        (
            f"echo madvise > {SYSFS}/enabled",
            f"echo always > {SYSFS}/enabled",
            {"thp-enabled": "degraded", "profile-verified": "degraded"},
        ),
        (
            f"echo 0 > {SYSFS}/shrink_underused",
            f"echo 1 > {SYSFS}/shrink_underused",
            {"shrinker-switch": "degraded", "profile-verified": "degraded"},
        ),
        (
            f"echo 511 > {SYSFS}/underused_max_ptes_none",
            f"echo 409 > {SYSFS}/underused_max_ptes_none",
            {"shrinker-threshold": "degraded", "profile-verified": "degraded"},
        ),
        ("tuned-adm profile thp-baseline", "tuned-adm profile thp-shrinker", {"profile-active": "degraded"}),
        ("systemctl stop tuned", "systemctl start tuned", {"profile-active": "degraded"}),
        (
            "echo '# changed' >> /lib/modules/$(uname -r)/config",
            "sed -i '$d' /lib/modules/$(uname -r)/config && touch -r /lib/modules/$(uname -r)/vmlinuz "
            "/lib/modules/$(uname -r)/config",
            {"kernel-files": "unsupported"},
        ),
        # The last one: a taint stays until the next boot.
        ("echo 64 > /proc/sys/kernel/tainted", "true", {"kernel-taint": "degraded"}),
    ],
)
def test_what_is_broken_is_named(host: Vm, breaks: str, fixes: str, expected: dict[str, str]) -> None:
    host.run(breaks)
    found = ask(host)
    host.run(fixes)
    assert expected.items() <= wrong(found).items()
    assert found["verdict"] == ("unsupported" if "unsupported" in expected.values() else "degraded")
