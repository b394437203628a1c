"""The error that users see as a single line."""

from __future__ import annotations


class UserError(Exception):
    """Something the user can fix: what is wrong, and a hint what to do about it."""

    def __init__(self, what: str, hint: str) -> None:
        super().__init__(f"{what}; {hint}")
