"""A model exported to scikit-learn predicts there what it predicts here."""

from typing import Any

import numpy as np
import pytest
from sklearn.linear_model import SGDClassifier

from service.learning.learners.algorithms import BadParameter
from service.learning.sklearn_export import as_sklearn, take_linear
from tests.learning.rounds import FEATURES, LEARNERS, PAIRS, STRATEGIES, Model, dense_rounds, make, rounds_for
from tests.support.tiers import covering

LABELS = ["ham", "spam", "eggs", "toast"]
EXPORTABLE = ["dense", "dense-no-bias", "named", "named-capped"]


def export_sklearn(features: Any, classifier: Any, classes: list[Any]) -> dict[str, Any]:
    exported = as_sklearn(take_linear(features, classifier, classes).linear())
    return {**exported, "coef_": [row.tolist() for row in exported["coef_"]]}


def loaded(exported: dict[str, Any]) -> SGDClassifier:
    estimator = SGDClassifier()
    estimator.coef_ = np.array(exported["coef_"])
    estimator.intercept_ = np.array(exported["intercept_"])
    estimator.classes_ = np.array(exported["classes_"])
    return estimator


def row(model: Model, exported: dict[str, Any], sent: Any) -> list[float]:
    if "feature_names_in_" not in exported:
        return list(sent)
    example = model.read(sent)
    return [example.get(name, 0.0) for name in exported["feature_names_in_"]]


@pytest.mark.parametrize(
    ("learner", "way", "features"),
    covering([(*pair, f) for pair in PAIRS if not pair[1].startswith("one_vs_one") for f in EXPORTABLE]),
)
def test_the_exported_model_decides_alike(learner: str, way: str, features: str) -> None:
    model = make(learner, way, features).run(rounds_for(way, features, 40))
    agrees(model, rounds_for(way, features, 30, seed=9))


@pytest.mark.parametrize("features", [{"standardize": True}, {"kind": "named", "standardize": True}])
@pytest.mark.parametrize("bias_value", [None, 3.0])
def test_standardizing_is_worked_into_the_coefficients(features: Any, bias_value: float | None) -> None:
    stream: list[tuple[Any, int]] = [
        ([1e3 * x[0], 1e-3 * x[1] + 5, *x[2:]], truth) for x, truth in dense_rounds(120, 3)
    ]
    if "kind" in features:
        stream = [({f"x{i}": v for i, v in enumerate(x)}, truth) for x, truth in stream]
    model = Model({"algorithm": "arow"}, "one_vs_all", 3, features, bias_value).run(stream[:80])
    agrees(model, stream[80:])


def agrees(model: Model, stream: list[tuple[Any, int]]) -> None:
    exported = export_sklearn(model.features, model.classifier, LABELS[: model.classes])
    estimator = loaded(exported)
    for sent, _ in stream:
        chosen, score = model.predict(sent)
        x = [row(model, exported, sent)]
        scores = estimator.decision_function(x)[0]
        assert estimator.predict(x)[0] == LABELS[chosen]
        if model.classes > 2:
            scores = scores[chosen]
        assert scores == pytest.approx(score, rel=1e-9, abs=1e-9)


def test_two_classes_under_one_vs_all_become_a_single_row() -> None:
    model = Model(LEARNERS["pa"], "one_vs_all", 2).run(dense_rounds(50, 2))
    exported = export_sklearn(model.features, model.classifier, ["a", "b"])
    assert len(exported["coef_"]) == len(exported["intercept_"]) == 1
    estimator = loaded(exported)
    for sent, _ in dense_rounds(50, 2, seed=8):
        assert estimator.predict([sent])[0] == "ab"[model.predict(sent)[0]]
        z = model.features.vector(model.read(sent))
        difference = z.dot(model.weights(1)) - z.dot(model.weights(0))
        assert estimator.decision_function([sent])[0] == pytest.approx(difference, rel=1e-9, abs=1e-9)


def test_the_intercept_is_the_weight_of_the_bias_times_its_constant() -> None:
    model = Model({"algorithm": "perceptron"}, bias_value=4.0)
    model.reveal([3.0], 1, 0)
    assert export_sklearn(model.features, model.classifier, [0, 1]) == {
        "coef_": [[3.0]], "intercept_": [16.0], "classes_": [0, 1],
    }  # fmt: skip


@pytest.mark.parametrize(
    ("way", "features", "why"),
    [
        ("one_vs_one", "dense", "one_vs_one"),
        ("one_vs_all", "hashed", "hashed"),
        ("binary", "dense-fourier", "fourier"),
        ("binary", "dense-crosses", "crosses"),
        ("binary", "dense-l2", "normalize"),
        ("binary", "named-standardized", "normalize"),
    ],
)
def test_what_is_not_linear_in_the_input_is_refused(way: str, features: str, why: str) -> None:
    assert features in FEATURES
    model = make("perceptron", way, features).run(rounds_for(way, features, 20))
    with pytest.raises(BadParameter, match=why):
        export_sklearn(model.features, model.classifier, LABELS[: STRATEGIES[way][2]])


def test_a_model_that_knows_too_little_is_refused() -> None:
    with pytest.raises(BadParameter, match="two classes"):
        export_sklearn(*_parts(Model({}, "one_vs_all", 0)), [])
    with pytest.raises(BadParameter, match="two classes"):
        export_sklearn(*_parts(Model({})), [0, 1])


def _parts(model: Model) -> tuple[Any, Any]:
    return model.features, model.classifier
