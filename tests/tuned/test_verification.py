"""With these profiles, tuned-adm verify fails in every case in which tuned alone passes falsely."""

from __future__ import annotations

import pytest

from lab import snapshots
from lab.host import Host
from tests.tuned.daemon import LOG, THP, VARIABLES, Tuned, Values, path
from tests.tuned.expected import BASELINE, TIGHT, in_force

RECIPE = snapshots.KERNEL_THP
# tuned's own verification passes all of these while enabled is madvise: files and options that do not exist, another
# name of an option, an unknown value, a choice of values. [vm] also replaces the value that our profile sets.
FALSE_PASSES = f"""\
[sysfs]
{THP}/no_such_file=1
{THP}/enabled=madvise|never
[vm]
khugepaged_max_ptes_none=1
transparent_hugepage=never
transparent_hugepages=alwyas
"""


@pytest.mark.full
def test_verification_notices_every_value_that_changed(tuned: Tuned, initial: Values) -> None:
    tuned.profile("thp-shrinker-tight")
    for node, value in TIGHT.items():
        tuned.write({node: initial[node]})
        passed, log = tuned.verify()
        assert not passed, node
        assert f"{path(node)} is {initial[node]}, expected {value}" in log
        tuned.write({node: value})
    assert tuned.verify()[0]


def test_what_tuned_alone_passes_falsely_fails_with_ours(tuned: Tuned) -> None:
    tuned.define("test-foreign", FALSE_PASSES)
    tuned.profile("test-foreign")
    tuned.write({"enabled": "madvise"})
    passed, log = tuned.verify()
    assert passed, f"this tuned notices by itself, so the case shows nothing: {log}"
    tuned.profile("thp-shrinker", "test-foreign")
    tuned.write({"enabled": "madvise"})
    passed, log = tuned.verify()
    assert not passed
    assert f"{THP}/enabled is madvise, expected always" in log


@pytest.mark.full
def test_verification_names_a_later_profile_that_decides_otherwise(tuned: Tuned) -> None:
    """The kernel_settings role of linux-system-roles adds such a profile."""
    tuned.define("test-kernel_settings", "[vm]\ntransparent_hugepages=madvise\n")
    tuned.profile("thp-shrinker", "test-kernel_settings")
    for option in ("", "--ignore-missing"):
        tuned.vm.run(f": > {LOG}")
        assert tuned.adm("verify", option).code == 1
        log = tuned.vm.run(f"cat {LOG}").text
        assert "enabled is madvise, expected always" in log
        assert "another profile or program" in log


def test_verification_notices_files_that_are_not_there(tuned: Tuned) -> None:
    """All files that tuned's vm plugin reads are there with the right values; the shrinker's files are not."""
    tuned.profile("thp-shrinker")
    keep = f"cp --parents {THP}/enabled {THP}/defrag {THP}/hpage_pmd_size /run/kept"
    tuned.vm.run(f"mkdir -p /run/kept && {keep} && mount --bind /run/kept{THP} {THP}")
    for option in ("", "--ignore-missing"):
        tuned.vm.run(f": > {LOG}")
        assert tuned.adm("verify", option).code == 1
        log = tuned.vm.run(f"cat {LOG}").text
        assert "has no underused shrinker" in log
        assert "verify: passed: 'transparent_hugepages' = 'always'" in log


@pytest.mark.full
def test_verification_notices_variables_that_were_not_applied(tuned: Tuned) -> None:
    tuned.profile("thp-shrinker")
    tuned.vm.write(VARIABLES, "[thp-shrinker]\nthreshold_percent=70\n")
    passed, log = tuned.verify()
    assert not passed
    assert "underused_max_ptes_none is 409, expected 358" in log
    assert "apply the profile again" in log
    tuned.profile("thp-shrinker")
    assert in_force(tuned, {"underused_max_ptes_none": "358"})
    assert tuned.verify()[0]


# It reboots, so it comes last.
@pytest.mark.full
def test_verification_names_the_kernel_command_line(tuned: Tuned, host: Host) -> None:
    uname = tuned.vm.run("uname -r").text
    entry = f"{host.loader.entries}/{host.entry(uname)}"
    tuned.vm.run(f"sed -i 's/^options */&transparent_hugepage=madvise /' {entry}")
    host.boot_once(uname)
    tuned.vm.run(f"sed -i 's/transparent_hugepage=madvise //' {entry}")
    tuned.vm.run("systemctl start tuned")
    tuned.define("test-always", "[vm]\ntransparent_hugepages=always\n")
    tuned.profile("test-always")
    assert in_force(tuned, {"enabled": "madvise"})
    assert tuned.verify()[0], "this tuned notices by itself, so the case shows nothing"
    tuned.profile("thp-shrinker")
    passed, log = tuned.verify()
    assert not passed
    assert "fixed by transparent_hugepage=madvise on the kernel command line" in log
    tuned.profile("thp-baseline")
    assert in_force(tuned, {**BASELINE, "enabled": "madvise"})
    assert tuned.verify()[0]
    host.boot_once(uname)
