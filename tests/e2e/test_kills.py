"""kill -9 in the middle of snapshots, of trimming and of a migration; of the service, and of its writing process."""

import os
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import closing
from functools import partial
from pathlib import Path

import httpx
import pytest

from service.journal.seals import SEAL_BYTES
from service.journal.sqlite.schema import SCHEMA_VERSION
from tests.commands.running import novikoff
from tests.journal.sqlite.older_schema import make_schema_4
from tests.support.service_process import NO_TLS, Service
from tests.support.waiting import PATIENCE_SECONDS, eventually

KILLS = 6
CLIENTS = 4


class Client(threading.Thread):
    """Learns rounds under ids of its own until the service is gone; knows which were answered."""

    def __init__(self, url: str, prefix: str) -> None:
        super().__init__(daemon=True)
        self.answered: list[str] = []
        self.unsure: str | None = None
        self._url = url
        self._prefix = prefix

    def run(self) -> None:
        with httpx.Client(base_url=self._url, timeout=PATIENCE_SECONDS, verify=NO_TLS) as http:
            while True:
                self.unsure = f"{self._prefix}-{len(self.answered)}"
                try:
                    answer = http.post("/learn", json=round_of(self.unsure))
                except httpx.TransportError:
                    return
                assert answer.status_code == 200, answer.text
                self.answered.append(self.unsure)


def have_answered(clients: list[Client], enough: int) -> bool:
    return sum(len(client.answered) for client in clients) >= enough


def round_of(identity: str) -> dict[str, object]:
    chance = random.Random(identity)
    features = [chance.uniform(-1, 1) for _ in range(3)]
    return {"model": "m", "features": features, "label": 1 if sum(features) > 0 else -1, "id": identity}


@pytest.mark.parametrize("victim", ["service", "writer"])
def test_kills_amid_snapshots_and_trims_lose_nothing(start: Callable[..., Service], victim: str) -> None:
    chance = random.Random(victim)
    service = start(snapshot_every_events=3, events_kept_max=5)  # nearly every commit saves and trims
    acknowledged = 0
    for kill in range(KILLS):
        clients = [Client(service.url, f"{kill}-{number}") for number in range(CLIENTS)]
        for client in clients:
            client.start()
        eventually(partial(have_answered, clients, chance.randrange(10, 80)), PATIENCE_SECONDS, every=0.001)
        os.kill(service.process.pid if victim == "service" else service.writer_pid, signal.SIGKILL)
        service.process.wait(PATIENCE_SECONDS)
        for client in clients:
            client.join(PATIENCE_SECONDS)
        service.kill()
        checked = novikoff("doctor", "--data", service.data)
        assert checked.status == 0, checked.out
        service.start()
        acknowledged += sum(len(client.answered) for client in clients)
        for client in clients:  # what nobody answered was learned once or never; a retry makes it once
            assert client.unsure is not None
            service.post("/learn", round_of(client.unsure))
            acknowledged += 1
    assert service.stats("m")["rounds"]["revealed"] == acknowledged


def make_old(data: Path, copies: int) -> None:
    """What schema 1 would have left: no seals; and so many snapshots that a migration takes a while."""
    with closing(sqlite3.connect(data / "journal.sqlite")) as connection:
        make_schema_4(connection)
        for table, column in (("snapshot", "state"), ("outcome", "body")):
            connection.execute(
                f"UPDATE {table} SET {column} = substr({column}, 1, length({column}) - {SEAL_BYTES})"
            )
        connection.execute(
            "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?)"
            " INSERT INTO snapshot SELECT model, -i, state FROM snapshot, n",
            (copies,),
        )
        connection.execute("DROP INDEX pending_by_time")  # which schema 3 has added
        connection.execute("DROP TABLE journal")  # and schema 4 this
        connection.execute("PRAGMA user_version = 1")
        connection.commit()


def has_written(data: Path, megabytes: int) -> bool:
    """Whether SQLite has so much beside the file, which grows while a transaction is under way."""
    return (data / "journal.sqlite-wal").stat().st_size >= megabytes * 1_000_000


def version_of(data: Path) -> int:
    with closing(sqlite3.connect(data / "journal.sqlite")) as connection:
        version: int = connection.execute("PRAGMA user_version").fetchone()[0]
        return version


def test_a_migration_that_is_killed_begins_anew(start: Callable[..., Service]) -> None:
    service = start()
    answer = service.reveal(service.predict("m", [1.0, 2.0], id="first")["prediction_id"], -1)
    served = service.stats("m")["rounds"], service.get("/models/m/weights")
    service.stop()
    make_old(service.data, 20_000)
    old = service.data.with_name("old")
    shutil.copytree(service.data, old)
    command = [sys.executable, "-m", "service", "serve", "--data", str(service.data), "--port", "0"]

    def is_killed_amid(megabytes: int) -> bool:
        """Whether the kill came before the migration was done; otherwise all is as it was before."""
        with subprocess.Popen(command, stderr=subprocess.DEVNULL) as killed:
            try:
                writes = partial(has_written, service.data, megabytes)
                eventually(writes, PATIENCE_SECONDS, not_yet=FileNotFoundError, every=0)
            finally:
                killed.kill()
        if version_of(service.data) == 1:
            return True
        shutil.rmtree(service.data)
        shutil.copytree(old, service.data)
        return False

    for megabytes in (1, 4):
        eventually(partial(is_killed_amid, megabytes), otherwise="the kill comes after the migration")
    service.start()
    assert version_of(service.data) == SCHEMA_VERSION
    assert (service.stats("m")["rounds"], service.get("/models/m/weights")) == served
    assert service.reveal("first", -1) == answer, "the outcome was sealed too"
    service.assert_replay_equals_live("m")
