"""A damaged copy of the log on one of three NATS servers: the others have what it lost."""

from collections.abc import Callable
from pathlib import Path

from tests.support.nats_servers import NatsCluster
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
