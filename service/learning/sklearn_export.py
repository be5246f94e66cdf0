"""A model as scikit-learn knows linear ones: `coef_`, `intercept_`, `classes_`."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from service.learning.classes.classifier import Classifier
from service.learning.classes.one_vs_all import Binary
from service.learning.classes.one_vs_one import OneVsOne
from service.learning.features.contract import Features
from service.learning.features.dense import Dense
from service.learning.features.hashed import Hashed
from service.learning.features.named import Named
from service.learning.features.pipeline import Pipeline
from service.learning.features.robust import Scale
from service.learning.panel.panel import Panel
from service.learning.parameters import BadParameter
from service.learning.vectors import Array

NOT_LINEAR = {
    "fourier": "fourier features are not linear in the input",
    "crosses": "crosses are products, which are not linear in the input",
    "normalize": "normalize divides each example by its own length, which is not linear in the input",
}
"""Transforms of features, and why a model with one cannot be exported."""


@dataclass(frozen=True, slots=True)
class Linear:
    """A linear model in terms of the features as clients send them. It is a copy: the model may go on."""

    rows: list[Array]
    """The coefficients of each class; with two classes there is one row, which speaks for the second."""
    intercepts: Array
    classes: list[Any]
    names: list[str] | None
    """Of the columns, where they are not positions."""


@dataclass(frozen=True, slots=True)
class Taken:
    """What an export needs of a model, as copies. `linear` is the longer half of the work and needs the model no more,
    so that it can be done in a thread."""

    _rows: list[Array]
    _intercepts: Array
    _classes: list[Any]
    _names: list[str] | None
    _scale: tuple[Array, Array] | None
    """The mean of each feature, and what its distance from that is multiplied by."""

    def linear(self) -> Linear:
        """The model with `standardize` worked into its coefficients; to be asked for once, as it changes the copies."""
        if self._scale is not None:
            mean, factor = self._scale
            for at, row in enumerate(self._rows):
                row *= factor
                self._intercepts[at] -= np.add.reduce(row * mean)
        return Linear(self._rows, self._intercepts, self._classes, self._names)


def check_linear(features: Features, classifier: Classifier, classes: Sequence[Any]) -> None:
    """BadParameter says why a model is no linear one in what clients send; nothing is copied for that."""
    if isinstance(classifier, Panel):
        raise _cannot("a panel votes, which no single linear model does")
    if isinstance(classifier, OneVsOne):
        raise _cannot("one_vs_one votes, which no single linear model does")
    if len(classes) < 2 or not features.size():
        raise _cannot("the model has not yet learned two classes")
    if isinstance(features, Pipeline):
        if isinstance(features.kind, Hashed):
            raise _cannot("hashed features have no columns of their own")
        for transform, why in NOT_LINEAR.items():
            if transform in features.transforms:
                raise _cannot(why)
    if not columns_of(features):
        raise _cannot("the model has not yet learned a feature")


def columns_of(features: Features) -> int:
    """How many features there are without the bias."""
    assert isinstance(features, Dense | Pipeline)
    return features.size() - (features.bias_value is not None)


def take_linear(features: Features, classifier: Classifier, classes: Sequence[Any]) -> Taken:
    """Copies of all that a linear export needs; BadParameter, before anything is copied, if there can be none.

    Dense features come as they are. Named ones come with their names, in the order of the columns. A score of exactly
    zero goes to the first class in scikit-learn, whatever the model's `tie` is.
    """
    check_linear(features, classifier, classes)
    assert isinstance(features, Dense | Pipeline)
    is_single = isinstance(classifier, Binary) or len(classes) == 2
    rows, intercepts = [], np.zeros(1 if is_single else len(classes))
    bias_is_first = isinstance(features, Pipeline) and features.is_sparse
    has_bias = features.bias_value is not None
    for at in range(len(intercepts)):
        if isinstance(classifier, Binary) or not is_single:
            row = classifier.weights_for(1 if is_single else at)
        else:
            row = classifier.weights_for(1) - classifier.weights_for(0)
        if features.bias_value is not None:
            intercepts[at] = row[0 if bias_is_first else -1] * features.bias_value
            row = row[1:] if bias_is_first else row[:-1]
        rows.append(row.copy())
    names = scale = None
    if isinstance(features, Pipeline):
        first = 1 if has_bias and bias_is_first else 0
        standardize = features.transforms.get("standardize")
        if isinstance(standardize, Scale):
            mean, factor = standardize.factors(columns_of(features) + first)
            scale = mean[first:].copy(), factor[first:].copy()
        if isinstance(features.kind, Named):
            names = features.kind.names()
    return Taken(rows, intercepts, list(classes), names, scale)


def as_sklearn(linear: Linear) -> dict[str, Any]:
    """The attributes of an estimator such as `SGDClassifier`; the rows of `coef_` are arrays."""
    named = {} if linear.names is None else {"feature_names_in_": linear.names}
    return {
        "coef_": linear.rows,
        "intercept_": linear.intercepts.tolist(),
        "classes_": linear.classes,
        **named,
    }


def _cannot(why: str) -> BadParameter:
    return BadParameter("format", f"cannot be sklearn: {why}")
