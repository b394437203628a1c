"""The machine and the kernel of a guest, and reading what it prints."""

from __future__ import annotations

from pathlib import Path

import pytest
from bench_results import by_name

from bench import guest, kernels, run
from bench.cases import CASES, COUNT, WALL
from bench.kernels import NAMES
from bench.results import Figure
from lab import debs, direct_boot
from scripts import kconfig
from scripts.console import UserError
from tests.verdicts import Verdict, read_console

# Reading the console


def test_only_lines_with_figures_are_read() -> None:
    lines = ["KTAP version 1", "# best.zram: pageout_time 0.0123456789 s", "# best.zram: written 16384 pages"]
    lines += ["# best.zram: took long", "# best.zram: 3 left s", "# best.zram took 1.1 s", "ok 1 best.zram"]
    assert guest.read_figures(lines) == {
        "best.zram": {"pageout_time": Figure(0.0123456789, "s"), "written": Figure(16384, "pages")}
    }


def test_samples_are_read_by_function() -> None:
    lines = ["# symbol clear_page_orig 120", "# symbols: 130 samples, 0 lost"]
    assert guest.read_samples(lines) == {"clear_page_orig": Figure(120, "samples")}


def test_only_a_test_that_passed_has_figures() -> None:
    verdicts = {"a": Verdict("pass", ""), "b": Verdict("fail", "wrong"), "c": Verdict("pass", "")}
    made = guest.accepted("key", 1.0, verdicts, {"a": {"x": Figure(1, "s")}, "b": {"x": Figure(2, "s")}})
    assert made.figures == {"a": {"x": Figure(1, "s")}}
    assert made.verdicts["c"] == ("fail", "it printed no figures")
    assert not made.whole


def test_a_program_may_have_arguments_before_its_tests(tmp_path: Path) -> None:
    console = tmp_path / direct_boot.CONSOLE
    console.write_text("### bench_symbols\r\nKTAP version 1\r\n1..1\r\nok 1 sparse_40\r\n### ended\r\n")
    found = read_console(console, {"bench_symbols bench_shrink": ["sparse_40"]})
    assert found["sparse_40"].verdict == "pass"


# The machine and the kernels


def test_instructions_are_counted_on_one_processor_without_a_disk() -> None:
    for case in [case for case in CASES if case.machine == COUNT]:
        machine = guest.machine_of(case, Path("/x"))
        assert (machine.cpus, machine.devices) == (1, ())
        assert "shift=0,sleep=off" in machine.command()


def test_time_is_measured_in_emulation_even_with_kvm(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(direct_boot, "accelerator", lambda: ("-accel", "kvm"))
    for case in [case for case in CASES if case.machine == WALL]:
        assert "kvm" not in guest.machine_of(case, Path("/x"), Path("/y.ext4")).command()


def test_a_guest_gets_its_disk_and_the_size_of_the_work() -> None:
    line = guest.machine_of(by_name("zero_drop.split"), Path("/x")).command()
    assert "if=none,id=disk,format=raw,cache=unsafe,file=/x/swap.img" in line
    assert line[-1].endswith(" BENCH_DISK=/dev/vda")
    line = guest.machine_of(by_name("swapin"), Path("/x"), throttle="throttling.bps-total=9").command()
    assert "if=none,id=disk,format=raw,cache=unsafe,throttling.bps-total=9,file=/x/swap.img" in line
    root = guest.machine_of(by_name("programs"), Path("/x"), Path("/y.ext4")).command()
    assert "if=none,id=disk,format=raw,readonly=on,file=/y.ext4" in root
    assert guest.machine_of(by_name("shrink.count"), Path("/x")).command()[-1].endswith(" BENCH_MIB=16")


def test_the_configuration_is_that_of_direct_boot_with_one_on_top() -> None:
    before, made = kconfig.parse(direct_boot.CONFIG.read_text()), kconfig.parse(kernels.configuration().read_text())
    changed = {option for option in made if made[option] != before.get(option)}
    assert changed == kconfig.parse(kernels.CONFIG.read_text()).keys()
    assert made["CONFIG_DEBUG_VM"] == made["CONFIG_DEBUG_LIST"] == "n"


@pytest.mark.parametrize(("on", "line"), [(True, "\tdef_bool y\n"), (False, "\tdef_bool n\n")])
def test_swapping_whole_is_set_in_the_source(on: bool, line: str, tmp_path: Path) -> None:
    path = tmp_path / "mm" / "Kconfig"
    path.parent.mkdir()
    path.write_text("config SWAP\n\tdef_bool y\n\nconfig THP_SWAP\n\tdef_bool y\n\tdepends on SWAP\n")
    kernels.set_thp_swap(tmp_path, on)
    kernels.set_thp_swap(tmp_path, on)
    assert path.read_text() == f"config SWAP\n\tdef_bool y\n\nconfig THP_SWAP\n{line}\tdepends on SWAP\n"


def test_without_apt_the_source_of_upstream_can_be_put_in_place(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(debs, "CACHE", tmp_path / "debs")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UserError, match=r"no apt-get here to download linux-source-6\.12.* put linux-source-6\.12_\*"):
        debs.package(kernels.UPSTREAM_PACKAGE)
    (tmp_path / "debs" / "linux-source-6.12_6.12.9-1_all.deb").touch()
    assert kernels.of_package(kernels.UPSTREAM_PACKAGE).version == "6.12.9"


def test_both_forms_of_a_kernel_are_built_one_after_the_other(monkeypatch: pytest.MonkeyPatch) -> None:
    built: list[tuple[str, bool]] = []
    made = run.Bench()
    monkeypatch.setattr(made, "guest", lambda case: None)
    monkeypatch.setattr(kernels, "build", lambda *what: built.append(what))
    made.prepare(run.jobs([by_name("shrink"), by_name("zero_drop.split")]))
    assert built == [(name, whole) for name in sorted(NAMES) for whole in (False, True)]


def test_a_source_without_that_option_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "mm" / "Kconfig"
    path.parent.mkdir()
    path.write_text('config THP_SWAP\n\tbool "Ask"\n')
    with pytest.raises(UserError, match="THP_SWAP in another form"):
        kernels.set_thp_swap(tmp_path, False)
