"""Repetitions, taken in turn, and what they come to."""

import statistics
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from bench.scale import Scale

Thing = Callable[[float], float]
"""Something that is done for so many seconds; a figure of merit comes out."""


@dataclass(frozen=True, slots=True)
class Samples:
    """One value from each repetition.

    >>> Samples((4.0, 2.0, 3.0)) / Samples((2.0, 2.0, 1.0))
    Samples(values=(2.0, 1.0, 3.0))
    >>> print(Samples((4000.0, 2000.0, 3000.0)))
    3,000 (2,000–4,000)
    """

    values: tuple[float, ...]

    @property
    def median(self) -> float:
        return statistics.median(self.values)

    def __truediv__(self, other: "Samples") -> "Samples":
        """Ratios within each repetition: what slows a noisy machine down for a while slows both sides."""
        return Samples(tuple(a / b for a, b in zip(self.values, other.values, strict=True)))

    def __mul__(self, factor: float) -> "Samples":
        return Samples(tuple(value * factor for value in self.values))

    def __str__(self) -> str:
        if len(self.values) == 1:
            return number(self.median)
        return f"{number(self.median)} ({number(min(self.values))}–{number(max(self.values))})"


def number(value: float) -> str:
    """A figure with as many digits as it is worth.

    >>> number(12345.6), number(45.67), number(2.0), number(0.1234)
    ('12,346', '45.7', '2.00', '0.123')
    """
    size = abs(value)
    return f"{value:,.{0 if size >= 100 else 1 if size >= 10 else 2 if size >= 1 else 3}f}"


def in_turn(things: Mapping[str, Thing], scale: Scale) -> dict[str, Samples]:
    """Warm each up, then do all of them again and again, each time beginning with another one."""
    for thing in things.values():
        thing(scale.warmup_seconds)
    names = list(things)
    taken: dict[str, list[float]] = {name: [] for name in names}
    for repetition in range(scale.repetitions):
        first = repetition % len(names)
        for name in names[first:] + names[:first]:
            taken[name].append(things[name](scale.seconds))
    return {name: Samples(tuple(values)) for name, values in taken.items()}
