"""Scales that survive outliers, sentinel values and changes of unit: what comes after is learned as well as without."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from service.learning import saved
from service.learning.features.robust import BLOCK, CLIP, RobustCentred, RobustScaled
from service.learning.features.standardize import Centred, Scaled
from service.learning.panel.panel import Panel, learn_rows
from service.learning.vectors import Vector, Vectors
from tests.learning.rounds import AUTO, Model
from tests.support.tiers import slow

Table = np.ndarray[Any, Any]
Event = Callable[[Table], None]

FROM, ROUNDS = 300, 1000
"""The rounds after an event whose errors are counted."""

CHANGE = 1500
FAR = 999_999.0


def outlier(at: int) -> Event:
    def happens(rows: Table) -> None:
        rows[at, 0] = FAR

    return happens


def sentinels(rows: Table) -> None:
    rows[700::1000, 0] = FAR


def unit(factor: float, columns: Any = slice(None)) -> Event:
    def happens(rows: Table) -> None:
        rows[CHANGE:, columns] *= factor

    return happens


EVENTS: dict[str, tuple[Event, int, float]] = {
    # what happens, when, and how many points of error it may cost
    **{f"outlier at {at}": (outlier(at), at, 0.005) for at in (0, 1, 5, 15, 500)},
    "sentinel in 1,000": (sentinels, CHANGE, 0.02),
    "all units by 1,000": (unit(1000.0), CHANGE, 0.02),
    "all units by 1/1,000": (unit(0.001), CHANGE, 0.02),
    "one unit by 1,000": (unit(1000.0, 0), CHANGE, 0.02),
    "one unit by 1/1,000": (unit(0.001, 0), CHANGE, 0.02),
}


def stream(seed: int, mean: float) -> tuple[Table, Table]:
    chance = np.random.default_rng(seed)
    rows = chance.normal(size=(CHANGE + FROM + ROUNDS, 3))
    truths = (rows[:, 0] > 0).astype(np.int64)
    return rows + mean, truths


def mistakes(learner: str, rows: Table, truths: Table, **more: Any) -> Table:
    if learner == AUTO:
        model = Model({"algorithm": AUTO}, **more)
        panel = model.classifier
        assert isinstance(panel, Panel)
        panel.grow(rows.shape[1] + 1)
        z = np.concatenate((rows, np.ones((len(rows), 1))), axis=1)
        return learn_rows(panel, Vectors(z), truths).served != truths
    model = Model({"algorithm": learner}, features={"standardize": True}, **more)
    erred = []
    for x, truth in zip(rows.tolist(), truths.tolist(), strict=True):
        served = model.predict(x)[0]
        erred.append(served != truth)
        model.reveal(x, truth, served)
    return np.array(erred)


def rate(erred: Table, at: int) -> float:
    return float(erred[at + FROM : at + FROM + ROUNDS].mean())


@pytest.mark.parametrize("event", [slow(name) if name != "outlier at 5" else name for name in EVENTS])
@pytest.mark.parametrize(
    ("learner", "mean", "seeds"),
    [
        ("perceptron", 0.0, 8),
        ("pa1", 0.0, 4),
        ("arow", 0.0, 2),
        ("arow", 5.0, 2),
        (AUTO, 0.0, 1),
        (AUTO, 5.0, 1),
    ],
)
def test_an_event_costs_little_from_300_rounds_after_it_on(
    learner: str, mean: float, seeds: int, event: str
) -> None:
    happens, at, costs = EVENTS[event]
    without, found = [], []
    for seed in range(seeds):
        rows, truths = stream(seed, mean)
        without.append(rate(mistakes(learner, rows, truths), at))
        happens(rows)
        found.append(rate(mistakes(learner, rows, truths), at))
    assert np.mean(found) <= np.mean(without) + costs


@pytest.mark.parametrize("learner", ["perceptron", "arow"])
def test_without_these_scales_one_outlier_ruins_a_model(learner: str) -> None:
    rows, truths = stream(0, 0.0)
    outlier(5)(rows)
    assert rate(mistakes(learner, rows, truths, robust=False), 5) > 0.3


@pytest.mark.parametrize("matters", [False, True])
@pytest.mark.parametrize(("learner", "seeds"), [("perceptron", 4), ("pa1", 4), ("arow", 4), slow(AUTO, 1)])
def test_a_constant_that_begins_to_vary_is_learned_like_any_other(
    learner: str, seeds: int, matters: bool
) -> None:
    """AROW, which is sure of the other weights by then, follows a boundary that turns with it more slowly."""
    without, found = [], []
    for seed in range(seeds):
        rows, _ = stream(seed, 0.0)
        for errors in (without, found):
            truths = (matters * rows[:, 0] + rows[:, 1] > 0).astype(np.int64)
            errors.append(rate(mistakes(learner, rows + np.array([3.0, 0.0, 0.0]), truths), CHANGE))
            rows[:CHANGE, 0] = 0.0
    costs = 0.03 if learner == "arow" and matters else 0.02
    assert np.mean(found) <= np.mean(without) + costs


@pytest.mark.parametrize("learner", ["perceptron", "pa1", "arow", slow(AUTO)])
def test_rare_indicators_are_learned_as_before(learner: str) -> None:
    rows, truths = stream(4, 0.0)
    rare = (np.random.default_rng(5).random((len(rows), 4)) < 0.01).astype(float)
    truths = np.where(rare[:, 0] + rare[:, 1] > 0, 1, np.where(rare[:, 2] + rare[:, 3] > 0, 0, truths))
    rows = np.concatenate((rows, rare), axis=1)
    before = rate(mistakes(learner, rows, truths, robust=False), CHANGE)
    assert rate(mistakes(learner, rows, truths), CHANGE) <= before + 0.02


def mixed() -> Table:
    chance = np.random.default_rng(1)
    rows = chance.normal(size=(700, 5)) * 10.0 ** chance.uniform(-5, 5, size=5)
    rows[chance.random(rows.shape) < 0.1] = 0.0
    rows[:, 4] = 7.0
    rows[3, 0] = rows[200, 1] = 1e9
    rows[300:, 2] *= 1e4
    rows[400:, 3] *= 1e-4
    return rows


@pytest.mark.parametrize("columns", [slice(None), slice(0, 1)])
def test_a_block_of_rows_is_the_same_to_the_bit_as_one_by_one(columns: slice) -> None:
    rows = np.ascontiguousarray(mixed()[:, columns])
    alone, together = RobustCentred(), RobustCentred()
    start = 0
    for count in (1, 3, 14, 40, 5, 500, 137):
        part = rows[start : start + count]
        start += count
        for x, its in zip(part, together.apply_and_absorb(part), strict=True):
            assert alone.apply(Vector(x)).values.tobytes() == its.tobytes()
            alone.absorb(Vector(x))
        assert str(alone.state()) == str(together.state())
        assert alone.state()["kept"].tobytes() == together.state()["kept"].tobytes()
        restored = RobustCentred()
        restored.restore(together.state(), rows.shape[1])
        together = restored


def test_ordinary_streams_are_scaled_as_before() -> None:
    rows = np.random.default_rng(2).normal(3.0, 2.0, size=(16 * BLOCK, 3))
    plain, robust = Centred(), RobustCentred()
    for x in rows:
        plain.absorb(Vector(x))
        assert robust.absorb(Vector(x)) is None
    x = Vector(np.array([1.0, 3.0, 9.0]))
    assert robust.apply(x).values == pytest.approx(plain.apply(x).values, rel=1e-9)
    assert robust.apply(Vector(np.array([1e100, -1e100, 3.0]))).values[:2].tolist() == [CLIP, -CLIP]


def test_where_a_unit_changed_is_told() -> None:
    rows = np.random.default_rng(2).normal(3.0, 2.0, size=(40 * BLOCK, 3))
    rows[20 * BLOCK :, 1] *= 1000.0
    scale = RobustCentred()
    told = {
        (number, *anew.tolist())
        for number, x in enumerate(rows)
        if (anew := scale.absorb(Vector(x))) is not None
    }
    assert told == {(21 * BLOCK - 1, 1)}


def test_sparse_features_are_scaled_as_before_and_survive_the_same() -> None:
    chance = np.random.default_rng(6)
    plain, robust, shifted = Scaled(), RobustScaled(), RobustScaled()
    for number in range(3000):
        places = np.flatnonzero(chance.random(6) < 0.4)
        values = chance.normal(2.0, 1.0, size=len(places))
        values[places == 5] = 1.0  # an indicator
        for scale in (plain, robust):
            scale.absorb(Vector(values, places))
        values = values.copy()
        values[places == 1] *= 1000.0 if number > 1000 else 1.0
        values[(places == 5) & (number == 900)] = FAR
        values[(places == 2) & (number < 20)] += FAR * (number < 3)
        shifted.absorb(Vector(values, places))
    every = np.arange(6)
    ones = np.ones(6)
    expected = plain.apply(Vector(ones, every)).values
    assert robust.apply(Vector(ones, every)).values == pytest.approx(expected, rel=0.02)
    ones[1] = 1000.0
    assert shifted.apply(Vector(ones, every)).values == pytest.approx(expected, rel=0.15)
    largest = robust.apply(Vector(FAR * ones, every)).values
    assert (largest <= CLIP * 4.0).all()


@pytest.mark.parametrize(
    ("row", "value", "field"),
    [(0, 0.5, "kept"), (0, 1e6, "kept"), (2, -1.0, "kept"), (1, np.nan, "kept"), (9, 1e300, "kept")],
)
@pytest.mark.parametrize("sparse", [False, True])
def test_a_doctored_state_is_refused(sparse: bool, row: int, value: float, field: str) -> None:
    made = RobustScaled if sparse else RobustCentred
    scale = made()
    for x in mixed()[:50]:
        scale.absorb(Vector(x, np.arange(5) if sparse else None))
    state = scale.state()
    made().restore(state, 5)
    state["kept"][row, 1] = value
    with pytest.raises(saved.BadState, match=field):
        made().restore(state, 5)
