"""What is said, as every file takes it. Bytes that are no UTF-8, as ssh passes them on, are surrogates in Ansible."""

from __future__ import annotations

import json


def text(said: str) -> str:
    """Return it with question marks for what cannot be encoded."""
    return said.encode("utf-8", "replace").decode()


def line(said: object) -> str:
    """Return it in one line."""
    return text(" ".join(str(said).split()))


def form(value: object) -> str:
    """Return it as JSON. Escaped, a surrogate would be written, and be in the way of whoever reads it."""
    return text(json.dumps(value, indent=1, sort_keys=True, ensure_ascii=False)) + "\n"
