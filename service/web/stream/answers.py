"""Answering the lines of a stream.

Whole rounds of the same model that follow each other are one event; before anything that depends on them, they are
learned. So the learning is the same as one by one.

When the journal has no room for a line, the line waits. If there is none for long, if an event cannot be written, or if
the key of the stream is revoked, the stream ends there: no line is learned after one that was refused.
"""

import asyncio
from asyncio import Future
from collections.abc import Callable, Coroutine, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from math import inf
from typing import Any, NamedTuple

import msgspec

from novikoff.schemas import FeaturesSent
from service.engine.models.labels import LABEL_ABS_MAX
from service.engine.models.outcomes import BlockOutcome
from service.engine.rounds.blocks import ROOM_SECONDS_MAX, Begun, Blocks, even_share, with_room
from service.errors import (
    InvalidRequest,
    NovikoffError,
    Overloaded,
    TooManyPending,
    Unauthorized,
    Unavailable,
    kept,
)
from service.events import Label
from service.journal.protocol import Appended
from service.learning.vectors import Rows
from service.runtime.cooperative import Turns, gather_in_turns
from service.web.access.tenants import TenantRounds, check_own
from service.web.http.compression import TooInflated
from service.web.http.responses import document_of
from service.web.routes.rounds import (
    block_answers,
    check_label,
    feedback_answer,
    learn_answer,
    model_of_path,
    predict_answer,
)
from service.web.stream.line import Line, WholeRounds, one_by_one
from service.web.stream.lines import Part


class Run(NamedTuple):
    """Whole rounds of one model: which of the chunk's lines they are, and what is in them."""

    places: Sequence[int]
    features: list[FeaturesSent] | Rows
    labels: list[Label]


class UnderWay(NamedTuple):
    """A chunk that is one run, on its way to the journal."""

    model: str
    run: Run
    begun: Begun


def as_one_run(lines: Part, stream_model: str | None, only: str | None = None) -> tuple[str, Run] | None:
    """A model, this one if there is `only` one, and the lines as its whole rounds, if that is what all of them are."""
    model: str | None
    features: list[FeaturesSent] | Rows
    labels: list[Any]
    if isinstance(lines, WholeRounds):
        model, features, labels = lines.model, lines.rows, [*lines.labels]
    else:
        given: list[Any] = lines
        try:
            models = {line.model for line in given}
            ids = {line.id for line in given} | {line.prediction_id for line in given}
            weights = {line.weight for line in given} | {line.tag for line in given}
        except AttributeError:  # there are errors among them
            return None
        features = [line.features for line in given]
        if len(models) > 1 or ids != {None} or weights != {None} or None in features:
            return None
        model, labels = models.pop(), [line.label for line in given]
    model = model or stream_model
    if model is None or only not in (None, model) or not _are_plain(labels):
        return None
    return model, Run(range(len(labels)), features, labels)


def portions(
    lines: Part,
    stream_model: str | None,
    only: str | None,
    at_once: Callable[[str, list[FeaturesSent] | Rows], int],
) -> Iterator[Part]:
    """The same lines. If they are one run, then at a time no more than `at_once` says of its model and features."""
    start = 0
    if isinstance(lines, WholeRounds):
        while start < len(lines):
            fit = at_once(lines.model or stream_model or "", lines.rows)
            end = start + even_share(len(lines) - start, fit)
            yield lines.part(start, end)
            start = end
    elif (whole := as_one_run(lines, stream_model, only)) is not None:
        model, run = whole
        while start < len(lines):
            end = start + even_share(len(lines) - start, at_once(model, run.features))
            yield lines[start:end]
            start = end
    else:
        yield lines


