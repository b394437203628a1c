"""The line for plugins of Nagios, and the file for Prometheus."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from scripts.console import ROOT
from tests.unit import promtool
from tests.unit.test_validate_checks import GOOD, STOCK, SYSFS, UPSTREAM, collected
from tests.unit.test_validate_cli import run
from tools.thp_validate import checks, cli, facts, nagios, prometheus, waivers
from tools.thp_validate.estimate import Estimate, Subject
from tools.thp_validate.facts import Facts

# 'label'=value[unit];[warn];[crit];[min];[max], by the guidelines for the development of plugins.
PERFORMANCE = re.compile(r"[^\s'=]+=-?\d+(?:\.\d+)?(?:us|ms|s|%|[KMGT]?B|c)?(?:;[^\s;]*){0,4}")
LINE = re.compile(r"THP (OK|WARNING|CRITICAL|UNKNOWN) - ([^|\n]+?)(?: \| ([^|\n]+))?")
SAMPLE = re.compile(r'([a-z_]+)(?:\{([a-z]+="(?:[^"\\\n]|\\["\\n])*"(?:,[a-z]+="(?:[^"\\\n]|\\["\\n])*")*)\})? (\S+)')


def samples(text: str) -> dict[str, float]:
    """Return the samples of a metrics file, each under a HELP and a TYPE of its own metric."""
    found: dict[str, float] = {}
    described = kind = ""
    for line in text.splitlines():
        if line.startswith("# HELP "):
            described = line.split()[2]
            assert len(line.split()) > 3
        elif line.startswith("# TYPE "):
            _, _, name, kind = line.split()
            assert name == described and kind in ("gauge", "counter")
        else:
            match = SAMPLE.fullmatch(line)
            assert match and match[1] == described, line
            assert (kind == "counter") == described.endswith("_total")
            assert line.rpartition(" ")[0] not in found
            found[line.rpartition(" ")[0]] = float(match[3])
    return found


def of(found: Facts) -> dict[str, float]:
    text = prometheus.text(found, checks.evaluate(found))
    assert text.endswith("\n")
    if promtool.program():
        assert promtool.check("metrics", text=text) == ""
    return samples(text)


@pytest.mark.parametrize(
    ("changes", "status", "text"),
    [
        ({}, "OK", "supported: 6.1.187-1.x86_64+thp.cloud"),
        ({f"{SYSFS}/shrink_underused": "0"}, "WARNING", "degraded: shrinker-switch: shrink_underused is 0"),
        (STOCK, "CRITICAL", "unsupported: kernel-flavour: 6.1.0-56-amd64 does not reclaim"),
        ({**STOCK, "proc/sys/kernel/osrelease": "a|b"}, "CRITICAL", "unsupported: kernel-flavour: a/b does not"),
    ],
)
def test_the_line_has_the_status_and_what_is_wrong(
    tmp_path: Path, changes: dict[str, str | None], status: str, text: str
) -> None:
    found = collected(tmp_path, changes)
    match = LINE.fullmatch(nagios.line(found, checks.evaluate(found)))
    assert match and match[1] == status
    assert match[2].startswith(text)
    assert all(PERFORMANCE.fullmatch(each) for each in match[3].split())


def test_the_line_names_the_worst_problem_first(tmp_path: Path) -> None:
    found = collected(tmp_path, {f"{SYSFS}/shrink_underused": "0"})
    found.kernel.signature = None
    found.kernel.tainted = 1
    line = nagios.line(found, checks.evaluate(found))
    assert line.startswith("THP CRITICAL - unsupported: kernel-signature: ")
    assert "(and 2 more) | problems=3;;;0 anon_huge=14680064B;;;0;2062336000 thp_underused_scan_page=5c " in line


def test_what_is_not_known_is_left_out_of_the_line(tmp_path: Path) -> None:
    found = collected(tmp_path, {"proc/meminfo": None, "proc/vmstat": None})
    assert nagios.line(found, checks.evaluate(found)).endswith(" | problems=0;;;0")
    found.host.anon_huge_bytes = 1
    assert nagios.line(found, checks.evaluate(found)).endswith(" | problems=0;;;0 anon_huge=1B;;;0")


@pytest.mark.parametrize("options", [["--junit", "/no/such/file"], ["--watch", "1"], ["--estimate"], ["--json"], ["x"]])
def test_without_a_verdict_the_line_says_why(options: list[str]) -> None:
    done = run("--quiet", *options)
    assert done.returncode == cli.NO_VERDICT
    match = LINE.fullmatch(done.stdout.removesuffix("\n"))
    assert match and match[1] == "UNKNOWN"


def test_a_crash_is_no_verdict(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def crash(*_: object) -> None:
        raise ZeroDivisionError("a|b\nc")

    monkeypatch.setattr(facts, "collect", crash)
    for options, shown in (([], ""), (["--quiet"], "THP UNKNOWN - ZeroDivisionError: a/b c; report this")):
        monkeypatch.setattr("sys.argv", ["thp-validate", *options])
        assert cli.main() == cli.NO_VERDICT
        printed = capsys.readouterr()
        assert printed.out.startswith(shown) and len(printed.out.splitlines()) == len(options)
        assert "Traceback" in printed.err


def test_the_line_of_this_host_has_the_exit_code_of_its_status() -> None:
    done = run("--quiet")
    match = LINE.fullmatch(done.stdout.removesuffix("\n"))
    assert match and done.returncode == ["OK", "WARNING", "CRITICAL"].index(match[1])


@pytest.mark.parametrize("changes", [{}, STOCK, UPSTREAM, {"run/.containerenv": ""}, dict.fromkeys(GOOD)])
def test_metrics_are_what_prometheus_reads(tmp_path: Path, changes: dict[str, str | None]) -> None:
    found = collected(tmp_path, changes)
    assert of(found)["thp_validate_run_timestamp_seconds"] > 1e9
    found.blocks, found.kernel.splats = None, None
    assert "thp_memory_fragmented" not in of(found)


def test_metrics_have_the_values_of_the_host(tmp_path: Path) -> None:
    found = collected(tmp_path, {f"{SYSFS}/shrink_underused": "0"})
    found.waivers = waivers.Waivers("x", [waivers.Waiver('g"p\\u', "taint", "P", "x", "1970-01-02")])
    total = Subject(None, "all", 4 << 20, 2, 1 << 20, 0)
    found.estimate = Estimate("all processes", total, [], True, 0, 0, 0, 0, 0.0, 0.0)
    made = of(found)
    expected = {
        'thp_validate_verdict{verdict="degraded"}': 1,
        'thp_validate_verdict{verdict="supported"}': 0,
        'thp_validate_check_passed{check="shrinker-switch"}': 0,
        'thp_validate_check_passed{check="selftests"}': 1,
        "thp_validate_complaints": 0,
        'thp_validate_waiver_end_timestamp_seconds{waiver="g\\"p\\\\u"}': 2 * 86400,
        'thp_settings_info{enabled="always",defrag="madvise",swapin="madvise"}': 1,
        "thp_shrinker_enabled": 0,
        "thp_shrinker_threshold_ratio": 409 / 512,
        "thp_defrag_mode_enabled": 1,
        'thp_memory_blocks_ratio{kind="movable"}': 0.3,
        "thp_memory_fragmented": 0,
        "thp_estimate_huge_bytes": 4 << 20,
        "thp_estimate_zero_bytes": 1 << 20,
        "thp_underused_split_page_total": 2,
    }
    assert {name: made.get(name) for name in expected} == expected
    assert not any("nr_free" in name or "anon" in name for name in made)


def test_the_file_is_utf_8_whatever_the_terminal_is(tmp_path: Path) -> None:
    script = (
        "from pathlib import Path; import sys; from tools.thp_validate import cli; "
        "cli._write('--prometheus', Path(sys.argv[1]), chr(0xFFFD))"
    )
    environment = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    command = [sys.executable, "-c", script, str(tmp_path / "file")]
    subprocess.run(command, cwd=ROOT, env=environment, check=True)
    assert (tmp_path / "file").read_bytes() == b"\xef\xbf\xbd"


def test_the_file_appears_whole(tmp_path: Path) -> None:
    target = tmp_path / "thp.prom"
    target.write_text("old")
    before = target.stat().st_ino
    done = run("--quiet", "--prometheus", str(target))
    assert done.returncode in (0, 1, 2)
    assert samples(target.read_text())['thp_validate_check_passed{check="selftests"}'] == 1
    # Another file took its place: nobody can have read half of it.
    assert target.stat().st_ino != before
    assert list(tmp_path.iterdir()) == [target]
