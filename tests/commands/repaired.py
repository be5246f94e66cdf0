"""Small journals to be damaged, what is in them, and what a repair leaves of it."""

import shutil
import sqlite3
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from service.engine.models.model import Model, model_from
from service.journal.sqlite import reading
from service.journal.sqlite.directory import open_directory
from service.journal.sqlite.schema import open_reader
from tests.support.service_process import Service

JOURNAL = "journal.sqlite"
PAGE_BYTES = 8192


@dataclass
class Content:
    """All that clients were told of, to the bit."""

    events: dict[int, tuple[object, ...]]
    pending: dict[str, tuple[object, ...]]
    models: dict[str, bytes | None]
    """The state of each; None if it cannot be read, so that its requests get 503."""


def fill(service: Service) -> None:
    for i in range(50):
        service.learn("m", [i % 7, 1.0], 1 if i % 2 else -1, id=f"r{i:03}")
        service.learn("o", [i % 5, 1.0], 1 if i % 3 else -1, id=f"o{i:03}")
    for i in range(30):
        service.predict("m", [1.0, i], id=f"w{i:02}")
        service.predict("o", [1.0, i], id=f"x{i:02}")


def content_of(data: Path) -> Content:
    with closing(open_reader(data / JOURNAL)) as connection:
        events = connection.execute("SELECT seq, model, prediction_id, body FROM event").fetchall()
        pending = connection.execute("SELECT prediction_id, model, at, body FROM pending").fetchall()
        names = [name for (name,) in connection.execute("SELECT name FROM model")]
        models = {name: _state(connection, name) for name in names}
    return Content({row[0]: row[1:] for row in events}, {row[0]: row[1:] for row in pending}, models)


def _state(connection: sqlite3.Connection, name: str) -> bytes | None:
    try:
        stored = reading.load(connection, name)
        tail = list(stored.tail)
        state = stored.state
        model = model_from(tail.pop(0).event) if state is None else Model.from_bytes(bytes(state))
        for recorded in tail:
            model.apply(recorded.event)
    except Exception:
        return None
    return model.to_bytes()


def truth_of(data: Path, beside: Path) -> Content:
    """What a sound directory has, its log included."""
    shutil.copytree(data, beside)
    open_directory(beside / JOURNAL, "power")
    return content_of(beside)
