"""How many may wait in a queue, by what was finished meanwhile; the times are made up."""

import pytest

from service.journal.sqlite.queue_limit import LEAST_ROOM, AdaptiveQueueLimit, QueueCounts

SECONDS_MAX = 5.0
QUEUE_MAX = 1_000


@pytest.fixture
def queue() -> QueueCounts:
    return QueueCounts(queue_max=QUEUE_MAX)


@pytest.fixture
def patience(queue: QueueCounts) -> AdaptiveQueueLimit:
    return AdaptiveQueueLimit(queue, seconds_max=SECONDS_MAX)


def test_a_disk_that_stands_still_refuses_nobody_before_the_limit(
    queue: QueueCounts, patience: AdaptiveQueueLimit
) -> None:
    queue.submitted = 1
    for tenths in range(51):
        assert patience.room(tenths / 10, QUEUE_MAX) >= QUEUE_MAX
    assert patience.room(5.2, QUEUE_MAX) == 1


def test_a_slow_disk_is_given_what_it_can_do_within_the_limit(
    queue: QueueCounts, patience: AdaptiveQueueLimit
) -> None:
    queue.submitted = 900
    patience.room(0.0, QUEUE_MAX)
    queue.finished = 20
    assert patience.room(2.0, QUEUE_MAX) == 50


def test_after_an_overload_more_is_let_in_by_and_by(queue: QueueCounts, patience: AdaptiveQueueLimit) -> None:
    queue.submitted = queue.finished = 10
    assert patience.room(0.0, 1) == LEAST_ROOM
    assert patience.room(0.1, 200) == 220
