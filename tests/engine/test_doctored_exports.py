"""An import is not believed: what no model of this service can have is refused, and the field is named."""

import copy
from typing import Any

import msgspec
import numpy as np
import pytest

from service.engine.models.model import Model
from service.engine.models.settings import ModelLimits, _ask
from service.engine.transfer.json_export import import_model
from service.errors import InvalidExport, InvalidRequest
from tests.support.doctored_exports import LIMITS, NOW, exported, with_digest
from tests.support.exporting import export_model

DENSE = ("perceptron", "binary", "dense")
NAMED = ("averaged", "one_vs_all-appearing", "named-standardized")
FULL = ("arow-full", "binary", "dense")
PAIRWISE = ("arow", "one_vs_one", "dense")
SPARSE = ("perceptron", "binary", "hashed-wide")
MATRIX = ("perceptron", "multiclass", "hashed")
CENTRED = ("pa1", "binary", "dense-standardized")
FORGETTING = ("forgetting-full", "binary", "dense")
LOGISTIC = ("logistic", "one_vs_all", "dense")
ASKING = ("arow", "one_vs_all", "dense")


def refused(
    kind: tuple[str, str, str], path: tuple[Any, ...], value: Any, sure: str | float | None = None
) -> list[str]:
    """The fields that an error names, if the value stands there in an export."""
    export = copy.deepcopy(exported(*kind, sure=sure))
    parent: Any = export
    for key in path[:-1]:
        parent = parent[key]
    parent[path[-1]] = value(parent[path[-1]]) if callable(value) else value
    body = msgspec.json.decode(msgspec.json.encode(with_digest(export)))
    with pytest.raises(InvalidExport) as error:
        import_model(body, LIMITS, NOW + 10**9)
    return [each.field for each in error.value.fields]


def changed(at: int, number: float) -> Any:
    """An array with another number at a place."""

    def change(array: dict[str, Any]) -> dict[str, Any]:
        array["$array"][at] = number
        return array

    return change


