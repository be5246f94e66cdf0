"""The asynchronous client. `Client` in sync.py documents each call."""

import asyncio
from collections.abc import AsyncIterator, Collection, Iterable, Mapping, Sequence
from typing import Any, Self

import httpx

from service.answers import (
    AttentionPage,
    Caller,
    Correction,
    Forgotten,
    Label,
    ModelInfo,
    ModelLine,
    PendingPrediction,
    Stats,
)
from service.client import (
    calls,
    challenger_calls,
    correction_calls,
    job_calls,
    making,
    read_calls,
    stream_calls,
    tables,
)
from service.client.answers import (
    DryRun,
    Event,
    Fleet,
    Job,
    LargestWeights,
    Learned,
    Outcome,
    PastRound,
    Prediction,
    Weights,
)
from service.client.attempts import Attempts, Pause
from service.client.calls import (
    CHUNK_LINES,
    Answer,
    Call,
    Features,
    Line,
    Streamed,
)
from service.client.connecting import DEFAULT_URL, RETRY_SECONDS, TIMEOUT_SECONDS, options
from service.client.feed_frames import Frame, Frames
from service.client.lines import Lines
from service.client.problems import Ended, Refused, refusal
from service.client.read_calls import Read, Time
from service.client.tables import Answered, Answers, Table


