"""A panel of experts as a classifier: what each sees, what the vote says, and how it follows a stream that changes."""

from typing import Any

import numpy as np
import pytest

from service.learning.classes import strategies
from service.learning.features.standardize import Centred
from service.learning.learners import algorithms
from service.learning.panel.forms import FormMaker
from service.learning.panel.panel import Panel
from service.learning.panel.panels import FORMS, PANELS
from service.learning.vectors import Vector, Vectors
from tests.learning.rounds import AUTO, make, rounds_for


def new_panel(classes: int = 2, kind: str = "dense", size: int = 5) -> Panel:
    way = None if classes == 2 else "one_vs_all"
    learner = algorithms.complete({"algorithm": "auto"})
    panel = Panel(learner, way, classes=classes, tie=1, kind=kind, has_bias=True)
    panel.grow(size)
    return panel


@pytest.mark.parametrize("number", PANELS)
def test_every_panel_is_written_out_in_full(number: int) -> None:
    """So that another default of a learner never changes a model that exists."""
    panel = PANELS[number]
    for expert in panel.experts:
        assert algorithms.complete(expert.learner) == expert.learner, expert.name
        assert expert.form in FORMS
        assert not algorithms.needs_matrix(expert.learner)
    names = [expert.name for expert in panel.experts]
    assert len(set(names)) == len(names)
    assert 0.0 < panel.kept < 1.0 and 0.0 < panel.share < 0.5
    assert len(panel.experts_for("named")) >= 2


def test_standardizing_rows_is_the_same_to_the_bit_as_one_by_one() -> None:
    chance = np.random.default_rng(3)
    rows = chance.normal(size=(90, 6)) * 10 ** chance.uniform(-5, 5, size=6)
    rows[:, 5] = 7.0  # which never varies
    alone, together = Centred(), Centred()
    start = 0
    for count in (1, 4, 25, 60):
        part = rows[start : start + count]
        found = together.apply_and_absorb(part)
        for row, its in zip(part, found, strict=True):
            assert np.array_equal(alone.apply(Vector(row)).values, its)
            alone.absorb(Vector(row))
        start += count
    assert {name: np.array(value).tolist() for name, value in alone.state().items()} == {
        name: np.array(value).tolist() for name, value in together.state().items()
    }


@pytest.mark.parametrize("has_bias", [True, False])
@pytest.mark.parametrize("kind", ["dense", "named"])
def test_the_forms_of_rows_are_those_of_each_row(kind: str, has_bias: bool) -> None:
    chance = np.random.default_rng(5)
    rows = chance.normal(size=(30, 5)) + 2.0
    if has_bias:
        rows[:, -1 if kind == "dense" else 0] = 0.5
    places = None if kind == "dense" else np.array([0, 4, 2, 9, 5])
    needed = tuple(FORMS) if kind == "dense" else ("standardized",)
    alone, together = (FormMaker(needed, is_dense=kind == "dense", has_bias=has_bias) for _ in range(2))
    found = dict(together.forms_of_rows(Vectors(rows, places)))
    for at in range(len(rows)):
        z = Vector(rows[at], places)
        forms = alone.forms(z)
        for form in needed:
            assert np.array_equal(forms[form].values, found[form].values[at]), form
            size = alone.size(form, 5)
            assert kind == "named" or len(forms[form].values) == size
            if has_bias:
                assert forms[form].values[-1 if kind == "dense" else 0] == 0.5
        alone.absorb(z)
    assert str(alone.state()) == str(together.state())


def test_what_was_made_for_a_prediction_is_not_used_after_a_reveal() -> None:
    panel = new_panel()
    chance = np.random.default_rng(1)
    z = Vector(np.append(chance.normal(size=4), 1.0))
    for _ in range(20):
        panel.learn(Vector(np.append(chance.normal(size=4), 1.0)), int(chance.integers(2)), 0)
    before = panel.vote(z)
    panel.learn(Vector(np.full(5, 30.0)), 1, 0)
    fresh = Vector(z.values.copy())
    assert panel.vote(z) == panel.vote(fresh) != before


def test_the_gap_is_the_distance_to_the_class_that_comes_next() -> None:
    for way in ("binary", "one_vs_all", "one_vs_one"):
        model = make(AUTO, way).run(rounds_for(way, count=80))
        gaps = []
        for sent, _ in rounds_for(way, count=40, seed=9):
            z = model.features.vector(model.read(sent))
            chosen, _, gap = model.classifier.decide(z)
            behind = model.classifier.behind(z)
            assert behind[chosen] == 0.0 and (behind >= 0.0).all()
            assert np.delete(behind, chosen).min() == gap <= 1.0
            gaps.append(gap)
        assert len(set(gaps)) > 30, "it tells predictions apart that the same experts are for"


