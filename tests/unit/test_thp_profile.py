"""The program of the tuned profiles, on the files of three kernels: what it sets, refuses, restores and verifies.

tests/tuned checks on real hosts that kernel and tuned accept the values.
"""

from __future__ import annotations

import errno
import importlib.util
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from scripts import rpms

PROGRAM = rpms.TUNED / "thp-shrinker" / "thp_profile.py"
MANUAL = rpms.TUNED / "tuned-profiles-thp.7"
VARIABLES = rpms.TUNED / "thp-shrinker-variables.conf"
PROFILES = ("thp-shrinker", "thp-shrinker-tight", "thp-baseline")

# As read on these kernels, with 4 KiB pages on x86_64.
STOCK = {
    "enabled": "always [madvise] never",
    "defrag": "always defer defer+madvise [madvise] never",
    "hpage_pmd_size": "2097152",
    "khugepaged/max_ptes_none": "511",
}
UPSTREAM = {**STOCK, "shrink_underused": "1", "hugepages-2048kB/enabled": "always [inherit] madvise never"}
THP = {
    **STOCK,
    "shrink_underused": "1",
    "underused_max_ptes_none": "khugepaged",
    "defrag_mode": "0",
    "swapin_enabled": "always madvise [never]",
}


class Kernel:
    """A tree of files instead of a kernel's; a list of choices accepts a single word, as in the kernel."""

    def __init__(self, program: ModuleType, root: Path) -> None:
        self.program = program
        self.thp = root / "thp"
        self.defrag_mode = root / "sysctl" / "mode"
        self.operator = root / "variables.conf"
        self.cmdline = root / "cmdline"
        self.boot = root / "boot"
        self.boot.mkdir()
        self.cmdline.write_text("root=LABEL=root ro\n")

    def node(self, name: str) -> str:
        """Return the program's name of a file: the defrag mode is not below THP."""
        return str(self.defrag_mode) if name == "defrag_mode" else name

    def offer(self, files: dict[str, str]) -> None:
        for name, content in files.items():
            path = self.thp / self.node(name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(f"{content}\n")

    def values(self) -> dict[str, str]:
        return {node: self.program.read(node) for node in self.program.NODES if self.program.has(node)}

    def tuned_applies(self, nodes: dict[str, str]) -> None:
        """Do what tuned's vm plugin does between the program's start and a verification."""
        for node in self.program.BY_TUNED:
            (self.thp / node).write_text(nodes[node])


@pytest.fixture
def program() -> ModuleType:
    spec = importlib.util.spec_from_file_location("thp_profile", PROGRAM)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def kernel(program: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Kernel:
    found = Kernel(program, tmp_path)
    paths = {"THP": found.thp, "OPERATOR": found.operator, "CMDLINE": found.cmdline, "BOOT": found.boot}
    paths |= {"MODULES": tmp_path / "modules", "ORIGINALS": tmp_path / "run" / "originals.json"}
    for name, path in paths.items():
        monkeypatch.setattr(program, name, path)
    mode = str(found.defrag_mode)
    nodes = tuple(mode if node == program.DEFRAG_MODE else node for node in program.NODES)
    monkeypatch.setattr(program, "NODES", nodes)
    monkeypatch.setattr(program, "DEFRAG_MODE", mode)
    monkeypatch.setattr(program, "ACTIVE", ())
    return found


# Values


@pytest.mark.parametrize(
    ("files", "profile", "expected"),
    [
        (THP, "thp-shrinker", {"underused_max_ptes_none": "409", "shrink_underused": "1"}),
        (THP, "thp-shrinker-tight", {"underused_max_ptes_none": "256", "khugepaged/max_ptes_none": "256"}),
        (THP, "thp-baseline", {"underused_max_ptes_none": "khugepaged", "shrink_underused": "0"}),
        (UPSTREAM, "thp-shrinker", {"khugepaged/max_ptes_none": "409", "shrink_underused": "1"}),
        (UPSTREAM, "thp-baseline", {"khugepaged/max_ptes_none": "511", "shrink_underused": "1"}),
        (STOCK, "thp-baseline", {"khugepaged/max_ptes_none": "511", "defrag": "madvise"}),
    ],
)
def test_values_on_each_kernel(kernel: Kernel, files: dict[str, str], profile: str, expected: dict[str, str]) -> None:
    kernel.offer(files)
    (kernel.boot / "config-6.1.0-56-amd64").write_text("CONFIG_TRANSPARENT_HUGEPAGE_ALWAYS=y\n")
    wanted = kernel.program.wanted(profile)
    assert expected.items() <= wanted.items()
    assert wanted["enabled"] == "always"
    assert set(wanted) <= {kernel.node(name) for name in files}
    # The threshold must be in force before there are more huge pages.
    assert list(wanted)[-1] == "enabled"


@pytest.mark.parametrize(("profile", "value"), zip(PROFILES, "110"))
def test_free_memory_is_kept_in_whole_blocks_where_the_kernel_can(kernel: Kernel, profile: str, value: str) -> None:
    kernel.offer(THP)
    kernel.cmdline.write_text("transparent_hugepage=madvise\n")
    wanted = kernel.program.wanted(profile)
    assert wanted[str(kernel.defrag_mode)] == value
    assert list(wanted)[-1] == "enabled"


def test_a_kernel_without_the_mode_gets_the_profile_without_it(kernel: Kernel) -> None:
    """Hosts with such a kernel may share the variables file with others."""
    kernel.offer(UPSTREAM)
    kernel.operator.write_text("[thp-shrinker]\ndefrag_mode=1\n")
    assert kernel.program.check("thp-shrinker") == "none"
    assert str(kernel.defrag_mode) not in kernel.program.wanted("thp-shrinker")


@pytest.mark.parametrize("value", ["always", "madvise", "never"])
def test_huge_pages_come_back_from_swap_as_the_operator_says(kernel: Kernel, value: str) -> None:
    kernel.offer(THP)
    kernel.operator.write_text(f"[thp-shrinker]\nswapin_enabled={value}\n")
    assert kernel.program.wanted("thp-shrinker")["swapin_enabled"] == value
    assert kernel.program.wanted("thp-shrinker-tight")["swapin_enabled"] == "never"
    kernel.offer(UPSTREAM)
    (kernel.thp / "swapin_enabled").unlink()
    assert kernel.program.check("thp-shrinker") == "none"
    assert "swapin_enabled" not in kernel.program.wanted("thp-shrinker")


def test_thp_shrinker_leaves_khugepaged_alone_where_it_can(kernel: Kernel) -> None:
    kernel.offer(THP)
    assert "khugepaged/max_ptes_none" not in kernel.program.wanted("thp-shrinker")


@pytest.mark.parametrize(
    ("huge", "page", "percent", "threshold"),
    [
        (2 << 20, 4 << 10, "80", "409"),
        (2 << 20, 4 << 10, "99", "506"),
        (2 << 20, 4 << 10, "1", "5"),
        (32 << 20, 16 << 10, "80", "1638"),
        (512 << 20, 64 << 10, "80", "6553"),
    ],
)
def test_threshold_is_a_share_of_the_huge_page(
    kernel: Kernel, monkeypatch: pytest.MonkeyPatch, huge: int, page: int, percent: str, threshold: str
) -> None:
    kernel.offer({**THP, "hpage_pmd_size": str(huge)})
    kernel.operator.write_text(f"[thp-shrinker]\nthreshold_percent={percent}\n")
    monkeypatch.setattr(os, "sysconf", lambda name: {"SC_PAGE_SIZE": page}[name])
    assert kernel.program.wanted("thp-shrinker")["underused_max_ptes_none"] == threshold


def test_operators_values_are_those_of_the_profile_they_are_for(kernel: Kernel) -> None:
    kernel.offer(THP)
    kernel.operator.write_text("[thp-shrinker-tight]\nthreshold_percent=30\ndefrag = never\ndefrag_mode=0\n")
    assert kernel.program.wanted("thp-shrinker-tight")["underused_max_ptes_none"] == "153"
    assert kernel.program.wanted("thp-shrinker-tight")["defrag"] == "never"
    assert kernel.program.wanted("thp-shrinker-tight")[str(kernel.defrag_mode)] == "0"
    assert kernel.program.wanted("thp-shrinker")[str(kernel.defrag_mode)] == "1"
    assert kernel.program.wanted("thp-shrinker")["underused_max_ptes_none"] == "409"


def test_baseline_is_that_of_the_newest_kernel_of_the_distribution(kernel: Kernel) -> None:
    kernel.offer(THP)
    for release, choice in (
        ("6.1.0-9", "NEVER"),
        ("6.1.0-53", "MADVISE"),
        ("6.1.187-1.x86_64+thp.cloud", "ALWAYS"),
        ("6.1.188-1.x86_64+thp", "ALWAYS"),
    ):
        (kernel.boot / f"config-{release}").write_text(f"CONFIG_TRANSPARENT_HUGEPAGE_{choice}=y\n")
    assert kernel.program.wanted("thp-baseline")["enabled"] == "madvise"
    kernel.cmdline.write_text("transparent_hugepage=always ro transparent_hugepage=never\n")
    assert kernel.program.wanted("thp-baseline")["enabled"] == "never"
    kernel.operator.write_text("[thp-baseline]\nenabled=always\n")
    assert kernel.program.wanted("thp-baseline")["enabled"] == "always"


# Refusals


@pytest.mark.parametrize("profile", PROFILES)
def test_a_profile_that_can_load_is_not_refused(kernel: Kernel, profile: str) -> None:
    kernel.offer(THP)
    kernel.cmdline.write_text("transparent_hugepage=madvise\n")
    assert kernel.program.check(profile) == "none"


@pytest.mark.parametrize("profile", PROFILES[:2])
def test_a_kernel_without_the_shrinker_is_refused(kernel: Kernel, profile: str) -> None:
    kernel.offer(STOCK)
    refusal = kernel.program.check(profile)
    assert f"Linux {os.uname().release} has no underused shrinker" in refusal
    assert "boot kernel-thp-cloud, kernel-thp, or Linux 6.12 or later" in refusal


@pytest.mark.parametrize("profile", PROFILES)
def test_a_kernel_without_huge_pages_is_refused(kernel: Kernel, profile: str) -> None:
    assert kernel.program.check(profile) == "this kernel has no transparent huge pages"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[thp-shrinker]\nenabled=alwyas\n", "enabled=alwyas in"),
        ("[thp-shrinker]\nenabled=never\n", "it can be always, madvise"),
        ("[thp-shrinker]\nenabled=\n", "enabled= in"),
        ("[thp-shrinker]\ndefrag=defer-madvise\n", "it can be always, defer, defer+madvise, madvise, never"),
        ("[thp-shrinker]\ndefrag_mode=2\n", "defrag_mode=2 in"),
        ("[thp-shrinker]\ndefrag_mode=on\n", "it can be 0, 1"),
        ("[thp-shrinker]\nthreshold_percent=0\n", "it can be 1 to 99"),
        ("[thp-shrinker]\nthreshold_percent=100\n", "it can be 1 to 99"),
        ("[thp-shrinker]\nthreshold_percent=80%\n", "it can be 1 to 99"),
        ("[thp-shrinker]\nthreshold=80\n", "threshold in"),
        ("[thp-baseline]\nthreshold_percent=80\n", "is not a value of thp-baseline"),
        ("[thp-shrink]\nenabled=always\n", "[thp-shrink] in"),
        ("[DEFAULT]\nenabled=always\n", "[DEFAULT] in"),
        ("enabled=always\n", "line 1 of"),
        ("[thp-shrinker]\nenabled=always\nenabled=madvise\n", "already exists"),
        ("[thp-shrinker]\nenabled\n", "cannot be read"),
        ("[thp-shrinker]\nenabled=${x}:\\y\n", "enabled=??x???y in"),
        ("[thp-shrinker]\nenabled=always # always\n", "enabled=always # always in"),
    ],
)
def test_a_mistake_in_the_variables_is_named_in_one_line(kernel: Kernel, text: str, message: str) -> None:
    kernel.offer(THP)
    kernel.operator.write_text(text)
    refusal = kernel.program.check("thp-shrinker")
    assert message in refusal
    assert str(kernel.operator) in refusal
    # In tuned, a colon ends an argument, and the others begin or end a function.
    assert not re.search(r"[:${}\\\n]", refusal)


