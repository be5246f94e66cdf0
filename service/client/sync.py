"""The synchronous client, whose calls block until the answer comes."""

import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
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


class Client:
    """Talks to one service over connections that are kept open. Use it in `with`, or `close` it.

    `timeout_seconds` bounds one try, `retry_seconds` all tries of a call that is safe to repeat. Threads may
    share a client.
    """

    def __init__(
        self,
        url: str = DEFAULT_URL,
        *,
        key: str | None = None,
        timeout_seconds: float = TIMEOUT_SECONDS,
        retry_seconds: float = RETRY_SECONDS,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        self._http = httpx.Client(**options(url, key, timeout_seconds), transport=transport)
        self._retry_seconds = retry_seconds

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._http.close()

    def predict(
        self,
        model: str,
        features: Features,
        *,
        id: str | None = None,
        explain: int = 0,
        min_version: int = 0,
        tag: str | None = None,
    ) -> Prediction:
        """Ask for a label; reveal the true one later by its `prediction_id`.

        `explain` asks for so many of the largest terms of the score. With a `min_version`, a replica that has not
        heard of that version waits until it has. `tag` is a word of yours by which the round is found again.
        """
        return self._send(calls.predict(model, features, id, explain, min_version, tag))

    def dry_run(self, model: str, features: Features, *, explain: int = 0, min_version: int = 0) -> DryRun:
        """What would be served, and nothing changed: no model is made, no dimension fixed, and no label waited for.

        `explain` and `min_version` as in `predict`. Refused with `unknown-model` if there is no such model.
        """
        return self._send(calls.dry_run(model, features, explain, min_version))

    def feedback(self, prediction_id: str, label: Label, *, weight: float = 1.0) -> Outcome:
        """Reveal the true label of a prediction: the model learns it, once, as if it came `weight` times."""
        return self._send(calls.feedback(prediction_id, label, weight))

    def correct(self, prediction_id: str, label: Label, *, reason: str | None = None) -> Correction:
        """Correct the label of a finished round: the model is rebuilt as if this one had come first."""
        return self._send(correction_calls.correct(prediction_id, label, reason))

    def void(self, prediction_id: str) -> Correction:
        """Let a prediction that was never shown not count; a finished round, as if it had never been."""
        return self._send(correction_calls.void(prediction_id))

    def forget(self, model: str, tag: str) -> Forgotten:
        """Forget all that carries a tag: the model becomes as if it had never been, and it goes from the files."""
        return self._send(correction_calls.forget(model, tag))

    def learn(
        self,
        model: str,
        features: Features,
        label: Label,
        *,
        id: str | None = None,
        weight: float = 1.0,
        tag: str | None = None,
    ) -> Learned:
        """A whole round at once: the prediction as it would have been, then the label is learned."""
        return self._send(calls.learn(model, features, label, id, weight, tag))

    def learn_many(
        self, model: str, examples: Iterable[tuple[Features, Label]], *, safe: bool = True
    ) -> list[Learned]:
        """Whole rounds in the order of the examples, many in one request; returns when all are learned.

        Refused is raised for one that is bad, with its row, from 0 on, and how many were learned: those sent together
        with it are. Unless `safe`, rounds have no ids and are many times faster, but are not repeated when the
        connection fails.
        """
        return self._play(model, list(stream_calls.whole_rounds(examples, safe=safe)), Learned)

    def iter_learn(
        self, model: str, examples: Iterable[tuple[Features, Label]], *, safe: bool = True
    ) -> Iterator[Learned]:
        """`learn_many` for examples that do not fit into memory: nothing is sent until the outcomes are iterated.

        Examples are taken and sent a few hundred at a time, while outcomes are read. Refused is raised in its place.
        """
        for answer in self.iter_stream(stream_calls.whole_rounds(examples, safe=safe), model=model):
            if isinstance(answer, Refused):
                raise answer
            assert isinstance(answer, Learned)
            yield answer

    def stream(
        self, lines: Iterable[Line], *, model: str | None = None, chunk: int = CHUNK_LINES
    ) -> list[Streamed]:
        """Predictions, reveals and whole rounds, each answered in its place; `model` is for lines without one.

        Lines are sent `chunk` at a time; it returns when all are answered. A bad line is answered with Refused and
        stops nothing. A chunk that was cut off, or of which a proxy passed on only some answers, is repeated if each
        of its lines has an id; else CutOff tells how many were answered. Ended is raised if the service has no room
        for more. `iter_stream` also gives the answers that come before such an error.
        """
        return list(self.iter_stream(lines, model=model, chunk=chunk))

    def iter_stream(
        self, lines: Iterable[Line], *, model: str | None = None, chunk: int = CHUNK_LINES
    ) -> Iterator[Streamed]:
        """`stream` for lines that do not fit into memory: nothing is sent until the answers are iterated.

        Lines are taken and sent `chunk` at a time, while answers are read. If Ended is raised, no line that was not
        answered was learned.
        """
        for lines_sent in stream_calls.chunks(lines, chunk):
            for answer in self._send(stream_calls.stream(lines_sent, model)):
                if isinstance(answer, Ended):
                    raise answer
                yield answer

    def predict_table(self, model: str, table: Table) -> list[Prediction]:
        """A prediction for each row of a DataFrame, of an array of numpy or of any rows, in their order.

        A DataFrame gives lists to a model with dense features, in the order of its columns, and else dictionaries, in
        which missing cells are left out. Refused is raised for a row that is bad, with its number, from 0 on, and how
        many were predicted all the same; ValueError or TypeError, before anything is sent, if a cell cannot be.
        """
        info = self._find(model) if tables.has_names(table) else None
        lines = tables.lines_of(table, None, is_dense=info is not None and info.features_kind == "dense")
        return self._play(model, lines, Prediction)

    def learn_table(
        self, model: str, table: Table, labels: Iterable[Label], *, safe: bool = True
    ) -> list[Learned]:
        """Whole rounds out of a table and its labels, in their order; `safe` and errors as in `learn_many`.

        A model that nobody has made is made with labels that suit these: -1 and 1, False and True, else such as
        appear when they are revealed. Refused tells the row, from 0 on, and how many were learned.
        """
        info = self._find(model)
        is_dense = info is not None and info.features_kind == "dense"
        lines = tables.lines_of(table, labels, is_dense=is_dense, safe=safe)
        if info is None and lines:
            self._make(model, tables.kind_of(lines), [line["label"] for line in lines])
        return self._play(model, lines, Learned)

    def _play(self, model: str, lines: list[Line], kind: type[Answered]) -> list[Answered]:
        answers = Answers(kind, len(lines))
        for sent in stream_calls.chunks(lines, CHUNK_LINES):
            with answers.of_one_request():
                for answer in self.iter_stream(sent, model=model):
                    answers.add(answer)
        return answers.good

    def _find(self, model: str) -> ModelInfo | None:
        """None if there is no such model."""
        try:
            return self.get_model(model)
        except Refused as refused:
            if refused.code != "unknown-model":
                raise
            return None

    def _make(self, model: str, kind: str, labels: Collection[Label]) -> None:
        """Make a model that nobody has made, where the service's own would refuse these labels."""
        settings = making.settings_for(kind, labels)
        if settings is None:
            return
        try:
            self.create_model(model, **settings)
        except Refused as refused:
            if not making.is_no_matter(refused, labels):
                raise

    def create_model(self, model: str, **settings: Any) -> ModelInfo:
        """Make a model with chosen settings; Refused with `model-exists` if there is one of this name."""
        return self._send(calls.create_model(model, settings))

    def get_model(self, model: str) -> ModelInfo:
        return self._send(calls.get_model(model))

    def list_models(self, prefix: str = "", *, page: int = 1000) -> Iterator[ModelLine]:
        """All models whose names begin so, by name, asked for `page` at a time."""
        cursor = None
        while True:
            listed = self._send(calls.list_models(prefix, cursor, page))
            yield from listed.models
            if (cursor := listed.next) is None:
                return

    def reset_model(self, model: str) -> ModelInfo:
        """Back to the start: no weights, no statistics; predictions not yet revealed are void."""
        return self._send(calls.reset_model(model))

    def rollback_model(self, model: str, to: int) -> ModelInfo:
        """Make the model all that it was at a version; predictions not yet revealed are void."""
        return self._send(calls.rollback_model(model, to))

    def fork_model(self, model: str, new: str, *, at: int | None = None) -> ModelInfo:
        """Make another model, `new`, that begins as this one is, or was at a version."""
        return self._send(calls.fork_model(model, new, at))

    def delete_model(self, model: str) -> None:
        self._send(calls.delete_model(model))

    def add_challenger(self, model: str, name: str, **settings: Any) -> ModelInfo:
        """One more learner, which starts cold and predicts in shadow; what is not set is as the champion has it."""
        return self._send(challenger_calls.add_challenger(model, name, settings))

    def add_warm_challenger(self, model: str, name: str, **settings: Any) -> Job:
        """The same, but a job lets it learn the model's history before it enters: see `wait_for`."""
        return self._send(job_calls.add_warm_challenger(model, name, settings))

    def remove_challenger(self, model: str, name: str) -> None:
        self._send(challenger_calls.remove_challenger(model, name))

    def promote(self, model: str, challenger: str) -> ModelInfo:
        """Let a challenger serve from now on; the champion takes its place, so promoting that undoes it."""
        return self._send(challenger_calls.promote(model, challenger))

    def rule_promotion(self, model: str, promote: Mapping[str, Any] | None) -> ModelInfo:
        """Say when a challenger is promoted by itself: `{"confidence": 0.95, "rounds_min": 500}`; None: never."""
        return self._send(challenger_calls.rule_promotion(model, promote))

    def export_model(self, model: str, *, format: str = "novikoff", at: int | None = None) -> bytes:
        """All that the model is, or was at a version, as JSON. `sklearn` and `onnx`: what others need of it."""
        return self._send(calls.export_model(model, format, at))

    def import_model(self, model: str, export: bytes) -> ModelInfo:
        """Make a model from an export: the same predictions, to the bit."""
        return self._send(calls.import_model(model, export))

    def weights(self, model: str, *, at: int | None = None) -> Weights:
        """The weights as they are, or were at a version; Refused with `version-gone` if that is no longer kept."""
        return self._send(calls.weights(model, at))

    def largest_weights(self, model: str, count: int = 10, *, at: int | None = None) -> LargestWeights:
        """The weights that are largest by absolute value, with the names of their features."""
        return self._send(calls.largest_weights(model, count, at))

    def stats(self, model: str, *, at: int | None = None) -> Stats:
        """All statistics as they are, or were at a version."""
        return self._send(calls.stats(model, at))

    def stats_fields(self, model: str, *fields: str, at: int | None = None) -> dict[str, Any]:
        """Some statistics only, which a service computes faster than all: `stats_fields("spam", "error_rate")`."""
        return self._send(calls.stats_fields(model, fields, at))

    def attention(self) -> AttentionPage:
        """Which models need a look, and why."""
        return self._send(calls.attention())

    def whoami(self) -> Caller:
        """What the key of this client may do."""
        return self._send(calls.whoami())

    def pending(self, model: str, *, order: str = "newest", page: int = 100) -> Iterator[PendingPrediction]:
        """The predictions that wait for their labels: the newest first, or with `least_sure` those that a label would
        tell most about."""
        cursor: str | None = None
        while True:
            found = self._send(calls.pending(model, order, cursor, page))
            yield from found.pending
            if (cursor := found.next) is None:
                return

    def events(self, model: str, *, after: int = 0, page: int = 1000) -> Iterator[Event]:
        """What has happened to the model, oldest first, as far as it is kept; `after` is the `seq` of one."""
        cursor: int | None = after
        while cursor is not None:
            found = self._send(calls.events(model, cursor, page))
            yield from found.read()
            cursor = found.next

    def feed(self, model: str | None = None, *, last_event_id: str | None = None) -> Iterator[Frame]:
        """Statistics as they change, of one model or of all, without end: a snapshot, then changes.

        Unreachable is raised if it is cut off; the `id` of the last frame goes on from there.
        """
        call, frames = read_calls.feed(model), Frames()
        for part in self._read(call, call.asked(last_event_id)):
            yield from frames.complete(part)

    def fit(
        self, model: str, examples: Iterable[tuple[Features, Label]] | None = None, **options: Any
    ) -> Job:
        """Train the model on examples, or on its own history, as a job of the service: see `wait_for`."""
        return self._send(job_calls.fit(model, examples, options))

    def what_if(
        self,
        model: str,
        settings: Mapping[str, Any] | None = None,
        *,
        grid: Sequence[Mapping[str, Any]] | None = None,
        keep_as: str | None = None,
    ) -> Job:
        """Play the model's history through other settings, as a job; `keep_as` makes a model of the best."""
        return self._send(job_calls.what_if(model, settings, grid, keep_as))

    def get_job(self, id: str) -> Job:
        return self._send(job_calls.get_job(id))

    def cancel_job(self, id: str) -> Job:
        """Nothing of it enters the model; a job that is over stays as it is."""
        return self._send(job_calls.cancel_job(id))

    def wait_for(self, job: Job, *, seconds_max: float = 3600.0, every_seconds: float = 0.5) -> Job:
        """The job when it is over, whatever has come of it; TimeoutError if it takes longer."""
        deadline = time.monotonic() + seconds_max
        while not job.is_over:
            if time.monotonic() > deadline:
                raise TimeoutError(f"the job {job.id} is not over after {seconds_max:g} seconds")
            time.sleep(every_seconds)
            job = self.get_job(job.id)
        return job

    def history(
        self,
        model: str,
        *,
        from_version: int | None = None,
        to_version: int | None = None,
        since: Time | None = None,
        until: Time | None = None,
    ) -> Iterator[PastRound]:
        """The rounds of the model that the service keeps, oldest first, read as they come.

        Versions are those after a round, both included; times are those of the labels, `until` not included.
        """
        call = read_calls.history(model, "ndjson", from_version, to_version, since, until)
        lines = Lines()
        for part in self._read(call):
            yield from call.read_part(lines, part)
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
    ) -> Iterator[bytes]:
        """The same as the service sends it, in parts: `ndjson`, an `arrow` stream or a `parquet` file."""
        return self._read(read_calls.history(model, format, from_version, to_version, since, until))

    def _read(self, call: Read, request: dict[str, Any] | None = None) -> Iterator[bytes]:
        try:
            with self._http.stream(**(request or call.request)) as response:
                if not response.is_success:
                    response.read()
                    raise refusal(response)
                yield from response.iter_bytes()
        except httpx.RequestError as error:
            raise call.cut_off(error) from error

    def fleet(
        self, prefix: str = "", *, sort: str = "name", limit: int = 100, cursor: str | None = None
    ) -> Fleet:
        """A page of models with their main figures, and sums over all of them."""
        return self._send(calls.fleet(prefix, sort, limit, cursor))

    def _send(self, call: Call[Answer]) -> Answer:
        attempts = Attempts(call, self._retry_seconds)
        while True:
            try:
                response = self._http.request(**call.request)
            except httpx.RequestError as error:
                answer: Answer | Pause = attempts.failed(error)
            else:
                answer = attempts.answered(response)
            if not isinstance(answer, Pause):
                return answer
            time.sleep(answer.seconds)
