"""The program of the tuned profiles, on the files of three kernels: what it sets, refuses and verifies.

tests/tuned checks on real hosts that kernel and tuned accept the values.
"""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
from pathlib import Path
from types import ModuleType

import pytest

from scripts import rpms

PROGRAM = rpms.TUNED / "thp-settings" / "thp_profile.py"
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
        self.operator = root / "variables.conf"
        self.cmdline = root / "cmdline"
        self.boot = root / "boot"
        self.boot.mkdir()
        self.cmdline.write_text("root=LABEL=root ro\n")

    def offer(self, files: dict[str, str]) -> None:
        for name, content in files.items():
            path = self.thp / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(f"{content}\n")

    def apply(self, profile: str) -> dict[str, str]:
        """Write what tuned would."""
        nodes: dict[str, str] = self.program.wanted(profile)
        for node, value in nodes.items():
            (self.thp / node).write_text(value)
        return nodes


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
    paths |= {"MODULES": tmp_path / "modules"}
    for name, path in paths.items():
        monkeypatch.setattr(program, name, path)
    # The mode is not below THP; here it is, like the others.
    monkeypatch.setattr(program, "path", lambda node: found.thp / node)
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
    assert set(wanted) <= set(files)


@pytest.mark.parametrize(("profile", "value"), zip(PROFILES, "110"))
def test_free_memory_is_kept_in_whole_blocks_where_the_kernel_can(kernel: Kernel, profile: str, value: str) -> None:
    kernel.offer(THP)
    kernel.cmdline.write_text("transparent_hugepage=madvise\n")
    assert kernel.program.wanted(profile)["defrag_mode"] == value


def test_a_kernel_without_the_mode_gets_the_profile_without_it(kernel: Kernel) -> None:
    """Hosts with such a kernel may share the variables file with others."""
    kernel.offer(UPSTREAM)
    kernel.operator.write_text("[thp-shrinker]\ndefrag_mode=1\n")
    assert kernel.program.check("thp-shrinker") == "none"
    assert "defrag_mode" not in kernel.program.wanted("thp-shrinker")


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
        (2 << 20, 4 << 10, "10", "51"),
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
    assert kernel.program.wanted("thp-shrinker-tight")["defrag_mode"] == "0"
    assert kernel.program.wanted("thp-shrinker")["defrag_mode"] == "1"
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


@pytest.mark.parametrize(("files", "parts"), [(THP, "{},thp-defrag-mode"), (UPSTREAM, "{}")])
@pytest.mark.parametrize(("profile", "limited"), zip(PROFILES, (False, True, True)))
def test_parts_are_those_that_kernel_and_values_call_for(
    kernel: Kernel, files: dict[str, str], parts: str, profile: str, limited: bool
) -> None:
    kernel.offer(files)
    kernel.cmdline.write_text("transparent_hugepage=madvise\n")
    shared = "thp-settings,thp-khugepaged" if limited or files is UPSTREAM else "thp-settings"
    assert kernel.program.include(profile) == parts.format(shared)


def test_a_bad_value_leads_to_the_part_that_refuses_it(kernel: Kernel) -> None:
    kernel.offer(THP)
    kernel.operator.write_text("[thp-shrinker]\nenabled=alwyas\n")
    assert kernel.program.include("thp-shrinker") == "thp-settings"


@pytest.mark.parametrize("profile", PROFILES[:2])
def test_a_kernel_without_the_shrinker_gets_nothing_and_fails_the_verification(kernel: Kernel, profile: str) -> None:
    """Its huge pages would only cost memory, and what the other active profiles say must not be lost."""
    kernel.offer({**STOCK, "enabled": "[always] madvise never"})
    assert kernel.program.include(profile).startswith("-")
    (problem,) = kernel.program.verify(profile)
    assert f"Linux {os.uname().release} has no underused shrinker, so {profile} sets nothing" in problem
    assert "boot kernel-thp-cloud, kernel-thp, or Linux 6.12 or later" in problem


