"""Several models over the same rows, side by side, and what they are compared by.

The rows are read once, a batch at a time, and every model learns a batch before the next is read: so a stream of any
length will do, and all have seen the same when it is stopped.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from time import perf_counter

from rich.box import SIMPLE_HEAD
from rich.table import Table

from novikoff import AsyncClient, Refused, Stats
from novikoff.schemas import Interval
from service.commands.console import CommandFailed, percent
from service.commands.replay.contestants import Settings, model_name
from service.commands.replay.making import shape_for
from service.commands.replay.rounds import Rounds
from service.commands.replay.source import Source
from service.commands.replay.survey import Example
from service.learning.certainty import anytime

BATCH_ROWS = 1_000
CONFIDENCE = 0.95
NAME_SHOWN_CHARS = 24
"""Room for the longest of the usual settings."""


@dataclass(slots=True)
class Difference:
    """How much more often one errs than another on the same rows, with an interval that may be looked at any time.

    >>> difference = Difference()
    >>> for number in range(1000):
    ...     difference.add(number % 5 == 0)
    >>> difference.interval(0.95)
    Interval(low=0.131287780566, high=0.268712219434)
    """

    rounds: int = 0
    total: int = 0
    _variance: float = 0.0

    def add(self, more: int) -> None:
        """Take in a row on which it erred once more (1), once less (-1) or as much (0) as the other."""
        distance = more - (self.total / self.rounds if self.rounds else 0.0)
        self._variance += distance * distance
        self.rounds += 1
        self.total += more

    def interval(self, confidence: float) -> anytime.Interval:
        return anytime.interval(
            self.total, self.rounds, self._variance, confidence, scale=2.0, low=-1.0, high=1.0
        )


@dataclass(slots=True)
class Contestant:
    """A model in the comparison."""

    name: str
    model: str
    rounds: Rounds
    seconds: float = 0.0
    against_first: Difference = field(default_factory=Difference)

    async def play(self, batch: list[Example]) -> list[bool]:
        """Learn the rows; on which of them it erred."""
        began = perf_counter()
        mistakes = [outcome.mistake async for outcome in self.rounds.play(iter(batch), lambda: False)]
        self.seconds += perf_counter() - began
        return mistakes


class Comparison:
    """Models made for settings with names, all compared with the first."""

    def __init__(self, client: AsyncClient) -> None:
        self._client = client
        self.contestants: list[Contestant] = []
        self.rows = 0

    async def make(self, prefix: str, settings: dict[str, Settings], source: Source) -> None:
        """A model for each; none is left behind if one is refused."""
        for number, (name, chosen) in enumerate(settings.items(), 1):
            model = model_name(prefix, name, number)
            try:
                await self._refuse_if_known(model)
                info = await self._client.create_model(model, **chosen)
                rounds = Rounds(self._client, model, shape_for(info, source), run="", delay=0, with_ids=False)
            except (Refused, CommandFailed) as error:
                for made in self.contestants:
                    await self._client.delete_model(made.model)
                raise CommandFailed(f"--compare {name}: {error}") from None
            self.contestants.append(Contestant(name, model, rounds))

    async def _refuse_if_known(self, model: str) -> None:
        try:
            await self._client.get_model(model)
        except Refused as refused:
            if refused.code != "unknown-model":
                raise
        else:
            raise CommandFailed(f"there is a model {model} already: choose another name with --model")

    async def play(
        self, examples: Iterator[Example], is_stopped: Callable[[], bool], advance: Callable[[int], None]
    ) -> None:
        """All rows, or those before it was stopped."""
        while not is_stopped() and (batch := list(islice(examples, BATCH_ROWS))):
            first = await self.contestants[0].play(batch)
            for contestant in self.contestants[1:]:
                mistakes = await contestant.play(batch)
                for more, less in zip(mistakes, first, strict=True):
                    contestant.against_first.add(more - less)
            self.rows += len(batch)
            advance(len(batch))

    async def table(self) -> Table:
        """The models, the one that errs least on top, and beneath them what needs no learning."""
        found = [(each, await self._client.stats(each.model)) for each in self.contestants]
        title = f"{self.rows:,} rows, the same for all"
        table = Table(
            title=title, title_justify="left", box=SIMPLE_HEAD, show_edge=False, padding=(0, 1, 0, 0)
        )
        table.add_column("settings", overflow="fold", min_width=NAME_SHOWN_CHARS)
        first = self.contestants[0].name if len(self.contestants[0].name) <= NAME_SHOWN_CHARS else "the first"
        for head in ("error", "between", "last\n1,000", f"against\n{first}", "", "rows/s"):
            table.add_column(head, justify="right")
        for contestant, stats in sorted(found, key=lambda pair: pair[1].mistakes):
            table.add_row(contestant.name, *self._cells(contestant, stats))
        baselines = found[0][1].baselines
        table.add_section()
        table.add_row("(the majority class)", percent(baselines.majority_error_rate, 1), style="dim")
        table.add_row("(the label before)", percent(baselines.no_change_error_rate, 1), style="dim")
        return table

    def _cells(self, contestant: Contestant, stats: Stats) -> list[str]:
        pace = f"{self.rows / contestant.seconds:,.0f}" if contestant.seconds else "-"
        cells = [
            percent(stats.error_rate, 1),
            _between(stats.error_rate_interval),
            percent(stats.windows.last_1000.error_rate, 1),
        ]
        difference = contestant.against_first
        if not difference.rounds:
            return [*cells, "", "", pace]
        # Each gets its part of the 5 %, so that all of them hold together.
        interval = difference.interval(1 - (1 - CONFIDENCE) / (len(self.contestants) - 1))
        mean = difference.total / difference.rounds
        radius = max(interval.high - mean, mean - interval.low)
        return [*cells, f"{100 * mean:+.1f} ± {100 * radius:.1f}", verdict(interval), pace]


def verdict(interval: anytime.Interval) -> str:
    """
    >>> verdict(anytime.Interval(0.01, 0.2)), verdict(anytime.Interval(-0.1, 0.2))
    ('worse', '?')
    """
    if interval.low > 0:
        return "worse"
    return "better" if interval.high < 0 else "?"


def _between(interval: Interval | None) -> str:
    return "-" if interval is None else f"{100 * interval.low:.1f}–{percent(interval.high, 1)}"
