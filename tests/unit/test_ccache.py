"""scripts/ccache.sh: what it takes from the cache, and what it must not."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from scripts import lock
from scripts.compiler import WRAPPER
from scripts.console import BUILD

TREE = BUILD / "tree" / lock.read()[0].series

SOURCES = {
    "blob.S": '.data\n.incbin "blob.bin"\n',
    "blob.c": 'asm(".data\\n.incbin \\"blob.bin\\"\\n");\n',
    "plain.c": '#include "plain.h"\nint answer = ANSWER;\n',
}


class Build:
    """A directory of sources and a cache of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        settings = {name: value for name, value in os.environ.items() if not name.startswith("CCACHE_")}
        self.env = {**settings, "CCACHE_DIR": str(folder / "cache")}
        for name, text in SOURCES.items():
            (folder / name).write_text(text)

    def compiled(self, source: str) -> bytes:
        """Compile a file as kbuild does; return the object."""
        command = [str(WRAPPER), "gcc", f"-Wp,-MMD,.{source}.d", "-c", "-o", "out.o", source]
        subprocess.run(command, cwd=self.folder, env=self.env, check=True)
        return (self.folder / "out.o").read_bytes()

    def counted(self) -> dict[str, int]:
        command = ["ccache", "--print-stats"]
        printed = subprocess.run(command, env=self.env, check=True, capture_output=True, text=True).stdout
        return {name: int(count) for name, count in (line.split("\t") for line in printed.splitlines())}


@pytest.fixture
def build(tmp_path: Path) -> Build:
    return Build(tmp_path)


@pytest.mark.parametrize("source", ["blob.S", "blob.c"])
def test_what_the_assembler_includes_is_not_taken_from_an_earlier_build(build: Build, source: str) -> None:
    for content in (b"first key", b"second key"):
        (build.folder / "blob.bin").write_bytes(content)
        assert content in build.compiled(source), f"{source} has the data of an earlier build"


def test_a_file_comes_from_the_cache_until_one_of_its_headers_changes(build: Build) -> None:
    header = build.folder / "plain.h"
    header.write_text("#define ANSWER 42\n")
    first = build.compiled("plain.c")
    assert build.compiled("plain.c") == first
    assert build.counted()["direct_cache_hit"] == 1
    header.write_text("#define ANSWER 43\n")
    assert build.compiled("plain.c") != first
    assert build.counted()["direct_cache_hit"] == 1


def test_no_file_is_preprocessed_only_to_be_looked_up(build: Build) -> None:
    (build.folder / "plain.h").write_text("#define ANSWER 42\n")
    build.compiled("plain.c")
    counted = build.counted()
    assert (counted["cache_miss"], counted["preprocessed_cache_miss"]) == (1, 0)


def test_no_header_of_the_kernel_includes_by_the_assembler() -> None:
    """The wrapper looks for .incbin in the source alone."""
    command = ["git", "grep", "-l", "incbin", "--", "*.h", "*.inc", ":(exclude)tools"]
    found = subprocess.run(command, cwd=TREE, check=False, capture_output=True, text=True)
    assert (found.returncode, found.stdout) == (1, ""), "scripts/ccache.sh has to learn of these"
