"""rpmlint reports exactly what SPECS/rpmlint-allowed.txt expects, with a reason for each."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from scripts import srpms
from scripts.console import ROOT
from tests.package.conftest import Packages, run

ALLOWED = ROOT / "SPECS" / "rpmlint-allowed.txt"
REMARK = re.compile(r"^\S+: [EW]: ", re.MULTILINE)


def allowed() -> dict[str, str]:
    """Return pattern -> reason."""
    lines = [line for line in ALLOWED.read_text().splitlines() if line and not line.startswith("#")]
    split = (line.partition(" # ") for line in lines)
    return {pattern.strip(): reason.strip() for pattern, _, reason in split}


def lint(*files: Path) -> list[str]:
    done = run(str(Path(sys.executable).with_name("rpmlint")), *map(str, files))
    assert " specfiles checked;" in done.stdout, done.stderr
    lines = [line for line in done.stdout.splitlines() if REMARK.match(line)]
    return [line for line in lines if not line.startswith("(none): ")]


@pytest.fixture(scope="module")
def sources() -> list[Path]:
    found = sorted(srpms.REPO.glob("*.src.rpm"))
    assert found, "run `make srpm`"
    return found


@pytest.fixture(scope="module")
def remarks(packages: Packages, sources: list[Path]) -> list[str]:
    return lint(*packages.paths.values(), *sources)


def test_every_remark_is_expected(remarks: list[str]) -> None:
    assert [line for line in remarks if not any(re.match(pattern, line) for pattern in allowed())] == []


def test_every_expected_remark_is_made(packages: Packages, sources: list[Path], remarks: list[str]) -> None:
    """Those about packages of other flavours are for the tests of these."""
    paths = [*packages.paths.values(), *sources]
    here = [path.name.rsplit("-", 2)[0] + path.name[path.name.rindex(".", 0, -4) : -4] for path in paths]
    here += [f"{path.name.rsplit('-', 2)[0]}.spec{line}" for path in sources for line in ("", ":1")]
    expected = [
        pattern for pattern in allowed() if any(re.fullmatch(pattern.partition(": ")[0], name) for name in here)
    ]
    assert expected
    assert [pattern for pattern in expected if not any(re.match(pattern, line) for line in remarks)] == []


def test_every_expected_remark_has_its_reason() -> None:
    assert [pattern for pattern, reason in allowed().items() if not reason] == []


def test_rpmlint_sees_what_is_wrong(tmp_path: Path) -> None:
    spec = tmp_path / "bad.spec"
    spec.write_text("Name: bad\nVersion: 1\nRelease: 1\nSummary: Bad.\nLicense: GPL-2.0-only\n%description\nBad.\n")
    assert lint(spec) != []
