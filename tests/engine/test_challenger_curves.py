"""The curve of every learner of a model with challengers: mistakes over the rounds of which it has said something."""

import copy
import random
import tracemalloc
from typing import Any

import msgspec
import numpy as np
import pytest

from service.engine.models.block_fold import table_of
from service.engine.models.challenger import Challenger
from service.engine.models.model import Model
from service.engine.models.sizes import bytes_in_memory
from service.engine.transfer.json_export import _digest, import_model
from service.errors import InvalidExport
from service.events import ChallengerRemoved, ModelReset, ModelRolledBack, RoundsLearned
from service.journal.codec import STATE_VERSION, encode_state
from service.learning.certainty.duel import Record
from service.learning.vectors import Rows
from tests.engine.test_challengers import AROW, LIMITS, add, made, promote
from tests.support.doctored_exports import LIMITS as IMPORT_LIMITS
from tests.support.doctored_exports import NOW, contested, with_digest
from tests.support.exporting import export_model, plain
from tests.support.late_labels import Late, run

BEFORE_CURVES = 4
"""The version of states in which records had no curves."""


def curves(model: Model) -> dict[str, dict[str, Any]]:
    return {each["name"]: each for each in model.learner_curves() or []}


class Slow:
    """What every learner had said of every reveal, in lists: by its number, whether each of these was mistaken."""

    def __init__(self, stream: Late) -> None:
        self.stream = stream
        self.erred: dict[int, list[int]] = {}

    def reveal(self, at: int, label: Any) -> None:
        model, waiting = self.stream.model, self.stream.waiting[at]
        truth, lineup = model.labels.index(label), waiting["certainty"].lineup
        said = {} if lineup is None else {word.learner: word.chosen for word in lineup.shadows}
        said[0 if lineup is None else lineup.learner] = model.labels.index(waiting["served"])
        alive = {model.contest.number, *(c.number for c in model.contest.challengers.values())}
        for number in alive & said.keys():
            self.erred.setdefault(number, []).append(int(said[number] != truth))
        self.stream.reveal(at, label)

    def check(self) -> None:
        model = self.stream.model
        assert model.contest is not None
        told = curves(model)
        numbers = {model.settings["champion"]: model.contest.number}
        numbers |= {name: each.number for name, each in model.contest.challengers.items()}
        assert list(told) == list(numbers)
        for name, number in numbers.items():
            totals = [0, *np.cumsum(self.erred.get(number, [])).tolist()]
            curve = told[name]
            assert curve["mistakes"] == [totals[at] for at in curve["rounds"]]
            assert (curve["rounds"][0], curve["rounds"][-1]) == (0, len(totals) - 1)
            assert curve["since_round"] == model.revealed - (len(totals) - 1)


def test_every_point_is_what_the_learner_had_said_through_promotions_while_labels_are_late() -> None:
    chance = random.Random(5)
    stream = Late(made(challengers={"arow": AROW, "same": {}}))
    slow = Slow(stream)
    for number in range(1, 1_400):
        x = [chance.gauss(0, 1) for _ in range(4)]
        stream.predict(x)
        while stream.waiting and (len(stream.waiting) > 30 or chance.random() < 0.5):
            slow.reveal(chance.randrange(len(stream.waiting)), chance.choice([-1, 1]))
        if number == 300:
            add(stream, "late", learner={"algorithm": "pa1"})
        if number in (500, 800):
            promote(stream, {500: "arow", 800: "late"}[number])
        if number % 97 == 0:
            slow.check()
            stream.model = Model.from_bytes(stream.model.to_bytes())
    slow.check()
    assert stream.model.settings["champion"] == "late" and stream.model.revealed > 1_200


