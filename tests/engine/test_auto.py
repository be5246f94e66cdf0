"""`auto` in the fold: what each expert said is kept with the prediction, and late labels count against that."""

import copy
from typing import Any

import msgspec
import numpy as np
import pytest

from service.engine.models.model import Model
from service.engine.models.sizes import bytes_in_memory
from service.engine.rounds.explanation import explain
from service.engine.transfer.json_export import import_model
from service.errors import InvalidExport, InvalidRequest
from service.events import DimensionFixed, ModelCreated, ModelReset
from service.learning.panel.panels import NEWEST, PANELS
from service.web.routes.model_settings import ModelLimits, ModelSettings
from tests.support.doctored_exports import NOW, with_digest
from tests.support.exporting import export_model
from tests.support.late_labels import Late, run
from tests.support.tiers import slow

LIMITS = ModelLimits(1000, 100, 512, 10**8)
NAMES = [expert.name for expert in PANELS[NEWEST].experts]


def made(dimension: int | None = 4, **settings: Any) -> Model:
    chosen = {"learner": {"algorithm": "auto"}, **settings}
    model = Model(ModelCreated("m", 1, ModelSettings.model_validate(chosen).complete(LIMITS)))
    if dimension is not None:
        model.apply(DimensionFixed("m", 1, dimension))
    return model


CASES = [
    slow({"labels": ["a", "b"]}),
    {"labels": ["a", "b", "c"], "coverage": 0.8, "ask": "auto"},
    slow({"labels": None, "class_weights": {"a": 2.0}}),
    {"labels": None, "features": "named", "coverage": 0.9, "bias": False},
    {"labels": ["a", "b"], "features": {"kind": "hashed", "bits": 6}, "ask": {"b": 0.5}},
    slow({"labels": ["a", "b", "c"], "multiclass": "one_vs_one"}),
]


@pytest.mark.parametrize("settings", CASES, ids=str)
def test_a_replay_gives_the_same_bits_from_the_start_and_from_a_snapshot(settings: dict[str, Any]) -> None:
    dimension = None if "features" in settings else 4
    stream = Late(made(dimension, **settings))
    run(stream, 300, settings["labels"] or ["a", "b", "c"])
    live = stream.model.to_bytes()
    again = made(dimension, **settings)
    for number, event in enumerate(stream.events):
        again.apply(event)
        if number % 60 == 59:
            again = Model.from_bytes(again.to_bytes())
    assert again.to_bytes() == live
    assert again.report(NOW) == stream.model.report(NOW)


def test_late_labels_count_against_what_each_expert_said() -> None:
    stream = Late(made(labels=["a", "b"]))
    run(stream, 200, ["a", "b"])
    while stream.waiting:
        stream.reveal(0, "a")
    panel = stream.model.panel
    assert panel is not None
    before = list(panel.hedge.mistakes)
    said = stream.predict([3.0, -2.0, 0.5, 1.0])["certainty"].said
    for number in range(150):  # by now all of them would say something else
        stream.learn([3.0, -2.0, 0.5, 1.0], "b" if said[0] == 0 else "a")
        if number == 0:
            before = list(panel.hedge.mistakes)
    learned = list(panel.hedge.mistakes)
    assert panel.vote(stream.model.features.vector(np.array([3.0, -2.0, 0.5, 1.0]))).said != said
    stream.reveal(0, "b")
    expected = [mistakes + (label != 1) for mistakes, label in zip(learned, said, strict=True)]
    assert panel.hedge.mistakes == expected
    assert before != expected


