"""Answering the lines of a stream.

Whole rounds that follow each other are one event for each of their models; before anything that depends on
them, they are learned. So the learning is the same as one by one.
"""

import asyncio
from collections.abc import Coroutine, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import msgspec

from service.engine.blocks import Begun
from service.engine.live import Live
from service.engine.outcomes import BlockOutcome
from service.errors import InvalidRequest, NovikoffError
from service.events import Label
from service.web.fast import document_of
from service.web.lines import Line
from service.web.rounds import (
    LABEL_ABS_MAX,
    FeaturesSent,
    block_answers,
    check_label,
    feedback_answer,
    learn_answer,
    predict_answer,
)
from service.web.tenants import TenantBlocks, TenantRounds

ERRORS_TOLD_MAX = 10
"""In a summary."""

_encode_lines = msgspec.json.Encoder().encode_lines


@dataclass(slots=True)
class Tally:
    """What `?answers=summary` tells."""

    lines: int = 0
    predicted: int = 0
    revealed: int = 0
    mistakes: int = 0
    errors: int = 0
    first_errors: list[dict[str, Any]] = field(default_factory=list)

    def add_rounds(self, rounds: int, mistakes: int) -> None:
        self.lines += rounds
        self.revealed += rounds
        self.mistakes += mistakes

    def add_error(self, document: dict[str, Any]) -> None:
        self.lines += 1
        self.errors += 1
        if len(self.first_errors) < ERRORS_TOLD_MAX:
            self.first_errors.append(document)


class Run(NamedTuple):
    """Whole rounds of one model: which of the chunk's lines they are, and what is in them."""

    places: Sequence[int]
    features: list[FeaturesSent]
    labels: list[Label]


class StreamAnswers:
    """Answers chunks of lines, one chunk after the other, and counts what came of them."""

    def __init__(
        self, rounds: TenantRounds, blocks: TenantBlocks, *, model: str | None, wanted: bool
    ) -> None:
        """`model` is that of lines without one; without answers `wanted`, there is only the tally."""
        self._rounds = rounds
        self._blocks = blocks
        self._model = model
        self._wanted = wanted
        self.tally = Tally()

    async def answer(self, lines: list[Line | NovikoffError]) -> bytes:
        """The answers of a chunk, a line each in the order of its lines."""
        self._answers: list[object] = [None] * len(lines)
        self._wrong: dict[int, Exception] = {}
        whole = self._as_one_run(lines)
        if whole is not None:
            await self._learn_all(whole)
        else:
            await self._answer_each(lines)
        for at, error in sorted(self._wrong.items()):
            document = document_of(error)
            self._answers[at] = {"error": document}
            self.tally.add_error(document)
        return _encode_lines(self._answers) if self._wanted else b""

    def _as_one_run(self, lines: list[Any]) -> dict[str, Run] | None:
        """The lines as whole rounds of one model, if that is what all of them are."""
        try:
            models = {line.model for line in lines}
            ids = {line.id for line in lines} | {line.prediction_id for line in lines}
        except AttributeError:  # there are errors among them
            return None
        model = models.pop() or self._model
        features = [line.features for line in lines]
        labels = [line.label for line in lines]
        if models or model is None or ids != {None} or None in features or not _are_plain(labels):
            return None
        return {model: Run(range(len(lines)), features, labels)}

    async def _answer_each(self, lines: list[Line | NovikoffError]) -> None:
        runs: dict[str, Run] = {}  # not yet learned, by their models
        for at, line in enumerate(lines):
            try:
                if isinstance(line, NovikoffError):
                    raise line
                model = line.model or self._model
                if line.features is None or line.label is None or line.id or line.prediction_id:
                    await self._learn_all(runs)
                    self._answers[at] = await self._one(line, model)
                    continue
                label = check_label(line.label)
                run = runs.get(_named(model))
                if run is None:
                    run = runs[_named(model)] = Run([], [], [])
                run.labels.append(label)
                run.features.append(line.features)
                run.places.append(at)  # type: ignore[attr-defined]
            except Exception as error:
                self._wrong[at] = error
        await self._learn_all(runs)

    async def _one(self, line: Line, model: str | None) -> object:
        if line.prediction_id is not None:
            if line.label is None or line.features is not None or line.id is not None:
                raise InvalidRequest.at("prediction_id", "goes with a label, and with nothing else")
            done = await self._rounds.reveal(line.prediction_id, check_label(line.label))
            self.tally.add_rounds(1, done.outcome.mistake)
            return feedback_answer(done)
        if line.features is None:
            raise InvalidRequest.at("features", "is missing")
        if line.label is None:
            prediction, _ = await self._rounds.predict(_named(model), line.features, line.id)
            self.tally.lines += 1
            self.tally.predicted += 1
            return predict_answer(prediction)
        done = await self._rounds.learn(_named(model), line.features, check_label(line.label), line.id)
        self.tally.add_rounds(1, done.outcome.mistake)
        return learn_answer(done)

    async def _learn_all(self, runs: dict[str, Run]) -> None:
        """Learn what waits. Models know nothing of each other: their blocks may share a commit."""
        begun: list[tuple[str, Run, Begun]] = []
        slow: list[Coroutine[Any, Any, None]] = []
        for model, run in runs.items():
            try:
                started = self._blocks.begin(model, run.features, run.labels)
            except NovikoffError as error:
                self._wrong |= dict.fromkeys(run.places, error)
                continue
            if started is None:
                slow.append(self._learn(model, run))
            else:
                begun.append((model, run, started))
        runs.clear()
        if slow:
            await asyncio.gather(*slow)
        for model, run, (live, appended) in begun:
            try:
                outcome = (await appended).applied
            except NovikoffError as error:
                self._wrong |= dict.fromkeys(run.places, error)
            else:
                self._tell(model, live, run.places, run.labels, outcome)

    async def _learn(self, model: str, run: Run) -> None:
        """Learn rounds that are not all good, or whose model is not loaded."""
        places = run.places
        try:
            live, outcome, errors = await self._blocks.learn(model, run.features, run.labels)
        except Exception as error:
            self._wrong |= dict.fromkeys(places, error)
            return
        self._wrong |= {places[place]: error for place, error in errors.items()}
        if outcome is not None:
            good = [place for place in range(len(places)) if place not in errors]
            labels = [run.labels[place] for place in good]
            self._tell(model, live, [places[place] for place in good], labels, outcome)

    def _tell(
        self, model: str, live: Live, places: Sequence[int], labels: list[Label], outcome: BlockOutcome
    ) -> None:
        """Put down what came of the rounds of a block."""
        self.tally.add_rounds(len(outcome), sum(outcome.mistake))
        if self._wanted:
            told = block_answers(model, live.model.labels, labels, outcome)
            for at, answer in zip(places, told, strict=True):
                self._answers[at] = answer


def _are_plain(labels: list[Any]) -> bool:
    """Whether all are integers or all booleans, within bounds: then none need be looked at by itself.

    >>> _are_plain([1, -1]), _are_plain([1, True]), _are_plain([1.0]), _are_plain([None])
    (True, False, False, False)
    """
    kinds = set(map(type, labels))
    return kinds in ({int}, {bool}) and min(labels) >= -LABEL_ABS_MAX and max(labels) <= LABEL_ABS_MAX


def _named(model: str | None) -> str:
    if model is None:
        raise InvalidRequest.at("model", "is missing, and the stream has no default")
    return model
