"""Summaries that a crash has left behind: found at the next start, and neither lost nor waited for by a stop."""

import sqlite3
from collections.abc import Callable
from contextlib import closing

import msgspec

from service.journal.sqlite.sealing import SEAL_MODEL, add_functions
from tests.support.service_process import Service
from tests.support.waiting import PATIENCE_SECONDS, eventually

MODELS = 3_000
NDJSON = {"content-type": "application/x-ndjson"}


def summarised_through(service: Service) -> int:
    with closing(sqlite3.connect(service.data / "journal.sqlite")) as connection:
        (through,) = connection.execute("SELECT through FROM summarised").fetchone()
    return int(through)


def test_what_is_summarised_stays_so_when_nothing_is_learned(start: Callable[..., Service]) -> None:
    service = start()
    for _ in range(10):
        service.learn("m", [1.0], 1)
    assert service.stop() == 0
    through = summarised_through(service)
    assert through > 10
    service.start()
    service.stats("m")
    assert service.stop() == 0
    assert summarised_through(service) == through, "the next start need not look at all events"


def forget_summaries(service: Service) -> None:
    with closing(sqlite3.connect(service.data / "journal.sqlite")) as connection:
        connection.execute("UPDATE summarised SET through = 0")
        add_functions(connection)
        connection.execute("UPDATE model SET revealed = 0")
        connection.execute(SEAL_MODEL)
        connection.execute("DELETE FROM snapshot")
        connection.commit()


def test_a_stop_while_it_catches_up_is_a_good_one(start: Callable[..., Service]) -> None:
    service = start(shutdown_seconds=60)  # had it waited for the catching up, that would be done
    lines = [{"model": f"m{i}", "features": [1.0] * 50, "label": 1} for i in range(MODELS)]
    body = b"\n".join(map(msgspec.json.encode, lines))
    learned = service.client.post("/stream", content=body, headers=NDJSON, timeout=PATIENCE_SECONDS)
    assert learned.text.count('"rounds":1') == MODELS
    assert service.stop() == 0

    def is_stopped_amid() -> bool:
        """A service that is quicker than this test may have caught up before it is stopped."""
        forget_summaries(service)
        service.start()
        assert service.stop() == 0, "".join(service.log)
        return summarised_through(service) == 0

    eventually(is_stopped_amid, otherwise="it has always caught up")
    service.start()  # and has to catch up
    assert service.get("/stats?limit=1")["totals"]["rounds"]["revealed"] == MODELS
