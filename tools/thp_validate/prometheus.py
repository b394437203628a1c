"""Metrics for Prometheus, in the text format that the textfile collector of its node exporter reads.

What that exporter has of its own is left out: memory and huge pages in use, pressure, OOM kills.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from . import VERSION, taint
from .blocks import KINDS, Blocks
from .checks import VERDICTS, Check, verdict
from .facts import Facts
from .waivers import Waiver

GAUGE, COUNTER = "gauge", "counter"


@dataclass
class Metric:
    """Its samples: labels, and value."""

    name: str
    kind: str
    help: str
    samples: Sequence[tuple[Mapping[str, str], float]] = ()


def text(facts: Facts, checks: Sequence[Check]) -> str:
    lines = []
    for metric in _metrics(facts, checks):
        if metric.samples:
            lines += [f"# HELP {metric.name} {_escaped(metric.help)}", f"# TYPE {metric.name} {metric.kind}"]
        for labels, value in metric.samples:
            words = ",".join(f'{name}="{_escaped(each, quote=True)}"' for name, each in labels.items())
            lines.append(f"{metric.name}{{{words}}} {value!r}" if words else f"{metric.name} {value!r}")
    return "\n".join(lines) + "\n"


def _escaped(words: str, quote: bool = False) -> str:
    words = words.replace("\\", r"\\").replace("\n", r"\n")
    return words.replace('"', r"\"") if quote else words


def _gauge(name: str, description: str, value: float | None, **labels: str) -> Metric:
    """Return a metric with one sample, or none if the value is not known."""
    return Metric(name, GAUGE, description, [] if value is None else [(labels, +value)])


def _metrics(facts: Facts, checks: Sequence[Check]) -> Iterator[Metric]:
    kernel, thp = facts.kernel, facts.thp
    profile = " ".join(facts.profile.active)
    yield _gauge(
        "thp_validate_info",
        "What runs, in the labels.",
        1,
        version=VERSION,
        kernel=kernel.uname,
        flavour=kernel.flavour,
        profile=profile,
    )
    yield _gauge("thp_validate_run_timestamp_seconds", "When thp-validate ran.", round(_now().timestamp()))
    found = verdict(list(checks))
    states = [({"verdict": each}, int(each == found)) for each in VERDICTS]
    yield Metric("thp_validate_verdict", GAUGE, "1 for the verdict on this host, 0 for the others.", states)
    passed = [({"check": check.id}, int(check.verdict == taint.OK)) for check in checks]
    yield Metric("thp_validate_check_passed", GAUGE, "Whether a check found nothing wrong, or does not apply.", passed)
    yield _gauge(
        "thp_validate_complaints",
        "Complaints in the kernel's log since the boot, without those that are waived.",
        None if kernel.splats is None else len(kernel.splats),
    )
    valid = facts.waivers.valid if facts.waivers else []
    ends = [({"waiver": each.name}, _end(each)) for each in valid]
    yield Metric("thp_validate_waiver_end_timestamp_seconds", GAUGE, "When a waiver ends.", ends)
    settings = {"enabled": thp.enabled_in_force or "", "defrag": thp.defrag or "", "swapin": thp.swapin_enabled or ""}
    yield _gauge("thp_settings_info", "Settings of huge pages, in the labels.", 1 if thp.present else None, **settings)
    yield _gauge("thp_shrinker_enabled", "Whether underused huge pages are split.", thp.shrink_underused)
    yield _gauge(
        "thp_shrinker_threshold_ratio",
        "Share of zero-filled pages above which a huge page is underused.",
        None if thp.threshold is None or not thp.subpages else thp.threshold / thp.subpages,
    )
    yield _gauge("thp_defrag_mode_enabled", "Whether the kernel keeps free memory in whole blocks.", thp.defrag_mode)
    yield from _blocks(facts.blocks)
    yield _gauge("thp_btf_present", "Whether the kernel has BTF.", facts.debugging.btf)
    yield _gauge("thp_kdump_loaded", "Whether a crash of the kernel would be dumped.", facts.debugging.kdump_loaded)
    yield _gauge("thp_secure_boot_enforced", "Whether only trusted kernels boot.", facts.secure_boot.enforced)
    if facts.estimate:
        total = facts.estimate.total
        yield _gauge("thp_estimate_huge_bytes", "Anonymous huge pages that --estimate is about.", total.huge_bytes)
        yield _gauge("thp_estimate_zero_bytes", "Zero-filled part of these.", total.zero_bytes)
    for name, value in facts.counters.items():
        if name.startswith("thp_"):
            yield Metric(f"{name}_total", COUNTER, f"{name} of /proc/vmstat, since the boot.", [({}, value)])


def _blocks(found: Blocks | None) -> Iterator[Metric]:
    if found is None:
        return
    shares = [({"kind": kind}, getattr(found, kind) / found.sampled) for kind in KINDS]
    yield Metric("thp_memory_blocks_ratio", GAUGE, "Share of the blocks of memory that are of a kind.", shares)
    yield _gauge("thp_memory_fragmented", "Whether unmovable pages are spread over many blocks.", found.fragmented)


def _end(waiver: Waiver) -> float:
    """Return when the last day of a waiver is over."""
    day = datetime.datetime.fromisoformat(waiver.expires).replace(tzinfo=datetime.timezone.utc)
    return round(day.timestamp()) + 86400


def _now() -> datetime.datetime:
    return datetime.datetime.now(datetime.timezone.utc)
