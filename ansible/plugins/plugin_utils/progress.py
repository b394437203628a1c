"""How far a play is in its batches, and how long the others will take if they take as long."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field


@dataclass
class Batches:
    """The batches of a play, by its id: their sizes, and when each began."""

    play: str
    sizes: Sequence[int]
    begun: list[float] = field(default_factory=list)

    def begin(self, now: float) -> str:
        """Begin the next batch, and describe it."""
        self.begun.append(now)
        number, hosts = len(self.begun), sum(self.sizes)
        if not self.sizes:
            return "all hosts"
        first = sum(self.sizes[: number - 1]) + 1
        last = min(first + self.sizes[min(number, len(self.sizes)) - 1] - 1, hosts)
        left = self.left(now)
        estimate = "" if left is None else f", about {span(left)} left"
        return f"batch {number} of {len(self.sizes)}, hosts {first} to {last} of {hosts}{estimate}"

    def left(self, now: float) -> float | None:
        """Return how many seconds the present batch and those after it will take; unknown in the first one."""
        over = len(self.begun) - 1
        return None if over < 1 else (now - self.begun[0]) / over * (len(self.sizes) - over)

    def age(self, now: float) -> float:
        return now - self.begun[-1] if self.begun else 0.0

    def total(self, now: float) -> float:
        return now - self.begun[0] if self.begun else 0.0


def span(seconds: float) -> str:
    """Return a time as a person would say it."""
    minutes = round(seconds / 60)
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{minutes} min" if minutes < 100 else f"{minutes // 60} h {minutes % 60} min"
