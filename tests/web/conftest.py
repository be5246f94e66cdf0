import sqlite3
from collections.abc import Callable

import pytest
from msgspec import structs

from service.events import ModelCreated
from service.journal.codec import decode_event, encode
from service.journal.seals import SEAL_BYTES
from service.journal.sqlite.sealing import SEAL_MODEL, add_functions, seal_event
from tests.support.service_process import Service

Start = Callable[..., Service]

SECRET = "secret-41"
"""What the exceptions of a spoiled service quote."""


@pytest.fixture
def spoiled(start: Start) -> Callable[..., Service]:
    """Starts services whose model `m` cannot predict, for a reason that nobody foresaw and that quotes a secret.

    Nor can they list their models.
    """

    def start_spoiled(**settings: object) -> Service:
        service = start(**settings)
        service.learn("m", [1.0], 1)
        service.learn("another", [1.0], 1)
        service.stop()
        connection = sqlite3.connect(service.data / "journal.sqlite")
        connection.execute("DELETE FROM snapshot")
        (body,) = connection.execute("SELECT body FROM event WHERE seq = 1").fetchone()
        created = decode_event(body[:-SEAL_BYTES])
        assert isinstance(created, ModelCreated) and created.model == "m"
        settings = created.settings | {"bias_value": SECRET, "learner": {"algorithm": "pa"}}
        spoilt = encode(structs.replace(created, settings=settings))
        connection.execute("UPDATE event SET body = ? WHERE seq = 1", (seal_event(spoilt, 1, 1, None, 0),))
        connection.execute("DELETE FROM event WHERE seq > 1 AND model = 1")
        add_functions(connection)
        connection.execute("UPDATE model SET settings = ?, newest = 1 WHERE id = 1", (encode({}),))
        connection.execute(SEAL_MODEL)
        connection.commit()
        connection.close()
        service.log.clear()
        return service.start()

    return start_spoiled