def test_disagreements_between_a_prediction_and_its_reveal_are_counted() -> None:
    stream = Late(made(labels=["a", "b"]))
    run(stream, 100, ["a", "b"])
    while stream.waiting:
        stream.reveal(0, "a")
    panel = stream.model.panel
    assert panel is not None
    while True:
        waiting = stream.predict(np.random.default_rng(stream.at).normal(size=4).tolist())
        if len(set(waiting["certainty"].said)) == 2:
            break
        stream.waiting.pop()
    seen, learned = waiting["certainty"].disagreements, 0
    while panel.hedge.disagreements < seen + 3:
        stream.learn(np.random.default_rng(stream.at).normal(size=4).tolist(), "ab"[stream.at % 2])
        learned += 1
    assert learned > 3
    before, erred = panel.hedge.late, panel.hedge.erred_weight
    stream.reveal(0, "a")
    assert panel.hedge.late - before == pytest.approx(3 * 0.0748, abs=1e-4)
    said, votes = waiting["certainty"].said, waiting["certainty"].votes
    assert panel.hedge.erred_weight - erred == pytest.approx(votes[0 if said[0] == 1 else 1])


def test_a_reveal_that_crosses_a_reset_is_learned_and_moves_no_experts_weight() -> None:
    stream = Late(made(labels=None))
    run(stream, 60, ["a", "b", "c"])
    stream.predict([1.0, 2.0, 3.0, 4.0])
    stream.apply(ModelReset("m", stream.at + 1))
    stream.at += 2
    stream.learn([1.0, 0.0, 0.0, 0.0], "z")
    panel = stream.model.panel
    assert panel is not None and panel.hedge.rounds == 1
    stream.reveal(len(stream.waiting) - 1, "c")
    assert panel.hedge.rounds == 1 and stream.model.revealed == 2
    assert len(set(panel.hedge.weights)) == 1
    assert stream.model.labels.values == ["z", "c"]
    assert Model.from_bytes(stream.model.to_bytes()).to_bytes() == stream.model.to_bytes()


def test_experts_are_reported_with_a_bound_that_holds() -> None:
    stream = Late(made(labels=["a", "b"]))
    run(stream, 800, ["a", "b"])
    report = stream.model.report(NOW)["experts"]
    assert [expert["name"] for expert in report["panel"]] == NAMES
    assert sum(expert["weight"] for expert in report["panel"]) == pytest.approx(1.0)
    assert report["leader"] == max(report["panel"], key=lambda expert: expert["weight"])["name"]
    best = min(expert["mistakes"] for expert in report["panel"])
    assert report["rounds"] == stream.model.revealed and report["mistakes"] == stream.model.mistakes
    assert report["regret"] == pytest.approx(report["erred_weight"] - best)
    assert report["regret"] <= report["regret_bound"]
    assert report["mistakes"] <= 2 * report["erred_weight"] <= report["mistake_bound"]
    assert report["history"]["rounds"][-1] <= report["rounds"]
    bound = stream.model.report(NOW)["bound"]
    assert (bound["verdict"], "experts" in bound["why"]) == ("not_applicable", True)
    assert Model(ModelCreated("p", 1, ModelSettings().complete(LIMITS))).report(1)["experts"] is None


def test_the_expert_that_weighs_most_is_explained() -> None:
    stream = Late(made(dimension=None, labels=["a", "b"], features="named"))
    run(stream, 200, ["a", "b"])
    model = stream.model
    assert model.panel is not None
    example = model.features.read({"n": 1.5, "w0": 2.0})
    terms = explain(model, example, 10)
    classifier, z = model.panel.led_by(model.features.vector(example))
    assert {term.feature for term in terms} == {"n", "w0", "bias"}
    assert sum(term.product for term in terms) == pytest.approx(classifier.decide(z)[1])
    fourier = NAMES.index("arow_forgetting on fourier")
    dense = made(labels=["a", "b"])
    assert dense.panel is not None
    dense.panel.hedge.weights = [float(at == fourier) for at in range(len(NAMES))]
    names = {term.feature for term in explain(dense, np.ones(4), 1000)}
    assert {"bias", "fourier 0", "fourier 511"} <= names and len(names) == 513


