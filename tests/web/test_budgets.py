"""Budgets in bytes: waiting predictions, models in memory, outcomes, fits. Nothing is lost that was acknowledged."""

import json
from collections.abc import Callable

import pytest

from tests.support.api_keys import Holder, lines_of
from tests.support.process_usage import peak_bytes, restart_peak
from tests.support.service_process import Service, problem_of
from tests.support.waiting import eventually

Start = Callable[..., Service]

MB = 1_000_000
NDJSON = {"content-type": "application/x-ndjson"}


def figure(service: Service, name: str) -> float:
    text = service.client.get("/metrics").text
    (line,) = [line for line in text.splitlines() if line.startswith(f"{name} ")]
    return float(line.rsplit(" ", 1)[1])


def gauge(service: Service, name: str, of: str) -> float:
    return figure(service, f'{name}{{of="{of}"}}')


@pytest.mark.parametrize("kind", ["dense", "named"])
def test_predictions_that_wait_stay_within_their_bytes(start: Start, kind: str) -> None:
    service = start(pending_bytes_max=10 * MB)
    numbers = [1.5] * (8_000 if kind == "dense" else 1_000)
    features = numbers if kind == "dense" else {f"name-{at:04}": value for at, value in enumerate(numbers)}
    line = json.dumps({"model": "m", "features": features}).encode() + b"\n"
    service.predict("m", features)
    restart_peak(service.process.pid)
    before = peak_bytes(service.process.pid)
    for _ in range(10):
        answer = service.client.post("/stream?answers=summary", content=line * 100, headers=NDJSON).json()
        assert (answer["predicted"], answer["errors"]) == (100, 0)
        # What is queued for the disk is in memory, too, and how much that is depends on the disk.
        eventually(lambda: figure(service, "novikoff_journal_queue_events") == 0, otherwise="not written")
    assert peak_bytes(service.process.pid) - before < 60 * MB
    one = 200_000  # which comes when the others are just within the limit
    assert 8 * MB < gauge(service, "novikoff_budget_bytes", "pending") <= 10 * MB + one
    rounds = service.stats("m")["rounds"]
    assert (rounds["predicted"], rounds["pending"]) == (1_001, 1_001)  # the oldest wait in the journal only


def test_predictions_of_models_that_are_loaded_again_stay_within_their_bytes(start: Start) -> None:
    """Each of them may have as many as fit; all of them together do not, and none of these predictions is given up."""
    service = start(pending_bytes_max=1 * MB)
    ids = {}
    for at in range(5):
        ids[at] = [service.predict(f"m{at}", [1.5] * 1_000)["prediction_id"] for _ in range(90)]
        service.restart()
    for at in range(5):
        assert service.client.get(f"/models/m{at}/weights").status_code == 200
        assert gauge(service, "novikoff_budget_bytes", "pending") <= 1 * MB
    for at in range(5):
        assert service.reveal(ids[at][0], 1)["rounds"] == 1
        assert service.stats(f"m{at}")["rounds"]["pending"] == 89


def test_a_small_prediction_that_waits_is_not_pushed_out_below_the_limit(start: Start) -> None:
    service = start(pending_bytes_max=1 * MB)
    ids = [service.predict("m", [1.0])["prediction_id"] for _ in range(900)]
    assert service.reveal(ids[0], 1)["rounds"] == 1


@pytest.mark.parametrize("limit", [{"pending_total_max": 40}, {"pending_bytes_max": 40 * 1_032}])
def test_a_tenant_that_floods_pushes_out_its_own(start: Start, limit: dict[str, int]) -> None:
    calm, flood, owner = (
        Holder("calm", "write", "calm-"),
        Holder("flood", "write", "flood-"),
        Holder("o", "admin"),
    )
    service = start(api_keys=lines_of(calm, flood, owner), **limit)
    for holder in (calm, flood, owner):
        holder.at(service)
    early = [calm.predict(f"calm-{at}", [1.0]).json()["prediction_id"] for at in range(10)]
    for at in range(200):  # each by a model of its own, which has none to give up
        assert flood.predict(f"flood-{at}", [1.0]).status_code == 200
    late = [calm.predict(f"calm-{at}", [1.0]).json()["prediction_id"] for at in range(10, 15)]
    for prediction_id in early + late:
        assert calm.reveal(prediction_id, 1).status_code == 200
    text = owner.get("/metrics").text
    assert 'novikoff_budget_bytes{of="pending"}' in text
    assert "novikoff_budget_bytes" not in calm.get("/metrics").text


