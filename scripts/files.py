"""Write a file so that its name only ever shows the old content or the complete new one."""

from __future__ import annotations

from pathlib import Path


def replace(path: Path, content: str | bytes) -> None:
    """Write beside the file, then rename into place; an interrupt leaves the old content."""
    part = path.with_name(f"{path.name}.part")
    part.write_bytes(content.encode() if isinstance(content, str) else content)
    part.replace(path)
