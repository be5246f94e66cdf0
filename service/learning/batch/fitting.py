"""Training on a set of examples: passes until there is a reason to stop, which is reported.

A pass is one of the batch perceptron, or one of the model's own learner, example by example as in the stream.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf
from typing import Any, Protocol

import numpy as np

from service.learning.batch.perceptron import BatchPasses, Classes, length
from service.learning.classes.classifier import Classifier
from service.learning.classes.one_vs_all import Binary
from service.learning.learners.algorithms import ETA0, SCHEDULE
from service.learning.parameters import BadParameter, Choice, Integer, Number, Parameter, check_fields
from service.learning.vectors import Array, Vector

_EXAMPLES_A_LOOK = 1024  # how many examples between two questions whether to go on


class OnlinePasses:
    """Each example is predicted, then learned. Errors are the mistakes of the last pass, if it was whole.

    The criterion is the sum of -y w·z over those mistakes, each by the weights that made it; it is known
    for two classes only. With a generator every pass has an order of its own.
    """

    __slots__ = ("_classifier", "_measures", "_order", "_truths", "_updates_before", "_updates_max",
                 "_vectors", "criterion", "errors")  # fmt: skip

    def __init__(
        self,
        classifier: Classifier,
        vectors: Sequence[Vector],
        truths: Classes,
        *,
        order: "np.random.Generator | None",
        updates_max: int,
        measures: bool,
    ) -> None:
        self._classifier = classifier
        self._vectors = vectors
        self._truths = truths.tolist()
        self._order = order
        self._updates_before = classifier.updates
        self._updates_max = updates_max
        self._measures = measures
        self.errors: int | None = None
        self.criterion: float | None = None

    @property
    def updates(self) -> int:
        return self._classifier.updates - self._updates_before

    def run(self, is_wanted: Callable[[int], bool]) -> tuple[float, float]:
        """One pass; how far it moved the weights (infinite if not measured), and how long they are now."""
        updates_before = self.updates
        before = self._weights() if self._measures else None
        self.errors, errors, criterion = None, 0, 0.0
        count = len(self._vectors)
        order = range(count) if self._order is None else self._order.permutation(count).tolist()
        for done, i in enumerate(order):
            if self.updates >= self._updates_max:
                break
            if done % _EXAMPLES_A_LOOK == 0 and not is_wanted(done):
                break
            served, score, _ = self._classifier.decide(self._vectors[i])
            if served != self._truths[i]:
                errors += 1
                criterion += abs(score)
            self._classifier.learn(self._vectors[i], self._truths[i], served)
        else:
            self.errors = errors
        self.criterion = criterion if isinstance(self._classifier, Binary) else None
        if self.updates == updates_before:
            return 0.0, 0.0
        if before is None:
            return inf, 0.0
        after = self._weights()
        return length(after - before), length(after)

    def _weights(self) -> Array:
        if isinstance(self._classifier, Binary):
            return self._classifier.rows().copy()
        return np.array([self._classifier.weights_for(truth) for truth in sorted(set(self._truths))])


_COMMON: dict[str, Parameter] = {
    "passes_max": Integer(100, 1, 1_000_000, "stop after this many passes (`budget`)"),
    "updates_max": Integer(10**9, 1, 10**9, "stop after this many updates (`budget`)"),
    "theta": Number(0.0, 0.0, 1e100, "stop when a pass moves the weights by less than this (`criterion`)"),
    "tolerance": Number(
        0.0, 0.0, 1.0, "stop when a pass moves the weights by at most this share of their length "
        "(`weights_stable`)"
    ),
    "validation_share": Number(
        0.0, 0.0, 1.0, "the share of examples held out; the weights that err least on them are kept",
        high_open=True,
    ),
    "patience": Integer(
        5, 1, 1_000_000, "stop when the error on the held-out part has not fallen for so many passes "
        "(`validation`)"
    ),
    "order": Choice("given", ("given", "shuffled"), "of the examples; held out are the last ones in it"),
    "seed": Integer(0, 0, 2**63 - 1, "of the shuffling"),
}  # fmt: skip

FITS: dict[str, dict[str, Parameter]] = {
    "batch": {"eta0": ETA0, "schedule": SCHEDULE, **_COMMON},
    "online": _COMMON,
}


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a fit has come: whole passes, examples of the pass under way, and the last pass's figures."""

    passes: int
    examples: int
    updates: int
    errors: int | None
    criterion: float | None
    validation_error: float | None


@dataclass(frozen=True, slots=True)
class Fitted:
    """A finished fit. Errors, criterion and validation error are those of the weights that were kept.

    With a part held out these are the weights after pass `kept_pass`, else those after the last one.
    """

    stop: str
    """`cancelled`, `all_correct`, `criterion`, `validation`, `weights_stable` or `budget`; of several, the first."""

    passes: int
    updates: int
    kept_pass: int
    examples: int
    errors: int | None
    criterion: float | None
    validation_error: float | None
    state: dict[str, Any]


