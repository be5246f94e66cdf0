"""The theorem about the weights of experts, on streams that an adversary makes, with labels as late as it likes."""

from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from service.learning import saved
from service.learning.learners import algorithms
from service.learning.panel.hedge import POINTS_MAX, Hedge
from service.learning.panel.panel import Panel, Vote, erred_weight
from service.learning.panel.panels import NEWEST, PANELS
from tests.support.tiers import slow

EXPERTS = len(PANELS[NEWEST].experts_for("dense"))
ROUNDING = 1e-9


class Prediction(NamedTuple):
    vote: Vote
    truth: int
    reveals_before: int
    disagreements_before: int


class Stream:
    """A panel whose experts say what an adversary wants, and predictions that wait for their labels."""

    def __init__(self, classes: int) -> None:
        way = None if classes == 2 else "one_vs_all"
        self.panel = Panel(
            algorithms.complete({"algorithm": "auto"}),
            way,
            classes=classes,
            tie=1,
            kind="dense",
            has_bias=True,
            rules=3,
        )
        self.classes = classes
        self.waiting: list[Prediction] = []
        self.reveals = 0
        self.mistakes = 0
        self.delays = 0

    def predict(self, said: list[int], truth: int) -> None:
        if self.classes == 2:
            vote = self.panel.vote_of_two(said, [1.0] * EXPERTS)
        else:
            vote = self.panel.vote_of_many([(label, self._behind(label)) for label in said])
        self.waiting.append(Prediction(vote, truth, self.reveals, self.panel.hedge.disagreements))

    def _behind(self, label: int) -> np.ndarray:
        return (np.arange(self.classes) != label).astype(float)

    def reveal(self, at: int) -> None:
        vote, truth, before, seen = self.waiting.pop(at)
        mistake = vote.chosen != truth
        self.mistakes += mistake
        erred = vote.erred_weight(truth)
        if mistake:
            assert erred >= 0.5 - ROUNDING, "the vote errs only where half of the weight does"
        self.panel.hedge.observe(vote.said, truth, erred, mistake, self.reveals - before, seen)
        self.reveals += 1

    def check(self) -> None:
        hedge = self.panel.hedge
        assert sum(hedge.weights) == pytest.approx(1.0)
        assert hedge.rounds == self.reveals and hedge.vote_mistakes == self.mistakes
        assert hedge.erred_weight <= hedge.best_mistakes + hedge.regret_bound + ROUNDING
        report = hedge.report(["name"] * EXPERTS)
        assert self.mistakes <= 2 * hedge.erred_weight + ROUNDING
        assert self.mistakes <= report["mistake_bound"] + ROUNDING


step = st.tuples(
    st.lists(st.integers(0, 3), min_size=EXPERTS, max_size=EXPERTS), st.integers(0, 3), st.integers(0, 12)
)


@settings(deadline=None, max_examples=200)
@given(st.sampled_from([2, 3, 4]), st.lists(step, max_size=200))
@pytest.mark.slow
def test_the_bound_holds_whatever_experts_say_and_however_late_labels_come(
    classes: int, steps: list[tuple[list[int], int, int]]
) -> None:
    stream = Stream(classes)
    for said, truth, keep_waiting in steps:
        stream.predict([label % classes for label in said], truth % classes)
        while len(stream.waiting) > keep_waiting:
            stream.reveal((truth + len(stream.waiting)) % len(stream.waiting))
        stream.check()
    while stream.waiting:
        stream.reveal(0)
    stream.check()


@pytest.mark.parametrize("delay", [slow(0), 1, slow(10), 100])
@pytest.mark.parametrize("classes", [2, slow(5)])
def test_the_bound_holds_where_the_heaviest_always_err(classes: int, delay: int) -> None:
    """The adversary looks at the weights and lets those err that weigh most, up to half of the weight and more."""
    stream = Stream(classes)
    for number in range(1500):
        weights = stream.panel.hedge.weights
        wrong: set[int] = set()
        for expert in sorted(range(EXPERTS), key=lambda at: -weights[at]):
            if sum(weights[at] for at in wrong) < 0.5:
                wrong.add(expert)
        truth = number % classes
        stream.predict([(truth + (at in wrong)) % classes for at in range(EXPERTS)], truth)
        if len(stream.waiting) > delay:
            stream.reveal(0)
            stream.check()
    assert stream.mistakes > 1000


def test_the_bound_would_be_broken_without_its_term_for_late_labels() -> None:
    """Labels in bursts: the weights that were served know nothing of the burst."""
    stream, hedge = Stream(2), None
    for _ in range(60):
        hedge = stream.panel.hedge
        best = min(range(EXPERTS), key=lambda at: hedge.mistakes[at])
        worst = max(range(EXPERTS), key=lambda at: hedge.weights[at])
        for _ in range(50):
            said = [1] * EXPERTS
            said[worst] = 0
            if worst == best:
                said = [0 if at != (best + 1) % EXPERTS else 1 for at in range(EXPERTS)]
            stream.predict(said, 1)
        while stream.waiting:
            stream.reveal(0)
        stream.check()
    assert hedge is not None
    assert hedge.erred_weight > hedge.best_mistakes + hedge.regret_bound - hedge.late


