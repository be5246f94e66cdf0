"""POST /stream: rounds as lines of JSON, answered line by line while they come.

Lines are taken as they arrive, in chunks. Whole rounds that follow each other are one event for each of their
models; before anything that depends on them, they are learned. So the learning is the same as one by one.
"""

import asyncio
import zlib
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple
from urllib.parse import parse_qs

import msgspec

from service.errors import InvalidRequest, NovikoffError, Overloaded
from service.events import Label
from service.web.arrow import ARROW, batches
from service.web.bodies import NDJSON, Receive, Scope, Send, media_type_of, read_body
from service.web.fast import JSON, document_of, raise_problem, respond, respond_with
from service.web.problems import HttpError
from service.web.rate_limits import pace
from service.web.rounds import (
    FeaturesSent,
    LabelSent,
    LearnAnswer,
    check_label,
    feedback_answer,
    learn_answer,
    predict_answer,
)
from service.web.security_headers import NOSNIFF
from service.web.tenants import TenantBlocks, TenantRounds

CHUNK_LINES_MAX = 1_000
INFLATED_BYTES_MAX = 262_144
ERRORS_TOLD_MAX = 10
"""In a summary."""

_encode = msgspec.json.Encoder().encode


class Line(msgspec.Struct, forbid_unknown_fields=True):
    """Features: predict. A prediction_id and a label: reveal. Features and a label: a whole round."""

    model: str | None = None
    features: FeaturesSent | None = None
    prediction_id: str | None = None
    label: LabelSent | None = None
    id: str | None = None


@dataclass(slots=True)
class Tally:
    """What `?answers=summary` tells."""

    lines: int = 0
    predicted: int = 0
    revealed: int = 0
    mistakes: int = 0
    errors: int = 0
    first_errors: list[dict[str, Any]] = field(default_factory=list)


class Query(NamedTuple):
    """The default model, which answers are wanted, and the column of the label in Arrow streams."""

    model: str | None
    answers: str
    label: str


