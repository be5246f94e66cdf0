"""POST /stream and /models/{model}/stream: rounds as lines of JSON, answered line by line while they come.

Lines are taken as they arrive, in chunks; while one is being learned, the next is read and decoded.
"""

import asyncio
from dataclasses import asdict
from typing import Any, NamedTuple

import msgspec

from service.engine.names import check_name
from service.engine.rounds.blocks import Blocks
from service.errors import InvalidRequest, NovikoffError, Overloaded, Unauthorized
from service.runtime.byte_budget import Shares, Tenants
from service.web.access.declarations import ROUND
from service.web.access.rate_limits import is_paced, pace
from service.web.access.tenants import NO_LONGER_VALID, TenantRounds, check_own, prefix, told_of_revocation
from service.web.http.compression import inflating_of
from service.web.http.headers import NOSNIFF
from service.web.http.requests import (
    NDJSON,
    Header,
    Receive,
    RequestLimits,
    Scope,
    Send,
    encoding_of,
    media_type_of,
    parameters,
    read_body,
)
from service.web.http.responses import JSON, document_of, respond, respond_with, stopped
from service.web.problems import HttpError
from service.web.routes.rounds import model_of_path
from service.web.stream.answers import StreamAnswers, Tally
from service.web.stream.arrow import ARROW, batches
from service.web.stream.held_answers import AnswerFiles, HeldAnswers
from service.web.stream.lines import Lines

_encode = msgspec.json.Encoder().encode

SHORT_BYTES_MAX = 1_048_576
"""A body up to this size, which its head has to tell, is answered in one piece if the answers are not too long."""


class Query(NamedTuple):
    """The default model, which answers are wanted, and the column of the label in Arrow streams.

    `only`: the model stands in the path, and lines of others are refused.
    """

    model: str | None
    answers: str
    label: str
    only: bool


QUERY = frozenset({"model", "answers", "label"})


class StreamEndpoint:
    """The route as a plain ASGI endpoint: both directions flow at the same time, memory is bounded."""

    access = ROUND

    def __init__(
        self,
        rounds: TenantRounds,
        blocks: Blocks,
        *,
        limits: RequestLimits,
        tenants: Tenants,
        answer_files: AnswerFiles,
    ) -> None:
        self._rounds = rounds
        self._blocks = blocks
        self._limits = limits
        self._answer_files = answer_files
        self._tenants = tenants
        self._open = Shares(tenants)

    @property
    def open_count(self) -> int:
        return self._open.count

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> int:
        tenant = self._tenants.of(prefix())
        if not self._open.may_take(tenant, 1, self._limits.streams_max):
            left = (
                "; the remaining places are for other tenants"
                if self._open.count < self._limits.streams_max
                else ""
            )
            return await respond_with(
                send, Overloaded(f"{self._open.count} streams are open{left}; try again later")
            )
        self._open.add(tenant, 0)
        try:
            query = _query(scope)
            if media_type_of(scope["headers"]) == ARROW:
                return await self._take_arrow(scope, receive, send, query)
            return await self._take_lines(scope, receive, send, query)
        except Exception as error:
            return await respond_with(send, error)
        finally:
            self._open.remove(tenant, 0)

    async def _take_lines(self, scope: Scope, receive: Receive, send: Send, query: Query) -> int:
        if media_type_of(scope["headers"]) != NDJSON:
            raise HttpError(
                "unsupported-media-type",
                f"send lines with content-type: {NDJSON.decode()}, or columns with {ARROW.decode()}",
            )
        inflating = inflating_of(  # or it is refused, before the answer begins
            encoding_of(scope["headers"]),
            ratio_max=self._limits.inflated_ratio_max,
            bytes_max=self._limits.inflated_bytes_max,
        )
        summary = query.answers == "summary"
        media_type = b"application/json" if summary else NDJSON
        head = {
            "type": "http.response.start",
            "status": 200,
            "headers": [(b"content-type", media_type), NOSNIFF],
        }
        # Who is slowed down gets the answers of a chunk before the next one is paid for.
        answers = StreamAnswers(
            self._rounds,
            self._blocks,
            model=query.model,
            only=query.only,
            wanted=not summary,
            ahead=not is_paced(),
            errors_max=self._limits.stream_errors_max,
        )
        incoming = Lines(
            receive,
            inflating,
            line_bytes_max=self._limits.line_bytes_max,
            errors_max=self._limits.stream_errors_max,
            streams_open=lambda: self._open.count,
        )
        held = HeldAnswers(self._answer_files, self._tenants.of(prefix()))
        async with incoming:
            sending = asyncio.create_task(_send_all(send, head, held))
            others: list[asyncio.Task[Any]] = [sending]
            if is_paced() or not _is_short(scope["headers"]):
                held.begin()
            try:
                try:
                    with told_of_revocation(lambda: incoming.stop(Unauthorized(NO_LONGER_VALID))):
                        ended_by = await _answer_all(incoming, answers, held)
                except asyncio.CancelledError:
                    ended_by = _counted(stopped(), answers.tally)
                if ended_by is not None:
                    others.append(asyncio.create_task(incoming.drop(self._limits.upload_bytes_max)))
                if summary:
                    held.end(_summary(answers.tally, ended_by))
                else:
                    held.end(b"" if ended_by is None else _last_line(ended_by))
                last = await sending
            finally:
                for task in others:
                    task.cancel()
                await asyncio.wait(others)
                held.close()
        await send({"type": "http.response.body", "body": last})
        return 200

    async def _take_arrow(self, scope: Scope, receive: Receive, send: Send, query: Query) -> int:
        """Whole rounds as columns; the response is a summary. The first bad batch ends it."""
        if query.model is None:
            raise InvalidRequest.at("model", "is missing in the query")
        check_own(query.model)
        limits = self._limits
        body = await read_body(
            scope,
            receive,
            limits.upload_bytes_max,
            frozenset({ARROW}),
            inflated_ratio_max=limits.inflated_ratio_max,
        )
        tally = Tally()
        blocks = batches(
            body, query.label, bytes_max=limits.upload_bytes_max, features_max=limits.features_max
        )
        try:
            async for outcome in self._blocks.learn_arrays(query.model, blocks):
                tally.add_rounds(len(outcome), sum(outcome.mistake))
                await pace(len(outcome))
        except NovikoffError as error:
            if tally.lines:
                error.detail += f"; at least {tally.lines} rounds before it were learned"
            raise
        await respond(send, 200, (JSON,), _encode(tally))
        return 200


