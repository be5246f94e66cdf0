"""Forgetting on servers that share the streams: nothing can be read through them, and the files of the streams have
nothing. The logs by which the servers replicate may keep the bytes. And streams that an older version has made, which
cannot forget: what docs/scaling.md tells to do there."""

import asyncio
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import nats
import pytest

from service.journal.jetstream.format import wanted_streams
from service.journal.jetstream.link.api import Api
from service.journal.jetstream.link.connecting import Access, Link
from service.journal.jetstream.subjects import Subjects
from tests.support.file_search import files_with
from tests.support.nats_servers import NatsCluster, NatsServer
from tests.support.replicas import Replica
from tests.support.service_process import Service, problem_of
from tests.support.waiting import PATIENCE_SECONDS, eventually
from tests.web.routes.test_corrections import label_of, rebuilt, substance

Replicas = Callable[..., Service]


@pytest.fixture
def person() -> str:
    """Somebody who is nowhere else."""
    return os.urandom(8).hex()


@pytest.fixture
def replica(nats_cluster: NatsCluster, tmp_path: Path) -> Iterator[Replicas]:
    """Starts replicas that share the three servers."""
    settings = nats_cluster.settings(f"t{os.urandom(6).hex()}")
    services: list[Service] = []

    def start(name: str) -> Service:
        services.append(Replica(tmp_path / name, snapshot_every_events=5, **settings))
        return services[-1].start()

    yield start
    for service in services:
        service.close()


def lived(services: list[Service], person: str) -> list[str]:
    """Rounds of two models, one without those of the person; the ids of these rounds."""
    for model in ("m", "twin"):
        services[0].create(model, features="named", learner={"algorithm": "arow"})
    ids: list[str] = []
    for number in range(20):
        service = services[number % len(services)]
        features = {"a": float(number % 5) - 2.0, "b": float(number % 3) - 1.0}
        if number % 6 == 4:
            ids.append(f"order-{person}-{number}")
            sent = features | {f"ailment-{person}": 1.0}
            service.predict("m", sent, id=ids[-1], tag=f"tag-{person}")
            services[-1].reveal(ids[-1], label_of(number))
        else:
            for model in ("m", "twin"):
                services[0].learn(model, features, label_of(number))
    services[-1].predict("m", {f"ailment-{person}": 1.0}, id=f"waits-{person}", tag=f"tag-{person}")
    return ids


def in_streams(cluster: NatsCluster, person: str) -> list[str]:
    """The files of streams that have something of a person, of all servers."""
    account = "store/jetstream/$G"
    return [
        one for server in cluster.servers for one in files_with(server.directory / account, person.encode())
    ]


def readable(server: NatsServer, prefix: object, person: str) -> list[tuple[str, int]]:
    """The messages with something of a person that the servers give out."""

    async def read() -> list[tuple[str, int]]:
        link = Link(Access((server.url,)))
        await link.open()
        try:
            api, found = Api(link), list[tuple[str, int]]()
            for stream in Subjects(str(prefix)).streams:
                async for message in api.scan(stream, ">", after=0):
                    if person.encode() in message.data or person in message.subject:
                        found.append((stream, message.seq))
            return found
        finally:
            await link.close()

    return asyncio.run(read())


def test_no_stream_has_anything_and_every_replica_is_as_if_it_had_never_been(
    replica: Replicas, nats_cluster: NatsCluster, person: str
) -> None:
    one, other = replica("one"), replica("other")
    ids = lived([one, other], person)
    server, prefix = nats_cluster.servers[0], one.settings["nats_prefix"]
    assert in_streams(nats_cluster, person) and readable(server, prefix, person)
    told = one.post("/models/m/forget", {"tag": f"tag-{person}"})
    assert (told["rounds"], told["predictions"]) == (len(ids), 1)
    rebuilt(one, "m")
    assert readable(server, prefix, person) == []
    eventually(lambda: in_streams(nats_cluster, person) == [])
    eventually(lambda: other.stats("m")["version"] == one.stats("m")["version"])
    for service in (one, other):
        assert substance(service, "m") == substance(one, "twin")
        for prediction_id in (ids[0], f"waits-{person}"):
            body = {"prediction_id": prediction_id, "label": 1}
            assert problem_of(service.client.post("/feedback", json=body)) == (404, "unknown-prediction")
    other.learn("m", {"a": 1.0}, 1, id="later")
    one.learn("twin", {"a": 1.0}, 1)
    other.stop()
    one.restart()
    assert substance(one, "m") == substance(one, "twin")
    one.assert_replay_equals_live("m")
    assert in_streams(nats_cluster, person) == []


