"""The lists of required tests and the programs name the same: a test left out could be skipped unnoticed."""

from __future__ import annotations

from scripts import check_headers
from tests.kernel import gate
from tests.programs import TEST, Sources


def test_every_test_is_required_and_exists() -> None:
    names = [name for text in Sources().programs.values() for name in TEST.findall(text)]
    assert len(names) == len(set(names)), "a name twice"
    tests = {name for name in names if "report_" not in name}  # --report runs the others, which are no tests
    assert tests == check_headers.test_names(gate.REQUIRED) | check_headers.test_names(gate.REQUIRED_DEBUG)
