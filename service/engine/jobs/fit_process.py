"""The process that trains a model, and the body of a fit request, read and checked against the model.

To read and check 64 MB takes seconds. So only small bodies are read by the service itself; large ones are read by the
process, which reads one `Task` and writes `Report`s: how far it is, and in the last one the result.
"""

import time
from typing import Any, NamedTuple

import msgspec

from novikoff.schemas import LabelSent
from service.engine.decoding import UNDECODABLE, raise_problem
from service.engine.models.checks import LabelChecks, Sent, check_dimension, plain_label
from service.engine.models.model import Model
from service.errors import FieldError, InvalidRequest, MalformedJson, RequestError, UnknownLabel
from service.events import Label
from service.journal.codec import encode_state
from service.learning.batch import fitting
from service.learning.features.contract import BadFeatures
from service.learning.parameters import BadParameter
from service.runtime.child import read_message, run_limited_child, write_message

READ_HERE_BYTES_MAX = 262_144
"""Larger bodies are read by the process of the fit. Reading so much takes a few milliseconds."""

EncodedExamples = list[tuple[Any, Label]]
"""Features as an event in the journal has them, and the label."""


class Example(msgspec.Struct, forbid_unknown_fields=True):
    features: Sent
    label: LabelSent


class FitBody(msgspec.Struct):
    """Examples, or `"source": "history"`; everything else is an option of the fit."""

    examples: list[Example] | None = None
    source: str | None = None


class UnreadFit(msgspec.Struct):
    """A request whose body has not been read yet."""

    body: bytes
    is_lines: bool
    """Whether the body is NDJSON, an example a line."""
    options: dict[str, Any]
    """The options of NDJSON, which come in the query; a JSON body has its own."""

    def read(self) -> "Fit":
        """The examples and the options; RequestError if something is wrong with them."""
        if self.is_lines:
            return Fit(_lines(self.body), complete_options(self.options))
        examples, options = _document(self.body)
        return Fit(examples, complete_options(options))


class Fit(NamedTuple):
    """A request that has been read."""

    examples: list[tuple[Sent, Label]] | None
    """As they were sent; None if the model's history is to be learned."""
    options: dict[str, Any]
    """All of them, defaults included."""


def complete_options(options: dict[str, Any]) -> dict[str, Any]:
    try:
        return fitting.complete(options)
    except BadParameter as error:
        raise InvalidRequest.at(error.field, error.message) from None


def encode_examples(model: Model, examples: list[tuple[Sent, Label]]) -> EncodedExamples:
    """Examples that a client sent, checked and in the form that the journal would have them."""
    found: EncodedExamples = []
    dimension = model.features.dimension
    labels = LabelChecks(model)
    for i, (sent, label) in enumerate(examples):
        try:
            example = model.features.read(sent)
            if dimension is None:
                dimension = len(example)
                check_dimension(model, dimension)
            if dimension and len(example) != dimension:
                raise BadFeatures(
                    "features", f"the first example has {dimension} numbers, this {len(example)}"
                )
            labels.check(label, dimension)
        except BadFeatures as error:
            raise InvalidRequest.at(f"examples[{i}].{error.field}", error.message) from None
        except UnknownLabel as error:
            raise InvalidRequest.at(f"examples[{i}].label", error.detail) from None
        except InvalidRequest as error:
            raise InvalidRequest.at(f"examples[{i}].features", error.fields[0].message) from None
        found.append((model.features.encode(example), label))
    check_not_empty(found)
    return found


def check_can_fit(model: Model) -> None:
    """InvalidRequest for a panel: how its experts fared is known of rounds only, which a fit has not."""
    if model.panel is not None:
        raise InvalidRequest.at("learner", "`auto` learns from rounds only: send them to /stream instead")


def check_not_empty(examples: EncodedExamples) -> None:
    if not examples:
        raise InvalidRequest.at("examples", "there are no examples to learn from")


def _document(body: bytes) -> tuple[list[tuple[Sent, Label]] | None, dict[str, Any]]:
    try:
        sent = msgspec.json.decode(body, type=FitBody)
        options: dict[str, Any] = msgspec.json.decode(body, type=dict[str, Any])
    except UNDECODABLE as error:
        raise_problem(error)
    options.pop("examples", None)
    options.pop("source", None)
    if (sent.source is None) == (sent.examples is None):
        raise InvalidRequest.at("examples", 'send either examples or "source": "history"')
    if sent.source not in (None, "history"):
        raise InvalidRequest.at("source", 'must be "history"')
    return None if sent.examples is None else _checked(sent.examples), options


