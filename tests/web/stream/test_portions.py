"""However many rounds come at once: no event is so long that the loop has no turns while it is applied."""

import json
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

from service.engine.rounds.blocks import UNKNOWN_MAX
from service.events import RoundsLearned
from tests.support.service_process import Service
from tests.web.stream.test_stream import NDJSON, arrow_of, post_arrow

ROUNDS = 3_000
WIDTH = 200
SLOW = {"features": {"dimension": WIDTH}, "learner": {"algorithm": "arow", "covariance": "full"}}
"""40,200 numbers for each round: a block of thousands would take long."""


def row(at: int) -> list[float]:
    return [float((at * 7 + k * k) % 11 - 5) for k in range(WIDTH)]


def labels() -> list[int]:
    return [1 if at * 5 % 7 > 2 else -1 for at in range(ROUNDS)]


def post_lines(service: Service, features: list[Any], **more: Any) -> None:
    lines = [
        {"features": sent, "label": label, **more} for sent, label in zip(features, labels(), strict=True)
    ]
    content = "\n".join(map(json.dumps, lines))
    answer = service.client.post("/stream?answers=summary&model=m", content=content, headers=NDJSON)
    assert answer.json()["revealed"] == ROUNDS, answer.text


def post_slow_lines(service: Service) -> None:
    service.client.post("/models", json={"model": "m", **SLOW}).raise_for_status()
    post_lines(service, [row(at) for at in range(ROUNDS)])


def post_slow_columns(service: Service) -> None:
    service.client.post("/models", json={"model": "m", **SLOW}).raise_for_status()
    rows = pa.array([row(at) for at in range(ROUNDS)], pa.list_(pa.float64(), WIDTH))
    answer = post_arrow(service, arrow_of({"features": rows, "label": labels()}), "?model=m")
    assert answer.json()["revealed"] == ROUNDS, answer.text


def post_new_names(service: Service) -> None:
    """Each in a line of its own: rounds that cannot be learned together."""
    post_lines(service, [{f"n{at}": 1.0} for at in range(ROUNDS)])


def post_two_models(service: Service) -> None:
    """In turn, so that the lines are not one run."""
    service.client.post("/models", json={"model": "m", **SLOW}).raise_for_status()
    lines = [
        line
        for at, label in enumerate(labels())
        for line in ({"features": row(at), "label": label}, {"model": "o", "features": [1.0], "label": label})
    ]
    content = "\n".join(map(json.dumps, lines))
    answer = service.client.post("/stream?answers=summary&model=m", content=content, headers=NDJSON)
    assert answer.json()["revealed"] == 2 * ROUNDS, answer.text


@pytest.mark.parametrize("post", [post_slow_lines, post_slow_columns, post_new_names, post_two_models])
def test_rounds_that_take_long_are_many_events(
    start: Callable[..., Service], post: Callable[[Service], None]
) -> None:
    service = start()
    post(service)
    service.assert_replay_equals_live("m")
    sizes = [
        len(each.event.labels) for each in service.recorded("m") if isinstance(each.event, RoundsLearned)
    ]
    assert sum(sizes) == ROUNDS and max(sizes) <= UNKNOWN_MAX, sizes
