"""A replica that loses touch with its cluster, and finds it again without a restart."""

import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from service.engine.names import make_prediction_id
from service.engine.rounds.rounds import UNDER_WAY_US
from tests.support.nats_servers import NatsServer
from tests.support.replicas import Replica, answered
from tests.support.service_process import Service, problem_of
from tests.support.tcp_proxy import TcpProxy
from tests.support.waiting import eventually

recovers = eventually
NATS_SECONDS = 20
"""So long that a replica is not cut off, and one that is predicts for a while, if all stand still for some seconds."""


def figure(service: Service, name: str) -> float:
    lines = service.client.get("/metrics").text.splitlines()
    return float(next(line for line in lines if line.startswith(f"{name} ")).split()[-1])


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
        service = Replica(
            tmp_path, **{**nats_server.settings(prefix), "nats_seconds": NATS_SECONDS, **settings}
        )
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
    served = [far.predict("m", [1.0, float(i)])["prediction_id"] for i in range(10)]
    whole = {"model": "m", "features": [1.0, 1.0], "label": 1, "id": "during-the-cut"}
    for path, body in (("/feedback", {"prediction_id": waiting, "label": -1}), ("/learn", whole)):
        answer = far.client.post(path, json=body)
        # The first was under way when the cut was noticed; the second need not have been sent any more.
        expected = ["outcome-unknown"] if path == "/feedback" else ["outcome-unknown", "journal-unavailable"]
        assert problem_of(answer) in [(503, code) for code in expected]
        assert int(answer.headers["retry-after"]) >= 1
    for one in served:  # they are in the memory of a replica that nobody can reach
        answer = near.client.post("/feedback", json={"prediction_id": one, "label": 1})
        assert problem_of(answer) == (503, "prediction-under-way")
        assert int(answer.headers["retry-after"]) >= 1
    for i in range(30):
        near.learn("m", [2.0, float(i)], 1)
    recovers(lambda: near.client.get("/readyz").status_code == 200)

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
    recovers(lambda: far.client.get("/readyz").status_code == 200)


@pytest.mark.smoke
def test_a_replica_that_is_far_behind_is_not_ready_until_it_has_caught_up(
    start_replica: Callable[..., Service], proxy: TcpProxy
) -> None:
    near = start_replica()
    far = start_replica(journal=f"nats://127.0.0.1:{proxy.port}", lag_events_max=20)
    far.learn("m", [1.0] * 64, 1)
    recovers(lambda: far.client.get("/readyz").status_code == 200)
    proxy.cut()
    rounds = [{"model": "m", "features": [1.5] * 64, "label": 1} for _ in range(600)]
    near.post("/learn", {"items": rounds})
    proxy.break_off()
    proxy.bytes_a_second = 15_000.0  # half a minute for all of it
    proxy.heal()

    def is_behind() -> bool:
        answer = far.client.get("/readyz")
        is_unready = answer.status_code == 503 and problem_of(answer) == (503, "not-ready")
        return is_unready and figure(far, "novikoff_journal_lag_events") > 0

    recovers(is_behind)
    proxy.bytes_a_second = None
    recovers(lambda: far.client.get("/readyz").status_code == 200)
    recovers(lambda: far.stats("m")["version"] == 601)
    far.assert_replay_equals_live("m")


def test_a_cluster_that_hangs_is_told_of_and_what_was_in_doubt_counts_once(
    tmp_path: Path, start_replica: Callable[..., Service]
) -> None:
    server = NatsServer(tmp_path / "nats").start()
    server.wait_until_healthy()
    # So long that it is the request that finds out, also if the replica hears from its cluster late.
    replica = start_replica(journal=server.url, nats_monitor=server.monitor, nats_seconds=15)
    replica.learn("m", [1.0, 2.0], 1)
    waiting = replica.predict("m", [1.0, 2.0])["prediction_id"]
    server.pause()  # as a disk does that takes nothing
    try:
        answer = replica.client.post("/feedback", json={"prediction_id": waiting, "label": -1})
        assert problem_of(answer) == (503, "outcome-unknown")
        assert replica.client.get("/stats/m").status_code == 200
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


