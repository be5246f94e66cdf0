"""A block of rounds does what the rounds do one by one, to the bit."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from service.engine.models.block_fold import table_of
from service.engine.models.model import Model
from service.engine.models.outcomes import BlockOutcome
from service.events import DimensionFixed, ModelCreated, RoundLearned, RoundsLearned, features_of
from service.learning.classes.runs import AHEAD_MAX
from service.learning.vectors import Rows, Vector, Vectors, dot
from service.web.routes.model_settings import ModelLimits, ModelSettings
from tests.support.tiers import covering

ROUNDS = 600
"""More than are ever scored together, and enough for drifts, full windows and a halved curve."""

LEARNERS = [
    {"algorithm": "perceptron"},
    {"algorithm": "perceptron", "rule": "margin", "delta": 0.5, "schedule": "inverse_sqrt"},
    {"algorithm": "averaged"},
    {"algorithm": "pa"},
    {"algorithm": "arow"},
    {"algorithm": "arow_forgetting"},
    {"algorithm": "scw"},
    {"algorithm": "logistic"},
]
FEATURES: list[Any] = [
    "dense",
    "named",
    "hashed",
    {"kind": "hashed", "bits": 2},
    {"kind": "named", "names_max": 4},
    {"kind": "dense", "standardize": True},
    {"kind": "named", "normalize": "l2"},
    {"kind": "dense", "crosses": 2},
    {"kind": "named", "crosses": 2, "standardize": True},
    {"kind": "hashed", "crosses": 2},
]
LABELS: list[Any] = [[-1, 1], None, ["a", "b", "c"]]


def new_model(**chosen: Any) -> Model:
    model = Model(ModelCreated("m", 1, ModelSettings(**chosen).complete(ModelLimits(100, 100, 100, 10**8))))
    model.apply(DimensionFixed("m", 1, 5))
    return model


def examples(kind: str, chance: np.random.Generator) -> list[Any]:
    """Numbers, small enough to make ties, whose rule changes half way; names come and go."""
    numbers = chance.integers(-3, 4, size=(ROUNDS, 5)).astype(float)
    numbers[::7] = 0.0  # without a bias these change nothing
    numbers = numbers.tolist()
    if kind == "dense":
        return numbers
    names = ["a", "b", "c", "d", "e"]
    return [dict(list(zip(names, row, strict=True))[: 2 + (at // 50) % 4]) for at, row in enumerate(numbers)]


def truths(labels: Any, sent: list[Any]) -> list[Any]:
    known = labels or [True, 1, "1"]
    sums = [sum(row.values() if isinstance(row, dict) else row) for row in sent]
    return [known[int(total + (at > ROUNDS / 2)) % len(known)] for at, total in enumerate(sums)]


CASES = [
    (learner, features, LABELS[(at + number) % len(LABELS)])
    for number, learner in enumerate(LEARNERS)
    for at, features in enumerate(FEATURES)
] + [({"algorithm": "auto"}, features, labels) for features in FEATURES[:5] for labels in LABELS]


@pytest.mark.parametrize(("learner", "features", "labels"), covering(CASES), ids=str)
def test_a_block_is_its_rounds(learner: Any, features: Any, labels: Any) -> None:
    chance = np.random.default_rng(1958)
    chosen = {
        "learner": learner,
        "features": features,
        "labels": labels,
        "bias": len(str(features)) % 2 == 0,
    }
    one_by_one, in_blocks = new_model(**chosen), new_model(**chosen)
    kind = one_by_one.settings["features"]["kind"]
    sent = examples(kind, chance)
    revealed = truths(labels, sent)
    start, block = 0, 0
    rises: list[int] = []
    expected_rises: list[int] = []
    while start < ROUNDS:
        end = start + (1, 3, 40, 500)[block % 4]
        block += 1
        at, labels_sent = 10**15 + block, revealed[start:end]
        features_sent = one_by_one.features.read_rows(sent[start:end])
        assert features_sent is not None
        event = RoundsLearned("m", at, labels_sent, [table_of(rows) for rows in features_sent])
        stored = features_of(event)
        assert stored == [one_by_one.features.encode(one_by_one.features.read(s)) for s in sent[start:end]]
        expected = []
        for label, each in zip(labels_sent, stored, strict=True):
            expected.append(one_by_one.apply(RoundLearned("m", at, None, label, each)))
            if one_by_one.statistics.drift_count > len(expected_rises):
                expected_rises.append(one_by_one.revealed)
        outcome = in_blocks.apply(event)
        assert isinstance(outcome, BlockOutcome) and list(outcome) == expected
        assert outcome.labels is in_blocks.labels
        rises += outcome.rises
        start = end
    assert in_blocks.to_bytes() == one_by_one.to_bytes()
    assert in_blocks.revealed == ROUNDS
    assert rises == expected_rises
    assert in_blocks.report(10**15) == one_by_one.report(10**15)


def test_the_stream_of_these_tests_has_drifts() -> None:
    model = new_model(features="dense")
    sent = examples("dense", np.random.default_rng(1958))
    rows = model.features.read_rows(sent)
    assert rows is not None
    model.apply(RoundsLearned("m", 1, truths([-1, 1], sent), [table_of(part) for part in rows]))
    assert model.updates > ROUNDS / AHEAD_MAX


@given(st.integers(1, 300), st.integers(1, 40), st.integers(0, 2**32))
def test_rows_are_scored_to_the_bit_like_single_vectors(size: int, count: int, seed: int) -> None:
    chance = np.random.default_rng(seed)
    rows, weights = (
        chance.normal(size=(count, size)) * 10 ** chance.uniform(-9, 9, size),
        chance.normal(size=size),
    )
    dots = Vectors(rows).dots(weights, 0, count)
    assert dots.tolist() == [dot(row, weights) for row in rows]
    places = chance.permutation(size)
    sparse = Vectors(rows, places).dots(weights, 0, count)
    assert sparse.tolist() == [Vector(row, places).dot(weights) for row in rows]


@pytest.mark.parametrize(
    "sent",
    [[[1.0, 2.0]], [[1.0, "2", 3.0, 4.0, 5.0]], [[1e101, 0, 0, 0, 0]], [[10**400, 0, 0, 0, 0]], [{"a": 1.0}]],
    ids=str,
)
def test_rows_that_do_not_fit_are_left_to_reading_one_by_one(sent: Any) -> None:
    good = [[1.0, 2.0, 3.0, 4.0, 5.0]]
    assert new_model(features="dense").features.read_rows(good * 3 + sent + good) is None


@pytest.mark.parametrize(
    "sent",
    [{"a": "word"}, {"a": ["b"]}, {"a": 1e101}, {"a": 10**400}, {}, {"": 1.0}, [1.0], {"\ud800": 1.0}],
    ids=ascii,
)
def test_names_that_are_not_plain_numbers_are_left_to_reading_one_by_one(sent: Any) -> None:
    good = [{"a": 1.0}]
    assert new_model(features="named").features.read_rows(good * 3 + [sent] + good) is None


def test_empty_examples_survive_a_block() -> None:
    model = new_model(features={"kind": "named", "text": ["t"]})
    example = model.features.read({"t": "!!!"})
    rows = model.features.rows_of([example, example])
    assert rows == [Rows(rows[0].values, [])] and rows[0].values.shape == (2, 0)
    event = RoundsLearned("m", 1, [1, -1], [table_of(part) for part in rows])
    assert features_of(event) == [{}, {}]
    assert len(list(model.apply(event))) == 2  # type: ignore[arg-type]


@pytest.mark.parametrize("features", ["dense", "named"])
@pytest.mark.parametrize(("bias", "tie"), [(True, -1), (False, 1)])
@settings(deadline=None, max_examples=30)
@given(
    alone=st.integers(0, 120),
    first=st.sampled_from([-1, 1]),
    sizes=st.lists(st.integers(1, 90), min_size=8),
    seed=st.integers(0, 9),
)
@pytest.mark.slow
def test_the_ceiling_is_the_least_of_all_moments_also_within_a_block(
    features: str, bias: bool, tie: int, alone: int, first: int, sizes: list[int], seed: int
) -> None:
    chance = np.random.default_rng(seed)
    rows = chance.normal(size=(240, 5)) * 10 ** chance.uniform(-3, 3, size=(240, 1))
    labels = np.where(np.arange(240) < alone, first, chance.choice([-1, 1], 240)).tolist()
    chosen = {"features": features, "bias": bias, "tie": tie, "declared_margin": 0.1}
    one_by_one, in_blocks = new_model(**chosen), new_model(**chosen)
    sent = rows.tolist() if features == "dense" else [dict(zip("abcde", row, strict=True)) for row in rows]
    ceilings, start = [], 0
    for size in [*sizes, 240]:
        part, its_labels = sent[start : start + size], labels[start : start + size]
        if not part:
            break
        tables = one_by_one.features.read_rows(part)
        assert tables is not None
        event = RoundsLearned("m", 1, its_labels, [table_of(table) for table in tables])
        for each, label in zip(features_of(event), its_labels, strict=True):
            one_by_one.apply(RoundLearned("m", 1, None, label, each))
            ceilings.append(one_by_one.bound_report()["margin_ceiling"])
        in_blocks.apply(event)
        assert in_blocks.bound_report()["margin_ceiling"] == ceilings[-1]
        start += size
    assert in_blocks.to_bytes() == one_by_one.to_bytes()
    known = [ceiling for ceiling in ceilings if ceiling is not None]
    assert known == sorted(known, reverse=True)


@pytest.mark.parametrize("rounds_together", [1, 50])
def test_the_radius_is_that_of_the_longest_example_to_the_bit(rounds_together: int) -> None:
    chance = np.random.default_rng(5)
    for _ in range(20):
        # Nearly all of the same length: a sum in another order would find another one the longest.
        rows = chance.standard_normal((200, 5))
        rows /= np.sqrt((rows * rows).sum(axis=1))[:, np.newaxis]
        model = new_model(bias=True)
        for at in range(0, len(rows), rounds_together):
            part = Rows(rows[at : at + rounds_together])
            model.apply(RoundsLearned("m", at + 1, [1] * len(part.values), [table_of(part)]))
        assert model.bound is not None
        assert model.bound.norm_sq_max == max(dot(row, row) for row in rows)
