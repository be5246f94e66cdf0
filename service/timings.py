"""How long things took: a histogram of plain numbers, cheap enough for every request."""

from bisect import bisect_left

BOUNDS_SECONDS = (
    0.0001,
    0.00025,
    0.0005,
    0.001,
    0.0025,
    0.005,
    0.01,
    0.025,
    0.05,
    0.1,
    0.25,
    0.5,
    1.0,
    2.5,
    10.0,
)


class Timings:
    """Counts of durations up to each bound, and their sum.

    >>> timings = Timings()
    >>> timings.observe(0.0004)
    >>> timings.count, timings.cumulative()[2:4]
    (1, [(0.0005, 1), (0.001, 1)])
    """

    __slots__ = ("_counts", "count", "seconds")

    def __init__(self) -> None:
        self._counts = [0] * (len(BOUNDS_SECONDS) + 1)
        self.count = 0
        self.seconds = 0.0

    def observe(self, seconds: float) -> None:
        self._counts[bisect_left(BOUNDS_SECONDS, seconds)] += 1
        self.count += 1
        self.seconds += seconds

    def cumulative(self) -> list[tuple[float, int]]:
        """How many took at most so long, for each bound."""
        total = 0
        rising = []
        for bound, count in zip(BOUNDS_SECONDS, self._counts, strict=False):
            total += count
            rising.append((bound, total))
        return rising
