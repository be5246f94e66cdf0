"""The asynchronous client. `Client` in sync.py documents each call."""

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping
from typing import Any, Self

import httpx

from service.answers import Correction, Forgotten, Label, ModelInfo, ModelLine, Stats
from service.client import calls, correction_calls
from service.client.answers import Fleet, Learned, Outcome, PastRound, Prediction, Weights
from service.client.attempts import Attempts, Pause
from service.client.calls import (
    CHUNK_LINES,
    Answer,
    Call,
    Features,
    History,
    Line,
    Streamed,
    Time,
)
from service.client.connecting import DEFAULT_URL, RETRY_SECONDS, TIMEOUT_SECONDS, options
from service.client.lines import Lines
from service.client.problems import Ended, Refused, refusal


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
    ) -> AsyncIterator[Learned]:
        async for answer in self.stream(calls.whole_rounds(examples, safe=safe), model=model):
            if isinstance(answer, Refused):
                raise answer
            assert isinstance(answer, Learned)
            yield answer

    async def stream(
        self, lines: Iterable[Line], *, model: str | None = None, chunk: int = CHUNK_LINES
    ) -> AsyncIterator[Streamed]:
        for lines_sent in calls.chunks(lines, chunk):
            for answer in await self._send(calls.stream(lines_sent, model)):
                if isinstance(answer, Ended):
                    raise answer
                yield answer

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
        return await self._send(calls.add_challenger(model, name, settings))

    async def remove_challenger(self, model: str, name: str) -> None:
        await self._send(calls.remove_challenger(model, name))

    async def promote(self, model: str, challenger: str) -> ModelInfo:
        return await self._send(calls.promote(model, challenger))

    async def rule_promotion(self, model: str, promote: Mapping[str, Any] | None) -> ModelInfo:
        return await self._send(calls.rule_promotion(model, promote))

    async def export_model(self, model: str, *, format: str = "novikoff", at: int | None = None) -> bytes:
        return await self._send(calls.export_model(model, format, at))

    async def import_model(self, model: str, export: bytes) -> ModelInfo:
        return await self._send(calls.import_model(model, export))

    async def weights(self, model: str, *, at: int | None = None) -> Weights:
        return await self._send(calls.weights(model, at))

    async def stats(self, model: str, *, at: int | None = None) -> Stats:
        return await self._send(calls.stats(model, at))

    async def history(
        self,
        model: str,
        *,
        from_version: int | None = None,
        to_version: int | None = None,
        since: Time | None = None,
        until: Time | None = None,
    ) -> AsyncIterator[PastRound]:
        call = calls.history(model, "ndjson", from_version, to_version, since, until)
        lines = Lines()
        async for part in self._read(call):
            for each in call.read_part(lines, part):
                yield each

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
        return self._read(calls.history(model, format, from_version, to_version, since, until))

    async def _read(self, call: History) -> AsyncIterator[bytes]:
        try:
            async with self._http.stream(**call.request) as response:
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
