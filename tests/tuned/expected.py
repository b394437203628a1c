"""What the profiles set on a lab host with kernel-thp."""

from __future__ import annotations

from tests.tuned.daemon import DEFRAG_MODE, Tuned, Values

SHRINKER = {
    "enabled": "always",
    "defrag": "madvise",
    "shrink_underused": "1",
    "underused_max_ptes_none": "409",
    "swapin_enabled": "never",
    DEFRAG_MODE: "1",
}
TIGHT = {**SHRINKER, "underused_max_ptes_none": "256", "khugepaged/max_ptes_none": "256"}
# Debian's own kernel has enabled=always and no shrinker.
BASELINE = {
    "enabled": "always",
    "defrag": "madvise",
    "shrink_underused": "0",
    "underused_max_ptes_none": "khugepaged",
    "khugepaged/max_ptes_none": "511",
    "swapin_enabled": "never",
    DEFRAG_MODE: "0",
}


def in_force(tuned: Tuned, values: Values) -> bool:
    return values.items() <= tuned.values().items()
