"""Outcomes as they are kept: pages of any version, also one after the other."""

from array import array

import pytest

from service.engine.models.outcomes import Outcome, OutcomeLog, outcome_bytes


def page(*seqs: int) -> OutcomeLog:
    log = OutcomeLog()
    for seq in seqs:
        log.add(seq, Outcome(1, 0.5, True, False, seq, seq, 2, 0.75))
    return log


def old_page(*seqs: int) -> bytes:
    """As it was kept before there were probabilities."""
    return b"".join(array("d", (seq, 1, 0.5, True, False, seq, seq, 2)).tobytes() for seq in seqs)


@pytest.mark.parametrize("first", [old_page(3, 4), page(3, 4).tobytes(), page().tobytes(), b""])
@pytest.mark.parametrize("second", [page(7, 9).tobytes(), page().tobytes() + page(7, 9).tobytes()])
def test_pages_one_after_the_other_are_one(first: bytes, second: bytes) -> None:
    log = OutcomeLog(first + second)
    assert len(log) == len(OutcomeLog(first)) + 2
    for seq in (7, 9):
        assert log.find(seq) == Outcome(1, 0.5, True, False, seq, seq, 2, 0.75)
    if len(log) > 2:
        found = log.find(4)
        assert found is not None and found.version == 4
    assert OutcomeLog(log.tobytes()).tobytes() == log.tobytes()


SETS = {3: [0], 5: None, 6: [], 8: [1, 63], 9: [64, 4094]}


def page_with_sets(sets: dict[int, list[int] | None]) -> OutcomeLog:
    log = OutcomeLog()
    for seq, served in sets.items():
        log.add(seq, Outcome(1, 0.5, True, False, seq, seq, 2, 0.75, served))
    return log


@pytest.mark.parametrize("before", [b"", old_page(1, 2), page(1, 2).tobytes(), page().tobytes()])
@pytest.mark.parametrize("after", [b"", page(11, 12).tobytes(), page_with_sets({11: [2]}).tobytes()])
def test_sets_are_kept_with_the_outcomes_they_belong_to(before: bytes, after: bytes) -> None:
    log = OutcomeLog(before + page_with_sets(SETS).tobytes() + after)
    assert {seq: found.set for seq in SETS if (found := log.find(seq)) is not None} == SETS
    assert OutcomeLog(log.tobytes()).tobytes() == log.tobytes()
    moved = log.renumbered({6: 1, 8: 2})
    assert [found.set for seq in (1, 2, 8) if (found := moved.find(seq)) is not None] == [[], [1, 63]]


def test_outcomes_count_the_memory_of_their_sets() -> None:
    log = page_with_sets(SETS)
    counted = sum(outcome_bytes(found) for seq in SETS if (found := log.find(seq)) is not None)
    assert log.size_bytes == OutcomeLog(log.tobytes()).size_bytes == counted
    assert counted > page(*SETS).size_bytes + 4 * 128 + 4095 // 8


@pytest.mark.parametrize("cut", range(8, 8 * 12, 8))
def test_sets_that_are_cut_off_are_told(cut: int) -> None:
    with pytest.raises(ValueError, match=r"cut off|reshape"):
        OutcomeLog(page_with_sets({3: [0], 9: [64, 4094]}).tobytes()[:-cut])


@pytest.mark.parametrize("kept", [b"odd", page(3).tobytes()[:-8], old_page(3, 4)[8:], b"\0" * 72])
def test_what_is_no_page_is_told(kept: bytes) -> None:
    with pytest.raises(ValueError, match=r"buffer size|reshape"):
        OutcomeLog(kept)