def test_baseline_without_a_known_default_is_refused(kernel: Kernel) -> None:
    kernel.offer(THP)
    assert "set enabled in section [thp-baseline]" in kernel.program.check("thp-baseline")


# Life


def test_what_was_there_returns(kernel: Kernel) -> None:
    kernel.offer({**THP, "khugepaged/max_ptes_none": "200", "shrink_underused": "0"})
    before = kernel.values()
    nodes = kernel.program.wanted("thp-shrinker-tight")
    assert kernel.program.start(nodes) == []
    kernel.tuned_applies(nodes)
    assert nodes.items() <= kernel.values().items()
    assert kernel.program.stop() == []
    assert kernel.values() == before
    assert not kernel.program.ORIGINALS.exists()


def test_a_second_start_writes_nothing_and_keeps_the_first_originals(kernel: Kernel) -> None:
    """After a daemon that was killed."""
    kernel.offer(THP)
    before = kernel.values()
    nodes = kernel.program.wanted("thp-shrinker")
    kernel.program.start(nodes)
    kernel.tuned_applies(nodes)
    files = [kernel.program.ORIGINALS, *(kernel.thp / node for node in kernel.values())]
    for path in files:
        os.utime(path, (1, 1))
    assert kernel.program.start(nodes) == []
    assert {path.stat().st_mtime for path in files} == {1}
    kernel.program.stop()
    assert kernel.values() == before