class StreamEndpoint:
    """The route as a plain ASGI endpoint: both directions flow at the same time, memory is bounded."""

    def __init__(
        self,
        rounds: TenantRounds,
        blocks: TenantBlocks,
        *,
        line_bytes_max: int,
        upload_bytes_max: int,
        streams_max: int,
    ) -> None:
        self._rounds = rounds
        self._blocks = blocks
        self._line_bytes_max = line_bytes_max
        self._upload_bytes_max = upload_bytes_max
        self._streams_max = streams_max
        self._open = 0
        self._decode = msgspec.json.Decoder(Line).decode

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> int:
        if self._open >= self._streams_max:
            return await respond_with(send, Overloaded(f"{self._open} streams are open; try again later"))
        self._open += 1
        try:
            query = _query(scope)
            if media_type_of(scope["headers"]) == ARROW:
                return await self._take_arrow(scope, receive, send, query)
            return await self._take_lines(scope, receive, send, query)
        except NovikoffError as error:
            return await respond_with(send, error)
        finally:
            self._open -= 1

    async def _take_lines(self, scope: Scope, receive: Receive, send: Send, query: Query) -> int:
        if media_type_of(scope["headers"]) != NDJSON:
            raise HttpError(
                "unsupported-media-type",
                f"send lines with content-type: {NDJSON.decode()}, or columns with {ARROW.decode()}",
            )
        summary = query.answers == "summary"
        media_type = b"application/json" if summary else NDJSON
        head = {
            "type": "http.response.start",
            "status": 200,
            "headers": [(b"content-type", media_type), NOSNIFF],
        }
        await send(head)
        tally = Tally()
        async for lines in self._chunks(scope, receive):
            await pace(len(lines))
            answers = await self._answer(lines, query.model, tally)
            if not summary:
                body = b"".join([_encode(answer) + b"\n" for answer in answers])
                await send({"type": "http.response.body", "body": body, "more_body": True})
        await send({"type": "http.response.body", "body": _encode(tally) if summary else b""})
        return 200

    async def _take_arrow(self, scope: Scope, receive: Receive, send: Send, query: Query) -> int:
        """Whole rounds as columns; what came of them is told as a summary. The first bad batch ends it."""
        if query.model is None:
            raise InvalidRequest.at("model", "is missing in the query")
        body = await read_body(scope, receive, self._upload_bytes_max, frozenset({ARROW}))
        tally = Tally()
        for block, labels in batches(body, query.label):
            await pace(len(labels))
            _, outcomes = await self._blocks.learn_arrays(query.model, block, labels)
            tally.lines += len(outcomes)
            tally.revealed += len(outcomes)
            tally.mistakes += sum(outcome.mistake for outcome in outcomes)
        await respond(send, 200, (JSON,), _encode(tally))
        return 200

    async def _chunks(self, scope: Scope, receive: Receive) -> AsyncIterator[list[bytes | None]]:
        """The lines as they come, None for one that is too long."""
        rest = b""
        skipping = False
        async for data in _body(scope, receive):
            *lines, rest = (rest + data).split(b"\n")
            if skipping and lines:
                lines[0] = None  # type: ignore[call-overload]
                skipping = False
            if len(rest) > self._line_bytes_max:
                rest, skipping = b"", True
            whole = [None if line is None or len(line) > self._line_bytes_max else line for line in lines]
            for start in range(0, len(whole), CHUNK_LINES_MAX):
                yield whole[start : start + CHUNK_LINES_MAX]
        if rest or skipping:
            yield [None if skipping else rest]

    async def _answer(self, lines: list[bytes | None], default_model: str | None, tally: Tally) -> list[Any]:
        """The answers of a chunk, in the order of its lines."""
        answers: list[Any] = []
        run: list[tuple[int, str, FeaturesSent, Label]] = []  # whole rounds not yet learned, and their places
        for raw in lines:
            if raw is not None and not raw.strip():
                continue
            tally.lines += 1
            answers.append(None)
            try:
                line = self._line(raw)
                model = line.model or default_model
                if line.features is not None and line.label is not None and line.id is None:
                    if model is None:
                        raise InvalidRequest.at("model", "is missing, and the stream has no default")
                    run.append((len(answers) - 1, model, line.features, check_label(line.label)))
                    continue
                await self._learn_run(run, answers)
                answers[-1] = await self._one(line, model)
            except Exception as error:
                answers[-1] = error
        await self._learn_run(run, answers)
        return [self._told(answer, tally) for answer in answers]

    def _line(self, raw: bytes | None) -> Line:
        if raw is None:
            raise HttpError("body-too-large", f"a line may have {self._line_bytes_max} bytes at most")
        try:
            return self._decode(raw)
        except msgspec.MsgspecError as error:
            raise_problem(error)

    async def _one(self, line: Line, model: str | None) -> Any:
        if line.prediction_id is not None:
            if line.label is None or line.features is not None or line.id is not None:
                raise InvalidRequest.at("prediction_id", "goes with a label, and with nothing else")
            return feedback_answer(await self._rounds.reveal(line.prediction_id, check_label(line.label)))
        if line.features is None:
            raise InvalidRequest.at("features", "is missing")
        if model is None:
            raise InvalidRequest.at("model", "is missing, and the stream has no default")
        if line.label is None:
            prediction, _ = await self._rounds.predict(model, line.features, line.id)
            return predict_answer(prediction)
        return learn_answer(await self._rounds.learn(model, line.features, check_label(line.label), line.id))

    async def _learn_run(self, run: list[tuple[int, str, FeaturesSent, Label]], answers: list[Any]) -> None:
        """Learn whole rounds that follow each other: one event for each of their models."""
        by_model: dict[str, list[tuple[int, FeaturesSent, Label]]] = {}
        for at, model, features, label in run:
            by_model.setdefault(model, []).append((at, features, label))
        run.clear()
        # Models know nothing of each other: their blocks may share a commit.
        await asyncio.gather(*(self._learn_block(m, rounds, answers) for m, rounds in by_model.items()))

    async def _learn_block(
        self, model: str, rounds: list[tuple[int, FeaturesSent, Label]], answers: list[Any]
    ) -> None:
        try:
            live, results = await self._blocks.learn(model, [(f, label) for _, f, label in rounds])
        except Exception as error:
            for at, _, _ in rounds:
                answers[at] = error
            return
        labels = live.model.labels
        for (at, _, label), result in zip(rounds, results, strict=True):
            if isinstance(result, NovikoffError):
                answers[at] = result
                continue
            answers[at] = LearnAnswer(
                None,
                model,
                labels.label(result.served),
                label,
                result.mistake,
                result.updated,
                result.version,
                result.rounds,
                result.mistakes,
                result.score,
            )

    def _told(self, answer: Any, tally: Tally) -> Any:
        """An answer as its line says it, and counted."""
        if isinstance(answer, Exception):
            told = {"error": document_of(answer)}
            tally.errors += 1
            if len(tally.first_errors) < ERRORS_TOLD_MAX:
                tally.first_errors.append(told["error"])
            return told
        if hasattr(answer, "mistake"):
            tally.revealed += 1
            tally.mistakes += answer.mistake
        else:
            tally.predicted += 1
        return answer


def _query(scope: Scope) -> Query:
    given = parse_qs(scope["query_string"].decode("ascii", "replace"))
    unknown = sorted(given.keys() - set(Query._fields))
    if unknown:
        raise InvalidRequest.at(unknown[0][:200], "is not known here")
    answers = given.get("answers", ["all"])[0]
    if answers not in ("all", "summary"):
        raise InvalidRequest.at("answers", "must be all or summary")
    model = given["model"][0] if "model" in given else None
    return Query(model, answers, given.get("label", ["label"])[0])


async def _body(scope: Scope, receive: Receive) -> AsyncIterator[bytes]:
    """The parts of the body as they come, inflated if they are deflated, never much at once."""
    encoding = next((value for name, value in scope["headers"] if name == b"content-encoding"), b"")
    inflate = zlib.decompressobj(wbits=31) if encoding.lower() == b"gzip" else None
    more = True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            return
        more = message.get("more_body", False)
        data = message.get("body", b"")
        if inflate is None:
            if data:
                yield data
            continue
        while data:
            try:
                inflated = inflate.decompress(data, INFLATED_BYTES_MAX)
            except zlib.error:
                yield b"\n{not gzip\n"  # a bad line, in its place
                return
            if inflated:
                yield inflated
            data = inflate.unconsumed_tail
