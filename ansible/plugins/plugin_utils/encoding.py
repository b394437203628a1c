"""Text that can be written to files. Ansible turns bytes from ssh that are not UTF-8 into surrogates."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from ansible_collections.kernel_thp.fleet.plugins.module_utils.problem import without_passwords

# The line of a traceback that names the cause.
CAUSE = re.compile(r"(\w+\.)*\w*(Error|Exception)\b|.*requires a minimum of Python")
# What an older Python says of a newer one's code, and Ansible of an older Python.
TOO_OLD = re.compile(r"SyntaxError|TypeError: 'type' object is not subscriptable|.*requires a minimum of Python")
OLD_PYTHON = "hosts need Python 3.9 or later: install it, and name it in ansible_python_interpreter"


def text(value: str) -> str:
    """Return a text with question marks for what cannot be encoded."""
    return value.encode("utf-8", "replace").decode()


def line(value: object) -> str:
    """Return a value as one line."""
    return text(" ".join(str(value).split()))


def reason(failed: Mapping[str, Any]) -> str:
    """Return why a task failed, in one line.

    Of a module that Python could not run, Ansible says only that it printed no result; the cause is what Python said.
    """
    message = failed.get("msg") or failed.get("stderr")
    # Over a terminal, as for some kinds of become, both are in the first.
    said = "\n".join(str(failed.get(name) or "") for name in ("module_stdout", "module_stderr")).splitlines()
    cause = next((line(text) for text in reversed(said) if CAUSE.match(text)), "")
    if TOO_OLD.match(cause):
        cause += f"; {OLD_PYTHON}"
    whole = ": ".join(filter(None, (line(message or ""), cause)))
    return without_passwords(whole) or "no reason was given; read Ansible's output"


def form(value: object) -> str:
    """Return a value as JSON. Not escaped: an escaped surrogate would be written, and readers would fail on it."""
    return text(json.dumps(value, indent=1, sort_keys=True, ensure_ascii=False)) + "\n"