def test_a_thousand_rounds_in_a_block_one_by_one_and_restored_between_them_are_the_same_to_the_bit() -> None:
    settings = {"promote": {"rounds_min": 20, "confidence": 0.8}, "challengers": {"arow": AROW, "same": {}}}
    chance = np.random.default_rng(3)
    values = chance.normal(size=(1000, 4))
    labels = [1 if row.sum() + chance.normal() > 0 else -1 for row in values]
    together, apart = made(**settings), made(**settings)
    together.apply(RoundsLearned("m", NOW, labels, [table_of(Rows(values))]))
    for start in range(0, 1000, 13):
        end = min(1000, start + 13)
        block = RoundsLearned("m", NOW, labels[start:end], [table_of(Rows(values[start:end]))])
        apart.apply(block)
        apart = Model.from_bytes(apart.to_bytes())
    assert together.to_bytes() == apart.to_bytes() and curves(together) == curves(apart)
    assert together.contest is not None and together.contest.promotions
    assert {len(each["rounds"]) for each in curves(together).values()} == {501}  # a point every two rounds


def test_curves_change_places_with_their_learners_and_end_with_a_reset_or_a_removal() -> None:
    stream = Late(made(challengers={"arow": AROW}))
    run(stream, 100, [-1, 1])  # type: ignore[list-item]
    model = stream.model
    before, state = curves(model), model.to_bytes()
    promote(stream, "arow")
    after = curves(model)
    assert list(after) == ["arow", "original"]
    assert after == before
    stream.apply(ChallengerRemoved("m", stream.at, "original"))
    add(stream, "original")
    fresh = {"name": "original", "since_round": model.revealed, "rounds": [0], "mistakes": [0]}
    assert curves(model)["original"] == fresh
    stream.apply(ModelReset("m", stream.at + 1))
    assert [(each["rounds"], each["since_round"]) for each in curves(model).values()] == [([0], 0)] * 2
    stream.apply(ModelRolledBack("m", stream.at + 2, to=50, state=state))
    assert curves(model) == before


def as_before(model: Model) -> dict[str, Any]:
    """The state as the version before would have written it."""
    state = copy.deepcopy(model.state())
    for kept in (state["contest"], *state["contest"]["challengers"].values()):
        kept["record"][2] = 0.0  # a variance, where the curve is by now
    return state


def test_what_the_version_before_has_saved_loads_and_its_curves_begin_with_the_next_reveal() -> None:
    stream = Late(made(challengers={"arow": AROW, "same": {}}))
    run(stream, 150, [-1, 1])  # type: ignore[list-item]
    then = curves(stream.model)
    opened = Model.from_bytes(encode_state(as_before(stream.model), BEFORE_CURVES))
    for name, curve in curves(opened).items():
        assert curve == {
            **then[name],
            "rounds": then[name]["rounds"][-1:],
            "mistakes": then[name]["mistakes"][-1:],
        }
    assert opened.stepped_from == BEFORE_CURVES  # a replay of all its events would tell more
    waiting = stream.waiting
    stream.model = opened
    run(stream, 600, [-1, 1], seed=2)  # type: ignore[list-item]
    assert stream.model is opened and waiting is stream.waiting
    assert opened.contest is not None
    for name, curve in curves(opened).items():
        assert curve["rounds"][:2] == [then[name]["rounds"][-1], then[name]["rounds"][-1] + 2]
        assert 256 <= len(curve["rounds"]) <= 512
    assert Model.from_bytes(opened.to_bytes()).to_bytes() == opened.to_bytes()
    without = Model.from_bytes(encode_state(made(rules=1).state(), BEFORE_CURVES))
    assert without.to_bytes() == made(rules=1).to_bytes() and without.learner_curves() is None