@pytest.mark.parametrize(("content", "message"), [(None, "is gone"), ("{", "is damaged")])
def test_lost_originals_are_an_error(kernel: Kernel, content: str | None, message: str) -> None:
    kernel.offer(THP)
    if content is not None:
        kernel.program.ORIGINALS.parent.mkdir()
        kernel.program.ORIGINALS.write_text(content)
    (problem,) = kernel.program.stop()
    assert message in problem


def test_a_value_that_cannot_be_written_is_named(kernel: Kernel) -> None:
    kernel.offer(THP)
    (kernel.thp / "shrink_underused").unlink()
    (problem,) = kernel.program.start({"shrink_underused": "1", "underused_max_ptes_none": "409"})
    assert "cannot write 1 to" in problem
    assert kernel.values()["underused_max_ptes_none"] == "409"


@pytest.mark.parametrize(
    ("number", "message"),
    [
        (errno.EOPNOTSUPP, "this machine is too small for it, set defrag_mode=0 in"),
        (errno.EIO, os.strerror(errno.EIO)),
    ],
)
def test_a_refused_mode_is_explained(
    kernel: Kernel, monkeypatch: pytest.MonkeyPatch, number: int, message: str
) -> None:
    kernel.offer(THP)
    plain = Path.write_text

    def refuse(path: Path, text: str) -> int:
        if path == kernel.defrag_mode:
            raise OSError(number, os.strerror(number))
        return plain(path, text)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "write_text", refuse)
        (problem,) = kernel.program.start(kernel.program.wanted("thp-shrinker"))
    assert f"cannot write 1 to {kernel.defrag_mode}, {message}" in problem
    # The rest is in force.
    assert kernel.values()["underused_max_ptes_none"] == "409"


