"""The process that trains a model.

It reads one `Task` and writes `Report`s: how far it is, and in the last one the result.
"""

import time
from typing import Any

import msgspec

from service.engine.jobs.fit_bodies import UnreadFit, encode_examples
from service.engine.models.model import Model
from service.errors import FieldError, InvalidRequest, MalformedJson, RequestError
from service.events import Label
from service.journal.codec import encode_state
from service.learning.batch import fitting
from service.learning.parameters import BadParameter
from service.runtime.child import read_message, run_limited_child, write_message

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

    def as_error(self) -> RequestError:
        if self.code == MalformedJson.code:
            return MalformedJson(self.detail)
        return InvalidRequest(self.detail, self.fields)


class Report(msgspec.Struct):
    """A message to the service: one of `read`, `refused`, `progress`, `result`, `wrong` or `failed`
    is set."""

    progress: dict[str, Any] | None = None
    result: dict[str, Any] | None = None
    """What the job's `result` shows; `labels`, `features` and `classifier` are what the model becomes."""
    labels: list[Label] | None = None
    features: bytes = b""
    classifier: bytes = b""
    read: tuple[int, dict[str, Any]] | None = None
    """How many examples the unread body had, and its options."""
    refused: Refusal | None = None
    """What is wrong with the unread body."""
    wrong_field: str | None = None
    wrong: str | None = None
    """Why the options cannot be used with these examples."""
    failed: str | None = None
    """Why the fit was given up."""


def read(task: Task) -> Report:
    """Read the task's unread body into its examples and options."""
    assert task.unread is not None
    try:
        examples, options = task.unread.read()
        if examples is None:
            raise InvalidRequest.at("source", "so large a body must bring examples")
        task.examples, task.options = encode_examples(Model.from_bytes(task.model), examples), options
    except RequestError as error:
        return Report(refused=Refusal(error.code, error.detail, error.fields))
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
        return Report(wrong_field=error.field, wrong=error.message)
    result = {name: getattr(fitted, name) for name in fitted.__slots__ if name != "state"}
    return Report(
        result=result,
        labels=model.labels.values,
        features=encode_state(model.features.state()),
        classifier=encode_state(model.classifier.state()),
    )


if __name__ == "__main__":
    run_limited_child(lambda: run(read_message(Task)), lambda why: Report(failed=why))
