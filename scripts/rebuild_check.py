"""Build packages a second time, in another directory, and compare them with those of `make rpms`.

The same sources must give the same payload, byte for byte. With --kernel, differences that follow from the key of one
build, which signs its modules, are left out (scripts/rpm_compare.py).
"""

from __future__ import annotations

import argparse
import dataclasses
import shutil

from scripts import rpm_compare, rpms
from scripts.console import BUILD, UserError, main, say
from scripts.rpm_compare import Comparison

# Differs from build/rpmbuild in length and depth: with equal lengths, a path inside a file could go unnoticed.
ELSEWHERE = BUILD / "rebuild" / "in-another-directory"


def report(found: Comparison) -> None:
    if found.same and not found.different:
        say(f"  {found.name}: identical payload")
    elif not found.different:
        modules = sum(".ko" in path for path in found.by_key)
        others = ", ".join(path.rpartition("/")[2] for path in found.by_key if ".ko" not in path)
        say(f"  {found.name}: identical but for the key, in {modules} modules and {others or 'nothing else'}")
    for path in found.different:
        say(f"  {found.name}: {path} differs")


def command() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--kernel", action="store_true", help="the kernel instead of its selftests")
    first = rpms.kernel() if parser.parse_args().kernel else rpms.selftests()
    second = dataclasses.replace(first, root=ELSEWHERE)
    with rpms.alone(first), rpms.alone(second):
        rpms.build(first)
        second.stamp.unlink(missing_ok=True)
        rpms.build(second)
        folders = [stage.packages[0].parent for stage in (first, second)]
        comparisons = rpm_compare.compare_all(*folders)
    for found in comparisons:
        report(found)
    wrong = [found.name for found in comparisons if found.different or not (found.same or found.by_key)]
    if wrong:
        what = f"two builds of the same sources differ in {', '.join(wrong)}"
        raise UserError(what, f"compare {folders[0]} with {folders[1]}")
    shutil.rmtree(ELSEWHERE.parent)


if __name__ == "__main__":
    main(command)
