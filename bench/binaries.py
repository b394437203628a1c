"""The programs that run in a guest: those compiled from C, and the scripts of the case `programs`."""

from __future__ import annotations

import fcntl
import hashlib
import shutil
from collections.abc import Sequence
from pathlib import Path

from bench.kernels import HERE, OUT, compiler
from lab import direct_boot
from scripts.console import BUILD, ROOT, run_logged, step

SELFTESTS = ROOT / "tests" / "selftests"
SCRIPTS = HERE / "programs"
# Static, because the initramfs has no libraries. No -g: a changed comment would change the program.
FLAGS = ("-static", "-O2", "-pthread", "-D_GNU_SOURCE", "-Wall", "-Wextra", "-I", str(SELFTESTS))


def sources() -> list[Path]:
    """Return the programs' main files."""
    return sorted(HERE.glob("bench_*.c"))


def shared() -> list[Path]:
    """Return the files that every program includes."""
    own = [path for path in sorted(HERE.glob("*.c")) if not path.name.startswith("bench_")]
    return [*own, *(SELFTESTS / f"{name}.c" for name in ("thp_base", "thp_sysfs", "thp_memory", "thp_run"))]


def digest(paths: Sequence[Path]) -> str:
    total = hashlib.sha256()
    for path in paths:
        total.update(f"{path.name}\n".encode() + path.read_bytes())
    return total.hexdigest()[:16]


def build() -> Path:
    """Return the directory with all programs, and compile them first if they are missing."""
    headers = sorted([*HERE.glob("*.h"), *SELFTESTS.glob("*.h")])
    mark = hashlib.sha256(f"{digest([*sources(), *shared(), *headers])}{FLAGS}{compiler()}".encode()).hexdigest()[:16]
    folder = OUT / "binaries" / mark
    OUT.mkdir(parents=True, exist_ok=True)
    with (OUT / "binaries.lock").open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        if not folder.exists():
            with step("compile the programs of the benchmark"):
                shutil.rmtree(folder.parent, ignore_errors=True)
                part = folder.with_suffix(".part")
                part.mkdir(parents=True)
                for source in sources():
                    compile_one(source, part / source.stem)
                part.replace(folder)
    return folder


def compile_one(source: Path, program: Path) -> None:
    command = ["gcc", *FLAGS, "-o", str(program), str(source), *map(str, shared())]
    log = BUILD / "logs" / "bench-programs.log"
    run_logged(command, log, source.stem, "read the log; `make deps` installs a compiler")


def files(program: str) -> list[Path]:
    """Return the files of a program, itself first. The sampler runs other programs, so it has all of them."""
    if program == SCRIPTS.name:
        return [SCRIPTS / SCRIPTS.name, SCRIPTS / "enter.sh", *sorted(SCRIPTS.glob("*.py"))]
    folder = build()
    others = sorted(folder.iterdir()) if program == "bench_symbols" else []
    return [folder / program, *(path for path in others if path.name != program)]


def archive(program: str) -> tuple[Path, str]:
    """Pack a program for a direct boot; return the archive, and a mark that identifies its content."""
    parts = files(program)
    folder = OUT / "archives" / program
    folder.mkdir(parents=True, exist_ok=True)
    return direct_boot.base_archive(parts, folder), digest([*parts, direct_boot.INIT])


def listed(program: str) -> list[str]:
    """Return the tests of a program."""
    return direct_boot.listed(build() / program)
