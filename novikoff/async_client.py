"""The client, written once: client.py is made from this file by `make client`, without async and await."""

import asyncio
import time
from collections.abc import AsyncIterator, Collection, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Self, Unpack, cast

import httpx
import msgspec

from novikoff import schemas, tables
from novikoff.async_connections import AsyncConnections
from novikoff.calls import (
    DEFAULT_URL,
    RETRY_SECONDS,
    TIMEOUT_SECONDS,
    Answer,
    Attempts,
    Call,
    Features,
    Time,
    encode,
    given,
    make_id,
    options,
    path_of,
    refusal,
    words,
)
from novikoff.errors import CutOff, Ended, Refused, Unreachable
from novikoff.http1 import is_direct
from novikoff.lines import (
    CHUNK_LINES,
    FEED_SILENCE_SECONDS_MAX,
    FRAME_END,
    Line,
    Lines,
    Streamed,
    chunks,
    frame_of,
    stream,
    whole_rounds,
)
from novikoff.schemas import ONCE, Label
from novikoff.tables import Answered, Answers, Table


class AsyncClient:
    """Talks to one service over connections that are kept open. Use it in `async with`, or `close` it.

    `timeout_seconds` bounds one try, `retry_seconds` all tries of a call that is safe to repeat. Many calls may be
    under way at once.
    """

    def __init__(
        self,
        url: str = DEFAULT_URL,
        *,
        key: str | None = None,
        timeout_seconds: float = TIMEOUT_SECONDS,
        retry_seconds: float = RETRY_SECONDS,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        given = options(url, key, timeout_seconds)
        self._http = httpx.AsyncClient(**given, transport=transport)
        self._requests: httpx.AsyncClient | AsyncConnections = self._http
        if transport is None and is_direct(given["base_url"]):
            self._requests = AsyncConnections(**given)
        self._retry_seconds = retry_seconds

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        await self._requests.aclose()
        await self._http.aclose()

    def __repr__(self) -> str:
        return f"{type(self).__name__}{repr(self._http.base_url)[3:]}"  # URL('…'), which hides a password

    # Rounds

    async def predict(
        self,
        model: str,
        features: Features,
        *,
        id: str | None = None,
        explain: int = 0,
        min_version: int = 0,
        tag: str | None = None,
    ) -> schemas.Prediction:
        """Ask for a label; reveal the true one later by its `prediction_id`.

        `explain` asks for so many of the largest terms of the score. With a `min_version`, a replica that has not
        heard of that version waits until it has. `tag` is a word of yours by which the round is found again.
        """
        body = schemas.PredictBody(model, cast(Any, features), id or make_id(), explain, min_version, tag=tag)
        return await self._post(schemas.Prediction, body, "predict", repeatable=True)

    async def dry_run(
        self, model: str, features: Features, *, explain: int = 0, min_version: int = 0
    ) -> schemas.DryRun:
        """What would be served, and nothing changed: no model is made, no dimension fixed, and no label waited for.

        `explain` and `min_version` as in `predict`. Refused with `unknown-model` if there is no such model.
        """
        body = schemas.PredictBody(model, cast(Any, features), None, explain, min_version, dry=True)
        return await self._post(schemas.DryRun, body, "predict", repeatable=True)

    async def feedback(self, prediction_id: str, label: Label, *, weight: float = ONCE) -> schemas.Outcome:
        """Reveal the true label of a prediction: the model learns it, once, as if it came `weight` times."""
        return await self._post(
            schemas.Outcome, schemas.FeedbackBody(prediction_id, label, weight), "feedback", repeatable=True
        )

    async def learn(
        self,
        model: str,
        features: Features,
        label: Label,
        *,
        id: str | None = None,
        weight: float = ONCE,
        tag: str | None = None,
    ) -> schemas.Learned:
        """A whole round at once: the prediction as it would have been, then the label is learned."""
        body = schemas.LearnBody(model, cast(Any, features), label, id or make_id(), weight, tag)
        return await self._post(schemas.Learned, body, "learn", repeatable=True)

    async def correct(
        self, prediction_id: str, label: Label, *, reason: str | None = None
    ) -> schemas.Correction:
        """Correct the label of a finished round: the model is rebuilt as if this one had come first."""
        body = encode(given(label=label, reason=reason))
        return await self._send(Call("PUT", path_of("feedback", prediction_id), schemas.Correction, body))

    async def void(self, prediction_id: str) -> schemas.Correction:
        """Let a prediction that was never shown not count; a finished round, as if it had never been."""
        return await self._send(Call("DELETE", path_of("predictions", prediction_id), schemas.Correction))

    async def forget(self, model: str, tag: str) -> schemas.Forgotten:
        """Forget all that carries a tag: the model becomes as if it had never been. See docs/api.md."""
        return await self._post(schemas.Forgotten, {"tag": tag}, "models", model, "forget", repeatable=True)

    # Many rounds in one request

    async def learn_many(
        self, model: str, examples: Iterable[tuple[Features, Label]], *, safe: bool = True
    ) -> list[schemas.Learned]:
        """Whole rounds in the order of the examples, many in one request; returns when all are learned.

        Refused is raised for one that is bad, with its row, from 0 on, and how many were learned: those sent together
        with it are. Unless `safe`, rounds have no ids and are many times faster, but are not repeated when the
        connection fails.
        """
        return await self._play(model, list(whole_rounds(examples, safe=safe)), schemas.Learned)

    async def iter_learn(
        self, model: str, examples: Iterable[tuple[Features, Label]], *, safe: bool = True
    ) -> AsyncIterator[schemas.Learned]:
        """`learn_many` for examples that do not fit into memory: nothing is sent until the outcomes are iterated.

        Examples are taken and sent a few hundred at a time, while outcomes are read. Refused is raised in its place.
        """
        async for answer in self.iter_stream(whole_rounds(examples, safe=safe), model=model):
            if isinstance(answer, Refused):
                raise answer
            assert isinstance(answer, schemas.Learned)
            yield answer

    async def stream(
        self, lines: Iterable[Line], *, model: str | None = None, chunk: int = CHUNK_LINES
    ) -> list[Streamed]:
        """Predictions, reveals and whole rounds, each answered in its place; `model` is for lines without a model.

        Lines are sent `chunk` at a time; it returns when all are answered. A bad line is answered with Refused and
        stops nothing. A chunk that was cut off, or of which a proxy passed on only some answers, is repeated if each
        of its lines has an id; else CutOff tells how many were answered. Ended is raised if the service has no room
        for more. `iter_stream` also gives the answers that come before such an error.
        """
        return [answer async for answer in self.iter_stream(lines, model=model, chunk=chunk)]

    async def iter_stream(
        self, lines: Iterable[Line], *, model: str | None = None, chunk: int = CHUNK_LINES
    ) -> AsyncIterator[Streamed]:
        """`stream` for lines that do not fit into memory: nothing is sent until the answers are iterated.

        Lines are taken and sent `chunk` at a time, while answers are read. If Ended is raised, no line that was not
        answered was learned.
        """
        for lines_sent in chunks(lines, chunk):
            for answer in await self._send(stream(lines_sent, model)):
                if isinstance(answer, Ended):
                    raise answer
                yield answer

    async def predict_table(self, model: str, table: Table) -> list[schemas.Prediction]:
        """A prediction for each row of a DataFrame, of an array of numpy or of any rows, in their order.

        A DataFrame gives lists to a model with dense features, in the order of its columns, and else dictionaries, in
        which missing cells are left out. Refused is raised for a row that is bad, with its number, from 0 on, and how
        many were predicted all the same; ValueError or TypeError, before anything is sent, if a cell cannot be.
        """
        info = await self._find(model) if tables.has_names(table) else None
        lines = tables.lines_of(table, None, is_dense=info is not None and info.features_kind == "dense")
        return await self._play(model, lines, schemas.Prediction)

    async def learn_table(
        self, model: str, table: Table, labels: Iterable[Label], *, safe: bool = True
    ) -> list[schemas.Learned]:
        """Whole rounds out of a table and its labels, in their order; `safe` and errors as in `learn_many`.

        An unknown model is created with labels that suit these: -1 and 1, False and True, else such as
        appear when they are revealed. Refused tells the row, from 0 on, and how many were learned.
        """
        info = await self._find(model)
        is_dense = info is not None and info.features_kind == "dense"
        lines = tables.lines_of(table, labels, is_dense=is_dense, safe=safe)
        if info is None and lines:
            await self._make(model, lines[0]["features"], [line["label"] for line in lines])
        return await self._play(model, lines, schemas.Learned)

    async def _play(self, model: str, lines: list[Line], kind: type[Answered]) -> list[Answered]:
        answers = Answers(kind, len(lines))
        for sent in chunks(lines, CHUNK_LINES):
            with answers.of_one_request():
                async for answer in self.iter_stream(sent, model=model):
                    answers.add(answer)
        return answers.good

    async def _find(self, model: str) -> schemas.ModelInfo | None:
        """None if there is no such model."""
        try:
            return await self.get_model(model)
        except Refused as refused:
            if refused.code != "unknown-model":
                raise
            return None

    async def _make(self, model: str, features: Features, labels: Collection[Label]) -> None:
        """Make a model that suits its first examples, unless the service would make the same by itself."""
        settings = tables.settings_for(features, labels)
        if settings is None:
            return
        try:
            await self.create_model(model, **settings)
        except Refused as refused:
            if not tables.is_no_matter(refused, labels):
                raise

    # Models. What makes, changes or deletes one is not repeated: another client may do the same between two tries.

    async def create_model(self, model: str, **settings: Unpack[schemas.ModelSettings]) -> schemas.ModelInfo:
        """Create a model, with settings as in docs/models.md: `labels`, `features`, `learner`, `bias`, …"""
        return await self._post(schemas.ModelInfo, {"model": model, **settings}, "models")

    async def get_model(self, model: str) -> schemas.ModelInfo:
        return await self._get(schemas.ModelInfo, "models", model)

    async def list_models(self, prefix: str = "", *, page: int = 1000) -> AsyncIterator[schemas.ModelLine]:
        """The models whose names begin with `prefix`, by name."""
        cursor: str | None = None
        while True:
            found = await self._get(schemas.Listing, "models", model=prefix, cursor=cursor, limit=page)
            for line in found.models:
                yield line
            if (cursor := found.next) is None:
                return

    async def reset_model(self, model: str) -> schemas.ModelInfo:
        """Let the model begin anew, with its settings; predictions not yet revealed are void."""
        return await self._post(schemas.ModelInfo, None, "models", model, "reset")

    async def rollback_model(self, model: str, to: int) -> schemas.ModelInfo:
        """Make the model all that it was at a version; predictions not yet revealed are void."""
        return await self._post(schemas.ModelInfo, {"to": to}, "models", model, "rollback")

    async def fork_model(self, model: str, new: str, *, at: int | None = None) -> schemas.ModelInfo:
        """Make another model, `new`, that begins as this one is, or was at a version."""
        return await self._post(schemas.ModelInfo, {"as": new, "at": at}, "models", model, "fork")

    async def delete_model(self, model: str) -> None:
        await self._send(Call("DELETE", path_of("models", model), type(None), repeatable=False))

    async def export_model(self, model: str, *, format: str = "novikoff", at: int | None = None) -> bytes:
        """All that the model is, or was at a version, as JSON. `sklearn` and `onnx`: what others need of it."""
        return await self._get(bytes, "models", model, "export", format=format, at=at)

    async def import_model(self, model: str, export: bytes) -> schemas.ModelInfo:
        """Make a model from an export: the same predictions, to the bit."""
        return await self._send(
            Call("PUT", path_of("models", model), schemas.ModelInfo, export, repeatable=False)
        )

    async def weights(self, model: str, *, at: int | None = None) -> schemas.Weights:
        """The weights as they are, or were at a version; Refused with `version-gone` if that is no longer kept."""
        return await self._get(schemas.Weights, "models", model, "weights", at=at)

    async def largest_weights(
        self, model: str, count: int = 10, *, at: int | None = None
    ) -> schemas.LargestWeights:
        """The weights that are largest by absolute value, with the names of their features."""
        return await self._get(schemas.LargestWeights, "models", model, "weights", largest=count, at=at)

    async def add_challenger(self, model: str, name: str, **settings: Any) -> schemas.ModelInfo:
        """One more learner, which starts cold and predicts in shadow; what is not set is as the champion has it."""
        return await self._post(schemas.ModelInfo, {"name": name, **settings}, "models", model, "challengers")

    async def remove_challenger(self, model: str, name: str) -> None:
        path = path_of("models", model, "challengers", name)
        await self._send(Call("DELETE", path, type(None), repeatable=False))

    async def promote(self, model: str, challenger: str) -> schemas.ModelInfo:
        """Let a challenger serve from now on; the champion takes its place, so promoting that undoes it."""
        return await self._post(schemas.ModelInfo, {"challenger": challenger}, "models", model, "promote")

    async def rule_promotion(self, model: str, promote: Mapping[str, Any] | None) -> schemas.ModelInfo:
        """Say when a challenger is promoted by itself: `{"confidence": 0.95, "rounds_min": 500}`; None: never."""
        body = encode({"promote": promote})
        return await self._send(Call("PUT", path_of("models", model, "promote"), schemas.ModelInfo, body))

    # Statistics, pending predictions and events

    async def stats(self, model: str, *, at: int | None = None) -> schemas.Stats:
        """All statistics as they are, or were at a version."""
        return await self._get(schemas.Stats, "stats", model, at=at)

    async def stats_fields(self, model: str, *fields: str, at: int | None = None) -> dict[str, Any]:
        """Some statistics only, which a service computes faster than all: `stats_fields("spam", "error_rate")`."""
        return await self._get(dict[str, Any], "stats", model, fields=",".join(fields), at=at)

    async def fleet(
        self, prefix: str = "", *, sort: str = "name", limit: int = 100, cursor: str | None = None
    ) -> schemas.Fleet:
        """A page of models with their main figures, and sums over all of them."""
        page = {"model": prefix, "sort": sort, "limit": limit, "cursor": cursor}
        return await self._get(schemas.Fleet, "stats", **page, fields=schemas.LINE_FIELDS)

    async def attention(self) -> schemas.AttentionPage:
        """Which models need a look, and why."""
        return await self._get(schemas.AttentionPage, "attention")

    async def whoami(self) -> schemas.Caller:
        """What the key of this client may do."""
        return await self._get(schemas.Caller, "whoami")

    async def pending(
        self, model: str, *, order: str = "newest", page: int = 100
    ) -> AsyncIterator[schemas.PendingPrediction]:
        """The predictions that wait for their labels: the newest first, or with `least_sure` those that a label would
        tell most about."""
        cursor: str | None = None
        while True:
            page_asked = {"order": order, "cursor": cursor, "limit": page}
            found = await self._get(schemas.PendingPage, "models", model, "pending", **page_asked)
            for waiting in found.pending:
                yield waiting
            if (cursor := found.next) is None:
                return

    async def events(self, model: str, *, after: int = 0, page: int = 1000) -> AsyncIterator[schemas.Event]:
        """What has happened to the model, oldest first, as far as it is kept; `after` is the `seq` of one."""
        cursor: int | None = after
        while cursor is not None:
            found = await self._get(schemas.EventPage, "models", model, "events", cursor=cursor, limit=page)
            for line in found.events:
                yield schemas.Event.read(line)
            cursor = found.next

    async def history(
        self,
        model: str,
        *,
        from_version: int | None = None,
        to_version: int | None = None,
        since: Time | None = None,
        until: Time | None = None,
    ) -> AsyncIterator[schemas.PastRound]:
        """The rounds of the model that the service keeps, oldest first, read as they come.

        Versions are those after a round, both included; times are those of the labels, `until` not included.
        """
        lines = Lines()
        async for part in self.history_bytes(
            model, from_version=from_version, to_version=to_version, since=since, until=until
        ):
            for line in lines.complete(part):
                yield msgspec.json.decode(line, type=schemas.PastRound)
        lines.check_end(f"GET {path_of('models', model, 'history')}")

    async def history_table(self, model: str, **which: Any) -> Table:
        """The same as a DataFrame of pandas, with a column for each feature; `which` as in `history`."""
        return tables.frame_of([one async for one in self.history(model, **which)])

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
        """The same as the service sends it, in parts: `ndjson`, an `arrow` stream or a `parquet` file."""
        params = {
            "format": format,
            "from_version": from_version,
            "to_version": to_version,
            "since": since.isoformat() if isinstance(since, datetime) else since,
            "until": until.isoformat() if isinstance(until, datetime) else until,
        }
        return self._read(Call("GET", path_of("models", model, "history"), bytes, params=params))

    async def feed(
        self, model: str | None = None, *, last_event_id: str | None = None
    ) -> AsyncIterator[schemas.Frame]:
        """Statistics as they change, of one model or of all, without end: a snapshot, then changes.

        Unreachable is raised if it is cut off; the `id` of the last frame goes on from there.
        """
        events = Lines(FRAME_END)
        headers = {} if last_event_id is None else {"last-event-id": last_event_id}
        timeout = httpx.Timeout(FEED_SILENCE_SECONDS_MAX)
        call = Call("GET", "/feed", bytes, params={"model": model})
        async for part in self._read(call, headers=headers, timeout=timeout):
            for event in events.complete(part):
                if (frame := frame_of(event)) is not None:
                    yield frame

    # Jobs

    async def fit(
        self, model: str, examples: Iterable[tuple[Features, Label]] | None = None, **options: Any
    ) -> schemas.Job:
        """Train the model on examples, or on its own history, as a job of the service: see `wait_for`."""
        body: dict[str, Any] = {"source": "history"}
        if examples is not None:
            body = {"examples": [{"features": features, "label": label} for features, label in examples]}
        return await self._post(schemas.Job, {**body, **options}, "models", model, "fit")

    async def what_if(
        self,
        model: str,
        settings: Mapping[str, Any] | None = None,
        *,
        grid: Sequence[Mapping[str, Any]] | None = None,
        keep_as: str | None = None,
    ) -> schemas.Job:
        """Play the model's history through other settings, as a job; `keep_as` makes a model of the best."""
        body = given(settings=settings, grid=grid, **{"as": keep_as})
        return await self._post(schemas.Job, body, "models", model, "replay")

    async def add_warm_challenger(self, model: str, name: str, **settings: Any) -> schemas.Job:
        """`add_challenger`, but a job lets it learn the model's history before it enters: see `wait_for`."""
        body = {"name": name, **settings, "start": "history"}
        return await self._post(schemas.Job, body, "models", model, "challengers")

    async def get_job(self, id: str) -> schemas.Job:
        return await self._get(schemas.Job, "jobs", id)

    async def cancel_job(self, id: str) -> schemas.Job:
        """Nothing of it enters the model; a job that is over stays as it is."""
        return await self._send(Call("DELETE", path_of("jobs", id), schemas.Job))

    async def wait_for(
        self, job: schemas.Job, *, seconds_max: float = 3600.0, every_seconds: float = 0.5
    ) -> schemas.Job:
        """The job when it is over, whatever has come of it; TimeoutError if it takes longer."""
        deadline = time.monotonic() + seconds_max
        while not job.is_over:
            if time.monotonic() > deadline:
                raise TimeoutError(f"the job {job.id} has not finished after {seconds_max:g} seconds")
            await asyncio.sleep(every_seconds)
            job = await self.get_job(job.id)
        return job

    # Sending

    async def _get(self, answer: type[Answer], *path: str, **params: object) -> Answer:
        return await self._send(Call("GET", path_of(*path), answer, params=params))

    async def _post(self, answer: type[Answer], body: object, *path: str, repeatable: bool = False) -> Answer:
        sent = None if body is None else encode(body)
        return await self._send(Call("POST", path_of(*path), answer, sent, repeatable=repeatable))

    async def _send(self, call: Call[Answer]) -> Answer:
        attempts = Attempts(call, self._retry_seconds)
        while True:
            try:
                return call.read(await self._requests.request(**call.request))
            except (httpx.RequestError, msgspec.MsgspecError, CutOff, Refused) as error:
                pause_seconds = attempts.pause_after(error)
            await asyncio.sleep(pause_seconds)

    async def _read(self, call: Call[bytes], **more: Any) -> AsyncIterator[bytes]:
        """The answer as it comes."""
        try:
            async with self._http.stream(**(call.request | more)) as response:
                if not response.is_success:
                    await response.aread()
                    raise refusal(response)
                async for part in response.aiter_bytes():
                    yield part
        except httpx.RequestError as error:
            cut = f"the response to {call.method} {call.path} is incomplete: {words(error)}"
            raise Unreachable(cut) from error
