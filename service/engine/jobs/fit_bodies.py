"""The body of a fit request: examples and options, read and checked against the model.

To read and check 64 MB takes seconds. So only small bodies are read by the service itself; large ones are read by the
process of the fit, so that other requests need not wait.
"""

from typing import Any, NamedTuple

import msgspec

from novikoff.schemas import LabelSent
from service.engine.decoding import UNDECODABLE, raise_problem
from service.engine.models.checks import LabelChecks, Sent, check_dimension, plain_label
from service.engine.models.model import Model
from service.errors import InvalidRequest, UnknownLabel
from service.events import Label
from service.learning.batch import fitting
from service.learning.features.contract import BadFeatures
from service.learning.parameters import BadParameter

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
        raise InvalidRequest.at("examples", "there are none to learn from")


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
                raise InvalidRequest.at(f"examples[{number}]", "is nested too deep to read") from None
            except UNDECODABLE as error:
                raise InvalidRequest.at(f"examples[{number}]", str(error)[:200].replace("`", "")) from None
    return _checked(examples)


def _checked(examples: list[Example]) -> list[tuple[Sent, Label]]:
    return [(e.features, plain_label(e.label, f"examples[{i}].label")) for i, e in enumerate(examples)]
