"""Which patches have passed a test as they are: patches/<base>/tested.json has a key for each test and patch.

A key covers what the patch does. It leaves out the header text, and what git writes into a diff about its
surroundings, so that rewording a patch, or inserting another one before it, asks for no new test.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from scripts.console import say
from scripts.files import replace

NAME = "tested.json"
DIFF = re.compile(r"^(?:diff --git |--- a/)", re.MULTILINE)
FILE = re.compile(r"^diff --git a/(\S+) ", re.MULTILINE)
# The hashes of the file before and after, and the line numbers of a hunk: both follow from the patches before this one.
BLOBS = re.compile(r"^index .*\n", re.MULTILINE)
HUNK = re.compile(r"^@@ .*$", re.MULTILINE)


def diff(patch: Path) -> str:
    """Return what a patch changes, without its header and without what depends on the patches before it."""
    text = patch.read_text()
    start = DIFF.search(text)
    return lasting(text[start.start() if start else 0 :])


def lasting(text: str) -> str:
    """Return a diff without what depends on the rest of its files."""
    return HUNK.sub("@@", BLOBS.sub("", text))


def files(patch: Path) -> set[str]:
    return set(FILE.findall(patch.read_text()))


def key(*parts: str) -> str:
    """Return a short hash of some texts."""
    total = hashlib.sha256()
    for part in parts:
        total.update(f"{len(part)}\n{part}".encode())
    return total.hexdigest()[:16]


class Record:
    """The keys of the patches, or mutants, that have passed one kind of test."""

    def __init__(self, series: Path, kind: str) -> None:
        self.path = series / NAME
        self.kind = kind

    def everything(self) -> dict[str, dict[str, str]]:
        return dict(json.loads(self.path.read_text())) if self.path.exists() else {}

    def read(self) -> dict[str, str]:
        return self.everything().get(self.kind, {})

    def write(self, keys: Mapping[str, str]) -> None:
        """Replace the keys of this kind of test, and leave those of others."""
        kinds = {**self.everything(), self.kind: dict(keys)}
        replace(self.path, json.dumps(kinds, indent=1, sort_keys=True) + "\n")

    def changed(self, keys: Mapping[str, str]) -> list[str]:
        """Return what has not passed as it is, and print why each has to be tested."""
        have = self.read()
        slugs = [slug for slug, value in keys.items() if have.get(slug) != value]
        for slug in slugs:
            why = "has changed since it was tested" if slug in have else "has not been tested"
            say(f"{self.kind}: {slug} {why}, by {self.path.parent.name}/{NAME}")
        if not slugs:
            say(f"{self.kind}: nothing to do, all {len(keys)} are as they were tested, by {self.path}")
        return slugs


def unknown(wanted: Sequence[str], known: Sequence[str]) -> str:
    """Return the first name that is not among the known ones, or nothing."""
    return next((name for name in wanted if name not in known), "")
