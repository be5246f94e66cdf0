"""What a replay shows while it runs and when it is over."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import perf_counter

from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    SpinnerColumn,
    Task,
    TimeRemainingColumn,
)
from rich.table import Table
from rich.text import Text

from novikoff import Outcome, Stats
from novikoff.schemas import Bound, Interval
from service.commands.console import counted, err, percent


class Tally:
    """What this replay did: rounds, those that were known before, and how long it took."""

    def __init__(self, rounds_before: int) -> None:
        self._rounds_before = rounds_before
        self.rounds = 0
        self.repeated = 0
        self.seconds = 0.0
        self.last: Outcome | None = None
        self._began = perf_counter()

    def add(self, outcome: Outcome) -> None:
        self.last = outcome
        self.rounds += 1
        self.repeated += outcome.rounds <= self._rounds_before
        self.seconds = perf_counter() - self._began

    @property
    def pace(self) -> float:
        """Rounds a second."""
        return self.rounds / self.seconds if self.seconds else 0.0


class Figures(ProgressColumn):
    """The model's figures as of the last round."""

    def __init__(self, tally: Tally) -> None:
        super().__init__()
        self._tally = tally

    def render(self, task: Task) -> Text:
        last = self._tally.last
        if last is None:
            return Text("")
        return Text(
            f"{counted(int(task.completed), 'round')}  {self._tally.pace:,.0f}/s"
            f"  error {percent(last.mistakes / last.rounds)}  {counted(last.mistakes, 'mistake')}"
        )


@contextmanager
def bar(total: int | None, skipped: int, tally: Tally) -> Iterator[Callable[[], None]]:
    """A bar on standard error, if that is a terminal, and how to advance it; gone in the end."""
    columns = (SpinnerColumn(), BarColumn(), Figures(tally), TimeRemainingColumn())
    with Progress(*columns, console=err, transient=True, disable=not err.is_terminal) as progress:
        task = progress.add_task("", total=total, completed=skipped)
        yield lambda: progress.advance(task)


@contextmanager
def plain_bar(total: int | None) -> Iterator[Callable[[int], None]]:
    """A bar on standard error, if that is a terminal, and how to advance it by rows; gone in the end."""
    columns = (SpinnerColumn(), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=err, transient=True, disable=not err.is_terminal) as progress:
        task = progress.add_task("", total=total)
        yield lambda rows: progress.advance(task, rows)


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
        rows["waiting for labels"] = f"{stats.rounds.pending:,}"
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
    """Where the rate is, in brackets behind it.

    >>> within(Interval(low=0.021, high=0.0434, confidence=0.95, rounds=1000))
    ' (2.10% to 4.34% with 95% confidence)'
    """
    if interval is None:
        return ""
    return f" ({percent(interval.low)} to {percent(interval.high)} with {100 * interval.confidence:g}% confidence)"
