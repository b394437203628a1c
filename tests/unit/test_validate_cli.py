"""The command: its output formats, its exit codes, and its messages on bad input."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import tempfile
import xml.etree.ElementTree as ET
from pathlib import Path

import jsonschema
import pytest

from scripts.console import ROOT
from tests.validated import SCHEMA
from tools.thp_validate import cli, report, selftests
from tools.thp_validate.document import json_schema
from tools.thp_validate.errors import UserError
from tools.thp_validate.system import System

COMMAND = str(ROOT / "tools" / "thp-validate")
NOBODY = 65534


def run(*options: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([COMMAND, *options], capture_output=True, text=True, check=False)


def test_json_of_this_host_is_valid_and_gives_the_exit_code() -> None:
    done = run("--json", "--watch", "0.1")
    found = json.loads(done.stdout)
    jsonschema.validate(found, SCHEMA, format_checker=jsonschema.FormatChecker())
    assert done.returncode == report.EXIT[found["verdict"]]
    assert found["kernel"]["uname"] == os.uname().release
    assert found["watch"]["seconds"] >= 0.1


def test_the_version_is_that_of_the_package() -> None:
    spec = (ROOT / "SPECS" / "thp-tools.spec").read_text()
    (version,) = (line.split()[1] for line in spec.splitlines() if line.startswith("Version:"))
    done = run("--version")
    assert (done.returncode, done.stdout) == (0, f"thp-validate {version}\n")


def test_the_schema_is_printed() -> None:
    done = run("--schema")
    assert done.returncode == 0
    assert json.loads(done.stdout) == json_schema()


def test_text_ends_with_the_verdict() -> None:
    done = run()
    assert done.stdout.splitlines()[-1] in report.EXIT
    assert done.returncode == report.EXIT[done.stdout.splitlines()[-1]]


def test_junit_is_written_whole(tmp_path: Path) -> None:
    target = tmp_path / "out.xml"
    assert run("--junit", str(target)).returncode in report.EXIT.values()
    assert ET.parse(target).getroot().tag == "testsuite"
    assert list(tmp_path.iterdir()) == [target]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--watch", "0"], "not a number of seconds"),
        (["--watch", "nan"], "not a number of seconds"),
        (["--watch", "1e9"], "not a number of seconds"),
        (["--pid", "1"], "need --estimate"),
        (["--cgroup", "/"], "need --estimate"),
        (["--samples", "9"], "need --estimate"),
        (["--estimate", "--pid", "-1"], "not a process id"),
        (["--estimate", "--pid", "0"], "not a process id"),
        (["--estimate", "--pid", "x"], "not a process id"),
        (["--estimate", "--pid", "4194305"], "no process 4194305"),
        (["--estimate", "--pid", "1", "--cgroup", "/"], "not allowed with"),
        (["--estimate", "--cgroup", "/no/such"], "there is no cgroup /no/such"),
        (["--estimate", "--samples", "1"], "not a number from 2"),
        (["--junit", "/no/such/file.xml"], "--junit /no/such/file.xml cannot be written"),
        (["--prometheus", "/no/such/file.prom"], "--prometheus /no/such/file.prom cannot be written"),
        (["--json", "--schema"], "not allowed with"),
        (["--allow-log", "("], "not a regular expression"),
        (["--no-such-option"], "unrecognized arguments"),
        (["word"], "unrecognized arguments"),
    ],
)
def test_bad_input_is_one_clear_line(options: list[str], message: str) -> None:
    done = run(*options)
    assert done.returncode == cli.NO_VERDICT
    assert done.stdout == ""
    assert message in done.stderr.splitlines()[-1]
    assert done.stderr.splitlines()[-1].startswith("thp-validate: ")
    assert "Traceback" not in done.stderr


def test_junit_goes_through_links_and_into_pipes_and_replaces_neither(tmp_path: Path) -> None:
    file, link, pipe = tmp_path / "out.xml", tmp_path / "link", tmp_path / "pipe"
    link.symlink_to(file)
    run("--junit", str(link))
    assert link.is_symlink()
    assert ET.parse(file).getroot().tag == "testsuite"
    os.mkfifo(pipe)
    with subprocess.Popen([COMMAND, "--junit", str(pipe)], stdout=subprocess.DEVNULL):
        assert ET.fromstring(pipe.read_text()).tag == "testsuite"
    assert pipe.is_fifo()


def test_an_interrupt_ends_it_at_once() -> None:
    with subprocess.Popen([COMMAND, "--watch", "600"], stderr=subprocess.PIPE, text=True) as child:
        assert child.stderr is not None
        assert child.stderr.readline() == "watch: the counters, for 600 s\n"
        child.send_signal(signal.SIGTERM)
        _, message = child.communicate(timeout=10)
    assert child.returncode == cli.INTERRUPTED
    assert message == "thp-validate: interrupted\n"


def test_a_reader_that_goes_away_is_no_crash() -> None:
    with subprocess.Popen([COMMAND, "--json"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None and child.stderr is not None
        child.stdout.close()
        assert "Traceback" not in child.stderr.read()


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to become another user")
def test_another_user_gets_a_verdict_but_no_estimate() -> None:
    # The checkout may not be readable for other users.
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        shutil.copytree(ROOT / "tools", folder, dirs_exist_ok=True)

        def as_nobody(*options: str) -> subprocess.CompletedProcess[str]:
            command = [f"{folder}/thp-validate", *options]
            return subprocess.run(command, capture_output=True, text=True, check=False, user=NOBODY)

        plain = as_nobody("--json")
        found = json.loads(plain.stdout)
        jsonschema.validate(found, SCHEMA)
        assert not found["host"]["root"]
        assert found["blocks"] is None
        assert "/proc/kpageflags" not in found["unseen"]
        assert plain.returncode == report.EXIT[found["verdict"]]
        refused = as_nobody("--estimate", "--pid", str(os.getpid()))
        assert refused.returncode == cli.NO_VERDICT
        assert "run this as root" in refused.stderr
        refused = as_nobody("--selftests")
        assert refused.returncode == cli.NO_VERDICT
        assert "must run as root" in refused.stderr


def test_help_has_every_option_and_exit_code() -> None:
    done = run("--help")
    assert done.returncode == 0
    page = (ROOT / "tools" / "thp-validate.1").read_text().replace("\\-", "-")
    options = set(re.findall(r"--[a-z-]+", done.stdout))
    assert {"--json", "--quiet", "--estimate"} <= options
    for option in options:
        assert option in page


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may run the selftests")
def test_selftests_are_evaluated_and_leave_no_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(System, "container", lambda self: None)
    with pytest.raises(UserError, match="install kernel-thp-selftests"):
        selftests.run(System(), tmp_path)
    (tmp_path / "thp").mkdir()
    (tmp_path / "kselftest-list.txt").write_text("thp:good\nthp:hangs\n")
    (tmp_path / "thp" / "required.txt").write_text("one\ntwo\n")
    runner = tmp_path / "run_kselftest.sh"
    runner.write_text(
        "#!/bin/sh\n"
        'if [ "$2" = thp:good ]; then printf "KTAP version 1\\n1..1\\nok 1 one\\n"; exit; fi\n'
        # In its own process group, and it ignores SIGTERM.
        "trap '' TERM; timeout 97531 sleep 97531; sleep 97531\n"
    )
    runner.chmod(0o755)
    monkeypatch.setattr(selftests, "PROGRAM_TIMEOUT", 1.0)
    monkeypatch.setattr(selftests, "GRACE", 1.0)
    found = selftests.run(System(), tmp_path)
    assert [(test.name, test.verdict) for test in found.tests] == [("one", "pass"), ("two", "missing")]
    assert found.reasons[0] == "thp:hangs: did not end within 1 s"
    assert found.accepted == 1
    lines = [path.read_bytes() for path in Path("/proc").glob("[0-9]*/cmdline") if path.exists()]
    assert not any(b"97531" in line for line in lines)


def test_what_selftests_leave_behind_is_seen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    setting = tmp_path / "sys/kernel/mm/transparent_hugepage/khugepaged/max_ptes_none"
    setting.parent.mkdir(parents=True)
    setting.write_text("409\n")

    def forgetful(system: System) -> selftests.Selftests:
        system.path(str(setting.relative_to(tmp_path))).write_text("511\n")
        return selftests.Selftests(1.0)

    monkeypatch.setattr(cli, "System", lambda: System(tmp_path))
    monkeypatch.setattr(selftests, "run", forgetful)
    monkeypatch.setattr("sys.argv", ["thp-validate", "--json", "--selftests"])
    cli.command()
    assert json.loads(capsys.readouterr().out)["thp"]["max_ptes_none"] == 511
