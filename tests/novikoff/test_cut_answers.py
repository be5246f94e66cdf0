"""Answers of a stream that end too early, though HTTP says that they are whole: no line may be lost unnoticed."""

from typing import Any

import pytest

from novikoff import CutOff, Unreachable
from tests.novikoff.conftest import Connect
from tests.novikoff.faulty import FaultyProxy
from tests.support.service_process import Service

CUTS = pytest.mark.parametrize("fault", ["cut short", "cut amid a line"])
EXAMPLES = [([1.0, float(i)], 1 if i % 2 else -1) for i in range(5)]
ROWS, LABELS = [features for features, _ in EXAMPLES], [label for _, label in EXAMPLES]


@CUTS
@pytest.mark.slow
def test_lines_with_ids_are_sent_again_until_all_are_answered_and_count_once(
    connect: Connect, service: Service, name: str, fault: str
) -> None:
    lines = [{"features": row, "id": f"{name}.{i}"} for i, row in enumerate(ROWS)]
    reveals = [{"prediction_id": f"{name}.{i}", "label": label} for i, label in enumerate(LABELS)]
    with FaultyProxy(service, *[fault, fault, "none"] * 2, fault, "none", fault, "none") as proxy:
        client = connect(proxy.url)
        assert len(client.stream(lines, model=name)) == 5
        assert [outcome.rounds for outcome in client.stream(reveals)] == [1, 2, 3, 4, 5]
        assert [outcome.rounds for outcome in client.learn_many(name, EXAMPLES)] == [6, 7, 8, 9, 10]
        assert len(client.predict_table(name, ROWS)) == 5
    assert not proxy.faults
    assert service.stats(name)["rounds"]["revealed"] == 10
    service.assert_replay_equals_live(name)


def test_a_table_whose_answers_are_cut_is_learned_once(connect: Connect, service: Service, name: str) -> None:
    service.create(name)
    with FaultyProxy(service, "cut short") as proxy:
        learned = connect(proxy.url).learn_table(name, ROWS, LABELS)
    assert [outcome.rounds for outcome in learned] == [1, 2, 3, 4, 5]


@CUTS
def test_lines_without_ids_are_not_repeated_and_it_is_told_how_many_were_answered(
    connect: Connect, service: Service, name: str, fault: str
) -> None:
    with FaultyProxy(service, fault) as proxy:
        with pytest.raises(CutOff, match="3 of 5 lines have a response") as cut:
            connect(proxy.url).learn_many(name, EXAMPLES, safe=False)
        assert isinstance(cut.value, Unreachable)  # who is prepared for a lost answer is prepared for this
        assert len(proxy.seen) == 1
    assert service.stats(name)["rounds"]["revealed"] == 5


def test_a_proxy_that_always_cuts_is_told_when_the_time_for_retries_is_over(
    connect: Connect, service: Service, name: str
) -> None:
    """How many attempts fit in depends on the machine: test_attempts.py proves by a clock that there are several."""
    with (
        FaultyProxy(service, *["cut short"] * 100) as proxy,
        pytest.raises(CutOff, match="3 of 5 lines have a response"),
    ):
        connect(proxy.url, retry_seconds=0.5).learn_many(name, EXAMPLES)
    assert proxy.seen and service.stats(name)["rounds"]["revealed"] == 5


def test_a_bad_line_and_a_refusal_that_stands_for_several_are_no_cut(
    connect: Connect, start: Any, name: str
) -> None:
    service = start(stream_errors_max=2)
    lines = [{"features": [1.0], "label": 1}, *[{"features": [1.0], "label": "none"}] * 7]
    assert len(connect(service.url).stream(lines, model=name)) == 8


def test_a_history_that_ends_amid_a_line_is_told(connect: Connect, service: Service, name: str) -> None:
    for features, label in EXAMPLES:
        service.learn(name, features, label)
    with FaultyProxy(service, "cut amid a line") as proxy:
        client = connect(proxy.url)
        with pytest.raises(CutOff, match="was cut off within a line"):
            list(client.history(name))
        assert len(list(client.history(name))) == 5
