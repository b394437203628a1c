"""Text that can be written to files. Ansible turns bytes from ssh that are not UTF-8 into surrogates."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any


def text(value: str) -> str:
    """Return a text with question marks for what cannot be encoded."""
    return value.encode("utf-8", "replace").decode()


def line(value: object) -> str:
    """Return a value as one line."""
    return text(" ".join(str(value).split()))


def reason(failed: Mapping[str, Any]) -> str:
    """Return why a task failed, in one line."""
    message = failed.get("msg") or failed.get("module_stderr") or failed.get("stderr")
    return line(message or "no reason was given; read Ansible's output")


def form(value: object) -> str:
    """Return a value as JSON. Not escaped: an escaped surrogate would be written, and readers would fail on it."""
    return text(json.dumps(value, indent=1, sort_keys=True, ensure_ascii=False)) + "\n"