def test_a_replica_that_dies_amid_it_and_a_server_that_is_away_only_put_it_off(
    replica: Replicas, nats_cluster: NatsCluster, person: str
) -> None:
    one, other = replica("one"), replica("other")
    lived([one, other], person)
    away = nats_cluster.servers[2]
    away.kill()
    forget = {"tag": f"tag-{person}"}
    eventually(lambda: one.client.get("/readyz").status_code == 200)
    assert problem_of(one.client.post("/models/m/forget", json=forget)) == (503, "journal-unavailable")
    away.start()
    away.wait_until_healthy()
    eventually(lambda: one.client.post("/models/m/forget", json=forget).status_code == 202)
    one.process.send_signal(signal.SIGKILL)  # at whichever step it is
    one.kill()
    other.stats("m")
    # Who asks again need not wait until the other replica finds out by itself.
    eventually(lambda: other.client.post("/models/m/forget", json=forget).status_code == 202)
    rebuilt(other, "m")
    eventually(lambda: in_streams(nats_cluster, person) == [])
    assert substance(other, "m") == substance(other, "twin")
    other.assert_replay_equals_live("m")


async def make_log_of_before(server: NatsServer, prefix: str) -> None:
    """The log as older versions have made it: nothing of it can be deleted by its number."""
    link = Link(Access((server.url,)))
    await link.open()
    try:
        log, *_ = wanted_streams(Subjects(prefix), replicas=1, ids_kept_seconds=3600.0)
        await Api(link).request(f"STREAM.CREATE.{log['name']}", log | {"deny_delete": True})
    finally:
        await link.close()


async def delete_streams(server: NatsServer, prefix: object) -> None:
    client = await nats.connect(server.url)
    try:
        for kind in ("log", "ids", "state"):
            assert await client.jetstream(timeout=PATIENCE_SECONDS).delete_stream(f"{prefix}-{kind}")
    finally:
        await client.close()


@pytest.mark.parametrize("journal", ["jetstream"], indirect=True)
def test_on_streams_of_before_rounds_are_voided_the_model_moves_and_with_them_all_bytes_go(
    tmp_path: Path, service: Service, name: str, nats_server: NatsServer, person: str
) -> None:
    prefix = f"t{os.urandom(6).hex()}"
    asyncio.run(make_log_of_before(nats_server, prefix))
    before = Replica(tmp_path / "before", snapshot_every_events=5, **nats_server.settings(prefix)).start()
    try:
        lived([before], person)
        refused = before.client.post("/models/m/forget", json={"tag": f"tag-{person}"})
        assert problem_of(refused) == (501, "forget-unsupported")
        trail = before.get("/models/m/events?limit=1000")["events"]
        tagged = [line["prediction_id"] for line in trail if line.get("tag") == f"tag-{person}"]
        assert len(tagged) == 3
        for prediction_id in [*tagged, f"waits-{person}"]:
            assert before.client.delete(f"/predictions/{prediction_id}").is_success
        rebuilt(before, "m")
        assert substance(before, "m") == substance(before, "twin")
        export = before.client.get("/models/m/export").content
        assert person.encode() not in export

        headers = {"content-type": "application/json"}
        assert service.client.put(f"/models/{name}", content=export, headers=headers).status_code == 201
        before.stop()
        assert files_with(nats_server.directory, person.encode())
        asyncio.run(delete_streams(nats_server, prefix))
        eventually(lambda: not files_with(nats_server.directory, person.encode()))
        service.learn(name, {"a": 1.0}, 1)
    finally:
        before.close()