def _are_plain(labels: list[Any]) -> bool:
    """Whether all are integers or all booleans, within bounds: then none need be looked at by itself.

    >>> _are_plain([1, -1]), _are_plain([1, True]), _are_plain([1.0]), _are_plain([None])
    (True, False, False, False)
    """
    kinds = set(map(type, labels))
    return kinds in ({int}, {bool}) and min(labels) >= -LABEL_ABS_MAX and max(labels) <= LABEL_ABS_MAX


ERRORS_TOLD_MAX = 10
"""How many errors a summary has in full."""


@dataclass(slots=True)
class Tally:
    """The counts that `?answers=summary` answers with."""

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

    def add_error(self, document: dict[str, Any] | None) -> None:
        """`document`: what the error is, unless it is only counted."""
        self.lines += 1
        self.errors += 1
        if document is not None and len(self.first_errors) < ERRORS_TOLD_MAX:
            self.first_errors.append(document)


def with_errors(
    answers: list[object], wrong: dict[int, Exception], tally: Tally, errors_max: int
) -> list[object]:
    """The answers of a chunk with those to its bad lines, which are counted.

    Past `errors_max` bad lines of the stream, one answer stands for all that stand together.

    >>> from service.web.problems import HttpError
    >>> bad = dict.fromkeys([0, 1, 3], HttpError("malformed-json", "x"))
    >>> [each if each == "good" else each.get("lines") for each in with_errors(["good"] * 4, bad, Tally(), 0)]
    [2, 'good', 1]
    """
    summed_up: dict[str, Any] = {}
    left_out: set[int] = set()
    last = -1
    for at, error in sorted(wrong.items()):
        if tally.errors < errors_max:
            document = document_of(error)
            answers[at] = {"error": document}
            tally.add_error(document)
            continue
        if summed_up and at == last + 1:
            summed_up["lines"] += 1
            left_out.add(at)
        else:
            answers[at] = summed_up = {"error": document_of(error), "lines": 1}
        last = at
        tally.add_error(None)
    if not left_out:
        return answers
    return [answer for at, answer in enumerate(answers) if at not in left_out]


BETWEEN_TURNS = 32
"""After how many lines it is seen whether it is the turn of others."""

_encode_lines = msgspec.json.Encoder().encode_lines


