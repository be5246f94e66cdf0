"""`novikoff migrate`: the fleet in the cluster is the fleet that was in the file."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.commands.running import failed, worked
from tests.support.file_search import files_with
from tests.support.nats_servers import NatsServer
from tests.support.service_process import Service
from tests.support.waiting import eventually
from tests.web.routes.test_corrections import rebuilt, substance


@pytest.fixture
def cluster(nats_server: NatsServer, monkeypatch: pytest.MonkeyPatch) -> dict[str, object]:
    """The settings of replicas on a cluster that is empty, in the environment too."""
    settings = nats_server.settings(f"t{os.urandom(6).hex()}")
    for name, value in settings.items():
        if name != "journal":
            monkeypatch.setenv(f"NOVIKOFF_{name.upper()}", str(value))
    return settings


@pytest.fixture
def replica(cluster: dict[str, object], tmp_path: Path) -> Iterator[Service]:
    service = Service(tmp_path, **cluster)
    yield service
    service.close()


def fill(service: Service) -> tuple[list[str], list[dict[str, object]]]:
    """Models of several kinds, trimmed and whole; what waits, and answers that were given."""
    waiting, answers = [], []
    service.create("words", labels=None, features={"kind": "named"}, learner={"algorithm": "arow"})
    lines = "\n".join('{"features": [1.0, 2.0], "label": 1}' for _ in range(100))
    service.client.post(
        "/stream?model=young", content=lines, headers={"content-type": "application/x-ndjson"}
    )
    for i in range(60):
        answers.append(service.learn("trimmed", [1.0, float(i % 5)], 1 if i % 2 else -1, id=f"whole-{i}"))
        if i < 15:
            service.learn("words", {"text": f"word{i % 7}", "n": i}, f"label{i % 3}")
        served = service.predict("young", [float(i), 1.0])["prediction_id"]
        if i % 3:
            answers.append(service.reveal(served, 1 if i % 2 else -1))
        else:
            waiting.append(served)
    copy = service.client.put("/models/copy", content=service.client.get("/models/words/export").content,
                              headers={"content-type": "application/json"})  # fmt: skip
    assert copy.status_code == 201, copy.text
    service.learn("gone", [1.0], 1)
    assert service.client.delete("/models/gone").status_code == 204
    return waiting, answers


@pytest.mark.smoke
def test_a_fleet_moves_to_the_bit_with_what_waits_and_what_was_answered(
    start: Callable[..., Service], replica: Service, cluster: dict[str, object]
) -> None:
    before = start(snapshot_every_events=7, events_kept_max=20)
    waiting, answers = fill(before)
    names = ["copy", "trimmed", "words", "young"]
    exports = {name: before.client.get(f"/models/{name}/export").content for name in names}
    stats = {name: before.stats(name) for name in names}
    before.stop()
    said = worked("migrate", "--from", f"sqlite:{before.data}", "--to", cluster["journal"])
    assert said.startswith("4 models and ") and "verified bit for bit" in said

    after = replica.start()
    assert [line["model"] for line in after.get("/models")["models"]] == names
    for name in names:
        assert after.client.get(f"/models/{name}/export").content == exports[name]
        moved = after.stats(name)
        for clock in ("minute", "hour", "day"):  # time goes on
            moved["windows"][clock] = stats[name]["windows"][clock]
        assert moved == stats[name]
    for answer in answers[-30:]:
        body = {"prediction_id": answer["prediction_id"], "label": answer["label"]}
        again = after.client.post("/feedback", json=body)
        only_learn_tells = {"score": None, "probability": None}
        assert again.json() | only_learn_tells == answer | only_learn_tells
        assert again.headers["idempotent-replay"] == "true"
    revealed = stats["young"]["rounds"]["revealed"]
    for i, prediction_id in enumerate(waiting):
        assert after.reveal(prediction_id, 1)["rounds"] == revealed + i + 1
    after.assert_replay_equals_live("words")
    said = failed("migrate", "--from", f"sqlite:{before.data}", "--to", cluster["journal"])
    assert "cluster already has models" in said


def test_what_cannot_be_moved_is_told(tmp_path: Path, start: Callable[..., Service]) -> None:
    assert "must be sqlite:" in failed("migrate", "--from", "data", "--to", "nats://127.0.0.1:1")
    assert "must be nats://" in failed("migrate", "--from", f"sqlite:{tmp_path}", "--to", "data")
    assert "no journal in" in failed("migrate", "--from", f"sqlite:{tmp_path}", "--to", "nats://127.0.0.1:1")
    running = start()
    said = failed("migrate", "--from", f"sqlite:{running.data}", "--to", "nats://127.0.0.1:1")
    assert f"in use by process {running.process.pid}" in said


def test_what_was_forgotten_does_not_come_along_and_what_is_yet_to_be_forgotten_waits(
    start: Callable[..., Service], replica: Service, cluster: dict[str, object], nats_server: NatsServer
) -> None:
    before = start(fit_seconds_max=1e-6)  # so that no rebuild succeeds
    tag = f"of-{os.urandom(8).hex()}"
    for number in range(20):
        features = [float(number % 5), 1.0]
        if number % 6 == 4:
            before.learn("m", features, 1, tag=tag)
        else:
            for model in ("m", "twin"):
                before.learn(model, features, 1 if number % 2 else -1, id=f"{model}-{number}")
    before.post("/models/m/forget", {"tag": tag})
    before.stop()
    move = ("migrate", "--from", f"sqlite:{before.data}", "--to", cluster["journal"])
    assert "rounds of 'm' are still being forgotten" in failed(*move)
    del before.settings["fit_seconds_max"]
    before.start()
    rebuilt(before, "m")
    before.stop()
    assert "verified bit for bit" in worked(*move)

    after = replica.start()
    assert substance(after, "m") == substance(after, "twin")
    eventually(lambda: not files_with(nats_server.directory, tag.encode()))
    correction = after.client.put("/feedback/m-7", json={"label": -1})
    assert correction.status_code == 202, correction.text
    rebuilt(after, "m")
    after.client.put("/feedback/twin-7", json={"label": -1})
    rebuilt(after, "twin")
    assert substance(after, "m") == substance(after, "twin")
    after.assert_replay_equals_live("m")
