"""Run stress, migration, pins, swap-in and defrag mode on a kernel with lockdep, then the tests of cgroup v1.

The packaged selftests run on a small kernel of the same sources, with DEBUG_VM, that is booted directly: twice with its
memory controller on cgroup v2, and then on v1. A run fails if a test does not pass, if the kernel complains, or if
lockdep has switched itself off. Results: a folder of each in build/lockdep, with console.log.

With --changed a run is left out while the kernel, its configuration and the tests are as they were when it passed and
was recorded in patches/<base>/tested.json, which --record does.
"""

from __future__ import annotations

import argparse
import shutil
from pathlib import Path

from lab import direct_boot, splats
from lab.direct_boot import Machine
from lab.kernel_build import Place, merged
from scripts import lock, rpms, tested
from scripts.console import BUILD, ROOT, UserError, main, say, step
from scripts.flavours import CLOUD
from tests.kernel import lockdep_state
from tests.programs import Sources
from tests.verdicts import read_console

OUT = BUILD / "lockdep"
PROGRAMS = OUT / "programs"
EXTRA = Path(__file__).with_name("lockdep.config")
KIND = "lockdep"
# How long thp_stress runs.
STRESS_SECONDS = 60
SLOW = 4
RUNS = {
    "v2": (
        "thp_migration",
        "thp_migrating",
        "thp_zero_pins",
        "thp_swapin",
        "thp_swapin_held",
        "thp_defrag_load",
        "thp_stress",
    ),
    "defrag": ("thp_defrag",),
    "v1": ("thp_memcg_v1",),
}
# Of one boot: three times what the longest has taken.
TIME_LIMIT = 2700.0


def build_kernel() -> Path:
    place = Place(BUILD / "tree" / lock.used().series, OUT / "kernel", BUILD / "logs" / "lockdep-build.log")
    config = merged(OUT / "kernel.config", direct_boot.CONFIG, EXTRA)
    refused = place.configure(config)
    if refused:
        raise UserError(f"Kconfig does not grant {refused[0]}", f"fix {EXTRA}")
    return place.image("with lockdep")


def unpack_programs() -> list[Path]:
    """Extract the programs from the package, because hosts install these."""
    (package,) = CLOUD.repo.glob("kernel-thp-selftests-*.rpm")
    shutil.rmtree(PROGRAMS, ignore_errors=True)
    PROGRAMS.mkdir(parents=True)
    rpms.extract(package, PROGRAMS)
    return sorted((PROGRAMS / "usr/libexec/kselftests/thp").glob("thp_*"))


def complaints(console: Path) -> list[str]:
    """Return what the kernel complained about, and whether lockdep was still at work in the end."""
    log = console.read_text(errors="replace").replace("\r", "")
    found = [f"kernel splat: {splat.text}" for splat in splats.scan(log, splats.allowed())]
    return found + lockdep_state.problems(log)


def run(name: str, image: Path, programs: list[Path]) -> list[str]:
    """Boot once, and return what is wrong."""
    chosen = [path for path in programs if path.name in RUNS[name]]
    plan = {path.name: direct_boot.listed(path) for path in chosen}
    folder = OUT / name
    folder.mkdir(exist_ok=True)
    # Lockdep reports at the level of warnings, which `quiet` hides; the start of the log is a notice.
    allowed = "THP_TEST_FILL_MEMORY=1 THP_TEST_READ_ERRORS=1"
    line = f"loglevel=6 numa=fake=2 {allowed} THP_TEST_SLOW={SLOW} THP_STRESS_SECONDS={STRESS_SECONDS}"
    machine = Machine(kernel_line=line)
    with step(f"lockdep: {name}: {', '.join(plan)}"):
        base = direct_boot.base_archive(chosen, folder)
        console = direct_boot.run(image, base, plan, folder, TIME_LIMIT, machine)
    results = read_console(console, plan)
    wrong = [f"{title}: {test.verdict}: {test.reason}" for title, test in results.items() if test.verdict != "pass"]
    say(f"lockdep: {name}: {len(results) - len(wrong)} of {len(results)} tests pass")
    return [f"{reason} (read {console})" for reason in [*wrong, *complaints(console)]]


def keys() -> dict[str, str]:
    """Name what the outcome of each run depends on: the kernel, its configuration, how it is run, and the tests."""
    sources = Sources(rpms.TESTS)
    files = (direct_boot.CONFIG, EXTRA, direct_boot.INIT, Path(__file__), Path(lockdep_state.__file__))
    common = [lock.used().sha256, *map(tested.diff, rpms.patches()), *(path.read_text() for path in files)]
    common += sources.shared
    return {name: tested.key(*common, *(sources.programs[one] for one in chosen)) for name, chosen in RUNS.items()}


def command() -> None:
    parser = argparse.ArgumentParser(description="Run the selftests that lockdep has to see on a kernel with it.")
    parser.add_argument("--changed", action="store_true", help="only runs that have changed since they were recorded")
    parser.add_argument("--record", action="store_true", help="record the runs that pass, for --changed")
    arguments = parser.parse_args()
    current = keys()
    record = tested.Record(ROOT / "patches" / lock.used().series, KIND)
    names = record.changed(current) if arguments.changed else list(current)
    if not names:
        return
    with step("lockdep: build the kernel"):
        image = build_kernel()
    programs = unpack_programs()
    wrong = []
    for name in names:
        found = run(name, image, programs)
        wrong += found
        if arguments.record and not found:
            record.write({**record.read(), name: current[name]})
    for reason in wrong:
        say(f"  {reason}")
    if wrong:
        raise UserError(f"lockdep: {len(wrong)} complaint(s), see above", "fix the kernel or the test")


if __name__ == "__main__":
    main(command)
