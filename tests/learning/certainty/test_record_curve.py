"""The curve of what a learner has said, against the list of all its mistakes."""

import random
from itertools import accumulate, pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from service.learning import saved
from service.learning.certainty.duel import Record, with_curve_begun


def observed(mistakes: list[bool], record: Record | None = None) -> Record:
    record = record or Record()
    for mistake in mistakes:
        record.observe(mistake)
    return record


def said(length: int, seed: int) -> list[bool]:
    chance = random.Random(seed)
    return [chance.random() < 0.3 for _ in range(length)]


@settings(deadline=None, max_examples=50)
@given(st.integers(0, 1_500), st.integers(0, 1_500), st.integers(0, 2**32))
def test_every_point_is_true_also_of_a_curve_that_an_older_version_did_not_keep(
    without: int, length: int, seed: int
) -> None:
    mistakes = said(without + length, seed)
    counts = observed(mistakes[:without]).state()[:2]
    *_, begun = with_curve_begun([*counts, 0.0])
    record = Record.restore([*counts, begun])
    observed(mistakes[without:], record)
    totals = [0, *accumulate(mistakes)]
    told = record.curve_report()
    rounds = told["rounds"]
    assert told["mistakes"] == [totals[number] for number in rounds]
    assert (rounds[0], rounds[-1]) == (without, without + length)
    assert min(length + 1, 256) <= len(rounds) <= 512
    assert len({after - before for before, after in pairwise(rounds[:-1])}) <= 1
    again = Record.restore(record.state())
    again.check()
    assert (again.state(), again.curve_report()) == (record.state(), told)


def test_a_young_curve_takes_a_byte_a_round_and_an_old_one_a_few_kilobytes() -> None:
    assert len(observed(said(100, 1)).curve.steps) == 100
    old = observed([True] * 300_000)
    assert old.curve.stride == 1024 and old.curve_report()["mistakes"] == old.curve_report()["rounds"]
    assert old.curve.steps.__sizeof__() < 4096
    assert Record.restore(old.state()).state() == old.state()


@pytest.mark.parametrize(
    ("path", "value", "field"),
    [
        ((2,), None, "[2]"),
        ((2,), [0, 0], "[2]"),
        ((2, 0), -1, "[2][0]"),
        ((2, 0), 601, "[2][0]"),
        ((2, 1), 1, "[2][1]"),
        ((2, 2), [], "[2][2]"),
        ((2, 2, 0), 3, "[2][2][0]"),
        ((2, 2, 1), 1, "[2][2][1]"),
        ((2, 2, 2), 10**6, "[2][2][2]"),
        ((2, 2, 3), [1] * 511, "[2][2][3]"),
        ((2, 2, 3), [3] * 300, "[2][2][3]"),
        ((2, 2, 3, 0), -1, "[2][2][3]"),
        ((2, 2, 3, 0), True, "[2][2][3]"),
    ],
)
def test_a_curve_that_no_record_can_have_is_refused_by_its_place(path, value, field) -> None:  # type: ignore[no-untyped-def]
    state = observed(said(600, 2)).state()
    part = state
    for key in path[:-1]:
        part = part[key]
    part[path[-1]] = value
    with pytest.raises(saved.BadState) as refused:
        Record.restore(state).check()
    assert refused.value.field == field


def test_a_curve_of_other_rounds_than_the_record_s_is_refused() -> None:
    short, long = observed(said(600, 3)).state(), observed(said(700, 3)).state()
    for curve, record in ((short, long), (long, short)):
        with pytest.raises(saved.BadState) as refused:
            Record.restore([*record[:2], curve[2]]).check()
        assert refused.value.field == "[2][2][1]"
    with pytest.raises(saved.BadState) as refused:  # fewer mistakes than its points tell
        Record.restore([600, 3, short[2]]).check()
    assert refused.value.field == "[2][2][2]"
