"""Measure how fast zero pages are recognised, natively: no virtual machine, no kernel that runs.

The function the shrinker calls is taken from the kernel's source, with all it needs, and so is memchr_inv(). Both are
compiled for user space, with the options that decide what the kernel's compiler may do. zero_check.c says what they
are compared with.
"""

from __future__ import annotations

import re
import statistics
import subprocess
from collections.abc import Iterable, Sequence
from pathlib import Path

from scripts.console import BUILD, UserError, run_logged

HERE = Path(__file__).resolve().parent
OUT = BUILD / "bench"
# Around the extracted functions: what they find in the kernel.
SHIM = HERE / "zero_check_kernel.c"
EXTRACTED = "zero_check_extracted.h"
WANTED = ("page_zero_filled", "memchr_inv")
# Where they are, and what they call. The first file that has a name is the one that counts.
SOURCES = ("mm/huge_memory.c", "mm/util.c", "lib/string.c", "include/linux/mm.h")
# No vector registers, no C library.
KERNEL_OPTIONS = (
    *("-O2", "-std=gnu11", "-fno-strict-aliasing", "-fno-strict-overflow", "-mno-mmx", "-mno-sse", "-mno-sse2"),
    *("-mno-avx", "-mno-red-zone", "-fno-stack-protector", "-Werror=implicit", "-Dmemcmp=kernel_memcmp"),
)
# As fast as this machine reads.
NATIVE_OPTIONS = ("-O3", "-march=native", "-mprefer-vector-width=512", "-funroll-loops")
COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.DOTALL)
CALL = re.compile(r"\b([a-zA-Z_]\w*)\s*\(")
CONSTANT = re.compile(r"\b[A-Z_][A-Z0-9_]+\b")
DEFINED = re.compile(r"^#define (\w+)", re.MULTILINE)
RATE = re.compile(r"^rate (\w+) (\d+) ([\d.]+)$", re.MULTILINE)


# GB of zeros per second, by the check, by the KiB that it goes through again and again.
Rates = dict[int, dict[str, float]]


# The functions


def definition(name: str, text: str) -> str:
    """Return the definition of a function or a macro in C that has no comments, or an empty string."""
    macro = rf"^#define[ \t]+{name}\b(?:[^\n]*\\\n)*[^\n]*\n"
    function = rf"^[a-zA-Z_][^;{{}}()#]*\b{name}\([^;{{}}]*\)\n\{{\n.*?^\}}\n"
    found = re.search(f"{macro}|{function}", text, re.MULTILINE | re.DOTALL)
    return found[0] if found else ""


def extract(wanted: Iterable[str], texts: Sequence[str], known: Iterable[str]) -> str:
    """Return the definitions of what is wanted, each after those it needs. What is known is taken for granted."""
    plain = [COMMENT.sub("", text) for text in texts]
    done: dict[str, str] = dict.fromkeys(known, "")
    order: list[str] = []

    def take(name: str) -> bool:
        if name not in done:
            done[name] = found = next(filter(None, (definition(name, text) for text in plain)), "")
            for needed in (*CALL.findall(found), *CONSTANT.findall(found)):
                take(needed)
            order.append(found)
        return bool(done[name])

    for name in wanted:
        if not take(name):
            raise UserError(f"the kernel's source has no {name}()", "say in zero_check.py what it is called now")
    return "\n".join(filter(None, order))


def extracted(source: Path) -> str:
    missing = [name for name in SOURCES if not (source / name).is_file()]
    if missing:
        raise UserError(f"there is no {missing[0]} in {source}", "run `make tree`, or name a kernel's source")
    return extract(WANTED, [(source / name).read_text() for name in SOURCES], DEFINED.findall(SHIM.read_text()))


# The program


def build(source: Path, folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / EXTRACTED).write_text(extracted(source))
    program, kernel = folder / "zero_check", folder / "zero_check_kernel.o"
    for what, options in (
        (kernel, ("-c", *KERNEL_OPTIONS, f"-I{folder}", str(SHIM))),
        (program, (*NATIVE_OPTIONS, "-Wall", "-Wextra", "-Werror", str(HERE / "zero_check.c"), str(kernel))),
    ):
        todo = "read the log; if the source needs more of the kernel, add it to zero_check_kernel.c"
        run_logged(["gcc", *options, "-o", str(what)], BUILD / "logs" / "zero-check.log", what.name, todo)
    return program


def read_rates(text: str) -> Rates:
    """Return the medians of all rounds."""
    each: dict[int, dict[str, list[float]]] = {}
    for check, kib, rate in RATE.findall(text):
        each.setdefault(int(kib), {}).setdefault(check, []).append(float(rate))
    return {kib: {check: statistics.median(rates) for check, rates in checks.items()} for kib, checks in each.items()}


def measure(source: Path, folder: Path = OUT) -> Rates:
    program = build(source, folder)
    done = subprocess.run([str(program)], capture_output=True, text=True, check=False)
    if done.returncode:
        raise UserError(f"zero_check measured nothing: {done.stderr.strip()}", f"run {program} by itself")
    return read_rates(done.stdout)
