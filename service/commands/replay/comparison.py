"""`--compare`: several models over the same rows, side by side.

Settings are given by short names, an algorithm and what its features get (`arow+standardize+fourier`), or as JSON.
The rows are read once, a batch at a time, and every model learns a batch before the next is read: so the input may be
a stream, and all models have seen the same rows when it is stopped.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from time import perf_counter
from typing import Any

import msgspec
from rich.box import SIMPLE_HEAD
from rich.table import Table

from novikoff import AsyncClient, Refused, Stats
from novikoff.schemas import Interval
from service.commands.console import CommandFailed, percent
from service.commands.replay.examples import Example, Source, shape_for
from service.commands.replay.rounds import Rounds, find_model
from service.learning.certainty import anytime

Settings = dict[str, Any]

USUAL = (
    "auto",
    "perceptron",
    "pa1+standardize",
    "arow+standardize",
    "arow+standardize+fourier",
    "logistic+standardize",
    "scw+standardize+crosses",
)
"""What `--compare usual` compares."""

ADDED: dict[str, Settings] = {
    "standardize": {"standardize": True},
    "fourier": {"fourier": {}},
    "crosses": {"crosses": 2},
}
"""What may follow an algorithm, and the setting of the features that it stands for."""

CONTESTANTS_MAX = 20
BATCH_ROWS = 1_000
CONFIDENCE = 0.95
NAME_SHOWN_CHARS = 24
"""Enough for the longest of the usual settings."""

NOTE = (
    "Each row was predicted before it was learned. `between` holds the true error rate at every row with 95%"
    " confidence. `against` is in percentage points (+ is more errors), 95% for all models together; ? means too few"
    " rows to tell."
)


def contestants(texts: Iterable[str], common: Settings) -> dict[str, Settings]:
    """The settings in their order, each once and each over those `common` to all.

    >>> found = contestants(["pa1,arow+standardize", '{"tie": -1}'], {"labels": [0, 1], "features": "dense"})
    >>> found["arow+standardize"]
    {'labels': [0, 1], 'features': {'kind': 'dense', 'standardize': True}, 'learner': {'algorithm': 'arow'}}
    >>> found['{"tie": -1}']
    {'labels': [0, 1], 'features': 'dense', 'tie': -1}
    """
    found: dict[str, Settings] = {}
    for text in texts:
        if text.lstrip().startswith("{"):
            found[text.strip()] = common | settings_in(text, f"--compare {text}")
            continue
        for name in (part.strip() for part in text.split(",")):
            for each in _usual(common) if name == "usual" else [name]:
                found[each] = _by_name(each, common)
    if len(found) < 2:
        raise CommandFailed("--compare needs two settings or more, such as --compare auto,arow+standardize")
    if len(found) > CONTESTANTS_MAX:
        raise CommandFailed(f"--compare takes at most {CONTESTANTS_MAX} settings, not {len(found)}")
    return found


def model_name(prefix: str, name: str, number: int) -> str:
    """The name of the model with these settings; `number` distinguishes those given as JSON.

    >>> model_name("mails", "arow+fourier", 3), model_name("mails", '{"tie": -1}', 3)
    ('mails.arow.fourier', 'mails.settings.3')
    """
    suffix = re.sub(r"[^A-Za-z0-9_:-]", ".", name) if not name.startswith("{") else f"settings.{number}"
    return f"{prefix}.{suffix}"


def _usual(common: Settings) -> list[str]:
    """Fourier features are for dense ones only."""
    is_dense = _features(common).get("kind", "dense") == "dense"
    return [name for name in USUAL if is_dense or "fourier" not in name]


def _by_name(name: str, common: Settings) -> Settings:
    algorithm, *added = name.split("+")
    features = _features(common)
    for word in added:
        if word not in ADDED:
            raise CommandFailed(f"--compare {name}: unknown part `{word}`; available are {', '.join(ADDED)}")
        features |= ADDED[word]
    learner = {"algorithm": algorithm}
    return {**common, "features": features if added else common.get("features", "dense"), "learner": learner}


def _features(common: Settings) -> Settings:
    features = common.get("features", "dense")
    return dict(features) if isinstance(features, dict) else {"kind": features}


def settings_in(text: str, option: str) -> Settings:
    """A model's settings as the JSON object that an option was given."""
    try:
        return msgspec.json.decode(text, type=Settings)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise CommandFailed(f"{option}: not a JSON object: {error}") from None


@dataclass(slots=True)
class Difference:
    """How much more often one model errs than another on the same rows, with an interval that holds at every row.

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
        """Add a row on which only this model erred (1), only the other (-1), or both or none (0)."""
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
        """Learn the rows; which of them it predicted wrongly."""
        began = perf_counter()
        mistakes = [outcome.mistake async for outcome in self.rounds.play(iter(batch))]
        self.seconds += perf_counter() - began
        return mistakes


class Comparison:
    """New models with different settings, all compared with the first."""

    def __init__(self, client: AsyncClient) -> None:
        self._client = client
        self.contestants: list[Contestant] = []
        self.rows = 0

    async def make(self, prefix: str, settings: dict[str, Settings], source: Source) -> None:
        """Make a model for each; if one is refused, those made before it are deleted."""
        for number, (name, chosen) in enumerate(settings.items(), 1):
            model = model_name(prefix, name, number)
            try:
                if await find_model(self._client, model) is not None:
                    raise CommandFailed(f"model {model} already exists: choose another name with --model")
                info = await self._client.create_model(model, **chosen)
                rounds = Rounds(self._client, model, shape_for(info, source), with_ids=False)
            except (Refused, CommandFailed) as error:
                for made in self.contestants:
                    await self._client.delete_model(made.model)
                raise CommandFailed(f"--compare {name}: {error}") from None
            self.contestants.append(Contestant(name, model, rounds))

    async def play(self, examples: Iterator[Example], advance: Callable[[int], None]) -> None:
        while batch := list(islice(examples, BATCH_ROWS)):
            first = await self.contestants[0].play(batch)
            for contestant in self.contestants[1:]:
                mistakes = await contestant.play(batch)
                for more, less in zip(mistakes, first, strict=True):
                    contestant.against_first.add(more - less)
            self.rows += len(batch)
            advance(len(batch))

    async def table(self) -> Table:
        """The models, the one with the fewest errors first, and below them two baselines that learn nothing."""
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
        # The 5 % are divided among the models, so that all intervals hold together (Bonferroni).
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
