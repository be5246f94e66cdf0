"""Lists of all models on a cluster: what another replica deletes is told, and what is damaged harms no other."""

import asyncio
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nats
import pytest

from tests.support.nats_servers import NatsServer
from tests.support.service_process import Service, problem_of
from tests.support.waiting import PATIENCE_SECONDS, eventually

Replicas = list[Service]


@pytest.fixture
def prefix() -> str:
    return f"t{os.urandom(6).hex()}"


@pytest.fixture
def replicas(nats_server: NatsServer, prefix: str, tmp_path: Path) -> Iterator[Replicas]:
    settings = {"snapshot_every_events": 5, "nats_seconds": 8, **nats_server.settings(prefix)}
    started = [Service(tmp_path, **settings).start() for _ in range(2)]
    yield started
    for service in started:
        service.close()


def frames(lines: Iterator[str]) -> Iterator[dict[str, Any]]:
    return (json.loads(line.removeprefix("data: ")) for line in lines if line.startswith("data: "))


def test_the_feed_tells_what_another_replica_deleted_though_it_was_not_in_memory_here(
    replicas: Replicas,
) -> None:
    a, b = replicas
    a.learn("gone", [1.0], 1)
    a.learn("stays", [1.0], 1)
    eventually(lambda: len(b.get("/models")["models"]) == 2)
    with b.client.stream("GET", "/feed") as stream:
        told = frames(stream.iter_lines())
        next(told)
        assert a.client.delete("/models/gone").status_code == 204
        assert "gone" in next(frame for frame in told if frame["deleted"])["deleted"]


def test_a_model_whose_snapshots_are_lost_is_made_of_its_events(
    replicas: Replicas, nats_server: NatsServer, prefix: str
) -> None:
    a, b = replicas
    for i in range(12):
        a.learn("m", [float(i)], 1)
    weights = a.weights("m")
    a.stop()
    asyncio.run(lose(nats_server, f"{prefix}-state", f"{prefix}.snap.>"))
    assert b.weights("m") == weights


def test_a_model_whose_snapshots_and_events_are_lost_harms_no_list(
    replicas: Replicas, nats_server: NatsServer, prefix: str
) -> None:
    a, b = replicas
    for i in range(12):
        a.learn("m", [float(i)], 1)
    a.stop()
    asyncio.run(lose(nats_server, f"{prefix}-state", f"{prefix}.snap.>"))
    asyncio.run(lose(nats_server, f"{prefix}-log", f"{prefix}.log.>"))
    b.learn("other", [1.0], 1)
    for sort in ("name", "rounds"):
        page = b.get(f"/stats?sort={sort}")
        assert [line["model"] for line in page["models"]] == ["other"]
        assert [line["model"] for line in page["unreadable"]] == ["m"]
        assert page["totals"]["models"] == 2
    assert [line["model"] for line in b.get("/models")["models"]] == ["other"]
    assert [line["model"] for line in b.get("/models")["unreadable"]] == ["m"]
    assert problem_of(b.client.get("/stats/m")) == (503, "model-damaged")
    with b.client.stream("GET", "/feed") as stream:
        assert [line["model"] for line in next(frames(stream.iter_lines()))["models"]] == ["other"]


async def lose(server: NatsServer, stream: str, subjects: str) -> None:
    client = await nats.connect(server.url)
    try:
        await client.jetstream(timeout=PATIENCE_SECONDS).purge_stream(stream, subject=subjects)
    finally:
        await client.close()
