"""Outcomes as they are kept: pages of any version, also one after the other."""

from array import array

import pytest

from service.engine.model.outcomes import Outcome, OutcomeLog


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


@pytest.mark.parametrize("kept", [b"odd", page(3).tobytes()[:-8], old_page(3, 4)[8:], b"\0" * 72])
def test_what_is_no_page_is_told(kept: bytes) -> None:
    with pytest.raises(ValueError, match=r"buffer size|reshape"):
        OutcomeLog(kept)