def test_rounds_in_which_all_are_right_or_all_are_wrong_move_no_weight() -> None:
    hedge = Hedge(3, kept=0.5, share=0.1)
    hedge.observe([0, 1, 1], 1, 1 / 3, False, 0)
    before = list(hedge.weights)
    hedge.observe([1, 1, 1], 1, 0.0, False, 0)
    hedge.observe([0, 2, 0], 1, 1.0, True, 7)
    assert hedge.weights == before
    assert (hedge.rounds, hedge.disagreements, hedge.all_erred, hedge.delays) == (3, 1, 1, 0)
    assert hedge.mistakes == [2, 1, 1]


def test_an_expert_that_always_erred_comes_back_within_a_few_rounds() -> None:
    hedge = Hedge(4, kept=0.5, share=0.01)
    for _ in range(10_000):
        hedge.observe([0, 1, 1, 1], 1, hedge.weights[0], False, 0)
    assert hedge.weights[0] >= 0.01 / 4
    rounds = 0
    while hedge.leader != 0:
        hedge.observe([0, 1, 1, 1], 0, 1 - hedge.weights[0], True, 0)
        rounds += 1
    assert rounds <= 9


def test_the_weights_by_hand() -> None:
    hedge = Hedge(2, kept=0.5, share=0.2)
    hedge.observe([0, 1], 1, 0.5, False, 0)
    assert hedge.weights == pytest.approx([0.8 / 3 + 0.1, 1.6 / 3 + 0.1])
    hedge.observe([1, 0], 1, hedge.weights[1], True, 3)
    first, second = 1.1 / 3, 1.9 / 3 / 2
    assert hedge.weights == pytest.approx(
        [0.8 * first / (first + second) + 0.1, 0.8 * second / (first + second) + 0.1]
    )
    assert hedge.delays == 3 and not hedge.late


def test_only_disagreements_in_between_count_and_none_costs_more_than_a_round() -> None:
    hedge = Hedge(2, kept=0.75, share=0.003, rules=3)
    for _ in range(20):
        hedge.observe([0, 1], 1, 0.5, False, 0, hedge.disagreements)
        hedge.observe([1, 1], 1, 0.0, False, 0, hedge.disagreements)
    assert hedge.late == 0.0
    hedge.observe([0, 1], 1, 0.5, False, 39, 13)
    assert hedge.late == pytest.approx(7 * (np.tanh(np.log(4 / 3) / 4) + 0.003))
    hedge.observe([0, 1], 1, 0.5, False, 40, 1)
    assert hedge.late == pytest.approx(7 * (np.tanh(np.log(4 / 3) / 4) + 0.003) + 1.0)
    before = hedge.late
    hedge.observe([0, 1], 1, 0.5, False, 4, 10**6)  # a rollback has led back: then all reveals count
    assert hedge.late - before == pytest.approx(4 * (np.tanh(np.log(4 / 3) / 4) + 0.003))


