"""A backup that is taken while rounds flow is one moment of the journal."""

import sqlite3
import threading
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import httpx

from tests.commands.running import worked
from tests.support.service_process import NO_TLS, Service
from tests.support.waiting import PATIENCE_SECONDS, eventually


def test_a_copy_made_under_load_is_whole_and_can_be_served(
    tmp_path: Path, start: Callable[..., Service]
) -> None:
    service = start(snapshot_every_events=50)
    service.learn("m", [1.0, 1.0], 1)
    done = threading.Event()

    def learn() -> None:
        with httpx.Client(base_url=service.url, timeout=PATIENCE_SECONDS, verify=NO_TLS) as client:
            while not done.is_set():
                rounds = [
                    {"model": "m", "features": [float(i % 7), 1.0], "label": 1 - i % 2 * 2} for i in range(50)
                ]
                client.post("/learn", json={"items": rounds}).raise_for_status()

    learning = threading.Thread(target=learn)
    learning.start()
    restored = tmp_path / "restored"
    restored.mkdir()
    try:
        eventually(lambda: service.stats("m")["rounds"]["revealed"] >= 200)
        before = service.stats("m")["rounds"]["revealed"]
        with (
            closing(sqlite3.connect(service.data / "journal.sqlite")) as live,
            closing(sqlite3.connect(restored / "journal.sqlite")) as copy,
        ):
            live.backup(copy)
    finally:
        done.set()
        learning.join()
    worked("doctor", "--data", restored)
    second = start(restored)
    assert before <= second.stats("m")["rounds"]["revealed"] <= service.stats("m")["rounds"]["revealed"]
    second.assert_replay_equals_live("m")
