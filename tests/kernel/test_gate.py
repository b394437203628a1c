"""The gate's verdict, test by test: one run, shared."""

from __future__ import annotations

import json

import pytest

from scripts.flavours import CLOUD
from tests.kernel import gate
from tests.kernel.results import Results
from tools.thp_validate.outcomes import parse_required

REQUIRED = [want.name for want in parse_required(gate.REQUIRED.read_text(), gate.REQUIRED.name)]


def test_the_run_went_through_all_steps(results: Results) -> None:
    assert [f"{step.name}: {step.detail}" for step in results.steps if not step.ok] == []
    assert results.complete, results.table()


@pytest.mark.parametrize("name", REQUIRED)
def test_required_selftest(results: Results, name: str) -> None:
    outcome = next(test for test in results.tests if test.name == name)
    assert outcome.accepted, f"{outcome.verdict}: {outcome.reason}"


def test_there_is_no_reason_left_to_refuse(results: Results) -> None:
    assert results.reasons == []
    assert results.verdict == "pass"


def test_the_kernel_is_ours_and_the_stock_one_still_boots(results: Results) -> None:
    assert results.uname.endswith(CLOUD.suffix)
    assert results.steps[-1].detail.startswith(results.stock)


def test_results_are_written(results: Results) -> None:
    written = json.loads((gate.folder(CLOUD) / "results.json").read_text())
    assert written["verdict"] == results.verdict
    assert (gate.folder(CLOUD) / "junit.xml").exists()