def test_each_expert_learns_by_what_it_said_itself() -> None:
    """A perceptron that was right changes nothing, though the vote was wrong; by then it may have become wrong."""
    panel, perceptron = new_panel(), 0
    learner = strategies.build(algorithms.complete({}), None, classes=2, tie=1)
    learner.grow(5)
    panel.classifiers[perceptron] = learner
    chance = np.random.default_rng(7)
    for _ in range(30):
        panel.learn(Vector(np.append(chance.normal(size=4), 1.0)), int(chance.integers(2)), 0)
    for truth in (0, 1):
        for right in (True, False):
            before = panel.classifiers[perceptron].weights_for(1).copy()
            said = [1 - truth] * len(panel.experts)
            said[perceptron] = truth if right else 1 - truth
            panel.reveal(Vector(np.append(chance.normal(size=4), 1.0)), truth, 1 - truth, said, 0.5, 1.0, 3)
            moved = (panel.classifiers[perceptron].weights_for(1) != before).any()
            assert moved != right


def test_a_class_that_appears_is_new_to_every_expert_and_changes_none_of_their_weights() -> None:
    model = make(AUTO, "one_vs_all").run(rounds_for("one_vs_all"))
    panel: Any = model.classifier
    before = [[expert.weights_for(c).copy() for c in range(3)] for expert in panel.classifiers]
    weights = list(panel.hedge.weights)
    panel.add_class()
    for expert, rows in zip(panel.classifiers, before, strict=True):
        assert not expert.weights_for(3).any()
        assert all(np.array_equal(expert.weights_for(c), row) for c, row in enumerate(rows))
    assert panel.hedge.weights == weights


@pytest.mark.thorough
def test_a_stream_that_changes_its_mind_is_followed_as_fast_as_by_the_fastest_expert() -> None:
    """Every 5,000 rounds each label becomes the other; recovered is who errs in less than 15 of 100 rounds again."""
    chance, every, window = np.random.default_rng(11), 5_000, 100
    examples = chance.normal(size=(4 * every, 10))
    truths = (examples @ chance.normal(size=10) + 0.3 * chance.normal(size=len(examples)) > 0).astype(int)
    truths ^= (np.arange(len(truths)) // every) % 2
    panel = new_panel(size=11)
    erred = np.empty((len(truths), 1 + len(panel.experts)), dtype=bool)
    for at, (x, truth) in enumerate(zip(examples, truths.tolist(), strict=True)):
        z = Vector(np.append(x, 1.0))
        vote = panel.vote(z)
        erred[at] = [vote.chosen != truth, *(label != truth for label in vote.said)]
        panel.reveal(z, truth, vote.chosen, vote.said, vote.erred_weight(truth), 1.0, 0)
    for start in range(every, len(truths), every):
        sums = np.cumsum(erred[start : start + every], axis=0)
        recent = (sums[window:] - sums[:-window]) / window
        rounds = [int((each < 0.15).argmax()) if (each < 0.15).any() else every for each in recent.T]
        assert min(rounds[1:]) < 1_000, "somebody does recover"
        assert rounds[0] <= min(rounds[1:]) + 200, rounds


def test_the_first_reveals_are_learned_with_scales_that_know_them_and_later_ones_as_they_were_served() -> (
    None
):
    """The very first example would be all zeros otherwise, and teach nothing."""
    panel, scale = new_panel(), Centred()
    chance = np.random.default_rng(7)
    logistic = next(at for at, expert in enumerate(panel.experts) if expert.name == "logistic")
    alone = strategies.build(panel.experts[logistic].learner, None, classes=2, tie=1)
    alone.grow(5)
    for number in range(40):
        x, truth = chance.normal(3.0, 2.0, size=4), int(chance.integers(2))
        z = Vector(np.append(x, 1.0))
        if number < 16:
            scale.absorb(Vector(x))
        alone.learn(Vector(np.append(scale.apply(Vector(x)).values, 1.0)), truth, 0)
        if number >= 16:
            scale.absorb(Vector(x))
        panel.learn(z, truth, panel.decide(z)[0])
        assert np.array_equal(panel.classifiers[logistic].weights_for(1), alone.weights_for(1)), number
