"""The dashboard and the alerts in docs/monitoring.md: their metrics exist, and Prometheus takes their expressions."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from scripts.console import ROOT
from tests.unit import promtool
from tests.unit.test_validate_checks import collected
from tests.unit.test_validate_monitoring import samples
from tools.thp_validate import checks, prometheus, waivers
from tools.thp_validate.estimate import Estimate, Subject

PAGE = (ROOT / "docs" / "monitoring.md").read_text()
DASHBOARD = json.loads((ROOT / "docs" / "grafana" / "kernel-thp.json").read_text())
PANELS = {panel["title"]: [target["expr"] for target in panel["targets"]] for panel in DASHBOARD["panels"]}
ALERTS = re.findall(r"^\| `([^`]*(?:==|<|>)[^`]*)` \|", PAGE, re.MULTILINE)
EXPRESSIONS = {**PANELS, **{f"alert {number}": [each] for number, each in enumerate(ALERTS)}}
# Of the node exporter.
OTHERS = {
    "node_memory_AnonHugePages_bytes",
    "node_memory_MemTotal_bytes",
    "node_pressure_memory_waiting_seconds_total",
    "node_vmstat_oom_kill",
}
# Counters that the recorded host does not have.
COUNTERS = {"thp_zero_subpages_dropped_total", "thp_fault_alloc_total", "thp_fault_fallback_total"}


@pytest.fixture
def metrics(tmp_path: Path) -> dict[str, set[str]]:
    """Return the labels of every metric."""
    found = collected(tmp_path, {"sys/kernel/kexec_crash_loaded": "1"})
    found.waivers = waivers.Waivers("x", [waivers.Waiver("gpu", "taint", "P", "x", "2027-06-30")])
    found.estimate = Estimate("all", Subject(None, "all", 2, 1, 1, 0), [], True, 0, 0, 0, 0, 0.0, 0.0)
    text = prometheus.text(found, checks.evaluate(found))
    names: dict[str, set[str]] = {name: set() for name in COUNTERS}
    for sample in samples(text):
        names.setdefault(sample.partition("{")[0], set()).update(re.findall(r'([a-z]+)="', sample))
    return names


@pytest.mark.parametrize("title", EXPRESSIONS)
def test_an_expression_has_metrics_and_labels_that_exist(metrics: dict[str, set[str]], title: str) -> None:
    for expression in EXPRESSIONS[title]:
        used = set(re.findall(r"\b(?:thp|node)_\w+", expression))
        assert used and used <= set(metrics) | OTHERS
        labels = set().union(*(metrics.get(name, set()) for name in used))
        for by in re.findall(r"by \(([^)]*)\)", expression):
            assert set(by.split(", ")) <= labels


def test_prometheus_takes_every_expression(tmp_path: Path) -> None:
    if not promtool.program():
        pytest.skip("needs promtool, of the package prometheus")
    rules = [
        {"record": f"panel:{number}", "expr": expression.replace("$instance", ".*")}
        for number, expression in enumerate(each for found in EXPRESSIONS.values() for each in found)
    ]
    # JSON is YAML as well.
    (tmp_path / "rules.yml").write_text(json.dumps({"groups": [{"name": "all", "rules": rules}]}))
    assert f"{len(rules)} rules found" in promtool.check("rules", str(tmp_path / "rules.yml"))


def test_the_page_has_every_panel_and_alert() -> None:
    rows = re.findall(r"^\| ([A-Z][^|]*?) \|", PAGE[PAGE.index("## Grafana") :], re.MULTILINE)
    assert rows == list(PANELS)
    assert len(ALERTS) == 4


def test_the_page_has_every_metric(metrics: dict[str, set[str]]) -> None:
    documented = {
        name: set(filter(None, labels.split(",")))
        for name, labels in re.findall(r"`(thp_\w+)(?:\{([a-z,]+)\})?`", PAGE[: PAGE.index("Useful conditions")])
    }
    assert {
        name: labels for name, labels in metrics.items() if not name.endswith("_total")
    }.items() <= documented.items()


def test_panels_do_not_overlap_and_have_what_grafana_needs() -> None:
    cells = [
        (x, y)
        for panel in DASHBOARD["panels"]
        for place in [panel["gridPos"]]
        for x in range(place["x"], place["x"] + place["w"])
        for y in range(place["y"], place["y"] + place["h"])
    ]
    assert len(cells) == len(set(cells))
    assert max(x for x, _ in cells) < 24
    assert len({panel["id"] for panel in DASHBOARD["panels"]}) == len(PANELS) == len(DASHBOARD["panels"])
    assert all(panel["description"] and panel["datasource"]["uid"] == "${datasource}" for panel in DASHBOARD["panels"])
    assert [variable["name"] for variable in DASHBOARD["templating"]["list"]] == ["datasource", "instance"]