def test_a_long_delay_with_few_disagreements_costs_little() -> None:
    stream = Stream(2)
    for number in range(1000):
        said = [1] * EXPERTS
        if number % 20 == 0:
            said[number // 20 % EXPERTS] = 0
        stream.predict(said, 1)
        if len(stream.waiting) > 200:
            stream.reveal(0)
            stream.check()
    hedge = stream.panel.hedge
    assert hedge.disagreements == 40
    assert hedge.regret_bound <= 40 - hedge.best_mistakes < 0.3 * 800


def test_a_vote_that_nobody_wins_goes_to_the_tie_or_to_the_first_class() -> None:
    two, many = Stream(2).panel, Stream(4).panel
    for panel in (two, many):
        panel.hedge.weights = [0.25, 0.25, 0.5, *[0.0] * (EXPERTS - 3)]
    assert two.vote_of_two([0, 0, 1, *[0] * (EXPERTS - 3)], [1.0] * EXPERTS)[:2] == (1, 0.0)
    said = [3, 3, 1, *[0] * (EXPERTS - 3)]
    vote = many.vote_of_many([(label, (np.arange(4) != label) * 1.0) for label in said])
    assert (vote.chosen, vote.score) == (1, 0.5)


def test_the_weight_that_erred_is_that_of_those_who_were_wrong() -> None:
    panel = Stream(4).panel
    said = [2, 1, 2, *[3] * (EXPERTS - 3)]
    vote = panel.vote_of_many([(label, (np.arange(4) != label) * 1.0) for label in said])
    each = 1 / EXPERTS
    assert vote.votes == pytest.approx([2 * each, each, (EXPERTS - 3) * each])
    for truth in range(4):
        wrong = sum(label != truth for label in said) * each
        assert erred_weight(vote.said, vote.votes, truth) == pytest.approx(wrong)


# Who leads over time, and what is kept


def test_the_history_has_a_point_every_stride_with_the_mistakes_until_then() -> None:
    hedge, chance = Hedge(3, kept=0.5, share=0.01), np.random.default_rng(4)
    mistakes = {0: [0, 0, 0]}
    leaders = {}
    for number in range(1, 1001):
        said = chance.integers(2, size=3).tolist()
        hedge.observe(said, 1, 0.5, False, 0)
        mistakes[number] = list(hedge.mistakes)
        leaders[number] = "abc"[hedge.leader]
        history = hedge.leaders.report("abc")
        stride = history["rounds"][0]
        assert history["rounds"] == list(range(stride, number + 1, stride))
        assert len(history["rounds"]) < POINTS_MAX
        assert history["leaders"] == [leaders[at] for at in history["rounds"]]
        assert history["mistakes"] == [[mistakes[at][e] for at in history["rounds"]] for e in range(3)]
    assert stride == 16


def trained(rounds: int = 300, rules: int = 3) -> Hedge:
    hedge, chance = Hedge(3, kept=0.5, share=0.01, rules=rules), np.random.default_rng(2)
    for _ in range(rounds):
        hedge.observe(chance.integers(3, size=3).tolist(), 1, 0.25, True, int(chance.integers(9)))
    return hedge


@pytest.mark.parametrize("rules", [1, 3])
@pytest.mark.parametrize("rounds", [0, 1, 63, 64, 65, 300])
def test_restored_weights_go_on_as_if_they_had_never_stopped(rounds: int, rules: int) -> None:
    hedge, again = trained(rounds, rules), Hedge(3, kept=0.5, share=0.01, rules=rules)
    again.restore(hedge.state())
    for each in (hedge, again):
        for number in range(200):
            each.observe([number % 2, 1, number % 3], 1, 0.125, False, 1)
    assert again.state() == hedge.state()


@pytest.mark.parametrize(
    ("name", "value", "field"),
    [
        ("weights", [0.5, 0.5], "weights"),
        ("weights", [0.5, 0.25, 0.5], "weights"),
        ("weights", [1.0, 0.0, 0.0], "weights[1]"),
        ("weights", [1, 0.5, 0.25], "weights[0]"),
        ("mistakes", [1, 2], "mistakes"),
        ("mistakes", [10**9, 1, 1], "mistakes[0]"),
        ("rounds", 3, "rounds"),
        ("rounds", -1, "rounds"),
        ("vote_mistakes", 301, "vote_mistakes"),
        ("erred_weight", float("nan"), "erred_weight"),
        ("erred_weight", 1e9, "erred_weight"),
        ("delays", 1, "delays"),
        ("late", -0.5, "late"),
        ("late", 1e9, "late"),
        ("leaders", [3, []], "leaders[0]"),
        ("leaders", [1, [0, 1, 1, 1]], "leaders[1]"),
        ("leaders", [8, [7] * 148], "leaders[1][0]"),
        ("leaders", [8, [0, 5, 5, 5, 0, 4, 5, 5] + [0] * 140], "leaders[1][5]"),
    ],
    ids=str,
)
def test_a_state_that_no_experts_can_have_is_refused_by_its_place(name: str, value: Any, field: str) -> None:
    state = trained().state() | {name: value}
    with pytest.raises(saved.BadState) as refused:
        Hedge(3, kept=0.5, share=0.01, rules=3).restore(state)
    assert refused.value.field == field


@pytest.mark.parametrize("classes", [2, 5])
@pytest.mark.parametrize("count", [1, 7, 700])
def test_rows_of_whole_rounds_move_the_weights_as_one_by_one_to_the_bit(count: int, classes: int) -> None:
    chance = np.random.default_rng(count)
    alone, together = (Hedge(4, kept=0.75, share=0.003) for _ in range(2))
    for _ in range(3):
        truths = chance.integers(classes, size=count)
        wrong = chance.integers(classes, size=(count, 4))
        said = np.where(chance.random((count, 4)) < [0.1, 0.3, 0.5, 0.5], wrong, truths[:, np.newaxis])
        weights = together.observe_rows(said, truths)
        for row, truth, its in zip(said.tolist(), truths.tolist(), weights.tolist(), strict=True):
            assert alone.weights == its
            votes: dict[int, float] = {}
            for label, weight in zip(row, its, strict=True):
                votes[label] = votes.get(label, 0.0) + weight
            alone.observe(row, truth, erred_weight(row, list(votes.values()), truth), False, 0)
        assert alone.state() == together.state()
