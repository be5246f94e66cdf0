"""Ratios as `/stats` shows them: None where there is nothing to divide by."""

from typing import Any


def ratio(part: float, whole: float) -> float | None:
    """`part / whole`, or None where there is no whole.

    >>> ratio(1, 4), ratio(0, 0)
    (0.25, None)
    """
    return part / whole if whole else None


def window(rounds: int, mistakes: int) -> dict[str, Any]:
    """The figures of one window of reveals.

    >>> window(100, 3)
    {'rounds': 100, 'mistakes': 3, 'error_rate': 0.03}
    """
    return {"rounds": rounds, "mistakes": mistakes, "error_rate": ratio(mistakes, rounds)}
