"""Every learner once through data sets that ship with scikit-learn and river, beside their online learners.

    python -m bench.accuracy

One pass; each example is predicted first and learned after, and the share of wrong predictions is printed as a
table in Markdown. Everyone gets the same examples in the same order, standardized by the running mean and variance
of the examples before, and its default parameters. Several classes are one-vs-all, but for the softmax and the rows
that say otherwise.
"""

import time
from collections.abc import Callable
from typing import Any, Protocol

from river import forest, linear_model, multiclass, preprocessing
from sklearn import set_config
from sklearn.linear_model import Perceptron, SGDClassifier
from sklearn.preprocessing import StandardScaler

from bench.streams import Rounds, data_sets
from service.engine.models.settings import RULES
from service.learning.classes import strategies
from service.learning.features import kinds as feature_kinds
from service.learning.learners import algorithms
from service.learning.panel.panel import Panel


class Online(Protocol):
    """Predicts an example, then learns it."""

    def predict(self, x: list[float]) -> int: ...

    def learn(self, x: list[float], truth: int, served: int) -> None: ...


class Ours:
    def __init__(
        self, learner: dict[str, Any], classes: int, way: str | None = None, **features: Any
    ) -> None:
        learner = algorithms.complete(learner)
        settings = feature_kinds.complete({"standardize": True, **features})
        self._features = feature_kinds.build(settings, 1.0, robust=True)
        self._classifier = strategies.build(
            learner, strategies.complete(way, classes, learner), classes=classes, tie=1
        )

    def predict(self, x: list[float]) -> int:
        example = self._features.read(x)
        if self._features.dimension is None:
            self._features.dimension = len(x)
            self._classifier.grow(self._features.size())
        return self._classifier.decide(self._features.vector(example))[0]

    def learn(self, x: list[float], truth: int, served: int) -> None:
        example = self._features.read(x)
        anew = self._features.absorb(example)
        if anew is not None:
            self._classifier.unsettle(anew)
        self._classifier.learn(self._features.vector(example), truth, served)


class Auto:
    """Our panel of experts, which brings its own scales."""

    def __init__(self, classes: int) -> None:
        learner = algorithms.complete({"algorithm": algorithms.AUTO})
        self._features = feature_kinds.build(feature_kinds.complete("dense"), 1.0)
        way = strategies.complete(None, classes, learner)
        self._panel = Panel(learner, way, classes=classes, tie=1, kind="dense", has_bias=True, rules=RULES)

    def predict(self, x: list[float]) -> int:
        if self._features.dimension is None:
            self._features.dimension = len(x)
            self._panel.grow(self._features.size())
        self._z = self._features.vector(self._features.read(x))
        self._vote = self._panel.vote(self._z)
        return self._vote.chosen

    def learn(self, x: list[float], truth: int, served: int) -> None:
        erred = self._vote.erred_weight(truth)
        self._panel.reveal(self._z, truth, served, self._vote.said, erred, 1.0, delay=0)


class Forest:
    """River's adaptive random forest, to which scales do not matter."""

    def __init__(self) -> None:
        self._forest = forest.ARFClassifier(seed=0)

    def predict(self, x: list[float]) -> int:
        label = self._forest.predict_one(dict(enumerate(x)))
        return 0 if label is None else int(label)

    def learn(self, x: list[float], truth: int, served: int) -> None:
        self._forest.learn_one(dict(enumerate(x)), truth)


class Rivers:
    def __init__(self, classifier: Any) -> None:
        self._scaler = preprocessing.StandardScaler()
        self._classifier = classifier

    def predict(self, x: list[float]) -> int:
        label = self._classifier.predict_one(self._scaler.transform_one(dict(enumerate(x))))
        return 0 if label is None else int(label)

    def learn(self, x: list[float], truth: int, served: int) -> None:
        named = dict(enumerate(x))
        self._scaler.learn_one(named)
        self._classifier.learn_one(self._scaler.transform_one(named), truth)


