"""The error that modules raise: what is wrong and a hint what to do, in one line."""

from __future__ import annotations


class Problem(Exception):
    def __init__(self, what: str, hint: str = "") -> None:
        super().__init__(f"{what}; {hint}" if hint else what)