class AsyncClient:
    """Like `Client`, for use in `async with`; many calls may be under way at once."""

    def __init__(
        self,
        url: str = DEFAULT_URL,
        *,
        key: str | None = None,
        timeout_seconds: float = TIMEOUT_SECONDS,
        retry_seconds: float = RETRY_SECONDS,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        self._http = httpx.AsyncClient(**options(url, key, timeout_seconds), transport=transport)
        self._retry_seconds = retry_seconds

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        await self._http.aclose()

    async def predict(
        self,
        model: str,
        features: Features,
        *,
        id: str | None = None,
        explain: int = 0,
        min_version: int = 0,
        tag: str | None = None,
    ) -> Prediction:
        return await self._send(calls.predict(model, features, id, explain, min_version, tag))

    async def dry_run(
        self, model: str, features: Features, *, explain: int = 0, min_version: int = 0
    ) -> DryRun:
        return await self._send(calls.dry_run(model, features, explain, min_version))

    async def feedback(self, prediction_id: str, label: Label, *, weight: float = 1.0) -> Outcome:
        return await self._send(calls.feedback(prediction_id, label, weight))

    async def correct(self, prediction_id: str, label: Label, *, reason: str | None = None) -> Correction:
        """Correct the label of a finished round: the model is rebuilt as if this one had come first."""
        return await self._send(correction_calls.correct(prediction_id, label, reason))

    async def void(self, prediction_id: str) -> Correction:
        """Let a prediction that was never shown not count; a finished round, as if it had never been."""
        return await self._send(correction_calls.void(prediction_id))

    async def forget(self, model: str, tag: str) -> Forgotten:
        """Forget all that carries a tag: the model becomes as if it had never been, and it goes from the files."""
        return await self._send(correction_calls.forget(model, tag))

    async def learn(
        self,
        model: str,
        features: Features,
        label: Label,
        *,
        id: str | None = None,
        weight: float = 1.0,
        tag: str | None = None,
    ) -> Learned:
        return await self._send(calls.learn(model, features, label, id, weight, tag))

    async def learn_many(
        self, model: str, examples: Iterable[tuple[Features, Label]], *, safe: bool = True
    ) -> list[Learned]:
        return await self._play(model, list(stream_calls.whole_rounds(examples, safe=safe)), Learned)

    async def iter_learn(
        self, model: str, examples: Iterable[tuple[Features, Label]], *, safe: bool = True
    ) -> AsyncIterator[Learned]:
        async for answer in self.iter_stream(stream_calls.whole_rounds(examples, safe=safe), model=model):
            if isinstance(answer, Refused):
                raise answer
            assert isinstance(answer, Learned)
            yield answer

    async def stream(
        self, lines: Iterable[Line], *, model: str | None = None, chunk: int = CHUNK_LINES
    ) -> list[Streamed]:
        return [answer async for answer in self.iter_stream(lines, model=model, chunk=chunk)]

    async def iter_stream(
        self, lines: Iterable[Line], *, model: str | None = None, chunk: int = CHUNK_LINES
    ) -> AsyncIterator[Streamed]:
        for lines_sent in stream_calls.chunks(lines, chunk):
            for answer in await self._send(stream_calls.stream(lines_sent, model)):
                if isinstance(answer, Ended):
                    raise answer
                yield answer

    async def predict_table(self, model: str, table: Table) -> list[Prediction]:
        info = await self._find(model) if tables.has_names(table) else None
        lines = tables.lines_of(table, None, is_dense=info is not None and info.features_kind == "dense")
        return await self._play(model, lines, Prediction)

    async def learn_table(
        self, model: str, table: Table, labels: Iterable[Label], *, safe: bool = True
    ) -> list[Learned]:
        info = await self._find(model)
        is_dense = info is not None and info.features_kind == "dense"
        lines = tables.lines_of(table, labels, is_dense=is_dense, safe=safe)
        if info is None and lines:
            await self._make(model, tables.kind_of(lines), [line["label"] for line in lines])
        return await self._play(model, lines, Learned)

    async def _play(self, model: str, lines: list[Line], kind: type[Answered]) -> list[Answered]:
        answers = Answers(kind, len(lines))
        for sent in stream_calls.chunks(lines, CHUNK_LINES):
            with answers.of_one_request():
                async for answer in self.iter_stream(sent, model=model):
                    answers.add(answer)
        return answers.good

    async def _find(self, model: str) -> ModelInfo | None:
        try:
            return await self.get_model(model)
        except Refused as refused:
            if refused.code != "unknown-model":
                raise
            return None

    async def _make(self, model: str, kind: str, labels: Collection[Label]) -> None:
        settings = making.settings_for(kind, labels)
        if settings is None:
            return
        try:
            await self.create_model(model, **settings)
        except Refused as refused:
            if not making.is_no_matter(refused, labels):
                raise

    async def create_model(self, model: str, **settings: Any) -> ModelInfo:
        return await self._send(calls.create_model(model, settings))

    async def get_model(self, model: str) -> ModelInfo:
        return await self._send(calls.get_model(model))

    async def list_models(self, prefix: str = "", *, page: int = 1000) -> AsyncIterator[ModelLine]:
        cursor = None
        while True:
            listed = await self._send(calls.list_models(prefix, cursor, page))
            for line in listed.models:
                yield line
            if (cursor := listed.next) is None:
                return

    async def reset_model(self, model: str) -> ModelInfo:
        return await self._send(calls.reset_model(model))

    async def rollback_model(self, model: str, to: int) -> ModelInfo:
        return await self._send(calls.rollback_model(model, to))

    async def fork_model(self, model: str, new: str, *, at: int | None = None) -> ModelInfo:
        return await self._send(calls.fork_model(model, new, at))

    async def delete_model(self, model: str) -> None:
        await self._send(calls.delete_model(model))

    async def add_challenger(self, model: str, name: str, **settings: Any) -> ModelInfo:
        return await self._send(challenger_calls.add_challenger(model, name, settings))

    async def add_warm_challenger(self, model: str, name: str, **settings: Any) -> Job:
        return await self._send(job_calls.add_warm_challenger(model, name, settings))

    async def remove_challenger(self, model: str, name: str) -> None:
        await self._send(challenger_calls.remove_challenger(model, name))

    async def promote(self, model: str, challenger: str) -> ModelInfo:
        return await self._send(challenger_calls.promote(model, challenger))

    async def rule_promotion(self, model: str, promote: Mapping[str, Any] | None) -> ModelInfo:
        return await self._send(challenger_calls.rule_promotion(model, promote))

    async def export_model(self, model: str, *, format: str = "novikoff", at: int | None = None) -> bytes:
        return await self._send(calls.export_model(model, format, at))

    async def import_model(self, model: str, export: bytes) -> ModelInfo:
        return await self._send(calls.import_model(model, export))

    async def weights(self, model: str, *, at: int | None = None) -> Weights:
        return await self._send(calls.weights(model, at))

    async def largest_weights(self, model: str, count: int = 10, *, at: int | None = None) -> LargestWeights:
        return await self._send(calls.largest_weights(model, count, at))

    async def stats(self, model: str, *, at: int | None = None) -> Stats:
        return await self._send(calls.stats(model, at))

    async def stats_fields(self, model: str, *fields: str, at: int | None = None) -> dict[str, Any]:
        return await self._send(calls.stats_fields(model, fields, at))

    async def attention(self) -> AttentionPage:
        return await self._send(calls.attention())

    async def whoami(self) -> Caller:
        return await self._send(calls.whoami())

    async def pending(
        self, model: str, *, order: str = "newest", page: int = 100
    ) -> AsyncIterator[PendingPrediction]:
        cursor: str | None = None
        while True:
            found = await self._send(calls.pending(model, order, cursor, page))
            for waiting in found.pending:
                yield waiting
            if (cursor := found.next) is None:
                return

    async def events(self, model: str, *, after: int = 0, page: int = 1000) -> AsyncIterator[Event]:
        cursor: int | None = after
        while cursor is not None:
            found = await self._send(calls.events(model, cursor, page))
            for event in found.read():
                yield event
            cursor = found.next

    async def feed(
        self, model: str | None = None, *, last_event_id: str | None = None
    ) -> AsyncIterator[Frame]:
        call, frames = read_calls.feed(model), Frames()
        async for part in self._read(call, call.asked(last_event_id)):
            for frame in frames.complete(part):
                yield frame

    async def fit(
        self, model: str, examples: Iterable[tuple[Features, Label]] | None = None, **options: Any
    ) -> Job:
        return await self._send(job_calls.fit(model, examples, options))

    async def what_if(
        self,
        model: str,
        settings: Mapping[str, Any] | None = None,
        *,
        grid: Sequence[Mapping[str, Any]] | None = None,
        keep_as: str | None = None,
    ) -> Job:
        return await self._send(job_calls.what_if(model, settings, grid, keep_as))

    async def get_job(self, id: str) -> Job:
        return await self._send(job_calls.get_job(id))

    async def cancel_job(self, id: str) -> Job:
        return await self._send(job_calls.cancel_job(id))

    async def wait_for(self, job: Job, *, seconds_max: float = 3600.0, every_seconds: float = 0.5) -> Job:
        async with asyncio.timeout(seconds_max):
            while not job.is_over:
                await asyncio.sleep(every_seconds)
                job = await self.get_job(job.id)
        return job

    async def history(
        self,
        model: str,
        *,
        from_version: int | None = None,
        to_version: int | None = None,
        since: Time | None = None,
        until: Time | None = None,
    ) -> AsyncIterator[PastRound]:
        call = read_calls.history(model, "ndjson", from_version, to_version, since, until)
        lines = Lines()
        async for part in self._read(call):
            for each in call.read_part(lines, part):
                yield each
        call.check_end(lines)

    def history_bytes(
        self,
        model: str,
        *,
        format: str = "ndjson",
        from_version: int | None = None,
        to_version: int | None = None,
        since: Time | None = None,
        until: Time | None = None,
    ) -> AsyncIterator[bytes]:
        return self._read(read_calls.history(model, format, from_version, to_version, since, until))

    async def _read(self, call: Read, request: dict[str, Any] | None = None) -> AsyncIterator[bytes]:
        try:
            async with self._http.stream(**(request or call.request)) as response:
                if not response.is_success:
                    await response.aread()
                    raise refusal(response)
                async for part in response.aiter_bytes():
                    yield part
        except httpx.RequestError as error:
            raise call.cut_off(error) from error

    async def fleet(
        self, prefix: str = "", *, sort: str = "name", limit: int = 100, cursor: str | None = None
    ) -> Fleet:
        return await self._send(calls.fleet(prefix, sort, limit, cursor))

    async def _send(self, call: Call[Answer]) -> Answer:
        attempts = Attempts(call, self._retry_seconds)
        while True:
            try:
                response = await self._http.request(**call.request)
            except httpx.RequestError as error:
                answer: Answer | Pause = attempts.failed(error)
            else:
                answer = attempts.answered(response)
            if not isinstance(answer, Pause):
                return answer
            await asyncio.sleep(answer.seconds)
