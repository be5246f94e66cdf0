"""What a replay shows at its end, and how Ctrl-C stops it."""

import signal
from collections.abc import Iterator
from time import perf_counter
from types import FrameType
from typing import Self, TypeVar

from rich.table import Table

from novikoff import Outcome, Stats
from novikoff.schemas import Bound, Interval
from service.commands.console import counted, percent

T = TypeVar("T")


class Tally:
    """The rounds of this replay, how many of them the model knew before, and how long they took."""

    def __init__(self, rounds_before: int) -> None:
        self._rounds_before = rounds_before
        self.rounds = 0
        self.repeated = 0
        self.seconds = 0.0
        self._began = perf_counter()

    def add(self, outcome: Outcome) -> str:
        """Count an outcome; the model's figures after it, for the progress bar."""
        self.rounds += 1
        self.repeated += outcome.rounds <= self._rounds_before
        self.seconds = perf_counter() - self._began
        error = percent(outcome.mistakes / outcome.rounds)
        return f"{self.pace:,.0f}/s  error {error}  {counted(outcome.mistakes, 'mistake')}"

    @property
    def pace(self) -> float:
        """Rounds a second."""
        return self.rounds / self.seconds if self.seconds else 0.0


def summary(stats: Stats, tally: Tally, *, is_complete: bool) -> Table:
    """The model after the replay, and the replay itself."""
    table = Table(title=stats.model, title_justify="left", show_header=False)
    table.add_column(style="dim")
    table.add_column()
    baselines = stats.baselines
    rows = {
        "rounds": f"{stats.rounds.revealed:,}" + ("" if is_complete else " so far"),
        "mistakes": f"{stats.mistakes:,}",
        "error rate": percent(stats.error_rate) + within(stats.error_rate_interval),
        "of the last 1,000": percent(stats.windows.last_1000.error_rate),
        "of the majority class": percent(baselines.majority_error_rate),
        "of the label before": percent(baselines.no_change_error_rate),
        "updates": f"{stats.updates:,}",
        "mistake bound": in_words(stats.bound, stats.mistakes),
        "drifts": f"{stats.drift.count:,}",
        "this replay": f"{counted(tally.rounds, 'round')} in {tally.seconds:.1f} s, {tally.pace:,.0f}/s",
    }
    if stats.rounds.pending:
        rows["pending"] = f"{stats.rounds.pending:,}"
    if tally.repeated:
        rows["of those known before"] = f"{tally.repeated:,}, not learned again (--run NAME makes them new)"
    for name, value in rows.items():
        table.add_row(name, value)
    return table


def in_words(bound: Bound, mistakes: int) -> str:
    """
    >>> none = dict.fromkeys(Bound.__struct_fields__)
    >>> in_words(Bound(**none | {"verdict": "within", "mistake_bound": 1024.5}), 101)
    'within: 101 of at most 1,024'
    >>> in_words(Bound(**none | {"verdict": "unknown", "why": "no margin is declared"}), 101)
    'unknown: no margin is declared'
    """
    verdict = bound.verdict.replace("_", " ")
    if bound.mistake_bound is not None:
        return f"{verdict}: {mistakes:,} of at most {int(bound.mistake_bound):,}"
    return f"{verdict}: {bound.why}" if bound.why else verdict


def within(interval: Interval | None) -> str:
    """
    >>> within(Interval(low=0.021, high=0.0434, confidence=0.95, rounds=1000))
    ' (2.10% to 4.34% with 95% confidence)'
    """
    if interval is None:
        return ""
    return f" ({percent(interval.low)} to {percent(interval.high)} with {100 * interval.confidence:g}% confidence)"


class Interrupt:
    """While it is in force, the first Ctrl-C sets `is_set`, so that the replay ends after the round under way.

    A second Ctrl-C ends the program.
    """

    def __init__(self) -> None:
        self.is_set = False
        self._is_reading = False

    def __enter__(self) -> Self:
        self._before = signal.signal(signal.SIGINT, self._on_sigint)
        return self

    def __exit__(self, *_: object) -> None:
        signal.signal(signal.SIGINT, self._before)

    def reading(self, items: Iterator[T]) -> Iterator[T]:
        """The same items; Ctrl-C ends them even while the next is being waited for."""
        try:
            while not self.is_set:
                self._is_reading = True
                item = next(items, None)
                self._is_reading = False
                if item is None:
                    return
                yield item
        except _Interrupted:
            return

    def _on_sigint(self, _: int, __: FrameType | None) -> None:
        if self.is_set:
            raise KeyboardInterrupt
        self.is_set = True
        if self._is_reading:
            self._is_reading = False
            raise _Interrupted


class _Interrupted(BaseException):
    """Raised by the signal handler to interrupt a read that waits for input."""