@pytest.mark.parametrize(
    ("kind", "path", "value", "field"),
    [
        (DENSE, ("expired",), 2**63, "expired"),
        (DENSE, ("expired",), -1, "expired"),
        (DENSE, ("drifts_recorded",), "x", "drifts_recorded"),
        (DENSE, ("version",), 3, "version"),
        (DENSE, ("origin",), "stolen", "origin"),
        (DENSE, ("began_at",), NOW + 10**12, "began_at"),
        (DENSE, ("name",), "a b", "name"),
        (DENSE, ("labels",), ["class 0", "class 0"], "labels"),
        (NAMED, ("labels", 0), 1.5, "labels"),
        (DENSE, ("statistics", "updates"), 2**64 - 1, "statistics.updates"),
        (DENSE, ("statistics", "revealed"), 39, "statistics.ewma[1]"),
        (DENSE, ("statistics", "mistakes"), 41, "statistics.mistakes"),
        (DENSE, ("statistics", "ewma", 0), -0.5, "statistics.ewma[0]"),
        (DENSE, ("statistics", "recent"), {"$bytes": "AA=="}, "statistics.recent"),
        (DENSE, ("statistics", "clock", 0), 2**52, "statistics.clock[0]"),
        (DENSE, ("statistics", "clock", 1), (1 << 63) - 1, "statistics.clock"),
        (DENSE, ("statistics", "clock", 2, 0), 2**50, "statistics.clock[2]"),
        (DENSE, ("statistics", "confusion", 5, 0), 1000, "statistics.confusion[5]"),
        (DENSE, ("statistics", "confusion", 5), lambda near: (near + [0] * 9)[:9], "statistics.confusion[5]"),
        (DENSE, ("statistics", "confusion", 6), [(9 << 12 | 9) << 40 | 1], "statistics.confusion[6]"),
        (DENSE, ("statistics", "delay", 2), [1], "statistics.delay[0]"),
        (DENSE, ("statistics", "delay", 0), 10**12, "statistics.delay[0]"),
        (DENSE, ("statistics", "drift", 1), 200, "statistics.drift[4]"),
        (DENSE, ("statistics", "drift", 7), 39, "statistics.drift[7]"),
        (DENSE, ("statistics", "curve", 1), 10**6, "statistics.curve[1]"),
        (DENSE, ("statistics", "curve", 3), [1] * 39, "statistics.curve[1]"),
        (DENSE, ("classifier", "weights"), changed(0, 1e300), "classifier.weights"),
        (DENSE, ("classifier", "weights", "shape"), [2, 2], "classifier.weights.shape"),
        (DENSE, ("classifier", "weights"), {"shape": [2**40]}, "classifier.weights"),
        (DENSE, ("classifier", "updates"), 1.0, "classifier.updates"),
        (DENSE, ("features", "dimension"), 5, "classifier.weights"),
        (DENSE, ("features", "dimension"), 10**9, "features.dimension"),
        (NAMED, ("features", "kind", "names"), ["a", "a"], "features.kind.names"),
        (NAMED, ("features", "kind", "names", 0), "x" * 1000, "features.kind.names[0]"),
        (NAMED, ("features", "transforms", "standardize", "seen"), -1, "features.transforms.standardize.seen"),
        (NAMED, ("classifier", "learners", 1, "lag"), changed(0, 1e200), "classifier.learners[1].lag"),
        (NAMED, ("classifier", "learners"), [], "classifier.learners"),
        (CENTRED, ("features", "transforms", "standardize", "kept"), changed(0, -1.0),
         "features.transforms.standardize.kept"),
        (FULL, ("classifier", "covariance"), changed(0, -0.5), "classifier.covariance"),
        (FULL, ("classifier", "covariance"), changed(1, 0.9), "classifier.covariance"),
        (FORGETTING, ("classifier", "covariance"), changed(0, -0.5), "classifier.covariance"),
        (FORGETTING, ("settings", "learner", "forget"), 0.75, "settings.learner.forget"),
        (LOGISTIC, ("classifier", "learners", 2, "squares"), changed(1, 0.5), "classifier.learners[2].squares"),
        (LOGISTIC, ("classifier", "learners", 2, "squares"), changed(1, 1e300), "classifier.learners[2].squares"),
        (LOGISTIC, ("classifier", "learners", 2), lambda kept: {**kept, "lag": 1}, "classifier.learners[2].lag"),
        (PAIRWISE, ("classifier", "learners", 0, "covariance"), changed(0, 2.0),
         "classifier.learners[0].covariance"),
        (PAIRWISE, ("classifier", "pairs"), [[0, 1], [0, 1], [0, 1]], "classifier.pairs"),
        (PAIRWISE, ("classifier", "pairs", 0), [2, 1], "classifier.pairs[0]"),
        (PAIRWISE, ("classifier", "classes"), 2, "classifier.classes"),
        (MATRIX, ("classifier", "weights", "shape"), [33, 3], "classifier.weights"),
        (DENSE, ("settings", "weights_max"), 10**9, "settings.weights_max"),
        (DENSE, ("settings", "learner", "eta0"), -1.0, "settings.learner.eta0"),
        (DENSE, ("settings", "features", "kind"), "hashed", "settings.features.dimension"),
        (DENSE, ("settings", "protocol"), "loose", "settings.protocol"),
        (DENSE, ("settings", "tie"), "class 7", "settings.tie"),
        (DENSE, ("bound",), 7, "bound"),
    ],
)  # fmt: skip
def test_a_value_that_no_model_can_have_is_refused_by_its_name(
    kind: tuple[str, str, str], path: tuple[Any, ...], value: Any, field: str
) -> None:
    assert refused(kind, path, value) == [field]


