"""Challengers in the fold: they say what they say when the champion serves, and learn from the same reveals."""

from typing import Any

import numpy as np
import pytest

from service.engine.models.block_fold import table_of
from service.engine.models.challenger_settings import complete_new
from service.engine.models.model import Model
from service.engine.models.settings import RULES
from service.events import (
    ChallengerAdded,
    ChallengerPromoted,
    ChallengerRemoved,
    DimensionFixed,
    ModelCreated,
    ModelReset,
    ModelRolledBack,
    PromotionRuled,
    RoundLearned,
    RoundsLearned,
)
from service.journal.codec import encode_state
from service.learning.vectors import Rows
from service.web.routes.model_settings import ModelLimits, ModelSettings
from tests.learning.rounds import LEARNERS
from tests.support.doctored_exports import NOW
from tests.support.late_labels import Late, run
from tests.support.tiers import covering

LIMITS = ModelLimits(1000, 100, 512, 10**7)
AROW = {"learner": {"algorithm": "arow"}}
ALL = {"labels": ["a", "b", "c"]}


def made(dimension: int | None = 4, rules: int = RULES, **settings: Any) -> Model:
    complete = ModelSettings.model_validate(settings).complete(LIMITS) | {"rules": rules}
    model = Model(ModelCreated("m", 1, complete))
    if dimension is not None:
        model.apply(DimensionFixed("m", 1, dimension))
    return model


def add(stream: Late, name: str, **given: Any) -> None:
    own = complete_new(name, given, stream.model, LIMITS)
    stream.at += 1
    stream.apply(ChallengerAdded("m", stream.at, name, own))


def promote(stream: Late, name: str) -> None:
    stream.at += 1
    champion = stream.model.settings["champion"]
    stream.apply(ChallengerPromoted("m", stream.at, name, champion, stream.model.revealed))


def learner_bytes(features: Any, classifier: Any, calibration: Any) -> bytes:
    parts = {"features": features, "classifier": classifier, "calibration": calibration}
    return encode_state({name: part.state() for name, part in parts.items()})


def own_bytes(model: Model) -> bytes:
    return learner_bytes(model.features, model.classifier, model.statistics.calibration)


def challenger_bytes(model: Model, name: str) -> bytes:
    assert model.contest is not None
    one = model.contest.challengers[name]
    return learner_bytes(one.features, one.classifier, one.calibration)


DENSE = [{}, {"standardize": True}, {"normalize": "l2"}, {"fourier": {"features": 8}}, {"crosses": 2}]
NAMED = [{"kind": "named"}, {"kind": "hashed", "bits": 5}, {"kind": "named", "standardize": True}]
ALONE = [
    *((learner, features, ["a", "b"]) for learner in LEARNERS.values() for features in DENSE[:2]),
    *(({"algorithm": "pa1"}, features, ["a", "b", "c"]) for features in (*DENSE, *NAMED)),
    ({"algorithm": "auto"}, {}, ["a", "b"]),
    ({"algorithm": "auto"}, {"kind": "named"}, None),
    ({"algorithm": "perceptron"}, {}, None),
]


@pytest.mark.parametrize(("learner", "features", "labels"), covering(ALONE, pytest.mark.slow), ids=str)
def test_a_challenger_and_the_same_learner_alone_agree_to_the_bit(
    learner: dict[str, Any], features: dict[str, Any], labels: list[str] | None
) -> None:
    dimension = None if "kind" in features else 4
    plain = {"kind": "hashed", "bits": 6} if dimension is None else {}
    beside = {"challenger": {"learner": learner, "features": features}}
    shared = made(dimension, labels=labels, features=plain, challengers=beside)
    alone = made(dimension, labels=labels, learner=learner, features=features)
    champion = made(dimension, labels=labels, features=plain)
    for model in (shared, alone, champion):
        run(Late(model), 150, labels or ["a", "b", "c"])
    assert challenger_bytes(shared, "challenger") == own_bytes(alone)
    assert own_bytes(shared) == own_bytes(champion)
    assert shared.statistics.state() == champion.statistics.state()
    assert shared.contest is not None
    record = shared.contest.challengers["challenger"].record
    assert (record.rounds, record.mistakes) == (alone.revealed, alone.mistakes)
    assert record.report(0.95)["error_rate_interval"] == alone.report(NOW)["error_rate_interval"]
    assert shared.contest.record.mistakes == champion.mistakes
    promote(Late(shared), "challenger")
    assert own_bytes(shared) == own_bytes(alone)