class Scikits:
    def __init__(self, classifier: Any, classes: int) -> None:
        self._scaler = StandardScaler()
        self._classifier = classifier
        self._classes = list(range(classes))
        self._is_fitted = False

    def predict(self, x: list[float]) -> int:
        return int(self._classifier.predict(self._scaler.transform([x]))[0]) if self._is_fitted else 0

    def learn(self, x: list[float], truth: int, served: int) -> None:
        self._scaler.partial_fit([x])
        self._classifier.partial_fit(self._scaler.transform([x]), [truth], classes=self._classes)
        self._is_fitted = True


def one_vs_rest(classifier: Any, classes: int) -> Any:
    """A river classifier of two classes as one of several, where there are several."""
    return classifier if classes == 2 else multiclass.OneVsRestClassifier(classifier)


SINGLE = tuple(name for name in algorithms.ALGORITHMS if name != algorithms.AUTO)
"""The algorithms that are one learner each."""

CONTESTANTS: dict[str, Callable[[int, int], Online | None]] = {
    "auto": lambda k, d: Auto(k),
    **{name: lambda k, d, name=name: Ours({"algorithm": name}, k) for name in SINGLE},  # type: ignore[misc]
    "arow, full covariance": lambda k, d: Ours({"algorithm": "arow", "covariance": "full"}, k),
    "scw, full covariance": lambda k, d: Ours({"algorithm": "scw", "covariance": "full"}, k),
    "perceptron, `multiclass`": lambda k, d: Ours({}, k, "multiclass") if k > 2 else None,
    "arow, `one_vs_one`": lambda k, d: Ours({"algorithm": "arow"}, k, "one_vs_one") if k > 2 else None,
    "arow, fourier": lambda k, d: Ours({"algorithm": "arow"}, k, fourier={}),
    "scw, crosses": lambda k, d: Ours({"algorithm": "scw"}, k, crosses=2),
    "river Perceptron": lambda k, d: Rivers(one_vs_rest(linear_model.Perceptron(), k)),
    "river PAClassifier": lambda k, d: Rivers(one_vs_rest(linear_model.PAClassifier(), k)),
    "river ALMAClassifier": lambda k, d: Rivers(one_vs_rest(linear_model.ALMAClassifier(), k)),
    "river LogisticRegression": lambda k, d: Rivers(one_vs_rest(linear_model.LogisticRegression(), k)),
    "river SoftmaxRegression": lambda k, d: Rivers(linear_model.SoftmaxRegression()) if k > 2 else None,
    "river ARFClassifier": lambda k, d: Forest(),
    "scikit-learn Perceptron": lambda k, d: Scikits(Perceptron(), k),
    "scikit-learn SGDClassifier": lambda k, d: Scikits(SGDClassifier(random_state=0), k),
    "scikit-learn SGDClassifier, pa1": lambda k, d: Scikits(
        SGDClassifier(penalty=None, learning_rate="pa1", eta0=1.0), k
    ),
}


def error(contestant: Online, rounds: Rounds) -> float:
    wrong = 0
    for x, truth in rounds:
        served = contestant.predict(x)
        wrong += served != truth
        contestant.learn(x, truth, served)
    return wrong / len(rounds)


def main() -> None:
    began = time.perf_counter()
    set_config(assume_finite=True, skip_parameter_validation=True)  # half of scikit-learn's time
    sets = list(data_sets())
    heads = [
        f"{name} ({len(rounds):,} × {len(rounds[0][0])}, {_classes(rounds)} classes)" for name, rounds in sets
    ]
    print("| error % | " + " | ".join(heads) + " |")
    print("|---|" + "---:|" * len(sets))
    for name, make in CONTESTANTS.items():
        cells = []
        for _, rounds in sets:
            contestant = make(_classes(rounds), len(rounds[0][0]))
            cells.append("" if contestant is None else f"{100 * error(contestant, rounds):.1f}")
        print(f"| {name} | " + " | ".join(cells) + " |", flush=True)
    print(f"\n{time.perf_counter() - began:.0f} seconds")


def _classes(rounds: Rounds) -> int:
    return len({truth for _, truth in rounds})


if __name__ == "__main__":
    main()
