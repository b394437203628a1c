"""The one kind of error a host reports: what is wrong, and what to do about it, in one line."""

from __future__ import annotations


class Problem(Exception):
    def __init__(self, what: str, todo: str = "") -> None:
        super().__init__(f"{what}; {todo}" if todo else what)
