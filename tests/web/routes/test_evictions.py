"""Predictions that wait in the journal only, and those that are evicted: what late labels are told, where it shows."""

import json
from collections.abc import Callable

import pytest

from tests.support.service_process import Service
from tests.support.waiting import eventually

Start = Callable[..., Service]

OVER_EVERY_JOURNAL = True

NDJSON = {"content-type": "application/x-ndjson"}
FEW_IN_MEMORY = {"pending_bytes_max": 8_000}
"""Of predictions with a feature each, seven; or the ids of some thirty."""


def predict(service: Service, model: str, count: int, **more: object) -> list[str]:
    return [service.predict(model, [1.0, float(at)], **more)["prediction_id"] for at in range(count)]


def why_gone(service: Service, prediction_id: str) -> str:
    answer = service.client.post("/feedback", json={"prediction_id": prediction_id, "label": 1})
    assert (answer.status_code, answer.json()["code"]) == (410, "prediction-expired")
    return str(answer.json()["detail"])


def test_a_label_is_learned_after_ten_thousand_later_predictions_and_a_restart(start: Start) -> None:
    service = start()
    first, second, third = predict(service, "m", 3)
    line = json.dumps({"model": "m", "features": [1.0, 2.0]}).encode() + b"\n"
    for _ in range(2):
        answer = service.client.post("/stream?answers=summary", content=line * 5_025, headers=NDJSON).json()
        assert (answer["predicted"], answer["errors"]) == (5_025, 0)
    eventually(lambda: "\nnovikoff_journal_queue_events 0.0\n" in service.client.get("/metrics").text)
    assert service.reveal(first, 1)["rounds"] == 1
    service.restart()
    assert service.stats("m")["rounds"] == {
        "predicted": 10_053,
        "revealed": 1,
        "pending": 10_052,
        "expired": 0,
    }
    assert service.reveal(second, -1)["rounds"] == 2
    assert service.reveal(second, -1)["rounds"] == 2
    assert service.client.delete(f"/predictions/{third}").status_code == 200
    assert service.stats("m")["rounds"]["pending"] == 10_050
    assert service.stats("m")["evicted"] is None
    service.assert_replay_equals_live("m")


def test_what_does_not_fit_into_memory_waits_in_the_journal(start: Start) -> None:
    service = start(**FEW_IN_MEMORY)
    ids = predict(service, "m", 20)
    for revealed, prediction_id in enumerate(ids[::2], 1):
        assert service.reveal(prediction_id, 1)["rounds"] == revealed
    service.restart()
    assert service.stats("m")["rounds"]["pending"] == 10
    for revealed, prediction_id in enumerate(ids[1::2], 11):
        assert service.reveal(prediction_id, 1)["rounds"] == revealed
    assert service.stats("m")["rounds"] == {"predicted": 20, "revealed": 20, "pending": 0, "expired": 0}
    assert service.stats("m")["evicted"] is None
    service.assert_replay_equals_live("m")


def test_what_waits_in_the_journal_only_is_void_after_a_reset(start: Start) -> None:
    service = start(**FEW_IN_MEMORY)
    ids = predict(service, "m", 20)
    service.post("/models/m/reset", None)
    assert "reset or rolled back" in why_gone(service, ids[0])
    assert "reset or rolled back" in why_gone(service, ids[-1])
    later = predict(service, "m", 20)
    assert service.reveal(later[0], 1)["rounds"] == 1
    assert service.stats("m")["rounds"] == {"predicted": 20, "revealed": 1, "pending": 19, "expired": 0}


def test_what_waits_in_the_journal_only_expires_in_its_time(start: Start) -> None:
    service = start(**FEW_IN_MEMORY, pending_ttl_seconds=1)
    ids = predict(service, "m", 20)
    eventually(lambda: service.stats("m")["rounds"]["expired"] == 20)
    assert "pending_ttl_seconds" in why_gone(service, ids[0])
    service.restart()
    assert service.stats("m")["rounds"] == {"predicted": 20, "revealed": 0, "pending": 0, "expired": 20}
    assert "pending_ttl_seconds" in why_gone(service, ids[0])
    assert service.stats("m")["evicted"] is None


def test_what_waits_in_the_journal_only_is_learned_when_it_expires(start: Start) -> None:
    service = start(**FEW_IN_MEMORY, pending_ttl_seconds=3)
    service.create("m", on_expiry=-1)
    predict(service, "m", 20)
    eventually(lambda: service.stats("m")["rounds"]["revealed"] == 20)
    assert service.stats("m")["rounds"] == {"predicted": 20, "revealed": 20, "pending": 0, "expired": 0}
    service.assert_replay_equals_live("m")


def test_what_waits_in_the_journal_only_can_be_forgotten(start: Start) -> None:
    service = start(**FEW_IN_MEMORY)
    predict(service, "m", 10, tag="someone")
    predict(service, "m", 10)
    assert service.post("/models/m/forget", {"tag": "someone"})["predictions"] == 10
    eventually(lambda: service.stats("m")["rounds"]["pending"] == 10)


@pytest.mark.parametrize(
    ("limit", "most"),
    [("pending_bytes_max", 8_000), ("pending_total_max", 20), ("pending_max", 20)],
)
def test_an_evicted_prediction_is_told_and_counted_with_the_limit(
    start: Start, limit: str, most: int
) -> None:
    service = start(**{limit: most})
    ids = predict(service, "m", 60)
    assert f"`{limit}`" in why_gone(service, ids[0])
    rounds, evicted = service.stats("m")["rounds"], service.stats("m")["evicted"]
    assert evicted == {"predictions": rounds["expired"], "limit": limit}
    assert 20 <= rounds["expired"] <= 45 and rounds["expired"] + rounds["pending"] == 60
    metrics = service.client.get("/metrics").text
    assert f'\nnovikoff_predictions_evicted_total{{limit="{limit}"}} {float(rounds["expired"])}\n' in metrics
    eventually(lambda: service.get("/attention")["count"] == 1)
    (noticed,) = service.get("/attention")["models"]
    assert [reason["kind"] for reason in noticed["reasons"]] == ["evicted"]
    assert limit in noticed["reasons"][0]["detail"]
    assert any(limit in line and "evicted" in line for line in service.log)
    assert service.reveal(ids[-1], 1)["rounds"] == 1
    service.restart()
    assert f"`{limit}`" in why_gone(service, ids[0])
    assert service.stats("m")["evicted"] == evicted
    service.assert_replay_equals_live("m")


def test_evicted_predictions_of_a_model_that_is_not_loaded_are_told_too(start: Start, journal: str) -> None:
    service = start(pending_total_max=20, models_loaded_max=2)
    first = predict(service, "m", 1)[0]
    for at in range(40):
        service.predict(f"other{at}", [1.0])
    if journal == "sqlite":  # of the cluster's each replica counts what it has in memory
        assert "`pending_total_max`" in why_gone(service, first)
        assert service.stats("m")["evicted"] == {"predictions": 1, "limit": "pending_total_max"}