@pytest.mark.parametrize(
    ("path", "value", "field"),
    [
        (("sets",), None, "sets"),
        (("asking",), None, "asking"),
        (("sets", "wanted"), 0.9, "sets.wanted"),
        (("sets", "threshold"), 1e9, "sets.threshold"),
        (("sets", "threshold"), "x", "sets.threshold"),
        (("sets", "first_threshold"), -3.0, "sets.first_threshold"),
        (("sets", "past_distance"), -1.0, "sets.past_distance"),
        (("sets", "delay_max"), 2, "sets.delay_max"),
        (("sets", "delay_max"), -1, "sets.delay_max"),
        (("sets", "rounds"), 41, "sets.rounds"),
        (("sets", "covered"), 41, "sets.covered"),
        (("sets", "labels"), 10**6, "sets.labels"),
        (("sets", "singles"), 41, "sets.singles"),
        (("sets", "singles_wrong"), 41, "sets.singles_wrong"),
        (("asking", "b"), -1.0, "asking.b"),
        (("asking", "b"), 1e300, "asking.b"),
        (("asking", "b_given"), 2.0, "asking.b_given"),
        (("asking", "key"), 7, "asking.key"),
        (("asking", "wrong"), [], "asking.wrong"),
        (("asking", "right"), [1] * 256, "asking.asked"),
        (("asking", "lost"), [1] * 256, "asking.lost"),
        (("asking", "eta"), 2.0, "asking.eta"),
        (("asking", "asked"), 41, "asking.asked"),
        (("asking", "revealed"), 41, "asking.revealed"),
        (("asking", "weighted_mistakes"), 1e6, "asking.weighted_mistakes"),
        (("asking", "weighted_squares"), 1e6, "asking.weighted_squares"),
        (("settings", "coverage"), 1.5, "settings.coverage"),
        (("settings", "coverage"), None, "sets"),
        (("settings", "ask"), {"b": -1.0}, "settings.ask.b"),
        (("settings", "ask"), None, "asking"),
        (("settings", "confidence"), 2.0, "settings.confidence"),
        (("settings", "class_weights"), {"class 7": 2.0}, "settings.class_weights.class 7"),
        (("settings", "class_weights", "class 0"), 0.0, "settings.class_weights.class 0"),
        (("settings", "on_expiry"), ["class 0"], "settings.on_expiry"),
        (("settings", "on_expiry"), 0.5, "settings.on_expiry"),
        (("statistics", "calibration", 0, 6), 41.0, "statistics.calibration[0][6]"),
        (("statistics", "calibration", 0, 7), 1.0, "statistics.calibration[0][7]"),
        (("statistics", "calibration", 0, 8), 41.0, "statistics.calibration[0][8]"),
        (("statistics", "calibration", 0, 3), 1e150, "statistics.calibration[0][3]"),
        (("statistics", "calibration", 0, 15), 1e9, "statistics.calibration[0][15]"),
        (("statistics", "calibration", 1, 0), 99 << 40 | 1, "statistics.calibration[1]"),
        (("statistics", "weighted", 0), 41, "statistics.weighted[0]"),
        (("statistics", "weighted", 2), -1.0, "statistics.weighted[2]"),
        (("statistics", "weighted", 3), 1e9, "statistics.weighted[3]"),
    ],
)  # fmt: skip
def test_how_sure_no_model_can_be_is_refused_by_its_name(
    path: tuple[Any, ...], value: Any, field: str
) -> None:
    assert refused(ASKING, path, value, sure="auto") == [field]


def test_a_given_b_is_that_of_the_settings() -> None:
    assert refused(ASKING, ("asking", "b"), 0.25, sure=0.5) == ["asking.b"]


@pytest.mark.parametrize("sure", ["auto", 0.5])
def test_what_serves_sets_and_asks_is_imported_as_it_was_exported(sure: str | float) -> None:
    export = exported(*ASKING, sure=sure)
    body = msgspec.json.decode(msgspec.json.encode(export))
    model = Model.from_bytes(import_model(body, LIMITS, NOW + 10**9).state)
    again = export_model(model)
    assert again == export
    assert model.sets is not None and model.asking is not None
    assert model.sets.rounds == 40 and model.asking.asked > 0


def test_an_export_beyond_the_limits_of_this_service_is_refused() -> None:
    small = ModelLimits(names_max=10, classes_max=3, covariance_dimension_max=300, weights_max=10**6)
    for kind, field in (
        (NAMED, "settings.classes_max"),
        (("pa", "binary", "named"), "settings.features.names_max"),
    ):
        with pytest.raises(InvalidExport) as error:
            import_model(exported(*kind), small, NOW + 10**9)
        assert [each.field for each in error.value.fields] == [field]


@pytest.mark.parametrize(
    ("kind", "path", "value", "field"),
    [
        (DENSE, ("classifier", "weights"), changed(0, 2**53 + 1), "classifier.weights.$array"),
        (DENSE, ("classifier", "weights"), changed(0, 2**64 - 1), "classifier.weights.$array"),
        (DENSE, ("classifier", "weights"), lambda array: {**array, "kind": "i"}, "classifier.weights.$array"),
        (SPARSE, ("classifier", "weights", "places"), changed(0, 0.5), "classifier.weights.places.$array"),
        (SPARSE, ("classifier", "weights", "places"), changed(0, 2**63), "classifier.weights.places.$array"),
        (DENSE, ("statistics", "recent"), {"$bytes": "AB=="}, "statistics.recent.$bytes"),
    ],
)
def test_what_would_be_read_as_another_value_is_refused(
    kind: tuple[str, str, str], path: tuple[Any, ...], value: Any, field: str
) -> None:
    """A number that has no place in 64 bits, a fraction among whole numbers, bits that base64 leaves out."""
    assert refused(kind, path, value) == [field]


def test_whole_numbers_in_an_array_of_numbers_are_these_numbers() -> None:
    export = copy.deepcopy(exported(*DENSE))
    export["classifier"]["weights"]["$array"][0] = 3
    again = Model.from_bytes(import_model(with_digest(export), LIMITS, NOW + 10**9).state)
    assert export_model(again)["classifier"]["weights"]["$array"][0] == 3.0


def test_an_array_in_the_place_of_ask_is_told_by_its_name() -> None:
    with pytest.raises(InvalidRequest, match="ask: must be null"):
        _ask(np.array([1.0, 2.0]))