def _lines(body: bytes) -> list[tuple[Sent, Label]]:
    decode = msgspec.json.Decoder(Example).decode
    examples = []
    for number, line in enumerate(body.splitlines()):
        if line.strip():
            try:
                examples.append(decode(line))
            except RecursionError:
                raise InvalidRequest.at(f"examples[{number}]", "is nested too deeply") from None
            except UNDECODABLE as error:
                raise InvalidRequest.at(f"examples[{number}]", str(error)[:200].replace("`", "")) from None
    return _checked(examples)


def _checked(examples: list[Example]) -> list[tuple[Sent, Label]]:
    return [(e.features, plain_label(e.label, f"examples[{i}].label")) for i, e in enumerate(examples)]


REPORT_SECONDS = 0.1


class Task(msgspec.Struct):
    """What to train, on which examples, with which options."""

    model: bytes
    """Its state."""
    examples: list[tuple[Any, Label]]
    options: dict[str, Any]
    absorb: bool
    """Whether the examples are new to the model, so that its features have to learn names, means and variances."""
    unread: UnreadFit | None = None
    """A body that is to be read first, for the examples and the options."""


class Refusal(msgspec.Struct):
    """A RequestError, for another process."""

    code: str
    detail: str
    fields: tuple[FieldError, ...]

    @classmethod
    def of(cls, error: RequestError) -> "Refusal":
        return cls(error.code, error.detail, error.fields)

    def as_error(self) -> RequestError:
        if self.code == MalformedJson.code:
            return MalformedJson(self.detail)
        return InvalidRequest(self.detail, self.fields)


class Report(msgspec.Struct):
    """A message to the service: one of `read`, `refused`, `progress` or `result` is set."""

    progress: dict[str, Any] | None = None
    result: dict[str, Any] | None = None
    """What the job's `result` shows; `labels`, `features` and `classifier` are what the model becomes."""
    labels: list[Label] | None = None
    features: bytes = b""
    classifier: bytes = b""
    read: tuple[int, dict[str, Any]] | None = None
    """How many examples the unread body had, and its options."""
    refused: Refusal | None = None
    """What is wrong with the unread body, or with the options for these examples, or why the fit was given up."""


def read(task: Task) -> Report:
    """Read the task's unread body into its examples and options."""
    assert task.unread is not None
    try:
        examples, options = task.unread.read()
        if examples is None:
            raise InvalidRequest.at("source", "a body of this size must contain examples")
        task.examples, task.options = encode_examples(Model.from_bytes(task.model), examples), options
    except RequestError as error:
        return Report(refused=Refusal.of(error))
    task.unread = None
    return Report(read=(len(task.examples), task.options))


def run(task: Task) -> None:
    reported = 0.0
    if task.unread is not None:
        reading = read(task)
        write_message(reading)
        if reading.refused is not None:
            return

    def report(progress: fitting.Progress) -> bool:
        nonlocal reported
        if time.monotonic() - reported >= REPORT_SECONDS:
            reported = time.monotonic()
            write_message(Report(progress=msgspec.to_builtins(progress)))
        return True

    write_message(train(task, report))


def train(task: Task, report: Any) -> Report:
    """Fit the model's classifier to the examples, beginning with the weights that it has."""
    model = Model.from_bytes(task.model)
    examples = [model.features.decode(features) for features, _ in task.examples]
    truths = [model.class_of(label) for _, label in task.examples]
    if model.features.dimension is None:
        model.fix_dimension(len(examples[0]))
    if task.absorb:
        for example in examples:
            model.features.absorb(example)
    model.classifier.grow(model.features.size())
    vectors = [model.features.vector(example) for example in examples]
    try:
        fitted = fitting.fit(model.classifier, vectors, truths, task.options, report)
    except BadParameter as error:
        return Report(refused=Refusal.of(InvalidRequest.at(error.field, error.message)))
    result = {name: getattr(fitted, name) for name in fitted.__slots__ if name != "state"}
    return Report(
        result=result,
        labels=model.labels.values,
        features=encode_state(model.features.state()),
        classifier=encode_state(model.classifier.state()),
    )


if __name__ == "__main__":
    run_limited_child(
        lambda: run(read_message(Task)), lambda why: Report(refused=Refusal.of(InvalidRequest(why)))
    )
