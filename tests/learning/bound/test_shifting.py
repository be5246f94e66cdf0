"""The perceptron that forgets, and its bound against planes that move: by hand, and on streams that planes separate."""

from math import hypot, sqrt
from typing import Any

import numpy as np
import pytest

from service.engine.models.model import Model
from service.events import DimensionFixed, ModelCreated
from service.learning.bound.shifting import ShiftingBound
from service.learning.bound.verdict import report
from service.learning.learners import algorithms
from service.learning.parameters import BadParameter
from service.learning.vectors import Vector
from service.web.routes.model_settings import ModelSettings
from tests.learning.rounds import One
from tests.support.doctored_exports import LIMITS
from tests.support.late_labels import Late
from tests.support.tiers import slow

ROUNDS = 600


def test_an_update_shrinks_what_there_was() -> None:
    learner = One(algorithms.complete({"forget": 2.0, "eta0": 0.5}), tie=1, size=2)
    expected = np.zeros(2)
    for k, (x, y) in enumerate([([1.0, 2.0], 1), ([3.0, 1.0], -1), ([0.0, 4.0], 1)], start=1):
        assert learner.learn(Vector(np.array(x)), y, -y)
        expected = (k - 1) / (k + 1) * expected + 0.5 * y * np.array(x)
        assert learner.weights == pytest.approx(expected)
    assert not learner.learn(Vector(np.array([1.0, 1.0])), 1, 1)
    assert learner.weights == pytest.approx(expected)


def test_one_that_forgets_nothing_has_the_settings_of_before() -> None:
    assert "forget" not in algorithms.complete({"forget": 0.0})
    assert algorithms.complete({"forget": 2})["forget"] == 2.0
    with pytest.raises(BadParameter, match="forget"):
        algorithms.complete({"forget": -1})


class Moving:
    """A plane through a ball that turns, examples at least γ from it, and labels that come late."""

    def __init__(
        self, *, gamma: float, forget: float, delay: int, turn: float, bias: bool, seed: int
    ) -> None:
        self.gamma, self.forget, self.delay, self.turn = gamma, forget, delay, turn
        self.chance = np.random.default_rng(seed)
        learner = {"algorithm": "perceptron", "forget": forget, "eta0": 0.5}
        settings = ModelSettings(labels=["a", "b"], learner=learner, declared_margin=gamma, bias=bias)
        created = ModelCreated("m", 1, settings.complete(LIMITS))
        self.stream = Late(Model(created))
        self.stream.apply(DimensionFixed("m", 1, 2))
        self.moved = 0.0

    def run(self) -> None:
        """`moved` is how far the planes of the updates are apart, one from the next."""
        angle, before = 0.0, None
        waiting: list[tuple[np.ndarray[Any, Any], str]] = []
        for _ in range(ROUNDS):
            angle += self.turn * self.chance.random()
            u = np.array([np.cos(angle), np.sin(angle)])
            while True:
                x = self.chance.uniform(-1, 1, size=2)
                side = float(u @ x)
                if abs(side) >= self.gamma and hypot(*x) <= 1:
                    break
            self.stream.predict(x.tolist())
            waiting.append((u / self.gamma, "b" if side > 0 else "a"))
            if len(waiting) > self.delay:
                plane, truth = waiting.pop(0)
                if self.stream.reveal(0, truth).updated:
                    if before is not None:
                        self.moved += float(np.linalg.norm(plane - before))
                    before = plane


@pytest.mark.parametrize("bias", [True, slow(False)])
@pytest.mark.parametrize("turn", [0.0, 0.05, slow(0.5), slow(3.0)])
@pytest.mark.parametrize(("forget", "delay"), [(2.0, 0), (2.0, 7), slow(0.3, 40), slow(20.0, 0)])
def test_both_bounds_hold_where_planes_that_move_separate_the_stream(
    forget: float, delay: int, turn: float, bias: bool
) -> None:
    made = Moving(gamma=0.1, forget=forget, delay=delay, turn=turn, bias=bias, seed=int(10 * turn))
    made.run()
    model = made.stream.model
    found = model.report(model.updated_at)["bound"]
    assert found["verdict"] == "within" and found["margin_ceiling"] is None
    assert 0.0 <= found["moved_at_least"] <= made.moved + 1e-9
    assert model.updates <= found["mistake_bound"] <= model.revealed


def test_a_stream_that_contradicts_itself_moves_every_plane() -> None:
    """The same example with both labels in turn: each of two planes errs on half of them."""
    bound = ShiftingBound(None, 1.0, 0.5, forget=2.0)
    v, expected = 0.0, 0.0
    for k in range(1, 101):
        y = 1 if k % 2 else -1
        bound.observe(np.array([1.0]), y, updated=True, score=v, stale_updates=0)
        expected += (1 - (k - 1) / (k + 1)) * abs(v)
        v = (k - 1) / (k + 1) * v + y
        assert sqrt(bound.length_sq) == pytest.approx(abs(v))
    assert bound.lost == pytest.approx(expected)
    figures: dict[str, Any] = report(bound, np.array([v]), None)
    assert figures["moved_at_least"] == pytest.approx(
        (100 - 2 * (abs(v) + expected)) / bound.longest, rel=1e-4
    )
    # Between ‖u‖ = 2 and -2 there are 99 changes of 4 at most; a plane that errs nowhere needs 99 of 2 at least.
    assert 30 < figures["moved_at_least"] <= 99 * 2


def test_a_block_and_a_restored_bound_are_the_same_to_the_bit() -> None:
    chance = np.random.default_rng(3)
    rows, labels = chance.normal(size=(50, 3)), chance.choice([-1, 1], size=50)
    updated, scores = chance.random(50) < 0.4, -labels * chance.random(50)
    alone, block = (ShiftingBound(1.0, 1.0, 0.1, forget=2.0) for _ in range(2))
    for x, y, changed, score in zip(rows, labels.tolist(), updated.tolist(), scores.tolist(), strict=True):
        alone.observe(x, y, changed, score, 0)
    block.observe_rows(rows[:20], labels[:20], updated=updated[:20], scores=scores[:20])
    block = ShiftingBound.restore(block.state(), np.zeros(4))
    block.observe_rows(rows[20:], labels[20:], updated=updated[20:], scores=scores[20:])
    assert alone.state() == block.state()
