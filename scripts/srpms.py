"""Make the source packages, one for each spec, and put them into build/srpm as a signed dnf repository.

A source package has the values of this build (SPIN, REPO_URL, the version of the kernel) in its spec, so that
`rpmbuild --rebuild` makes the packages again that were built with it, but for their signatures.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from scripts import repository, rpms
from scripts.console import BUILD, main, run_logged, say, step
from scripts.rpms import Stage

WORK = BUILD / "rpmbuild-source"
REPO = BUILD / "srpm"


def stages() -> list[Stage]:
    """Return a stage for each spec; the sources of the kernel are the same for each flavour."""
    return [rpms.kernel(), rpms.tuned_profiles(), rpms.tools(), rpms.release()]


def make(stage: Stage, root: Path = WORK) -> Path:
    """Make the source package of a stage, and return its path."""
    folder = root / stage.name
    shutil.rmtree(folder, ignore_errors=True)
    log = BUILD / "logs" / f"rpmbuild-source-{stage.name}.log"
    run_logged([*rpms.prepare(stage, folder), "-bs"], log, f"rpmbuild -bs {stage.name}", "fix what the log says")
    (package,) = folder.glob("SRPMS/*.src.rpm")
    return package


def command() -> None:
    with step("make the source packages"):
        packages = [make(stage) for stage in stages()]
        repository.make(packages, REPO, "source packages\n")
    shutil.rmtree(WORK)
    for package in packages:
        say(f"srpm: {REPO / package.name}")


if __name__ == "__main__":
    main(command)
