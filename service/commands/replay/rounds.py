"""Examples as rounds of a model.

A round's id is made of the model, the run, the row and what the row says. The same row sent again is thus the
same round, which the service answers again but does not learn again: a replay is safe to run twice, and to
go on with after it broke off.
"""

import hashlib
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator

import msgspec

from service.answers import Label
from service.client import AsyncClient, Ended, Outcome, Refused
from service.client.calls import Features, Line
from service.commands.console import CommandFailed
from service.commands.replay.shape import Shape
from service.commands.replay.source import Example


def round_id(model: str, run: str, row: int, features: Features, label: Label) -> str:
    """
    >>> round_id("m", "", 7, [1.0, 2.0], 1)
    'r7-866c68119641952c01db1f79'
    """
    content = msgspec.json.encode((model, run, row, features, label))
    return f"r{row}-{hashlib.blake2b(content, digest_size=12).hexdigest()}"


class Rounds:
    """Sends examples to a model; with a `delay`, each label only so many examples after its prediction."""

    def __init__(self, client: AsyncClient, model: str, shape: Shape, *, run: str, delay: int) -> None:
        self._client = client
        self._model = model
        self._shape = shape
        self._run = f"{run}/{delay}"
        self._delay = delay

    async def play_fast(
        self, examples: Iterator[Example], is_stopped: Callable[[], bool]
    ) -> AsyncIterator[Outcome]:
        """Whole rounds without ids, many in one request."""
        rows: deque[int] = deque()

        def lines() -> Iterator[Line]:
            for example in examples:
                if is_stopped():
                    return
                rows.append(example.row)
                yield {"features": self._shaped(example), "label": example.label}

        try:
            async for answer in self._client.stream(lines(), model=self._model):
                row = rows.popleft()
                if isinstance(answer, Refused):
                    raise CommandFailed(
                        f"row {row}: {answer}; rows sent together with it were learned all the same"
                    )
                assert isinstance(answer, Outcome)
                yield answer
        except Ended as ended:
            raise _at(rows[0], ended) from None

    async def play(
        self, examples: Iterator[Example], is_stopped: Callable[[], bool]
    ) -> AsyncIterator[Outcome]:
        """The outcome of each round, as soon as its label is revealed."""
        waiting: deque[tuple[int, str, Label]] = deque()
        for example in examples:
            if is_stopped():
                return
            features, id = self._identify(example)
            try:
                if not self._delay:
                    yield await self._client.learn(self._model, features, example.label, id=id)
                    continue
                await self._client.predict(self._model, features, id=id)
            except Refused as refused:
                raise _at(example.row, refused) from None
            waiting.append((example.row, id, example.label))
            if len(waiting) > self._delay:
                yield await self._reveal(*waiting.popleft())
        while waiting and not is_stopped():
            yield await self._reveal(*waiting.popleft())

    async def skip(self, examples: Iterator[Example], count: int, *, by_count: bool = False) -> None:
        """Pass over the first examples, of which the last must be the model's last round.

        Rounds without ids cannot be told apart: then the count must do.
        """
        example = None
        for _ in range(count):
            example = next(examples, None)
            if example is None:
                raise CommandFailed(f"{self._model} has {count} rounds, more than the file has rows")
        if example is None or by_count:
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

    def _shaped(self, example: Example) -> Features:
        try:
            return self._shape(example.features)
        except CommandFailed as error:
            raise CommandFailed(f"row {example.row}: {error}") from None

    def _identify(self, example: Example) -> tuple[Features, str]:
        features = self._shaped(example)
        return features, round_id(self._model, self._run, example.row, features, example.label)

    async def _reveal(self, row: int, id: str, label: Label) -> Outcome:
        try:
            return await self._client.feedback(id, label)
        except Refused as refused:
            raise _at(row, refused) from None


def _at(row: int, refused: Refused) -> CommandFailed:
    return CommandFailed(f"row {row}: {refused}")
