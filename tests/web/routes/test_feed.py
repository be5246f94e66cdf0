"""GET /feed: what has changed, of one model and of all."""

import json
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from novikoff.schemas import Stats
from tests.support.service_process import Service, problem_of
from tests.support.waiting import PATIENCE_SECONDS

OVER_EVERY_JOURNAL = True


def frames(lines: Any) -> Any:
    """The frames of a stream, as (id, event, data)."""
    frame: dict[str, str] = {}
    for line in lines:
        if line == "":
            if "data" in frame:
                yield frame["id"], frame["event"], json.loads(frame["data"])
            frame = {}
        elif not line.startswith(":"):
            key, _, value = line.partition(": ")
            frame[key] = value


def test_the_feed_has_a_snapshot_and_then_the_changes(service: Service, name: str) -> None:
    service.learn(name, [1.0], 1)
    with service.client.stream("GET", f"/feed?model={name}") as stream:
        assert stream.headers["content-type"].startswith("text/event-stream")
        follow = frames(stream.iter_lines())
        first_id, event, data = next(follow)
        assert event == "snapshot" and data["rounds"]["revealed"] == 1
        msgspec.convert(data, Stats)
        for _ in range(20):
            service.post("/learn", {"model": name, "features": [1.0], "label": 1})
        seen = data["rounds"]["revealed"]
        while seen < 21:
            _, event, data = next(follow)
            assert event == "changes" and data["rounds"]["revealed"] > seen
            seen = data["rounds"]["revealed"]
    with service.client.stream("GET", f"/feed?model={name}", headers={"last-event-id": first_id}) as stream:
        _, event, data = next(frames(stream.iter_lines()))
        assert event == "changes" and data["rounds"]["revealed"] == 21
    with service.client.stream("GET", f"/feed?model={name}", headers={"last-event-id": "other-5"}) as stream:
        assert next(frames(stream.iter_lines()))[1] == "snapshot"


def test_the_feed_of_all_models_tells_what_changed_and_what_went(start: Callable[..., Service]) -> None:
    service = start()
    service.learn("a", [1.0], 1)
    service.learn("b", [1.0], 1)
    with service.client.stream("GET", "/feed") as stream:
        follow = frames(stream.iter_lines())
        _, event, data = next(follow)
        assert event == "snapshot" and {line["model"] for line in data["models"]} == {"a", "b"}
        assert data["totals"] == service.get("/stats")["totals"]
        service.learn("b", [1.0], 1)
        _, event, data = next(follow)
        assert event == "changes" and [line["model"] for line in data["models"]] == ["b"]
        service.client.delete("/models/a")
        _, _, data = next(follow)
        assert data["deleted"] == ["a"] and data["totals"]["models"] == 1


def probability_in(frame: dict[str, Any], name: str) -> float | None:
    """What a frame of one model, or of the fleet, says of a model's newest prediction or round."""
    lines = frame.get("models", [frame])
    found: float | None = next(line for line in lines if line["model"] == name)["probability"]
    return found


@pytest.mark.parametrize("path", ["/feed", "/feed?model=m"])
def test_frames_of_the_feed_carry_the_probability_of_the_newest_prediction_or_round(
    start: Callable[..., Service], path: str
) -> None:
    service = start()
    waiting = service.predict("m", [1.0, 2.0])["prediction_id"]
    with service.client.stream("GET", path) as stream:
        follow = frames(stream.iter_lines())
        assert probability_in(next(follow)[2], "m") is None, "nothing was revealed yet"
        service.reveal(waiting, -1)
        sides = [(at % 7 - 3.0, 1 if at % 7 > 3 else -1) for at in range(60)]
        service.stream([{"features": [at, 0.5], "label": label} for at, label in sides], model="m")
        served = service.predict("m", [2.0, 0.5])

        def wait_for(probability: float | None) -> None:
            """A frame with this one; those before it may be of what came before, also once more."""
            while probability_in(next(follow)[2], "m") != probability:
                pass

        wait_for(served["probability"])
        learned = service.learn("m", [1.0, 4.0], 1)
        assert learned["probability"] != served["probability"]
        wait_for(learned["probability"])
        (*_, last) = service.stream([{"features": [at, 0.5], "label": 1} for at in (1.0, 9.0)], model="m")
        wait_for(last["probability"])
        service.reveal(served["prediction_id"], 1)
        wait_for(served["probability"])  # as it was served
        service.client.post("/models/m/reset")
        wait_for(None)


def test_the_feed_is_bounded_and_does_not_hold_up_the_shutdown(start: Callable[..., Service]) -> None:
    service = start(feeds_max=1, shutdown_seconds=50)
    assert problem_of(service.client.get("/feed?model=nobody")) == (404, "unknown-model")
    with service.client.stream("GET", "/feed") as stream:
        lines = stream.iter_lines()
        next(frames(lines))
        assert problem_of(service.client.get("/feed")) == (503, "overloaded")
        service.process.terminate()
        assert service.process.wait(PATIENCE_SECONDS) == 0
        assert list(frames(lines)) == []
