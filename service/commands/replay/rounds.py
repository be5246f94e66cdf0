"""Examples as rounds of a model.

A round's id is made of the model, the run, the row and what the row says. The same row sent again is thus the
same round, which the service answers again but does not learn again: a replay is safe to run twice, and to
go on with after it broke off.
"""

import hashlib
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator

import msgspec

from novikoff import AsyncClient, Outcome, Refused
from novikoff.calls import Features
from novikoff.lines import Line
from novikoff.schemas import Label
from service.commands.console import CommandFailed, counted
from service.commands.replay.shape import Shape
from service.commands.replay.survey import Example

LINES_MAX = 250
"""In one request: few enough that the bar moves, and that not much is sent behind a row that is refused."""

Stopped = Callable[[], bool]


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
        self, client: AsyncClient, model: str, shape: Shape, *, run: str, delay: int, with_ids: bool = True
    ) -> None:
        self._client = client
        self._model = model
        self._shape = shape
        self._run = f"{run}/{delay}"
        self._delay = delay
        self._with_ids = with_ids

    async def play(
        self, examples: Iterator[Example], is_stopped: Stopped, has_more: Callable[[], bool] = lambda: True
    ) -> AsyncIterator[Outcome]:
        """The outcomes of the rounds, many in one request. What has come is sent once `has_more` says no.

        Rows behind one that is refused are learned if they were in the same request: their outcomes come, too.
        """
        lines = self._lines(examples, is_stopped)
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

    async def play_one_by_one(
        self, examples: Iterator[Example], is_stopped: Stopped
    ) -> AsyncIterator[Outcome]:
        """The same with a request for each line, as a program does that has to act on every prediction."""
        for example, line in self._lines(examples, is_stopped):
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

    def _lines(self, examples: Iterator[Example], is_stopped: Stopped) -> Iterator[tuple[Example, Line]]:
        """What is sent for the examples, each line with the example that it is for."""
        waiting: deque[tuple[Example, str]] = deque()
        for example in examples:
            if is_stopped():
                return
            features, id = self._identify(example)
            if not self._with_ids:
                yield example, {"features": features, "label": example.label}
            elif not self._delay:
                yield example, {"features": features, "label": example.label, "id": id}
            else:
                yield example, {"features": features, "id": id}
                waiting.append((example, id))
                if len(waiting) > self._delay:
                    yield _reveal(*waiting.popleft())
        while waiting and not is_stopped():
            yield _reveal(*waiting.popleft())

    async def skip(self, examples: Iterator[Example], count: int) -> None:
        """Pass over the first examples, of which the last must be the model's last round.

        Rounds without ids cannot be told apart: then the count must do.
        """
        example = None
        for _ in range(count):
            example = next(examples, None)
            if example is None:
                raise CommandFailed(f"{self._model} has {count} rounds, more than the file has rows")
        if example is None or not self._with_ids:
            return
        _, id = self._identify(example)
        try:
            known = (await self._client.feedback(id, example.label)).replayed
        except Refused as refused:
            if refused.code != "unknown-prediction":
                raise
            known = False
        if not known:
            raise CommandFailed(
                f"{self._model} has {count} rounds, but its last was not row {count} of this file:"
                " there is nothing to go on with"
            )

    def _identify(self, example: Example) -> tuple[Features, str]:
        try:
            features = self._shape(example.features)
        except CommandFailed as error:
            raise CommandFailed(f"{example.place}: {error}") from None
        if not self._with_ids:
            return features, ""
        return features, round_id(self._model, self._run, example.row, features, example.label)


def _behind(rows: int) -> str:
    """
    >>> _behind(0), _behind(1)
    ('', '; 1 row behind it was in the same request and is learned')
    """
    if not rows:
        return ""
    verbs = ("was", "is") if rows == 1 else ("were", "are")
    return f"; {counted(rows, 'row')} behind it {verbs[0]} in the same request and {verbs[1]} learned"


def _reveal(example: Example, id: str) -> tuple[Example, Line]:
    return example, {"prediction_id": id, "label": example.label}


def _gather(
    lines: Iterator[tuple[Example, Line]], has_more: Callable[[], bool]
) -> tuple[list[tuple[Example, Line]], CommandFailed | None]:
    """The next lines to send, and the error that kept it from more of them."""
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
