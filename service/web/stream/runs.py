"""Runs: consecutive lines that are whole rounds of the same model are learned as one event."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from novikoff.schemas import FeaturesSent
from service.engine.models.labels import LABEL_ABS_MAX
from service.engine.rounds.blocks import Begun, even_share
from service.events import Label
from service.learning.vectors import Rows
from service.web.stream.lines import Part
from service.web.stream.whole_rounds import WholeRounds


class Run(NamedTuple):
    """Whole rounds of one model: which of the chunk's lines they are, and what is in them."""

    places: Sequence[int]
    features: list[FeaturesSent] | Rows
    labels: list[Label]


class UnderWay(NamedTuple):
    """A chunk that is one run, on its way to the journal."""

    model: str
    run: Run
    begun: Begun


def as_one_run(lines: Part, stream_model: str | None, only: str | None = None) -> tuple[str, Run] | None:
    """A model, this one if there is `only` one, and the lines as its whole rounds, if that is what all of them are."""
    model: str | None
    features: list[FeaturesSent] | Rows
    labels: list[Any]
    if isinstance(lines, WholeRounds):
        model, features, labels = lines.model, lines.rows, [*lines.labels]
    else:
        given: list[Any] = lines
        try:
            models = {line.model for line in given}
            ids = {line.id for line in given} | {line.prediction_id for line in given}
            weights = {line.weight for line in given} | {line.tag for line in given}
        except AttributeError:  # there are errors among them
            return None
        features = [line.features for line in given]
        if len(models) > 1 or ids != {None} or weights != {None} or None in features:
            return None
        model, labels = models.pop(), [line.label for line in given]
    model = model or stream_model
    if model is None or only not in (None, model) or not _are_plain(labels):
        return None
    return model, Run(range(len(labels)), features, labels)


def portions(
    lines: Part,
    stream_model: str | None,
    only: str | None,
    at_once: Callable[[str, list[FeaturesSent] | Rows], int],
) -> Iterator[Part]:
    """The same lines. If they are one run, then at a time no more than `at_once` says of its model and features."""
    start = 0
    if isinstance(lines, WholeRounds):
        while start < len(lines):
            fit = at_once(lines.model or stream_model or "", lines.rows)
            end = start + even_share(len(lines) - start, fit)
            yield lines.part(start, end)
            start = end
    elif (whole := as_one_run(lines, stream_model, only)) is not None:
        model, run = whole
        while start < len(lines):
            end = start + even_share(len(lines) - start, at_once(model, run.features))
            yield lines[start:end]
            start = end
    else:
        yield lines


def _are_plain(labels: list[Any]) -> bool:
    """Whether all are integers or all booleans, within bounds: then none need be looked at by itself.

    >>> _are_plain([1, -1]), _are_plain([1, True]), _are_plain([1.0]), _are_plain([None])
    (True, False, False, False)
    """
    kinds = set(map(type, labels))
    return kinds in ({int}, {bool}) and min(labels) >= -LABEL_ABS_MAX and max(labels) <= LABEL_ABS_MAX