def test_a_mode_that_nobody_may_write_is_refused(kernel: Kernel, monkeypatch: pytest.MonkeyPatch) -> None:
    kernel.offer(THP)
    monkeypatch.setattr(os, "access", lambda path, _: path != kernel.defrag_mode)
    assert f"{kernel.defrag_mode} cannot be written" in kernel.program.check("thp-shrinker")


# Verification


@pytest.fixture
def applied(kernel: Kernel) -> dict[str, str]:
    """thp-shrinker-tight, which sets all there is, on a kernel that has every file."""
    kernel.offer({**THP, **UPSTREAM})
    nodes: dict[str, str] = kernel.program.wanted("thp-shrinker-tight")
    kernel.program.start(nodes)
    kernel.tuned_applies(nodes)
    assert kernel.program.verify("thp-shrinker-tight", nodes) == []
    return nodes


NODES = (
    "khugepaged/max_ptes_none",
    "underused_max_ptes_none",
    "shrink_underused",
    "swapin_enabled",
    "defrag_mode",
    "defrag",
    "enabled",
)


@pytest.mark.parametrize("node", NODES)
def test_verification_notices_another_value(kernel: Kernel, applied: dict[str, str], node: str) -> None:
    others = {"defrag": "never", "enabled": "never", "swapin_enabled": "madvise"}
    node, other = kernel.node(node), others.get(node, "0")
    (kernel.thp / node).write_text(f"{other}\n")
    (problem,) = kernel.program.verify("thp-shrinker-tight", applied)
    assert f"{node} is {other}, expected {applied[node]}" in problem
    assert ("or the kernel refused it" in problem) == (node == str(kernel.defrag_mode))


