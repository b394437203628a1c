"""The error that modules raise: what is wrong and a hint what to do, in one line."""

from __future__ import annotations

import re

# In an address, as in https://user:password@host/.
PASSWORD = re.compile(r"(://[^/@\s:]*:)[^/\s]+(?=@)")


def without_passwords(text: str) -> str:
    """Return a text without the passwords of its addresses: Ansible prints and logs what it gets."""
    return PASSWORD.sub(r"\1...", text)


class Problem(Exception):
    def __init__(self, what: str, hint: str = "") -> None:
        super().__init__(without_passwords(f"{what}; {hint}" if hint else what))
