"""A service on a journal with an event that cannot be applied: its model is set aside, and can be saved in part."""

import asyncio
from collections.abc import Callable
from pathlib import Path

import numpy as np

from service.events import RoundLearned
from tests.commands.running import novikoff
from tests.journal.journals import sqlite_at
from tests.support.service_process import Service, problem_of


def append_damaged_round(data: Path, model: str) -> None:
    """As if a bug had let an example of another length into the journal."""

    async def append() -> None:
        journal = sqlite_at(data, events_kept_max=1000)
        at = await journal.open(lambda seq, event: None)
        summary = await journal.summary(model)
        assert summary is not None
        await journal.append(RoundLearned(model, at + 1, None, 1, np.ones(7).tobytes()), summary.life)
        await journal.close()

    asyncio.run(append())


def test_a_damaged_model_is_set_aside_until_it_is_deleted(start: Callable[..., Service]) -> None:
    service = start()
    for number in range(4):
        service.learn("ill", [1.0, float(number)], 1 if number % 2 else -1)
        service.learn("well", [1.0, 2.0], 1)
    weights = service.weights("ill")
    service.predict("ill", [1.0, 2.0], id="waits")
    assert service.stop() == 0
    append_damaged_round(service.data, "ill")
    service.start()
    for _ in range(2):  # also after a restart
        for path, body in (
            ("/predict", {"model": "ill", "features": [1.0, 2.0]}),
            ("/learn", {"model": "ill", "features": [1.0, 2.0], "label": 1}),
            ("/feedback", {"prediction_id": "waits", "label": 1}),
            ("/models/ill/reset", {}),
            ("/models/ill/fit", {"source": "history"}),
        ):
            assert service.refused(path, body) == (503, "model-damaged"), path
        for path in (
            "/stats/ill",
            "/models/ill",
            "/models/ill/weights",
            "/models/ill/events",
            "/feed?model=ill",
        ):
            assert problem_of(service.client.get(path)) == (503, "model-damaged"), path
        lines = service.client.post(
            "/stream?model=ill",
            content='{"features": [1, 2], "label": 1}\n',
            headers={"content-type": "application/x-ndjson"},
        )
        assert "model-damaged" in lines.text
        assert service.learn("well", [1.0, 2.0], 1)
        page = service.get("/stats?sort=rounds")
        assert [line["model"] for line in page["unreadable"]] == ["ill"]
        assert [line["model"] for line in page["models"]] == ["well"]
        listed = service.get("/models")
        assert [line["model"] for line in listed["unreadable"]] == ["ill"]
        assert [line["model"] for line in listed["models"]] == ["well"]
        assert "novikoff_models_damaged 1.0" in service.client.get("/metrics").text
        service.restart()
    left = service.get("/models/ill/export")
    assert "this export lacks the 1 events after it" in left["damaged"]
    assert service.client.put("/models/saved", json=left).status_code == 201
    assert service.weights("saved") == weights
    assert service.client.delete("/models/ill").status_code == 204
    assert service.learn("ill", [1.0], 1)["rounds"] == 1
    assert "novikoff_models_damaged 0.0" in service.client.get("/metrics").text
    assert service.stop() == 0


def test_doctor_names_a_model_with_an_event_that_cannot_be_applied(start: Callable[..., Service]) -> None:
    service = start()
    service.learn("ill", [1.0, 2.0], 1)
    service.learn("well", [1.0, 2.0], 1)
    assert service.stop() == 0
    append_damaged_round(service.data, "ill")
    told = novikoff("doctor", "--data", str(service.data))
    assert told.status == 1
    assert "ill: its events cannot be replayed" in told.out and "well:" not in told.out, told
