"""The programs of the selftests, and what each result of theirs depends on."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from scripts import rpms

PROGRAM = re.compile(r"^TEST_GEN_PROGS(?:_EXTENDED)? [:+]= (\S+)$", re.MULTILINE)
TEST = re.compile(r"\bTEST(?:_WITH)?\(\s*\"([^\"]+)\"")


class Sources:
    """The source of each program by its name, what they share, and of which one each test is a part."""

    def __init__(self, folder: Path = rpms.TESTS) -> None:
        texts = {path: path.read_text() for path in sorted(folder.iterdir()) if path.suffix in (".c", ".h")}
        names = PROGRAM.findall((folder / "Makefile").read_text())
        self.programs = {name: texts[folder / f"{name}.c"] for name in names}
        self.shared = [text for path, text in texts.items() if path.stem not in names]
        self.program_of = {test: name for name, text in self.programs.items() for test in TEST.findall(text)}

    def of(self, tests: Iterable[str]) -> list[str]:
        return sorted({self.programs[self.program_of[test]] for test in tests})
