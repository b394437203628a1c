"""Hosts of a gate run share the selftests: each is run once, by whoever is free."""

from __future__ import annotations

from tests.kernel.gate import Work


def test_each_is_taken_once_and_in_order() -> None:
    work = Work()
    work.offer(["thp:a", "thp:b"])
    # The second host names them again, when the first one has begun.
    assert work.take() == "thp:a"
    work.offer(["thp:a", "thp:b"])
    assert [work.take(), work.take(), work.take()] == ["thp:b", "", ""]