def test_an_export_of_the_version_before_is_imported() -> None:
    model = made(challengers={"arow": AROW})
    run(Late(model), 60, [-1, 1])  # type: ignore[list-item]
    state = {**as_before(model), "bound": None}
    head = {"format": f"novikoff-model/{BEFORE_CURVES}", "digest": _digest(state, BEFORE_CURVES)}
    imported = import_model({**head, **plain(state)}, LIMITS, NOW + 10**9)
    told = curves(Model.from_bytes(imported.state))
    assert [each["rounds"] for each in told.values()] == [[model.contest.record.rounds]] * 2  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("path", "value", "field"),
    [
        (("record", 2), None, "record[2]"),
        (("record", 2, 0), 61, "record[2][0]"),
        (("record", 2, 0), 1, "record[2][2][1]"),
        (("record", 2, 2, 3), [1] * 600, "record[2][2][3]"),
        (("record", 2, 2, 3, 5), 2, "record[2][2][3]"),
        (("record",), lambda kept: kept[:2], "record"),
        (("challengers", "full", "record", 2), [0, 0, [1, 1, 0, []]], "challengers.full.record[2][2][1]"),
        (("challengers", "full", "record", 2, 2, 0), 3, "challengers.full.record[2][2][0]"),
        (("challengers", "full", "record", 2, 2, 1), 10**6, "challengers.full.record[2][2][1]"),
        (("challengers", "full", "record", 2, 2, 2), 0, "challengers.full.record[2][2][2]"),
        (("challengers", "full", "record", 1), 0, "challengers.full.record[2][2][2]"),
        (("challengers", "full", "record", 2, 1), 2**63, "challengers.full.record[2][1]"),
        (("challengers", "full", "record", 2), {"$bytes": "AAAA"}, "challengers.full.record[2]"),
    ],
)
def test_a_curve_that_no_learner_can_have_is_refused_by_its_place(
    path: tuple[Any, ...], value: Any, field: str
) -> None:
    export = copy.deepcopy(contested("dense"))
    part: Any = export["contest"]
    for key in path[:-1]:
        part = part[key]
    part[path[-1]] = value(part[path[-1]]) if callable(value) else value
    with pytest.raises(InvalidExport) as refused:
        import_model(
            msgspec.json.decode(msgspec.json.encode(with_digest(export))), IMPORT_LIMITS, NOW + 10**9
        )
    assert [each.field for each in refused.value.fields] == [f"contest.{field}"]


def test_what_is_exported_is_imported_with_its_curves() -> None:
    export = msgspec.json.decode(msgspec.json.encode(contested("dense")))
    assert export["format"].endswith(f"/{STATE_VERSION}")
    again = Model.from_bytes(import_model(export, IMPORT_LIMITS, NOW + 10**9).state)
    assert export_model(again)["contest"] == export["contest"]
    assert all(len(each["rounds"]) > 30 for each in curves(again).values())


@pytest.mark.usefixtures("only_this_thread")
def test_a_young_challenger_is_light_and_an_old_one_no_heavier_than_it_is_weighed() -> None:
    young, old = made(challengers={"c": {}}), made(challengers={"c": {}})
    for model in (young, old):
        run(Late(model), 20, [-1, 1])  # type: ignore[list-item]
    _grow_old(old, 200_000)
    assert min(len(each["rounds"]) for each in curves(old).values()) > 256
    weighed = bytes_in_memory(young) - bytes_in_memory(made())
    (of_young, champion_young), (of_old, champion_old) = map(_bytes_of_learners, (young, old))
    assert of_young <= 2_500 and champion_young <= 300
    assert of_old + champion_old <= weighed


def _bytes_of_learners(model: Model) -> tuple[int, int]:
    """What its challenger takes, and what is known of its champion beside what a model without challengers has."""
    assert model.contest is not None
    state, (challenger,) = model.contest.state(), model.contest.challengers.values()
    (own,) = model.settings["challengers"].values()
    sizes = []
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    again = Challenger.cold(1, own, model.settings, model.labels, model.features.dimension)
    again.restore(challenger.state(), 2)
    sizes.append(tracemalloc.get_traced_memory()[0] - before)
    before = tracemalloc.get_traced_memory()[0]
    record = Record.restore(state["record"])
    sizes.append(tracemalloc.get_traced_memory()[0] - before)
    tracemalloc.stop()
    assert record.rounds == model.contest.record.rounds and again.number == challenger.number
    return sizes[0], sizes[1]


def _grow_old(model: Model, rounds: int) -> None:
    """Let its learners have said something of so many rounds, sure of it in every way."""
    assert model.contest is not None
    (challenger,) = model.contest.challengers.values()
    chance = random.Random(4)
    for number in range(rounds):
        mistaken = chance.random() < 0.4
        model.contest.record.observe(mistaken)
        challenger.record.observe(mistaken)
        if number % 10 == 0:
            standing = challenger.calibration.standing(chance.expovariate(0.1))
            challenger.calibration.observe(*standing, not mistaken, is_late=number % 20 == 0)
