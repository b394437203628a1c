"""Write a file so that its name only ever shows the old content or the complete new one."""

from __future__ import annotations

import os
from pathlib import Path


def replace(path: Path, content: str | bytes) -> None:
    """Write beside the file, then rename into place; an interrupt leaves the old content."""
    # The name has the process in it, because several commands may write the same file.
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        part.write_bytes(content.encode() if isinstance(content, str) else content)
        part.replace(path)
    except BaseException:
        part.unlink(missing_ok=True)
        raise