@pytest.mark.slow
def test_probabilities_are_those_of_the_shares_that_come_true() -> None:
    stream = Late(made(labels=["a", "b", "c"], coverage=0.8))
    run(stream, 3000, ["a", "b", "c"])
    report = stream.model.report(NOW)
    right = 1 - report["error_rate"]
    assert report["calibration"]["brier"] < 0.95 * right * (1 - right)
    assert abs(report["sets"]["coverage"] - 0.8) <= report["sets"]["distance_max"] < 0.2
    assert 1.0 < report["sets"]["mean_size"] < 2.5


@pytest.mark.parametrize("settings", CASES, ids=str)
def test_what_is_exported_is_imported_to_the_bit(settings: dict[str, Any]) -> None:
    stream = Late(made(None if "features" in settings else 4, **settings))
    run(stream, 120, settings["labels"] or ["a", "b", "c"])
    export = export_model(stream.model)
    body = msgspec.json.decode(msgspec.json.encode(export))
    model = Model.from_bytes(import_model(body, LIMITS, NOW + 10**9).state)
    assert export_model(model) == export
    for each in (model, stream.model):
        Late(each).learn({"n": 1.0} if "features" in settings else [1.0, 2.0, 3.0, 4.0], "a")
    assert model.to_bytes() == stream.model.to_bytes()


@pytest.mark.parametrize(
    ("path", "value", "field"),
    [
        (("experts",), [], "classifier.experts"),
        (("experts", 0, "updates"), -1, "classifier.experts[0].updates"),
        (("experts", 4, "weights", "$array", 0), 1e300, "classifier.experts[4].weights"),
        (("experts", 2, "covariance", "$array", 0), 1.5, "classifier.experts[2].covariance"),
        (("forms", "seen"), -1, "classifier.forms.seen"),
        (("forms", "kept", "$array", 8), -1.0, "classifier.forms.kept"),
        (("hedge", "weights", 0), 0.9, "classifier.hedge.weights"),
        (("hedge", "mistakes", 0), 10**6, "classifier.hedge.mistakes[0]"),
        (("hedge", "rounds"), 10**6, "classifier.hedge.leaders[1]"),
        (("hedge", "vote_mistakes"), 0.5, "classifier.hedge.vote_mistakes"),
        (("hedge", "extra"), 1, "classifier.hedge.extra"),
        (("updates",), "many", "classifier.updates"),
    ],
    ids=str,
)
def test_a_doctored_panel_is_refused_by_the_place(path: tuple[Any, ...], value: Any, field: str) -> None:
    stream = Late(made(labels=["a", "b"]))
    run(stream, 100, ["a", "b"])
    export = copy.deepcopy(export_model(stream.model))
    parent: Any = export["classifier"]
    for key in path[:-1]:
        parent = parent[key]
    parent[path[-1]] = value
    with pytest.raises(InvalidExport) as refused:
        import_model(msgspec.json.decode(msgspec.json.encode(with_digest(export))), LIMITS, NOW + 10**9)
    assert [each.field for each in refused.value.fields] == [field]


@pytest.mark.parametrize(
    ("features", "field"),
    [
        ({"standardize": True}, "features.standardize"),
        ({"normalize": "l2"}, "features.normalize"),
        ({"fourier": {}}, "features.fourier"),
    ],
)
def test_transforms_are_refused_since_experts_bring_their_own(features: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        made(features=features)
    assert [each.field for each in refused.value.fields] == [field]


def test_the_size_of_a_panel_counts_against_the_limits() -> None:
    small = ModelLimits(1000, 100, 512, 20_000)
    for dimension, fits in ((64, True), (66, False)):  # whose projection is not shared by all models for good
        settings = ModelSettings(learner={"algorithm": "auto"}, features={"dimension": dimension})
        if fits:
            assert settings.complete(small)
        else:
            with pytest.raises(InvalidRequest):
                settings.complete(small)
    assert 50_000 < bytes_in_memory(made(64)) < 80_000
