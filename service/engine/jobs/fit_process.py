"""Training in a process of its own, so that predicting goes on at full speed.

It reads one message from its standard input, writes messages about its progress to its standard output, and
the result as the last one. A message is its length in four bytes and then MessagePack.
"""

import sys
import time
from typing import Any, BinaryIO

import msgspec

from service.engine.jobs.fit_bodies import Unread, stored
from service.engine.model.model import Model
from service.errors import FieldError, InvalidRequest, MalformedJson, RequestError
from service.events import Label
from service.journal.codec import encode_state
from service.learning.batch import fitting
from service.learning.parameters import BadParameter

REPORT_SECONDS = 0.1


class Task(msgspec.Struct):
    """What to train, on what, how. `absorb`: whether the examples are new to the model's features.

    What is `unread` has the examples and the options, and is read first.
    """

    model: bytes
    examples: list[tuple[Any, Label]]
    options: dict[str, Any]
    absorb: bool
    unread: Unread | None = None


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
    """How far it is; in the last one, what has come of it, or what was wrong with the task."""

    progress: dict[str, Any] | None = None
    result: dict[str, Any] | None = None
    labels: list[Label] | None = None
    features: bytes = b""
    classifier: bytes = b""
    read: tuple[int, dict[str, Any]] | None = None
    """How many examples there were in what was unread, and the options."""
    refused: Refusal | None = None
    wrong_field: str | None = None
    wrong: str | None = None


def frame(message: msgspec.Struct) -> bytes:
    body = msgspec.msgpack.encode(message)
    return len(body).to_bytes(4, "big") + body


def read(task: Task) -> Report:
    """Read what nobody has read so far."""
    assert task.unread is not None
    try:
        examples, options = task.unread.read()
        if examples is None:
            raise InvalidRequest.at("source", "so large a body must bring examples")
        task.examples, task.options = stored(Model.from_bytes(task.model), examples), options
    except RequestError as error:
        return Report(refused=Refusal(error.code, error.detail, error.fields))
    task.unread = None
    return Report(read=(len(task.examples), task.options))


def run(task: Task, write: BinaryIO) -> None:
    reported = 0.0
    if task.unread is not None:
        told = read(task)
        write.write(frame(told))
        write.flush()
        if told.refused is not None:
            return

    def report(progress: fitting.Progress) -> bool:
        nonlocal reported
        if time.monotonic() - reported >= REPORT_SECONDS:
            reported = time.monotonic()
            write.write(frame(Report(progress=msgspec.to_builtins(progress))))
            write.flush()
        return True

    write.write(frame(train(task, report)))
    write.flush()


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


def main() -> None:
    size = int.from_bytes(sys.stdin.buffer.read(4), "big")
    run(msgspec.msgpack.decode(sys.stdin.buffer.read(size), type=Task), sys.stdout.buffer)


if __name__ == "__main__":
    main()
