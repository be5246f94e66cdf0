"""A damaged copy of the log on one of three NATS servers: the others have what it lost."""

from collections.abc import Callable
from pathlib import Path

from tests.support.forkserver import run
from tests.support.nats_servers import NatsCluster, NatsServer
from tests.support.service_process import Service
from tests.support.waiting import eventually

ROUNDS = 40
PREFIX = "bits"


def turn_over_a_bit(directory: Path, near: bytes) -> int:
    """In every file of a server that has these bytes; how many those are."""
    changed = 0
    for file in directory.rglob("*.blk"):
        content = bytearray(file.read_bytes())
        if (at := content.find(near)) >= 0:
            content[at + len(near)] ^= 4
            file.write_bytes(content)
            changed += 1
    return changed


def test_a_bit_that_turns_over_on_the_leading_server_loses_nothing(
    tmp_path: Path, start: Callable[..., Service]
) -> None:
    cluster = NatsCluster(tmp_path / "nats").start()
    try:
        service = start(snapshot_every_events=10_000, **cluster.settings(PREFIX))
        for i in range(ROUNDS):
            service.learn("m", [float(i), 1.0], 1 if i % 2 else -1, id=f"round-{i}-")
        served = service.stats("m")["rounds"], service.weights("m")
        service.kill()
        eventually(lambda: cluster.leader_of(f"{PREFIX}-log") is not None)
        leader = cluster.leader_of(f"{PREFIX}-log")
        assert leader is not None
        leader.kill()
        assert turn_over_a_bit(leader.directory, f"round-{ROUNDS // 2}-".encode()) > 0
        leader.start()
        leader.wait_until_healthy()
        service.start()
        assert (service.stats("m")["rounds"], service.weights("m")) == served
        service.assert_replay_equals_live("m")
        service.kill()
    finally:
        cluster.close()


def test_a_log_that_has_lost_its_end_is_refused_by_name(
    tmp_path: Path, start: Callable[..., Service]
) -> None:
    server = NatsServer(tmp_path / "nats").start()
    try:
        server.wait_until_healthy()
        service = start(**server.settings(PREFIX))
        for i in range(ROUNDS):
            service.learn("m", [float(i), 1.0], 1 if i % 2 else -1, id=f"m-{i}-")
        service.stop()  # with this its summary is stored
        server.kill()
        assert (
            turn_over_a_bit(server.directory / "store/jetstream/$G/streams" / f"{PREFIX}-log", b"m-17-") == 1
        )
        server.start()
        server.wait_until_healthy()
        ended = run("serve", "--port", "0", **server.settings(PREFIX))
        assert ended.returncode == 2 and f"the stream {PREFIX}-log ends before message" in ended.stderr
    finally:
        server.kill()


def test_a_model_whose_only_copy_lacks_an_event_is_set_aside_by_name_and_others_go_on(
    tmp_path: Path, start: Callable[..., Service]
) -> None:
    server = NatsServer(tmp_path / "nats").start()
    try:
        server.wait_until_healthy()
        service = start(**server.settings(PREFIX), snapshot_every_events=10_000)
        for i in range(ROUNDS):
            for model in ("m", "n"):
                service.learn(model, [float(i), 1.0], 1 if i % 2 else -1, id=f"{model}-{i}-")
        kept = service.stats("n")["rounds"], service.weights("n")
        service.kill()  # before it has saved a snapshot
        server.process.terminate()
        server.process.wait()
        assert (
            turn_over_a_bit(server.directory / "store/jetstream/$G/streams" / f"{PREFIX}-log", b"m-17-") == 1
        )
        server.start()
        server.wait_until_healthy()
        ended = run("doctor", "--journal", server.url, **server.settings(PREFIX))
        assert ended.returncode == 1 and "m: the model 'm' is damaged" in ended.stdout, ended.stdout
        assert f"{PREFIX}-log: a server cannot read 1 of its" in ended.stdout.replace("\n", " ")
        service.start()
        refusal = service.client.post("/predict", json={"model": "m", "features": [1.0, 1.0]})
        assert refusal.status_code == 503 and "missing" in refusal.json()["detail"], refusal.text
        assert (
            service.refused("/learn", {"model": "m", "features": [17.0, 1.0], "label": 1, "id": "m-17-"})[0]
            == 503
        )
        assert (service.stats("n")["rounds"], service.weights("n")) == kept
        assert service.get("/readyz") == {"status": "ready", "models_damaged": 1}
        metrics = service.client.get("/metrics").text
        assert "novikoff_models_damaged 1.0" in metrics
        assert "novikoff_journal_damage_found_total 0.0" not in metrics
        service.wait_for_log("the journal is damaged: the model 'm' is damaged")
        assert service.learn("n", [1.0, 1.0], 1)["rounds"] == ROUNDS + 1
        service.client.delete("/models/m").raise_for_status()
        assert service.learn("m", [1.0, 1.0], 1)["rounds"] == 1
        assert service.get("/readyz") == {"status": "ready"}
    finally:
        server.kill()