def test_baseline_is_for_a_kernel_without_the_shrinker_too(kernel: Kernel) -> None:
    kernel.offer(STOCK)
    kernel.cmdline.write_text("transparent_hugepage=madvise\n")
    assert kernel.program.include("thp-baseline") == "thp-settings,thp-khugepaged"
    kernel.apply("thp-baseline")
    assert kernel.program.verify("thp-baseline") == []


@pytest.mark.parametrize("profile", PROFILES)
def test_a_kernel_without_huge_pages_gets_nothing_and_fails_the_verification(kernel: Kernel, profile: str) -> None:
    assert kernel.program.include(profile).startswith("-")
    assert kernel.program.verify(profile) == [f"this kernel has no transparent huge pages, so {profile} sets nothing"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[thp-shrinker]\nenabled=alwyas\n", "enabled=alwyas in"),
        ("[thp-shrinker]\nenabled=never\n", "it can be always, madvise"),
        ("[thp-shrinker]\nenabled=\n", "enabled= in"),
        ("[thp-shrinker]\ndefrag=defer-madvise\n", "it can be always, defer, defer+madvise, madvise, never"),
        ("[thp-shrinker]\ndefrag_mode=2\n", "defrag_mode=2 in"),
        ("[thp-shrinker]\ndefrag_mode=on\n", "it can be 0, 1"),
        ("[thp-shrinker]\nthreshold_percent=9\n", "it can be 10 to 99"),
        ("[thp-shrinker]\nthreshold_percent=100\n", "it can be 10 to 99"),
        ("[thp-shrinker]\nthreshold_percent=80%\n", "it can be 10 to 99"),
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


def test_a_part_by_itself_is_refused(kernel: Kernel) -> None:
    kernel.offer(THP)
    assert kernel.program.check("thp-settings") == f"thp-settings is only a part, use one of {', '.join(PROFILES)}"


def test_baseline_without_a_known_default_is_refused(kernel: Kernel) -> None:
    kernel.offer(THP)
    assert "set enabled in section [thp-baseline]" in kernel.program.check("thp-baseline")


# Verification


@pytest.fixture
def applied(kernel: Kernel) -> dict[str, str]:
    """thp-shrinker-tight, which sets all there is, on a kernel that has every file."""
    kernel.offer({**THP, **UPSTREAM})
    nodes = kernel.apply("thp-shrinker-tight")
    assert kernel.program.verify("thp-shrinker-tight") == []
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
    other = others.get(node, "0")
    (kernel.thp / node).write_text(f"{other}\n")
    (problem,) = kernel.program.verify("thp-shrinker-tight")
    assert f"{node} is {other}, expected {applied[node]}" in problem
    assert ("set defrag_mode=0 in" in problem) == (node == "defrag_mode")


def test_verification_names_the_command_line(kernel: Kernel, applied: dict[str, str]) -> None:
    kernel.cmdline.write_text("transparent_hugepage=madvise ro\n")
    (kernel.thp / "enabled").write_text("always [madvise] never\n")
    (problem,) = kernel.program.verify("thp-shrinker-tight")
    assert "fixed by transparent_hugepage=madvise on the kernel command line" in problem


def test_verification_notices_a_size_that_overrides(kernel: Kernel, applied: dict[str, str]) -> None:
    (kernel.thp / "hugepages-2048kB" / "enabled").write_text("always inherit madvise [never]\n")
    (problem,) = kernel.program.verify("thp-shrinker-tight")
    assert "hugepages-2048kB/enabled is never and overrides enabled=always" in problem


def test_verification_notices_variables_that_were_not_applied(kernel: Kernel, applied: dict[str, str]) -> None:
    kernel.operator.write_text("[thp-shrinker-tight]\nkhugepaged=keep\nthreshold_percent=60\n")
    (problem,) = kernel.program.verify("thp-shrinker-tight")
    assert "underused_max_ptes_none is 256, expected 307" in problem
    assert "apply the profile again" in problem


# The program as tuned calls it: by the link in the folder of a profile


def call(profile: str, *words: str) -> subprocess.CompletedProcess[str]:
    command = [str(rpms.TUNED / profile / "thp_profile"), *words]
    return subprocess.run(command, env={}, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("words", [(), ("help",), ("value",)])
def test_called_in_another_way_it_says_what_to_use(words: tuple[str, ...]) -> None:
    done = call("thp-shrinker", *words)
    assert done.returncode == 2
    assert "use tuned-adm profile" in done.stderr
    assert done.stdout == ""


def run(kernel: Kernel, capsys: pytest.CaptureFixture[str], profile: str, *words: str) -> tuple[int, str, str]:
    code = kernel.program.main(f"/usr/lib/tuned/{profile}/thp_profile", *words)
    return (code, *capsys.readouterr())


def test_the_folder_says_which_profile(kernel: Kernel, capsys: pytest.CaptureFixture[str]) -> None:
    kernel.offer(THP)
    for profile, value in (("thp-shrinker", "409"), ("thp-shrinker-tight", "256")):
        assert run(kernel, capsys, profile, "value", "underused_max_ptes_none") == (0, value, "")
    assert run(kernel, capsys, "thp-shrinker", "value", "no_such_file") == (0, "", "")
    assert run(kernel, capsys, "thp-shrinker", "check") == (0, "none", "")
    assert run(kernel, capsys, "thp-shrinker", "include") == (0, "thp-settings,thp-defrag-mode", "")


def test_reasons_go_to_stderr_one_a_line(kernel: Kernel, capsys: pytest.CaptureFixture[str]) -> None:
    kernel.offer(THP)
    assert run(kernel, capsys, "thp-shrinker", "start") == (0, "", "")
    assert run(kernel, capsys, "thp-shrinker", "stop") == (0, "", "")
    code, out, error = run(kernel, capsys, "thp-shrinker", "verify", "ignore_missing")
    assert (code, out) == (1, "")
    assert [line.split(" is ")[0].rpartition("/")[2] for line in error.splitlines()] == [
        "underused_max_ptes_none",
        "defrag_mode",
        "enabled",
    ]
    (kernel.thp / "shrink_underused").unlink()
    code, out, error = run(kernel, capsys, "thp-shrinker", "start")
    assert (code, out) == (1, "")
    assert "has no underused shrinker" in error


@pytest.mark.parametrize("words", [("value", "enabled"), ("verify",)])
def test_a_bad_value_is_an_error(kernel: Kernel, capsys: pytest.CaptureFixture[str], words: tuple[str, ...]) -> None:
    kernel.offer(THP)
    kernel.operator.write_text("[thp-shrinker]\nthreshold_percent=600\n")
    code, out, error = run(kernel, capsys, "thp-shrinker", *words)
    assert (code, out) == (1, "")
    assert "threshold_percent=600 in" in error


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
    assert {path.parent.name for path in rpms.TUNED.glob("*/thp_profile")} == set(PROFILES)
    assert set(program.parse(program.DEFAULTS)) == set(PROFILES)


def test_parts_and_profiles_are_all_there_is(kernel: Kernel) -> None:
    kernel.offer(THP)
    parts = kernel.program.include("thp-shrinker-tight").split(",")
    assert {path.parent.name for path in rpms.TUNED.glob("*/tuned.conf")} == {*parts, *PROFILES}


def test_files_that_tuned_sets_are_those_that_the_program_verifies(kernel: Kernel) -> None:
    text = "".join(path.read_text() for path in rpms.TUNED.glob("*/tuned.conf"))
    asked = re.findall(r"^(thp_\w+)=\$\{f:exec:\$\{thp_program\}:value:(\S+)\}$", text, re.MULTILINE)
    kernel.offer(THP)
    assert {node for _, node in asked} == set(kernel.program.wanted("thp-shrinker-tight"))
    for variable, node in asked:
        path = f"/sys/kernel/mm/transparent_hugepage/{node}"
        named = {"enabled": "transparent_hugepages", "defrag": "transparent_hugepage.defrag"}
        name = {**named, "defrag_mode": "vm.defrag_mode"}.get(node, path)
        assert f"\n{name}=${{{variable}}}\n" in text