def test_a_replica_that_is_cut_off_says_so_and_makes_no_predictions_that_nobody_finds(
    start_replica: Callable[..., Service], proxy: TcpProxy
) -> None:
    far = start_replica(journal=f"nats://127.0.0.1:{proxy.port}", nats_seconds=10)
    far.learn("m", [1.0, 2.0], 1)
    recovers(lambda: far.client.get("/readyz").status_code == 200)
    recovers(lambda: figure(far, "novikoff_journal_connected") == 1)
    proxy.cut()

    def says_so() -> bool:
        """A machine that has let it stand still gives it another reason."""
        told = far.client.get("/readyz").text
        return "no message from the journal's cluster" in told or "this replica was paused" in told

    recovers(says_so)
    assert problem_of(far.client.get("/readyz")) == (503, "not-ready")
    recovers(lambda: figure(far, "novikoff_journal_connected") == 0)
    answer = far.client.post("/predict", json={"model": "m", "features": [1.0, 2.0]})
    assert problem_of(answer) == (503, "journal-unavailable")
    assert int(answer.headers["retry-after"]) >= 1
    assert far.stats("m")["rounds"]["pending"] == 0
    proxy.heal()
    recovers(lambda: far.client.get("/readyz").status_code == 200)
    recovers(lambda: figure(far, "novikoff_journal_connected") == 1)
    far.reveal(far.predict("m", [1.0, 2.0])["prediction_id"], -1)


def test_a_replica_that_was_stopped_is_not_ready_before_it_knows_what_it_has_missed(
    start_replica: Callable[..., Service],
) -> None:
    """Three of them: what each looks at first when it goes on is a matter of chance."""
    near = start_replica(nats_seconds=60)  # a thousand events at once may take a busy disk some seconds
    settings = {"nats_seconds": 60, "lag_events_max": 20, "loop_pause_seconds_max": 60}
    stopped = [start_replica(**settings) for _ in range(3)]
    version = near.learn("m", [1.0] * 64, 1)["version"]
    for far in stopped:
        recovers(lambda far=far: far.client.get("/models/m").status_code == 200)  # type: ignore[misc]
        recovers(lambda far=far: far.client.get("/readyz").status_code == 200)  # type: ignore[misc]
        far.process.send_signal(signal.SIGSTOP)
    stopped_at = time.monotonic()
    rounds = [{"model": "m", "features": [1.5] * 64, "label": 1} for _ in range(1_000)]
    for _ in range(2):
        assert all("rounds" in item for item in near.post("/learn", {"items": rounds})["items"])
    eventually(lambda: time.monotonic() > stopped_at + 2.5)
    for far in stopped:
        far.process.send_signal(signal.SIGCONT)
        answer = far.client.get("/readyz")
        behind = version + 2_000 - far.stats("m")["version"]
        assert answer.status_code == 503 or behind <= 20, f"ready, and {behind} events behind"
    for far in stopped:
        recovers(lambda far=far: far.client.get("/readyz").status_code == 200)  # type: ignore[misc]
        recovers(lambda far=far: far.stats("m")["version"] == near.stats("m")["version"])  # type: ignore[misc]
        far.assert_replay_equals_live("m")


def test_an_id_that_nobody_can_have_under_way_is_unknown_at_once(
    start_replica: Callable[..., Service],
) -> None:
    near, far = start_replica(), start_replica()
    far.learn("gone", [1.0, 2.0], 1)
    waiting = far.predict("gone", [1.0, 2.0])["prediction_id"]
    recovers(lambda: far.client.get("/models/gone").status_code == 200)
    assert near.client.delete("/models/gone").status_code == 204
    recovers(lambda: far.client.get("/models/gone").status_code == 404)
    old = make_prediction_id(time.time_ns() // 1000 - UNDER_WAY_US - 1_000_000)
    for replica in (near, far):
        for prediction_id in (waiting, old, "an-id-of-ones-own"):
            body = {"prediction_id": prediction_id, "label": 1}
            answer = answered(lambda replica=replica, body=body: replica.client.post("/feedback", json=body))  # type: ignore[misc]
            assert problem_of(answer) == (404, "unknown-prediction"), prediction_id