class Passes(Protocol):
    """Passes of one algorithm over the examples: how far it has come, and the next pass.

    `run` makes a pass and calls `is_wanted` with the examples done so far, now and then; it returns early if the answer
    is False. It returns how far the pass moved the weights and how long they are now.
    """

    @property
    def updates(self) -> int: ...
    @property
    def errors(self) -> int | None: ...
    @property
    def criterion(self) -> float | None: ...
    def run(self, is_wanted: Callable[[int], bool]) -> tuple[float, float]: ...


def complete(options: Mapping[str, object]) -> dict[str, Any]:
    """The options of a fit, checked and with every default filled in.

    >>> complete({"theta": 0.1})["schedule"]
    'constant'
    """
    name = options.get("algorithm", "batch")
    if not isinstance(name, str) or name not in FITS:
        raise BadParameter("algorithm", "must be one of " + ", ".join(FITS))
    given = {field: value for field, value in options.items() if field != "algorithm"}
    return {"algorithm": name, **check_fields(given, FITS[name], name)}


def fit(
    classifier: Classifier,
    vectors: Sequence[Vector],
    truths: Sequence[int],
    options: Mapping[str, Any],
    report: Callable[[Progress], bool] = lambda progress: True,
) -> Fitted:
    """Train the classifier, from the weights it has, on examples of the classes `truths`.

    `options` are completed ones. `report` is called with the progress, often; the fit is given up as soon as it
    answers False. The same arguments give the same result, to the bit.
    """
    generator = np.random.Generator(np.random.PCG64(options["seed"]))
    train, held_out = _split(len(vectors), options, generator)
    classes = np.array(truths, dtype=np.int64)
    if len(np.unique(classes[train])) < 2:
        raise BadParameter("examples", "must have at least two classes" + " in the part not held out" *
                           bool(len(held_out)))  # fmt: skip
    passes = _passes(classifier, [vectors[i] for i in train], classes[train], options, generator)
    validation = [(vectors[i], int(classes[i])) for i in held_out]
    return _run(classifier, passes, validation, options, report, len(train))


def _split(
    count: int, options: Mapping[str, Any], generator: "np.random.Generator"
) -> tuple[Classes, Classes]:
    """The examples to train on and those held out, in their order."""
    order = generator.permutation(count) if options["order"] == "shuffled" else np.arange(count)
    share = options["validation_share"]
    kept = count - max(1, int(count * share)) if share else count
    return order[:kept], order[kept:]


def _passes(
    classifier: Classifier,
    vectors: Sequence[Vector],
    truths: Classes,
    options: Mapping[str, Any],
    generator: "np.random.Generator",
) -> Passes:
    if options["algorithm"] == "batch":
        return BatchPasses(classifier, vectors, truths, eta0=options["eta0"], schedule=options["schedule"])
    return OnlinePasses(
        classifier,
        vectors,
        truths,
        order=generator if options["order"] == "shuffled" else None,
        updates_max=options["updates_max"],
        measures=options["theta"] > 0 or options["tolerance"] > 0,
    )


def _run(
    classifier: Classifier,
    passes: Passes,
    validation: Sequence[tuple[Vector, int]],
    options: Mapping[str, Any],
    report: Callable[[Progress], bool],
    examples: int,
) -> Fitted:
    done = 0
    is_cancelled = False
    validation_error = _error(classifier, validation)

    def is_wanted(part: int) -> bool:
        nonlocal is_cancelled
        at = Progress(done, part, passes.updates, passes.errors, passes.criterion, validation_error)
        is_cancelled = is_cancelled or not report(at)
        return not is_cancelled

    def now() -> Fitted:
        return Fitted("", done, passes.updates, done, examples, passes.errors, passes.criterion,
                      validation_error, classifier.state())  # fmt: skip

    best = now() if validation else None
    stop = "all_correct" if passes.errors == 0 else ""
    while not stop:
        moved, length = passes.run(is_wanted)
        done += 1
        validation_error = _error(classifier, validation)
        if best is not None and _is_less(validation_error, best.validation_error):
            best = now()
        if not is_wanted(0):
            stop = "cancelled"
        elif passes.errors == 0:
            stop = "all_correct"
        elif moved < options["theta"]:
            stop = "criterion"
        elif best is not None and done - best.kept_pass >= options["patience"]:
            stop = "validation"
        elif moved <= options["tolerance"] * length:
            stop = "weights_stable"
        elif done >= options["passes_max"] or passes.updates >= options["updates_max"]:
            stop = "budget"
    if best is not None:
        classifier.restore(best.state, *classifier.shape)
    return replace(best or now(), stop=stop, passes=done, updates=passes.updates)


def _error(classifier: Classifier, examples: Sequence[tuple[Vector, int]]) -> float | None:
    """The share of examples that are decided wrongly."""
    if not examples:
        return None
    return sum(classifier.decide(z)[0] != truth for z, truth in examples) / len(examples)


def _is_less(error: float | None, other: float | None) -> bool:
    return error is not None and other is not None and error < other