class StreamAnswers:
    """Answers chunks of lines, one chunk after the other, and counts what came of them."""

    def __init__(
        self,
        rounds: TenantRounds,
        blocks: Blocks,
        *,
        model: str | None,
        only: bool,
        wanted: bool,
        ahead: bool,
        errors_max: int,
    ) -> None:
        """`model` is that of lines without one, or of all that are taken; without answers `wanted`, there is a tally.

        With `ahead`, a chunk may be handed to the journal while the one before is on its way to the disk. Past
        `errors_max` bad lines, those that stand together in a chunk get one answer.
        """
        self._rounds = rounds
        self._blocks = blocks
        self._model = model
        self._only = model if only else None
        self._wanted = wanted
        self._ahead = ahead
        self._errors_max = errors_max
        self._under_way: UnderWay | None = None
        self.tally = Tally()
        self.ended_by: NovikoffError | None = None
        """Why no more lines are taken; it stands for the first line that was not."""

    @property
    def under_way(self) -> Future[Appended] | None:
        """The chunk that is on its way to the disk, if there is one: once it is done, call `answer` for its answers."""
        return self._under_way.begun.appended if self._under_way else None

    def portions(self, lines: Part) -> Iterator[Part]:
        """The same lines, at a time no more rounds of one model than should be one event."""
        return portions(lines, self._model, self._only, self._blocks.at_once)

    async def answer(self, lines: Part) -> bytes:
        """The answers of what was under way, then those of these lines unless they are under way now."""
        is_over = self.under_way is not None and self.under_way.done()  # those lines may be lost: see first
        may_begin = lines and self._ahead and self._blocks.keep_order and not is_over
        following = self._begin(lines) if may_begin else None
        told = b""
        if self._under_way is not None:
            model, run, begun = self._under_way
            self._expect(len(run.labels))
            await self._finish(model, run, begun)
            told = self._told()
        self._under_way = following
        if self.ended_by is not None:
            if following is not None:  # which is kept only if what was before it is
                await asyncio.wait([following.begun.appended])
        elif following is None and lines:
            self._expect(len(lines))
            await self._answer_now(lines)
            told += self._told()
        return told

    def _begin(self, lines: Part) -> UnderWay | None:
        """Start to learn a chunk that is one run; None if it has to wait until those before it are learned."""
        whole = as_one_run(lines, self._model, self._only)
        if whole is None:
            return None
        model, run = whole
        try:
            check_own(model)
            begun = self._blocks.begin(model, run.features, run.labels)
        except NovikoffError:
            return None
        return UnderWay(model, run, begun) if begun is not None else None

    async def _answer_now(self, lines: Part) -> None:
        whole = as_one_run(lines, self._model, self._only)
        if whole is not None:
            await self._learn_all(dict([whole]))
        else:
            await self._answer_each(lines.lines() if isinstance(lines, WholeRounds) else lines)

    def _expect(self, lines: int) -> None:
        self._answers: list[object] = [None] * lines
        self._wrong: dict[int, Exception] = {}
        self._taken = 0

    def _refuse(self, places: Sequence[int], error: NovikoffError) -> None:
        """Take these lines no more, nor any after them."""
        self.ended_by = self.ended_by or kept(error)
        self._wrong |= dict.fromkeys(places, self.ended_by)

    def _leave_out_refused(self) -> None:
        """Of the lines after the last one that was taken, only the stream's end tells."""
        wrong = (at + 1 for at, error in self._wrong.items() if error is not self.ended_by)
        taken = max(self._taken, *wrong, 0)
        self._answers = self._answers[:taken]
        self._wrong = {at: error for at, error in self._wrong.items() if at < taken}

    def _told(self) -> bytes:
        if self.ended_by is not None:
            self._leave_out_refused()
        answers = with_errors(self._answers, self._wrong, self.tally, self._errors_max)
        return _encode_lines(answers) if self._wanted else b""

    async def _answer_each(self, lines: Sequence[Line | NovikoffError]) -> None:
        turns = Turns()
        runs: dict[str, Run] = {}  # not yet learned, by their models
        for at, line in enumerate(lines):
            if not at % BETWEEN_TURNS:
                await turns.give()
            try:
                if isinstance(line, (TooInflated, Unauthorized, Overloaded)):
                    await self._learn_all(runs)
                    self._refuse([at], line)
                    return
                if isinstance(line, NovikoffError):
                    self._wrong[at] = line
                    continue
                model = line.model or self._model
                if self._only is not None:
                    model_of_path(self._only, model)
                own = line.id or line.prediction_id or (line.weight, line.tag) != (None, None)
                if line.features is None or line.label is None or own:
                    await self._learn_all(runs)
                    if self.ended_by is not None:
                        return
                    self._answers[at] = await with_room(partial(self._one, line, model))
                    self._taken = at + 1
                    continue
                label = check_label(line.label)
                run = runs.setdefault(_named(model), Run([], [], []))
                run.labels.append(label)
                run.features.append(line.features)  # type: ignore[union-attr]
                run.places.append(at)  # type: ignore[attr-defined]
                if len(run.places) >= self._blocks.at_once(_named(model), run.features):
                    await self._learn_all(runs)
                    if self.ended_by is not None:
                        return
            except TooManyPending as error:
                self._wrong[at] = kept(error)
            except (Overloaded, Unauthorized) as error:
                self._refuse([at], error)
                return
            except Exception as error:
                self._wrong[at] = kept(error)
        await self._learn_all(runs)

    async def _one(self, line: Line, model: str | None) -> object:
        weight = 1.0 if line.weight is None else line.weight
        if line.prediction_id is not None:
            if line.label is None or line.features is not None or line.id is not None or line.tag is not None:
                raise InvalidRequest.at("prediction_id", "is allowed only with a label")
            done = await self._rounds.reveal(line.prediction_id, check_label(line.label), weight, self._only)
            self.tally.add_rounds(1, done.outcome.mistake)
            return feedback_answer(done)
        if line.features is None:
            raise InvalidRequest.at("features", "is missing")
        if line.label is None:
            if line.weight is not None:
                raise InvalidRequest.at("weight", "is allowed only with a label")
            served = await self._rounds.predict(_named(model), line.features, line.id, tag=line.tag)
            self.tally.lines += 1
            self.tally.predicted += 1
            return predict_answer(served)
        label = check_label(line.label)
        done = await self._rounds.learn(_named(model), line.features, label, line.id, weight, line.tag)
        self.tally.add_rounds(1, done.outcome.mistake)
        return learn_answer(done)

    async def _learn_all(self, runs: dict[str, Run]) -> None:
        """Learn the waiting lines. Models know nothing of each other: their blocks may share a commit."""
        begun: list[tuple[str, Run, Begun]] = []
        slow: list[Coroutine[Any, Any, None]] = []
        for model, run in runs.items():
            # Once some of the lines are on their way, the others must follow, however long it takes.
            seconds_max = inf if begun else ROOM_SECONDS_MAX
            if self.ended_by is not None:
                self._refuse(run.places, self.ended_by)
                continue
            try:
                started = await with_room(partial(self._begun, model, run), seconds_max)
            except (Overloaded, Unauthorized) as error:
                self._refuse(run.places, error)
                continue
            except NovikoffError as error:
                self._wrong |= dict.fromkeys(run.places, kept(error))
                continue
            if started is None:
                slow.append(self._learn(model, run))
            else:
                begun.append((model, run, started))
        runs.clear()
        if slow:
            await gather_in_turns(slow)
        for each in begun:
            await self._finish(*each)

    async def _begun(self, model: str, run: Run) -> Begun | None:
        check_own(model)
        return self._blocks.begin(model, run.features, run.labels)

    async def _finish(self, model: str, run: Run, begun: Begun) -> None:
        """Wait until a run is learned."""
        try:
            outcome = (await begun.appended).applied
        except Unavailable as error:
            self._refuse(run.places, error)
        except NovikoffError as error:
            self._wrong |= dict.fromkeys(run.places, kept(error))
        else:
            self._tell(model, run.places, run.labels, outcome)

    async def _learn(self, model: str, run: Run) -> None:
        """Learn rounds that are not all good, or whose model is not loaded."""
        places = run.places
        try:
            check_own(model)
            sent = run.features if isinstance(run.features, list) else one_by_one(run.features)
            outcome, errors = await with_room(partial(self._blocks.learn, model, sent, run.labels))
        except (Overloaded, Unauthorized) as error:
            self._refuse(places, error)
            return
        except Exception as error:
            self._wrong |= dict.fromkeys(places, kept(error))
            return
        self._wrong |= {places[place]: error for place, error in errors.items()}
        if outcome is not None:
            good = [place for place in range(len(places)) if place not in errors]
            labels = [run.labels[place] for place in good]
            self._tell(model, [places[place] for place in good], labels, outcome)

    def _tell(self, model: str, places: Sequence[int], labels: list[Label], outcome: BlockOutcome) -> None:
        """Put down what came of the rounds of a block."""
        self.tally.add_rounds(len(outcome), sum(outcome.mistake))
        self._taken = max(self._taken, places[-1] + 1)
        if self._wanted:
            told = block_answers(model, outcome.labels, labels, outcome)
            if len(places) == len(self._answers):
                self._answers = list(told)
                return
            for at, answer in zip(places, told, strict=True):
                self._answers[at] = answer


def _named(model: str | None) -> str:
    if model is None:
        raise InvalidRequest.at("model", "is missing, and the stream has no default")
    return model
