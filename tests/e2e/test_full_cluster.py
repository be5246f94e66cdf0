"""A cluster whose store is full: said at once and by its name, until there is room again."""

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path

import nats
import pytest

from tests.support.nats_servers import NatsServer
from tests.support.service_process import Service, problem_of
from tests.support.waiting import PATIENCE_SECONDS, eventually

pytestmark = pytest.mark.thorough

ACCOUNT = """
accounts { SMALL: { jetstream: { max_file: 4M, max_mem: 1M }, users: [ { user: u, password: p } ] } }
no_auth_user: u
"""
WHO_SAYS_NO = {"server": {"max_file": "4M"}, "account": {"more": ACCOUNT}}
SIZE = 2_000
"""Features of an example: 16 kB."""


@pytest.fixture(params=WHO_SAYS_NO)
def small_server(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[NatsServer]:
    server = NatsServer(tmp_path / "nats", **WHO_SAYS_NO[request.param]).start()
    server.wait_until_healthy()
    yield server
    server.kill()


@pytest.fixture
def service(small_server: NatsServer, tmp_path: Path) -> Iterator[Service]:
    # Whoever repeats what a full store refuses would be found out by the client's own patience.
    service = Service(tmp_path, **small_server.settings("full"), nats_seconds=120).start()
    yield service
    service.close()


def stored_bytes(server: NatsServer, stream: str) -> int:
    (account,) = server.ask("jsz?streams=1&accounts=1")["account_details"]
    return next(int(one["state"]["bytes"]) for one in account["stream_detail"] if one["name"] == stream)


def test_a_full_store_is_named_at_once_and_a_delete_makes_room(
    service: Service, small_server: NatsServer
) -> None:
    for number in range(100):
        service.learn("large", [1.0] * SIZE, 1 if number % 2 else -1)
    eventually(lambda: stored_bytes(small_server, "full-state") > 60_000, otherwise="nothing is set aside")
    rounds = 0
    example = {"model": "m", "features": [1.0] * SIZE, "label": 1}
    while (answer := service.client.post("/learn", json={**example, "id": f"r{rounds}"})).status_code == 200:
        rounds += 1
        assert rounds < 1_000, "the store does not fill"
    assert problem_of(answer) == (503, "journal-full") and int(answer.headers["retry-after"]) >= 1
    assert "is full" in answer.json()["detail"]
    for _ in range(20):  # some small ones may fit, and are no sign that there is room
        service.client.post("/learn", json={"model": "small", "features": [1.0], "label": 1})
        assert service.refused("/learn", {**example, "id": f"r{rounds}"}) == (503, "journal-full")
    assert not any("can be written again" in line for line in service.log)
    served = service.predict("m", [1.0] * SIZE)["prediction_id"]

    assert service.client.delete("/models/large").status_code == 204
    assert service.client.get("/models/large").status_code == 404
    eventually(lambda: service.client.post("/learn", json={**example, "id": f"r{rounds}"}).status_code == 200)
    assert service.reveal(served, -1)["rounds"] == rounds + 2
    service.assert_replay_equals_live("m")

    def is_told() -> bool:
        service.learn("m", [1.0] * SIZE, -1)
        return any("can be written again" in line for line in service.log)

    eventually(is_told, every=0.5)


def test_a_replica_starts_and_deletes_while_the_store_is_full(
    service: Service, small_server: NatsServer
) -> None:
    service.learn("large", [1.0] * SIZE, 1)
    eventually(lambda: stored_bytes(small_server, "full-state") > 60_000, otherwise="nothing is set aside")
    example = {"model": "large", "features": [1.0] * SIZE, "label": 1}
    while service.client.post("/learn", json=example).status_code == 200:
        pass
    revealed = service.stats("large")["rounds"]["revealed"]
    service.kill()
    service.start()
    eventually(lambda: service.client.get("/readyz").status_code == 200)
    assert service.stats("large")["rounds"]["revealed"] == revealed
    assert service.refused("/learn", example) == (503, "journal-full")
    assert service.client.delete("/models/large").status_code == 204
    eventually(lambda: service.client.post("/learn", json=example).status_code == 200)


async def limit_log(server: NatsServer, max_bytes: int) -> None:
    client = await nats.connect(server.url)
    told = json.loads((await client.request("$JS.API.STREAM.INFO.full-log", timeout=PATIENCE_SECONDS)).data)
    wanted = {**told["config"], "max_bytes": max_bytes, "discard": "new"}
    content = json.dumps(wanted).encode()
    answer = await client.request("$JS.API.STREAM.UPDATE.full-log", content, timeout=PATIENCE_SECONDS)
    assert b'"error"' not in answer.data, answer.data
    await client.close()


@pytest.mark.parametrize("small_server", ["server"], indirect=True)
def test_a_limit_of_the_log_itself_is_named_too(service: Service, small_server: NatsServer) -> None:
    example = {"model": "m", "features": [1.0] * SIZE, "label": 1}
    service.post("/learn", example)
    asyncio.run(limit_log(small_server, 200_000))
    while (answer := service.client.post("/learn", json=example)).status_code == 200:
        pass
    assert problem_of(answer) == (503, "journal-full")
    assert service.client.delete("/models/m").status_code == 204, "there is room for so little"
    eventually(lambda: service.client.post("/learn", json=example).status_code == 200)
