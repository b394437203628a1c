"""Which tests passed already: the whole suite takes long, so it continues after an interruption or a failure.

A file of tests is remembered as long as nothing that it depends on has changed. Once all have passed they are
forgotten, and the next run starts from the beginning.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

from lab import image, repo
from scripts import collection, files
from scripts.console import BUILD
from tests.fleet.table import Row

FILE = BUILD / "fleet" / "passed.json"
HERE = Path(__file__).resolve().parent
LAB = image.HERE


def subject(module: Path) -> str:
    """Return a hash of what a file of tests depends on: image, packages, collection, the lab, and helpers."""
    sources = [path for path in collection.SOURCE.rglob("*") if path.is_file() and path.suffix != ".pyc"]
    helpers = [path for path in (*HERE.glob("*.py"), *LAB.glob("*.py")) if not path.name.startswith("test_")]
    # A file of tests may use hosts of both kinds, whichever was asked for.
    images = [image.chosen().name, *(image.digest(kind) for kind in image.KINDS.values())]
    total = hashlib.sha256(" ".join(images).encode())
    for path in (repo.REPO / "repodata" / "repomd.xml", module, *sorted(sources), *sorted(helpers)):
        total.update(f"{path.name}\n".encode() + path.read_bytes())
    return total.hexdigest()


class Memory:
    def __init__(self, file: Path = FILE) -> None:
        self.file = file
        self._passed: dict[str, dict[str, object]] = json.loads(file.read_text()) if file.exists() else {}

    def knows(self, module: Path) -> bool:
        return self._passed.get(module.stem, {}).get("subject") == subject(module)

    def rows(self, module: str) -> list[Row]:
        found = self._passed[module]["rows"]
        assert isinstance(found, list)
        return [Row(**row) for row in found]

    def add(self, module: Path, rows: list[Row]) -> None:
        self._passed[module.stem] = {"subject": subject(module), "rows": [row.as_dict() for row in rows]}
        self.file.parent.mkdir(parents=True, exist_ok=True)
        files.replace(self.file, json.dumps(self._passed, indent=1))

    def forget(self) -> None:
        self.file.unlink(missing_ok=True)
