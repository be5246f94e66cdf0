"""A replica that loses touch with its cluster, and finds it again without a restart."""

import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.nats_servers import NatsServer
from tests.running import Service, problem_of
from tests.tcp_proxy import TcpProxy
from tests.waiting import eventually

recovers = partial(eventually, seconds=40)


@pytest.fixture
def proxy(nats_server: NatsServer) -> Iterator[TcpProxy]:
    proxy = TcpProxy(nats_server.port).start()
    yield proxy
    proxy.close()


@pytest.fixture
def start_replica(nats_server: NatsServer, tmp_path: Path) -> Iterator[Callable[..., Service]]:
    services: list[Service] = []
    prefix = f"cut{time.time_ns()}"

    def start_one(**settings: Any) -> Service:
        service = Service(tmp_path, **{**nats_server.settings(prefix), "nats_seconds": 3, **settings})
        services.append(service)
        return service.start()

    yield start_one
    for service in services:
        service.close()


def test_a_replica_that_is_cut_off_predicts_refuses_to_learn_and_recovers(
    start_replica: Callable[..., Service], proxy: TcpProxy
) -> None:
    near = start_replica()
    far = start_replica(journal=f"nats://127.0.0.1:{proxy.port}")
    for i in range(20):
        far.learn("m", [1.0, float(i)], 1 if i % 2 else -1)
    waiting = far.predict("m", [1.0, 2.0])["prediction_id"]
    near.reveal(far.predict("m", [3.0, 2.0])["prediction_id"], 1)

    proxy.cut()
    whole = {"model": "m", "features": [1.0, 1.0], "label": 1, "id": "during-the-cut"}
    for path, body in (("/feedback", {"prediction_id": waiting, "label": -1}), ("/learn", whole)):
        answer = far.client.post(path, json=body)
        assert problem_of(answer) == (503, "journal-unavailable")
        assert int(answer.headers["retry-after"]) >= 1
    served = [far.predict("m", [1.0, float(i)])["prediction_id"] for i in range(10)]
    for i in range(30):
        near.learn("m", [2.0, float(i)], 1)
    assert near.client.get("/readyz").status_code == 200

    proxy.heal()
    recovers(lambda: far.client.post("/learn", json=whole).status_code == 200)
    recovers(
        lambda: far.client.post("/feedback", json={"prediction_id": waiting, "label": -1}).status_code == 200
    )
    recovers(
        lambda: all(
            near.client.post("/feedback", json={"prediction_id": one, "label": 1}).status_code == 200
            for one in served
        )
    )
    revealed = 20 + 1 + 30 + 2 + len(served)
    assert near.stats("m")["rounds"]["revealed"] == revealed, "each of them once"
    recovers(lambda: far.stats("m")["version"] == revealed)
    assert far.get("/models/m/weights") == near.get("/models/m/weights")
    for replica in (near, far):
        replica.assert_replay_equals_live("m")
    assert far.client.get("/readyz").status_code == 200


def test_a_replica_that_is_far_behind_is_not_ready_until_it_has_caught_up(
    start_replica: Callable[..., Service], proxy: TcpProxy
) -> None:
    near = start_replica()
    far = start_replica(journal=f"nats://127.0.0.1:{proxy.port}", lag_events_max=20)
    far.learn("m", [1.0] * 64, 1)
    assert far.client.get("/readyz").status_code == 200
    proxy.cut()
    rounds = [{"model": "m", "features": [1.5] * 64, "label": 1} for _ in range(600)]
    near.post("/learn", {"items": rounds})
    proxy.break_off()
    proxy.bytes_a_second = 60_000.0
    proxy.heal()
    recovers(lambda: far.client.get("/readyz").status_code == 503)
    assert problem_of(far.client.get("/readyz")) == (503, "not-ready")
    lag = next(
        line
        for line in far.client.get("/metrics").text.splitlines()
        if line.startswith("novikoff_journal_lag")
    )
    assert float(lag.split()[-1]) > 0
    proxy.bytes_a_second = None
    recovers(lambda: far.client.get("/readyz").status_code == 200)
    recovers(lambda: far.stats("m")["version"] == 601)
    far.assert_replay_equals_live("m")


def test_a_cluster_that_hangs_is_told_of_and_what_was_in_doubt_counts_once(
    tmp_path: Path, start_replica: Callable[..., Service]
) -> None:
    server = NatsServer(tmp_path / "nats").start()
    server.wait_until_healthy()
    replica = start_replica(journal=server.url, nats_monitor=server.monitor)
    replica.learn("m", [1.0, 2.0], 1)
    waiting = replica.predict("m", [1.0, 2.0])["prediction_id"]
    server.pause()  # as a disk does that takes nothing
    try:
        answer = replica.client.post("/feedback", json={"prediction_id": waiting, "label": -1})
        assert problem_of(answer) == (503, "journal-unavailable")
        assert replica.predict("m", [1.0, 2.0])["version"] == 1
    finally:
        server.resume()
    recovers(
        lambda: (
            replica.client.post("/feedback", json={"prediction_id": waiting, "label": -1}).status_code == 200
        )
    )
    assert replica.stats("m")["rounds"]["revealed"] == 2
    replica.assert_replay_equals_live("m")
    replica.close()
    server.kill()
