"""Lines of kernel logs: what each kind of splat looks like, and what is none."""

from __future__ import annotations

from pathlib import Path

FOLDER = Path(__file__).resolve().parent / "splats"


def defects() -> dict[str, list[str]]:
    """Return the lines below each heading, the name of a kind."""
    found: dict[str, list[str]] = {}
    for line in (FOLDER / "defects.txt").read_text().splitlines():
        if line.startswith("# "):
            lines = found.setdefault(line[2:], [])
        elif line:
            lines.append(line)
    return found


def harmless() -> list[str]:
    lines = (FOLDER / "harmless.txt").read_text().splitlines()
    return [line for line in lines if line and not line.startswith("# ")]