@pytest.mark.parametrize("node", NODES)
def test_verification_notices_a_missing_file(kernel: Kernel, applied: dict[str, str], node: str) -> None:
    (kernel.thp / kernel.node(node)).unlink()
    (problem,) = kernel.program.verify("thp-shrinker-tight", applied)
    assert f"{kernel.node(node)} is missing" in problem


def test_verification_names_the_command_line(kernel: Kernel, applied: dict[str, str]) -> None:
    kernel.cmdline.write_text("transparent_hugepage=madvise ro\n")
    (kernel.thp / "enabled").write_text("always [madvise] never\n")
    (problem,) = kernel.program.verify("thp-shrinker-tight", applied)
    assert "fixed by transparent_hugepage=madvise on the kernel command line" in problem


def test_verification_names_the_other_profiles(
    kernel: Kernel, applied: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    active = tmp_path / "active"
    active.write_text("thp-shrinker-tight kernel_settings\n")
    monkeypatch.setattr(kernel.program, "ACTIVE", (active, tmp_path / "none"))
    (kernel.thp / "enabled").write_text("always [madvise] never\n")
    (problem,) = kernel.program.verify("thp-shrinker-tight", applied)
    assert "of thp-shrinker-tight, kernel_settings the last one decides" in problem


def test_verification_notices_a_size_that_overrides(kernel: Kernel, applied: dict[str, str]) -> None:
    (kernel.thp / "hugepages-2048kB" / "enabled").write_text("always inherit madvise [never]\n")
    (problem,) = kernel.program.verify("thp-shrinker-tight", applied)
    assert "hugepages-2048kB/enabled is never and overrides enabled=always" in problem


@pytest.mark.parametrize(
    ("value", "message"), [("60", "changed since it was applied"), ("600", "would be refused now")]
)
def test_verification_notices_variables_that_were_not_applied(
    kernel: Kernel, applied: dict[str, str], value: str, message: str
) -> None:
    kernel.operator.write_text(f"[thp-shrinker-tight]\nthreshold_percent={value}\n")
    (problem,) = kernel.program.verify("thp-shrinker-tight", applied)
    assert message in problem


# The program as tuned calls it


def call(*words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-I", str(PROGRAM), *words]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("words", [(), ("start",), ("verify", "ignore_missing"), ("help",), ("value", "thp-shrinker")])
def test_called_in_another_way_it_says_what_to_use(words: tuple[str, ...]) -> None:
    done = call(*words)
    assert done.returncode == 2
    assert "use tuned-adm profile" in done.stderr
    assert done.stdout == ""


def test_verification_by_exit_code_and_stderr() -> None:
    loaded = {"TUNED_thp_active": "thp-shrinker", "TUNED_thp_nodes": "no/such/file=1 enabled=always defrag=madvise"}
    done = call("verify", "ignore_missing", **loaded)
    assert done.returncode == 1
    assert "no/such/file is missing" in done.stderr
    assert "Traceback" not in done.stderr


# What has to agree


def commented(path: Path) -> str:
    """Return a file of variables with the values in force that it only shows."""
    return re.sub(r"^#(\w+=)", r"\1", path.read_text(), flags=re.MULTILINE)


def test_variables_file_shows_the_defaults(program: ModuleType, tmp_path: Path) -> None:
    shown = tmp_path / "shown.conf"
    shown.write_text(commented(VARIABLES))
    assert program.parse(shown) == program.parse(program.DEFAULTS)
    assert program.parse(VARIABLES) == {name: {} for name in PROFILES}


def test_manual_page_has_every_profile_and_variable(program: ModuleType) -> None:
    manual = MANUAL.read_text().replace("\\-", "-")
    for profile, values in program.parse(program.DEFAULTS).items():
        assert f".B {profile}\n" in manual
        for name in values:
            assert re.search(rf"^\.BR {name} = ", manual, re.MULTILINE), name


def test_profiles_are_those_with_defaults(program: ModuleType) -> None:
    folders = {path.parent.name for path in rpms.TUNED.glob("*/tuned.conf")}
    assert folders == set(program.parse(program.DEFAULTS)) == set(PROFILES)


def test_originals_can_be_read_by_others(kernel: Kernel) -> None:
    kernel.offer(THP)
    kernel.program.save_originals()
    assert json.loads(kernel.program.ORIGINALS.read_text()) == kernel.values()