CASES = [
    {"labels": ["a", "b"], "challengers": {"arow": AROW}},
    {"labels": None, "challengers": {"auto": {"learner": {"algorithm": "auto"}}, "arow": AROW}},
    {"labels": ["a", "b"], "coverage": 0.8, "ask": "auto", "promote": {"rounds_min": 5, "confidence": 0.5},
     "challengers": {"averaged": {"learner": {"algorithm": "averaged"}}, "arow": AROW}},
    {"labels": None, "features": "named", "class_weights": {"a": 2.0}, "learner": {"algorithm": "auto"},
     "challengers": {"hashed": {"learner": {"algorithm": "pa"}, "features": {"kind": "hashed", "bits": 6}}}},
]  # fmt: skip


def eventful(stream: Late, labels: list[str]) -> None:
    """Late labels, while challengers come, go and are promoted."""
    run(stream, 60, labels, seed=1)
    add(stream, "late", learner={"algorithm": "pa2"})
    run(stream, 60, labels, seed=2)
    promote(stream, "late")
    run(stream, 30, labels, seed=3)
    promote(stream, next(iter(stream.model.settings["challengers"])))
    stream.apply(ModelReset("m", stream.at + 1))
    stream.at += 2
    run(stream, 60, labels, seed=4)
    gone = next(iter(stream.model.settings["challengers"]))
    stream.apply(ChallengerRemoved("m", stream.at, gone))
    run(stream, 60, labels, seed=5)
    add(stream, gone)
    stream.apply(PromotionRuled("m", stream.at, {"confidence": 0.6, "rounds_min": 3}))
    run(stream, 30, labels, seed=6)


@pytest.mark.parametrize("settings", CASES, ids=str)
def test_a_replay_gives_the_same_bits_from_the_start_and_from_snapshots(settings: dict[str, Any]) -> None:
    dimension = None if "features" in settings else 4
    stream = Late(made(dimension, **settings))
    eventful(stream, settings["labels"] or ["a", "b", "c"])
    again = made(dimension, **settings)
    for number, event in enumerate(stream.events):
        again.apply(event)
        if number % 40 == 39:
            again = Model.from_bytes(again.to_bytes())
    assert again.to_bytes() == stream.model.to_bytes()
    assert again.report(NOW) == stream.model.report(NOW)
    assert again.contest is not None and again.contest.promotions >= 2


def test_a_block_and_its_rounds_one_by_one_give_the_same_bits() -> None:
    settings = {"promote": {"rounds_min": 20, "confidence": 0.8}, "challengers": {"arow": AROW, "same": {}}}
    chance = np.random.default_rng(3)
    values = chance.normal(size=(1000, 4))
    labels = [1 if row.sum() + chance.normal() > 0 else -1 for row in values]
    together, one_by_one = made(**settings), made(**settings)
    outcome: Any = together.apply(RoundsLearned("m", NOW, labels, [table_of(Rows(values))]))
    served = [
        one_by_one.apply(RoundLearned("m", NOW, None, label, row.tobytes())).served  # type: ignore[union-attr]
        for row, label in zip(values, labels, strict=True)
    ]
    assert together.to_bytes() == one_by_one.to_bytes()
    assert outcome.served == served and [each.version for each in outcome] == [*range(1, 1001)]
    assert together.contest is not None and 0 < together.contest.last_promotions[0].round < 1000


def test_late_labels_count_against_what_each_learner_said() -> None:
    stream = Late(made(challengers={"arow": AROW}))
    run(stream, 100, [-1, 1])  # type: ignore[list-item]
    while stream.waiting:
        stream.reveal(0, 1)
    model = stream.model
    assert model.contest is not None
    said = stream.predict([3.0, -2.0, 0.5, 1.0])["certainty"].lineup
    was = [-1, 1][said.shadows[0].chosen]
    for _ in range(100):  # by now both would say something else
        stream.learn([3.0, -2.0, 0.5, 1.0], -was)
    now = model.predict(np.array([3.0, -2.0, 0.5, 1.0]))[2].lineup
    assert now is not None and now.shadows[0].chosen != said.shadows[0].chosen
    before = model.contest.challengers["arow"].record.mistakes
    stream.reveal(0, was)
    assert model.contest.challengers["arow"].record.mistakes == before


