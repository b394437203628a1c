"""Every patch is clean by the kernel's own style checker, and the checker finds an ugly one."""

from __future__ import annotations

from pathlib import Path

from scripts import checkpatch, lock, series

UGLY = """From: kernel-thp project <kernel-thp@example.org>
Subject: mm: ugly

Ugly.

Signed-off-by: kernel-thp project <kernel-thp@example.org>
---
 mm/util.c | 1 +

diff --git a/mm/util.c b/mm/util.c
--- a/mm/util.c
+++ b/mm/util.c
@@ -1,3 +1,4 @@
 // SPDX-License-Identifier: GPL-2.0-only
+int  ugly( int a ){ return(a) ; }
 #include <linux/mm.h>
 #include <linux/slab.h>
"""


def test_series_is_clean() -> None:
    patches, tree = series.place(lock.used())
    assert {patch.name: checkpatch.check(tree.folder, patch) for patch in patches.patches()} == {
        patch.name: "" for patch in patches.patches()
    }


def test_ugly_patch_is_not(tmp_path: Path) -> None:
    _, tree = series.place(lock.used())
    patch = tmp_path / "ugly.patch"
    patch.write_text(UGLY)
    assert "SPACING" in checkpatch.check(tree.folder, patch)
