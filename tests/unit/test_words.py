"""Words that docs/glossary.md has replaced do not come back."""

from __future__ import annotations

import fnmatch
import re
import subprocess
from dataclasses import dataclass

import pytest

from scripts.console import ROOT

# Each pattern, and what to write instead. A space also matches the end of a line and the comment sign on the next one.
# Patterns are case-sensitive: TODO is a directive of KTAP.
REPLACED = {
    r"\b[Qq]uick ?boot|\b[Qq]uick bench": "direct boot",
    r"\b[Mm]end(s|ed|ing)?\b": "fix",
    r"\b([Aa]new|ANEW)\b": "again, or FORCE=1",
    r"\b[Pp]rove\b|\b[Pp]roofs?\b": "test, mutation test",
    r"\b[Jj]udg(e|es|ed|ing|e?ments?)\b": "check, evaluate",
    r"\b[Ss]econd look": "rescan",
    r"\bcheap to dear\b": "fastest first",
    r"\bto be had\b": "available, or say who gets it",
    r"\b[Tt]hat which\b": "what, the one that",
    r"\btodo\b": "hint, or what is left to do",
    r"\bgo_back\b": "roll_back",
    r"\b[Ww]ay back\b": "rollback",
    r"\b[Pp]repared host": "snapshot",
}
# Pathspecs of git. Each has a test of its own.
CHECKED = (
    ".ci",
    "Makefile",
    "*.md",
    "SOURCES",
    "SPECS",
    "ansible",
    "bench",
    "docs",
    "lab",
    "patches",
    "scripts",
    "tests",
    "tools",
    "tuned-profiles",
)
# Pattern of a path, pattern of the word, and why it may stand there.
ALLOWED = (
    ("*LICENSE", "judgment", "text of the licence"),
    ("tests/unit/test_words.py", ".*", "the words themselves"),
)
CODE = re.compile(r"^diff --git ", re.MULTILINE)
BREAK = r"\\s+(?:(?:#|\\*|//|--|;)\\s+)?"
PATTERNS = {re.compile(re.sub(r" (?!\?)", BREAK, pattern)): instead for pattern, instead in REPLACED.items()}


@dataclass(frozen=True)
class Found:
    path: str
    line: int
    word: str
    instead: str

    @property
    def allowed(self) -> bool:
        return any(
            fnmatch.fnmatch(self.path, path) and re.fullmatch(word, self.word) for path, word, _reason in ALLOWED
        )

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.word!r}; write: {self.instead}"


def find(path: str, text: str) -> list[Found]:
    """Return the replaced words in a text, without those in the code of a patch, which has names of the kernel's."""
    if path.endswith(".patch"):
        text = CODE.split(text, maxsplit=1)[0]
    return [
        Found(path, text.count("\n", 0, match.start()) + 1, re.sub(r"\s+", " ", match[0]), instead)
        for pattern, instead in PATTERNS.items()
        for match in pattern.finditer(text)
    ]


def texts(pathspec: str) -> dict[str, str]:
    """Return the text files that git knows or would add, by their paths."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--", pathspec]
    names = subprocess.run(command, cwd=ROOT, check=True, capture_output=True).stdout.decode().split("\0")
    content = {name: (ROOT / name).read_bytes() for name in names if (ROOT / name).is_file()}
    return {name: data.decode() for name, data in content.items() if b"\0" not in data}


@pytest.mark.parametrize("pathspec", CHECKED)
def test_replaced_words_do_not_come_back(pathspec: str) -> None:
    files = texts(pathspec)
    assert files, f"no file is called {pathspec}"
    found = [str(word) for path, text in files.items() for word in find(path, text) if not word.allowed]
    assert not found, "\n" + "\n".join(found)


@pytest.mark.parametrize(("path", "word"), [allowed[:2] for allowed in ALLOWED])
def test_every_exception_is_needed(path: str, word: str) -> None:
    found = [one for name, text in texts(path).items() for one in find(name, text)]
    assert any(re.fullmatch(word, one.word) for one in found)


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("Quick boot", 1),
        ("by a quick bench", 1),
        ("ok\nmended", 2),
        ("make bench ANEW=1", 1),
        ("the proofs", 1),
        ("# a second\n# look", 1),
        (" * that\n * which", 1),
        ("it is to be had", 1),
        ("todo=None", 1),
        ("a judgement", 1),
    ],
)
def test_a_replaced_word_is_found(text: str, line: int) -> None:
    assert [word.line for word in find("some.py", text)] == [line]


@pytest.mark.parametrize(
    "text",
    ["amend, recommended", "Proved-by: none", "CONFIG_PROVE_LOCKING=y", "waterproof", "1..1 # TODO", "mm_thp_judge"],
)
def test_other_words_are_not(text: str) -> None:
    assert not find("some.py", text)


def test_only_the_message_of_a_patch_is_read() -> None:
    text = "Subject: judge\n---\ndiff --git a/mm/x.c b/mm/x.c\n+\tjudge(thp);\n"
    assert [word.line for word in find("patches/6.1/x.patch", text)] == [1]