def test_a_label_that_comes_after_a_promotion_counts_against_what_each_said_before_it() -> None:
    stream = Late(made(challengers={"arow": AROW}))
    run(stream, 150, [-1, 1])  # type: ignore[list-item]
    stream.waiting.clear()
    model, contest = stream.model, stream.model.contest
    assert contest is not None
    while True:
        made_of = stream.predict(np.random.default_rng(stream.at).normal(size=4).tolist())
        served = model.labels.index(made_of["served"])
        if made_of["certainty"].lineup.shadows[0].chosen != served:
            break
        stream.waiting.pop()
    promote(stream, "arow")
    mistakes = (model.mistakes, contest.record.mistakes, contest.challengers["original"].record.mistakes)
    outcome = stream.reveal(0, made_of["served"])
    assert not outcome.mistake and model.mistakes == mistakes[0]  # what was served was right
    assert contest.record.mistakes == mistakes[1] + 1  # and what the champion of now had said was not
    original = contest.challengers["original"]
    assert original.record.mistakes == mistakes[2]
    assert original.duel.rounds == 0  # the comparison began later


def test_a_challenger_is_compared_by_what_it_has_said_and_a_name_given_again_is_another_learner() -> None:
    stream = Late(made())
    for number in range(5):
        stream.predict([float(number), 1.0, 2.0, 3.0])
    add(stream, "late", **AROW)
    stream.predict([1.0, 1.0, 1.0, 1.0])
    for _ in range(5):
        stream.reveal(0, 1)
    contest = stream.model.contest
    assert contest is not None
    late = contest.challengers["late"]
    assert (late.record.rounds, late.duel.rounds, late.classifier.updates) == (0, 0, 2)
    stream.apply(ChallengerRemoved("m", stream.at, "late"))
    add(stream, "late", learner={"algorithm": "pa"})
    stream.reveal(0, 1)
    assert contest.challengers["late"].record.rounds == 0
    assert stream.model.revealed == 6 and contest.record.rounds == 6


def test_a_reveal_that_crosses_a_reset_is_learned_and_compares_nobody() -> None:
    stream = Late(made(labels=None, challengers={"arow": AROW}))
    run(stream, 40, ["a", "b", "c"])
    stream.predict([1.0, 2.0, 3.0, 4.0])
    stream.apply(ModelReset("m", stream.at + 1))
    stream.at += 2
    stream.reveal(len(stream.waiting) - 1, "c")
    contest = stream.model.contest
    assert contest is not None and stream.model.revealed == 1
    arow = contest.challengers["arow"]
    assert (arow.record.rounds, arow.duel.rounds, contest.record.rounds) == (0, 0, 0)
    assert arow.classifier.shape == (1, 5)


def test_promoting_back_undoes_a_promotion() -> None:
    stream = Late(made(challengers={"arow": AROW, "auto": {"learner": {"algorithm": "auto"}}}))
    run(stream, 100, [-1, 1])  # type: ignore[list-item]
    before = (own_bytes(stream.model), challenger_bytes(stream.model, "arow"), stream.model.settings)
    version = stream.model.version
    promote(stream, "arow")
    assert list(stream.model.settings["challengers"]) == ["original", "auto"]
    assert stream.model.settings["learner"]["algorithm"] == "arow"
    assert own_bytes(stream.model) == before[1]
    promote(stream, "original")
    assert (own_bytes(stream.model), challenger_bytes(stream.model, "arow"), stream.model.settings) == before
    assert stream.model.version == version + 2
    bound = stream.model.report(NOW)["bound"]
    assert (bound["verdict"], "promoted" in bound["why"]) == ("not_applicable", True)
    stream.apply(ModelReset("m", stream.at + 1))
    assert stream.model.report(NOW)["bound"]["verdict"] == "unknown"


def test_enough_evidence_promotes_by_itself_once_and_duels_begin_anew() -> None:
    settings = {"promote": {"rounds_min": 100}, "challengers": {"arow": AROW, "same": {}}}
    stream = Late(made(**settings))
    chance = np.random.default_rng(1)
    for _ in range(1000):
        x = chance.normal(size=4)
        stream.learn(x.tolist(), 1 if x.sum() + chance.normal() > 0 else -1)
    contest = stream.model.contest
    assert contest is not None and contest.promotions == 1
    (done,) = contest.last_promotions
    assert (done.challenger, done.former, done.by_evidence) == ("arow", "original", True)
    assert done.round >= 100 and contest.since_round == done.round
    report = stream.model.report(NOW)["challengers"]
    assert report["champion"]["name"] == "arow" and report["evidence_needed"] == 240.0
    assert [each["name"] for each in report["line"]] == ["original", "same"]
    assert all(each["difference_interval"]["rounds"] == 1000 - done.round for each in report["line"])
    assert all(each["rounds"] == 1000 and each["difference"] > 0 for each in report["line"])
    assert report["champion"]["mistakes"] < report["line"][0]["mistakes"]
    assert stream.model.mistakes > report["champion"]["mistakes"]  # what was served counts as it was