async def _answer_all(incoming: Lines, answers: StreamAnswers, held: HeldAnswers) -> NovikoffError | None:
    """Answer lines until no more come; or what has ended the stream before that."""
    ended = False
    while not ended:
        lines = await incoming.take(unless=answers.under_way)
        ended = lines is not None and not lines
        await pace(len(lines or ()))
        for portion in answers.portions(lines) if lines else [[]]:
            body = await answers.answer(portion)
            if body:
                try:
                    await held.put(body)
                except HttpError as error:
                    await answers.answer([])  # what is under way already is learned, too
                    return _counted(error, answers.tally)
            if answers.ended_by is not None:
                return _counted(answers.ended_by, answers.tally)
    return None


def _counted(error: NovikoffError, tally: Tally) -> NovikoffError:
    error.detail += f". {tally.lines} lines were accepted, and no more"
    return error


def _is_short(headers: list[Header]) -> bool:
    """Whether a body is short. Then its answer begins when all of it has come and tells its own length, as answers of
    other routes do: some proxies lose what is left of either if both are under way, or if the answer has no length."""
    length = dict(headers).get(b"content-length", b"")
    return length.isdigit() and int(length) <= SHORT_BYTES_MAX


async def _send_all(send: Send, head: dict[str, Any], held: HeldAnswers) -> bytes:
    """Send all answers but the last; it is the caller's to send, once the stream has given back what it had."""
    await held.begun()
    if (whole := held.whole()) is not None:
        length = (b"content-length", b"%d" % len(whole))
        await send({**head, "headers": [*head["headers"], length]})
        return whole
    await send(head)
    while body := await held.take():
        await send({"type": "http.response.body", "body": body, "more_body": True})
    return b""


def _summary(tally: Tally, ended_by: NovikoffError | None) -> bytes:
    return _encode(tally if ended_by is None else asdict(tally) | {"ended": document_of(ended_by)})


def _last_line(error: NovikoffError) -> bytes:
    """Says why a stream ends before its time."""
    return _encode({"error": document_of(error), "ended": True}) + b"\n"


def _query(scope: Scope) -> Query:
    given = parameters(scope["query_string"], QUERY)
    answers = given.get("answers", "all")
    if answers not in ("all", "summary"):
        raise InvalidRequest.at("answers", "must be all or summary")
    model = given.get("model")
    named = scope.get("path_params", {}).get("model")
    if named is not None:
        check_name("model", named)
        model = model_of_path(named, model)
    return Query(model, answers, given.get("label", "label"), named is not None)
