"""Backups of a cluster, as docs/how-to.md describes them, bring back what was there."""

import shutil
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pytest import MonkeyPatch

from tests.commands.running import failed, worked
from tests.support.nats_servers import NatsCluster
from tests.support.service_process import Service

pytestmark = pytest.mark.thorough


@pytest.fixture
def clusters(tmp_path: Path) -> Iterator[list[NatsCluster]]:
    made: list[NatsCluster] = []
    yield made
    for cluster in made:
        cluster.close()


def start(cluster: NatsCluster, data: Path) -> Service:
    return Service(data, snapshot_every_events=20, **cluster.settings("novikoff")).start()


def name_settings(patched: MonkeyPatch, cluster: NatsCluster) -> None:
    """Let the commands have the settings of the replicas."""
    for name, value in cluster.settings("novikoff").items():
        if name != "journal":
            patched.setenv(f"NOVIKOFF_{name.upper()}", str(value))


def fill(service: Service) -> dict[str, Any]:
    """Some of everything; what there is afterwards."""
    for i in range(70):
        service.learn(f"m{i % 3}", [1.0, float(i % 7)], 1 if i % 2 else -1, id=f"round-{i}")
    service.predict("m0", [1.0, 2.0], id="waits")
    service.learn("deleted", [1.0], 1)
    assert service.client.delete("/models/deleted").status_code == 204
    return {f"m{i}": service.get(f"/models/m{i}/weights") for i in range(3)}


def assert_restored(service: Service, weights: dict[str, Any]) -> None:
    for model, before in weights.items():
        assert service.get(f"/models/{model}/weights") == before
        service.assert_replay_equals_live(model)
    assert [line["model"] for line in service.get("/models")["models"]] == sorted(weights)
    again = {"model": "m1", "features": [1.0, 0.0], "label": 1, "id": "round-49"}
    answer = service.client.post("/learn", json=again)
    assert answer.status_code == 200 and answer.headers["idempotent-replay"] == "true"
    rounds = service.stats("m0")["rounds"]["revealed"]
    assert service.reveal("waits", -1)["rounds"] == rounds + 1
    assert service.learn("deleted", [1.0, 2.0], 1)["rounds"] == 1


def test_directories_that_were_copied_while_the_servers_were_stopped(
    clusters: list[NatsCluster], tmp_path: Path
) -> None:
    cluster = NatsCluster(tmp_path / "nats").start()
    clusters.append(cluster)
    service = start(cluster, tmp_path)
    weights = fill(service)
    service.stop()
    for server in cluster.servers:
        server.process.terminate()
        server.process.wait()
        shutil.copytree(server.directory / "store", tmp_path / "backup" / server.name)
    cluster.start()
    service.start()
    service.learn("m0", [5.0, 5.0], 1)
    service.learn("later", [1.0], 1)
    service.stop()
    for server in cluster.servers:
        server.kill()
        shutil.rmtree(server.directory / "store")
        shutil.copytree(tmp_path / "backup" / server.name, server.directory / "store")
    cluster.start()
    service.start()
    try:
        assert_restored(service, weights)
    finally:
        service.close()


def test_streams_that_were_copied_while_the_service_was_used(
    clusters: list[NatsCluster], tmp_path: Path
) -> None:
    first = NatsCluster(tmp_path / "first").start()
    clusters.append(first)
    service = start(first, tmp_path)
    weights = fill(service)
    service.learn("busy", [1.0, 1.0], 1)
    stopping = threading.Event()

    def use() -> None:
        used = 0
        while not stopping.is_set():
            service.learn("busy", [1.0, float(used % 5)], 1 if used % 2 else -1)
            used += 1

    using = threading.Thread(target=use)
    using.start()
    try:
        with MonkeyPatch.context() as patched:
            name_settings(patched, first)
            said = worked(
                "backup", tmp_path / "backup.tar", "--journal", first.settings("novikoff")["journal"]
            )
            assert " events, " in said
    finally:
        stopping.set()
        using.join()
    service.close()
    first.close()
    second = NatsCluster(tmp_path / "second").start()
    clusters.append(second)
    with MonkeyPatch.context() as patched:
        name_settings(patched, second)
        journal = second.settings("novikoff")["journal"]
        restored_events = worked("restore", tmp_path / "backup.tar", "--journal", journal)
        assert said.split(": ")[1].split(",")[0] in restored_events
        assert "the stream novikoff-state already exists" in failed(
            "restore", tmp_path / "backup.tar", "--journal", journal
        )
        patched.setenv("NOVIKOFF_NATS_PREFIX", "other")
        assert "NOVIKOFF_NATS_PREFIX" in failed("restore", tmp_path / "backup.tar", "--journal", journal)
    restored = start(second, tmp_path)
    try:
        restored.assert_replay_equals_live("busy")
        assert restored.client.delete("/models/busy").status_code == 204
        assert_restored(restored, weights)
    finally:
        restored.close()