def test_a_model_without_challengers_is_kept_as_if_there_could_be_none() -> None:
    model = made()
    run(Late(model), 30, [-1, 1])  # type: ignore[list-item]
    assert not {"challengers", "champion", "promote"} & model.settings.keys()
    assert "contest" not in model.state() and model.report(NOW)["challengers"] is None
    assert model.predict(np.ones(4))[2].lineup is None


def compared(model: Model) -> dict[str, int | None]:
    """The number of each comparison under way."""
    return {each["name"]: each["comparison"] for each in model.report(NOW)["challengers"]["line"]}


def test_every_comparison_of_a_life_has_a_number_of_its_own_and_needs_evidence_by_that() -> None:
    stream = Late(made(challengers={"a": AROW, "b": {}}, promote={"confidence": 0.75}))
    assert compared(stream.model) == {"a": 1, "b": 2}
    add(stream, "c", **AROW)
    stream.apply(ChallengerRemoved("m", stream.at + 1, "c"))
    add(stream, "c", **AROW)
    assert compared(stream.model) == {"a": 1, "b": 2, "c": 4}
    version, state = stream.model.version, stream.model.to_bytes()
    promote(stream, "b")
    assert compared(stream.model) == {"a": 5, "original": 6, "c": 7}
    stream.apply(ModelReset("m", stream.at + 1, RULES))
    assert compared(stream.model) == {"a": 8, "original": 9, "c": 10}
    run(stream, 60, [-1, 1])  # type: ignore[list-item]
    stream.apply(ModelRolledBack("m", stream.at + 1, version, state))
    assert compared(stream.model) == {"a": 11, "b": 12, "c": 13}
    run(stream, 60, [-1, 1])  # type: ignore[list-item]
    report = stream.model.report(NOW)["challengers"]
    assert [each["evidence_needed"] for each in report["line"]] == [528.0, 624.0, 728.0]
    assert report["evidence_needed"] == 528.0
    for each in report["line"]:
        factor = each["comparison"] * (each["comparison"] + 1)
        assert each["confidence"] == pytest.approx(max(0.0, 1 - factor / each["evidence"]), abs=1e-9)
    assert Model.from_bytes(stream.model.to_bytes()).to_bytes() == stream.model.to_bytes()


def test_a_rollback_to_before_the_first_challenger_does_not_give_numbers_again() -> None:
    stream = Late(made())
    version, state = stream.model.version, stream.model.to_bytes()
    add(stream, "a", **AROW)
    stream.apply(ModelRolledBack("m", stream.at + 1, version, state))
    add(stream, "a", **AROW)
    assert compared(stream.model) == {"a": 2}


def test_a_model_of_before_the_numbers_promotes_as_before_until_its_rule_is_set_again() -> None:
    rule = {"confidence": 0.75, "rounds_min": 500}
    stream = Late(made(rules=1, challengers={"a": AROW, "b": AROW, "c": AROW}, promote=rule))
    stream.apply(ChallengerRemoved("m", stream.at + 1, "b"))
    run(stream, 60, [-1, 1])  # type: ignore[list-item]
    stream.apply(PromotionRuled("m", stream.at + 1, rule))
    assert compared(stream.model) == {"a": None, "c": None}
    assert {each["evidence_needed"] for each in stream.model.report(NOW)["challengers"]["line"]} == {12.0}
    rounds = [
        each["difference_interval"]["rounds"] for each in stream.model.report(NOW)["challengers"]["line"]
    ]
    stream.apply(PromotionRuled("m", stream.at + 2, rule, RULES))
    line = stream.model.report(NOW)["challengers"]["line"]
    assert [(each["comparison"], each["evidence_needed"]) for each in line] == [(2, 24.0), (3, 48.0)]
    assert [each["difference_interval"]["rounds"] for each in line] == rounds
    add(stream, "d")
    promote(stream, "a")
    assert compared(stream.model) == {"original": 5, "c": 6, "d": 7}


@pytest.mark.parametrize("rules", [1, RULES])
def test_what_was_predicted_before_a_comparison_began_is_not_compared(rules: int) -> None:
    stream = Late(made(rules=rules, challengers={"a": AROW}))
    run(stream, 60, [-1, 1])  # type: ignore[list-item]
    waiting = len(stream.waiting)
    assert waiting
    promote(stream, "a")
    for _ in range(waiting):
        stream.reveal(0, 1)
    assert stream.model.contest is not None
    one = stream.model.contest.challengers["original"]
    assert one.duel.rounds == (0 if rules > 1 else waiting)
    stream.learn([1.0, 2.0, 3.0, 4.0], 1)
    assert one.duel.rounds == (1 if rules > 1 else waiting + 1)
