"""The strategies for several classes, declared once, and how a model's classifier is made."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from service.learning.classes.classifier import Classifier
from service.learning.classes.multiclass import Multiclass
from service.learning.classes.one_vs_all import Binary, OneVsAll
from service.learning.classes.one_vs_one import OneVsOne
from service.learning.learners import algorithms
from service.learning.parameters import BadParameter, Choice
from service.learning.statistics.confusion import CLASSES_MAX


@dataclass(frozen=True, slots=True)
class MulticlassStrategy:
    """How several classes are separated: its name, a sentence about it, and the most classes it is fit for."""

    name: str
    summary: str
    classes_max: int


STRATEGIES: dict[str, MulticlassStrategy] = {
    strategy.name: strategy
    for strategy in (
        MulticlassStrategy(
            "one_vs_all", "A learner for each class against the rest; the highest score wins.", CLASSES_MAX
        ),
        MulticlassStrategy(
            "one_vs_one",
            "A learner for each pair of classes; the most votes win, then the highest summed score.",
            100,  # 4,950 pairs; a thousand classes would be 499,500
        ),
        MulticlassStrategy(
            "multiclass",
            "One matrix: the true row gains what the wrong one loses. Perceptron only.",
            CLASSES_MAX,
        ),
    )
}

MULTICLASS = Choice(
    None, tuple(STRATEGIES), "how several classes are separated; null is one learner for two declared labels, "
    "else `one_vs_all`"
)  # fmt: skip


def complete(multiclass: object, labels_declared: int | None, learner: Mapping[str, Any]) -> str | None:
    """The strategy of a model, checked: null for two declared labels unless another is asked for.

    >>> complete(None, 2, {"algorithm": "perceptron"}), complete(None, None, {"algorithm": "perceptron"})
    (None, 'one_vs_all')
    """
    strategy = MULTICLASS.check("multiclass", multiclass)
    if strategy is None:
        strategy = None if labels_declared == 2 else "one_vs_all"
    if strategy == "multiclass" and learner["algorithm"] != "perceptron":
        raise BadParameter("multiclass", "`multiclass` is a perceptron of its own; for "
                           f"{learner['algorithm']} take one_vs_all or one_vs_one")  # fmt: skip
    if strategy == "multiclass" and "forget" in learner:
        raise BadParameter(
            "multiclass", "`multiclass` forgets nothing; with `forget` take one_vs_all or one_vs_one"
        )
    if (
        labels_declared is not None
        and strategy is not None
        and labels_declared > STRATEGIES[strategy].classes_max
    ):
        raise BadParameter("labels", f"{strategy} takes at most {STRATEGIES[strategy].classes_max} classes")
    return strategy


def learners(multiclass: str | None, classes: int) -> int:
    """How many learners, or rows of weights, tell so many classes apart.

    >>> [learners(strategy, 5) for strategy in (None, "one_vs_all", "one_vs_one")]
    [1, 5, 10]
    """
    if multiclass is None:
        return 1
    return classes * (classes - 1) // 2 if multiclass == "one_vs_one" else classes


def build(learner: Mapping[str, Any], multiclass: str | None, *, classes: int, tie: int) -> Classifier:
    """A classifier at its start, from completed settings, for the classes known now.

    `tie` is the class (0 or 1) that a score of zero is put into when there are just two; with several
    classes a tie goes to the one declared or seen first.
    """
    if multiclass is None:
        return Binary(algorithms.build(learner, tie=2 * tie - 1), tie)
    if multiclass == "multiclass":
        parameters = {name: value for name, value in learner.items() if name != "algorithm"}
        return Multiclass(classes, **parameters)
    strategy = OneVsAll if multiclass == "one_vs_all" else OneVsOne
    return strategy(algorithms.build(learner, tie=strategy.TIE), classes)
