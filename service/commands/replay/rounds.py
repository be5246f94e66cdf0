"""Sends examples as rounds of a model.

The id of a round is a hash of the model, the run, the row and its content. A row that is sent again is therefore the
same round, which the service does not learn again: a replay can be run twice, and resumed after it broke off.
"""

import hashlib
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import TypeVar

import msgspec

from novikoff import AsyncClient, ModelInfo, Outcome, Refused
from novikoff.calls import Features
from novikoff.lines import Line
from novikoff.schemas import Label
from service.commands.console import CommandFailed, counted
from service.commands.replay.examples import Example, Shape

T = TypeVar("T")

LINES_MAX = 250
"""In one request: few enough that the progress bar moves, and that few rows are sent behind a refused one."""


def round_id(model: str, run: str, row: int, features: Features, label: Label) -> str:
    """
    >>> round_id("m", "", 7, [1.0, 2.0], 1)
    'r7-866c68119641952c01db1f79'
    """
    content = msgspec.json.encode((model, run, row, features, label))
    return f"r{row}-{hashlib.blake2b(content, digest_size=12).hexdigest()}"


class Rounds:
    """Sends examples to a model; with a `delay`, each label only so many examples after its prediction.

    Without ids the service learns them as a block, which is several times faster; a label cannot come late then.
    """

    def __init__(
        self,
        client: AsyncClient,
        model: str,
        shape: Shape,
        *,
        run: str = "",
        delay: int = 0,
        with_ids: bool = True,
        is_stopped: Callable[[], bool] = lambda: False,
    ) -> None:
        self._client = client
        self._model = model
        self._shape = shape
        self._run = f"{run}/{delay}"
        self._delay = delay
        self._with_ids = with_ids
        self._is_stopped = is_stopped

    async def play(
        self, examples: Iterator[Example], has_more: Callable[[], bool] = lambda: True
    ) -> AsyncIterator[Outcome]:
        """The outcomes of the rounds, many in one request, which is sent when `has_more` is false.

        Rows behind a refused one in the same request are learned: their outcomes come, too.
        """
        lines = self._lines(examples)
        while True:
            sent, failure = _gather(lines, has_more)
            places = deque(example.place for example, _ in sent)
            refused, learned_behind = "", 0
            try:
                async for answer in self._client.iter_stream([line for _, line in sent], model=self._model):
                    place = places.popleft()
                    if isinstance(answer, Refused):
                        refused = refused or f"{place}: {answer}"
                    elif isinstance(answer, Outcome):
                        learned_behind += bool(refused)
                        yield answer
            except Refused as ended:
                raise CommandFailed(refused or f"{places[0]}: {ended}") from None
            if refused:
                raise CommandFailed(refused + _behind(learned_behind))
            if failure is not None:
                raise failure
            if not sent:
                return

    async def play_one_by_one(self, examples: Iterator[Example]) -> AsyncIterator[Outcome]:
        """The same with a request for each line, like a program that acts on every prediction."""
        for example, line in self._lines(examples):
            try:
                if "prediction_id" in line:
                    yield await self._client.feedback(line["prediction_id"], line["label"])
                elif "label" in line:
                    yield await self._client.learn(
                        self._model, line["features"], line["label"], id=line["id"]
                    )
                else:
                    await self._client.predict(self._model, line["features"], id=line["id"])
            except Refused as refused:
                raise CommandFailed(f"{example.place}: {refused}") from None

    def _lines(self, examples: Iterator[Example]) -> Iterator[tuple[Example, Line]]:
        """The lines to send, each with its example."""
        waiting: deque[tuple[Example, Line]] = deque()
        for example in examples:
            if self._is_stopped():
                return
            features, id = self._identify(example)
            if not self._with_ids:
                yield example, {"features": features, "label": example.label}
            elif not self._delay:
                yield example, {"features": features, "label": example.label, "id": id}
            else:
                yield example, {"features": features, "id": id}
                waiting.append((example, {"prediction_id": id, "label": example.label}))
                if len(waiting) > self._delay:
                    yield waiting.popleft()
        while waiting and not self._is_stopped():
            yield waiting.popleft()

    async def skip(self, examples: Iterator[Example], count: int) -> None:
        """Pass over the first examples, of which the last must be the model's last round.

        Rounds without ids look the same, so only their number is checked.
        """
        example = None
        for _ in range(count):
            example = next(examples, None)
            if example is None:
                raise CommandFailed(f"{self._model} has {count} rounds, more than the file has rows")
        if example is None or not self._with_ids:
            return
        _, id = self._identify(example)
        outcome = await _unless(self._client.feedback(id, example.label), "unknown-prediction")
        if outcome is None or not outcome.replayed:
            raise CommandFailed(
                f"cannot resume: {self._model} has {count} rounds, but its last was not row {count} of this file"
            )

    def _identify(self, example: Example) -> tuple[Features, str]:
        try:
            features = self._shape(example.features)
        except CommandFailed as error:
            raise CommandFailed(f"{example.place}: {error}") from None
        if not self._with_ids:
            return features, ""
        return features, round_id(self._model, self._run, example.row, features, example.label)


async def find_model(client: AsyncClient, model: str) -> ModelInfo | None:
    return await _unless(client.get_model(model), "unknown-model")


async def _unless(answer: Awaitable[T], code: str) -> T | None:
    """The answer, or None if it is refused with this code."""
    try:
        return await answer
    except Refused as refused:
        if refused.code != code:
            raise
        return None


def _behind(rows: int) -> str:
    """
    >>> _behind(0), _behind(1)
    ('', '; 1 row behind it was in the same request and is learned')
    """
    if not rows:
        return ""
    verbs = ("was", "is") if rows == 1 else ("were", "are")
    return f"; {counted(rows, 'row')} behind it {verbs[0]} in the same request and {verbs[1]} learned"


def _gather(
    lines: Iterator[tuple[Example, Line]], has_more: Callable[[], bool]
) -> tuple[list[tuple[Example, Line]], CommandFailed | None]:
    """The next lines to send, and the error that ended them, if one did."""
    sent: list[tuple[Example, Line]] = []
    try:
        while len(sent) < LINES_MAX and (not sent or has_more()):
            line = next(lines, None)
            if line is None:
                break
            sent.append(line)
    except CommandFailed as error:
        return sent, error
    return sent, None