def test_models_in_memory_stay_within_their_bytes(start: Start) -> None:
    service = start(models_loaded_bytes_max=10 * MB)
    for at in range(40):
        service.create(f"m{at}", features={"kind": "dense", "dimension": 50_000})
        service.learn(f"m{at}", [1.0] * 50_000, 1)
    assert gauge(service, "novikoff_budget_bytes", "models") <= 10 * MB
    loaded = [
        line
        for line in service.client.get("/metrics").text.splitlines()
        if line.startswith("novikoff_models_loaded ")
    ]
    assert 10 <= float(loaded[0].split()[1]) < 30
    for at in (0, 20, 39):
        assert service.learn(f"m{at}", [1.0] * 50_000, 1)["rounds"] == 2
        service.assert_replay_equals_live(f"m{at}")


def test_models_that_grow_make_room_too(start: Start) -> None:
    service = start(models_loaded_bytes_max=1 * MB)
    for at in range(10):
        service.learn(f"m{at}", {"a": 1.0}, 1)
    service.learn("large", {f"n{at}": 1.0 for at in range(4_000)}, 1)
    assert gauge(service, "novikoff_budget_bytes", "models") <= 1.2 * MB
    assert service.stats("m0")["rounds"]["revealed"] == 1


def test_outcomes_are_saved_early_when_they_take_much(start: Start) -> None:
    service = start(outcomes_bytes_max=64 * 100, snapshot_every_events=100_000)
    for at in range(500):
        service.learn(f"m{at % 3}", [1.0], 1, id=f"r{at}")
    eventually(lambda: gauge(service, "novikoff_budget_bytes", "outcomes") <= 64 * 100)
    first = service.learn("m0", [1.0], 1, id="r0")
    assert (first["rounds"], first["mistakes"]) == (1, service.learn("m0", [1.0], 1, id="r0")["mistakes"])


def fitted(service: Service, model: str, **options: object) -> dict[str, object]:
    job = service.post(f"/models/{model}/fit", options)
    eventually(
        lambda: service.get(f"/jobs/{job['id']}")["state"] != "running", otherwise="the fit does not end"
    )
    return service.get(f"/jobs/{job['id']}")


def test_a_fit_has_a_limit_of_memory(start: Start) -> None:
    service = start(fit_memory_bytes_max=150 * MB)
    small = [{"features": [1.0, float(at)], "label": (-1) ** at} for at in range(10)]
    done = fitted(service, service.create("m")["model"], examples=small)
    assert done["state"] == "done", done["error"]
    service.create("large", features={"kind": "hashed", "bits": 24}, labels=[0, 1])
    large = fitted(service, "large", examples=[{"features": {"a": 1.0 - at}, "label": at} for at in (0, 1)])
    assert large["state"] == "failed"
    assert "fit_memory_bytes_max" in str(large["error"])
    assert service.learn("large", {"a": 1.0}, 1)["rounds"] == 1


def test_a_fit_has_a_limit_of_time(start: Start) -> None:
    service = start(fit_seconds_max=0.01)
    service.create("m")
    late = fitted(service, "m", examples=[{"features": [1.0], "label": 1}])
    assert (late["state"], "fit_seconds_max" in str(late["error"])) == ("failed", True)
    service.learn("m", [1.0], 1)


def test_a_history_is_fitted_by_its_newest_rounds_that_fit(start: Start) -> None:
    service = start(fit_examples_bytes_max=100 * (128 + 16))
    for at in range(150):
        service.learn("m", [float(at), 1.0], 1)
    assert fitted(service, "m", source="history")["examples"] == 100
    answer = service.client.post("/models/m/fit", json={"source": "nothing"})
    assert problem_of(answer)[0] == 422
