"""A model as scikit-learn knows linear ones: `coef_`, `intercept_`, `classes_`."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from service.learning.classes.binary import Binary
from service.learning.classes.classifier import Classifier
from service.learning.classes.one_vs_one import OneVsOne
from service.learning.features.contract import Features
from service.learning.features.dense import Dense
from service.learning.features.hashed import Hashed
from service.learning.features.named import Named
from service.learning.features.pipeline import Pipeline
from service.learning.features.standardize import Centred, Scaled
from service.learning.panel.panel import Panel
from service.learning.parameters import BadParameter
from service.learning.vectors import Array


def export_sklearn(features: Features, classifier: Classifier, classes: Sequence[Any]) -> dict[str, Any]:
    """The model as lists, which an estimator such as `SGDClassifier` takes as its attributes.

    Dense features come as they are, and `standardize` is worked into the coefficients. Named ones come with
    `feature_names_in_`, the order of the columns. BadParameter says why another model cannot be exported.
    A score of exactly zero goes to the first class there, whatever the model's `tie` is.
    """
    if isinstance(classifier, Panel):
        raise _cannot("a panel votes, which no single linear model does")
    if isinstance(classifier, OneVsOne):
        raise _cannot("one_vs_one votes, which no single linear model does")
    if len(classes) < 2 or not features.size():
        raise _cannot("the model has not yet learned two classes")
    chosen = [1] if isinstance(classifier, Binary) else range(len(classes))
    rows = np.array([classifier.weights_for(c) for c in chosen])
    if len(rows) == 2:
        rows = rows[1:] - rows[:1]  # for two classes there is a single row
    coef, intercept = _in_terms_of_input(features, rows)
    if not coef.shape[1]:
        raise _cannot("the model has not yet learned a feature")
    exported = {"coef_": coef.tolist(), "intercept_": intercept.tolist(), "classes_": list(classes)}
    if isinstance(features, Pipeline) and isinstance(features.kind, Named):
        exported["feature_names_in_"] = features.kind.names()
    return exported


def _in_terms_of_input(features: Features, rows: Array) -> tuple[Array, Array]:
    """Coefficients and intercepts for the features as clients send them."""
    assert isinstance(features, Dense | Pipeline)
    intercept = np.zeros(len(rows))
    is_sparse = isinstance(features, Pipeline) and features.is_sparse
    first = 0
    if features.bias_value is not None:
        first = 1 if is_sparse else 0
        intercept = rows[:, 0 if is_sparse else -1] * features.bias_value
        rows = rows[:, 1:] if is_sparse else rows[:, :-1]
    if isinstance(features, Dense):
        return rows, intercept
    if isinstance(features.kind, Hashed):
        raise _cannot("hashed features have no columns of their own")
    if "fourier" in features.transforms:
        raise _cannot("fourier features are not linear in the input")
    if "crosses" in features.transforms:
        raise _cannot("crosses are products, which are not linear in the input")
    if "normalize" in features.transforms:
        raise _cannot("normalize divides each example by its own length, which is not linear in the input")
    scale = features.transforms.get("standardize")
    if isinstance(scale, Centred | Scaled):
        mean, factor = (part[first:] for part in scale.factors(rows.shape[1] + first))
        rows = rows * factor
        intercept = intercept - np.add.reduce(rows * mean, axis=1)
    return rows, intercept


def _cannot(why: str) -> BadParameter:
    return BadParameter("format", f"cannot be sklearn: {why}")
