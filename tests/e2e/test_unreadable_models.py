"""A model that cannot be read is told by name, harms no other, and can be deleted."""

import asyncio
import sqlite3
from collections.abc import Callable
from contextlib import closing

import pytest

from service.journal.codec import STATE_VERSION
from service.journal.jetstream.link.api import Api
from service.journal.jetstream.link.connecting import Access, Link
from service.journal.jetstream.subjects import Subjects
from service.journal.seals import seal, unseal
from service.journal.sqlite.sealing import seal_snapshot, unseal_snapshot
from tests.support.service_process import Service, problem_of
from tests.support.waiting import PATIENCE_SECONDS

OVER_EVERY_JOURNAL = True

REWRITTEN: dict[str, Callable[[bytes], bytes]] = {
    "damaged": lambda state: state[: len(state) // 2],
    "newer": lambda state: bytes([STATE_VERSION + 1]) + state[1:],
}
WORDS = {"damaged": "is damaged; run `novikoff doctor` for details", "newer": "was saved by a newer Novikoff"}


def rewrite_snapshots(service: Service, model: str, rewrite: Callable[[bytes], bytes]) -> None:
    """As if another program had saved them."""
    if "journal" in service.settings:
        asyncio.run(_rewrite_in_cluster(service.settings, rewrite))
        return
    with closing(sqlite3.connect(service.data / "journal.sqlite")) as connection:
        connection.create_function(
            "rewritten",
            3,
            lambda sealed, *place: seal_snapshot(rewrite(unseal_snapshot(sealed, *place)), *place),
        )
        changed = connection.execute(
            "UPDATE snapshot SET state = rewritten(state, model, seq)"
            " WHERE model = (SELECT id FROM model WHERE name = ?)",
            (model,),
        ).rowcount
        connection.commit()
        assert changed


async def _rewrite_in_cluster(settings: dict[str, object], rewrite: Callable[[bytes], bytes]) -> None:
    """Of the first model in the log."""
    subjects = Subjects(str(settings["nats_prefix"]))
    link = Link(Access((str(settings["journal"]),)))
    await link.open()
    api = Api(link)
    snapshots = [
        one async for one in api.scan(subjects.state, f"{settings['nats_prefix']}.snap.1.>", after=0)
    ]
    assert snapshots
    for message in snapshots:
        written = seal(rewrite(unseal(message.data, message.subject)), message.subject)
        await link.client.request(message.subject, written, timeout=PATIENCE_SECONDS)
    await link.close()


@pytest.mark.parametrize("how", REWRITTEN)
def test_a_model_that_cannot_be_read_can_be_deleted_and_made_again(
    how: str, start: Callable[..., Service]
) -> None:
    service = start(snapshot_every_events=5)
    for i in range(12):
        service.learn("m", [1.0, float(i)], 1 if i % 2 else -1, id=f"m{i}")
        service.learn("other", [1.0, float(i)], 1)
    service.predict("m", [1.0, 2.0], id="waits")
    well = service.get("/models/other/weights")
    assert service.stop() == 0
    rewrite_snapshots(service, "m", REWRITTEN[how])
    service.start()
    answer = service.client.get("/stats/m")
    assert problem_of(answer) == (503, "model-damaged") and WORDS[how] in answer.json()["detail"]
    assert service.client.delete("/models/m").status_code == 204
    assert problem_of(service.client.get("/stats/m")) == (404, "unknown-model")
    assert problem_of(service.client.delete("/models/m")) == (404, "unknown-model")
    assert service.refused("/feedback", {"prediction_id": "waits", "label": 1}) == (404, "unknown-prediction")
    assert service.learn("m", [1.0, 2.0, 3.0], 1)["rounds"] == 1, "a new one under the old name"
    for _ in range(2):
        assert service.get("/models/other/weights") == well
        assert service.get("/stats")["totals"]["rounds"]["revealed"] == 13
        assert service.stats("m")["rounds"]["revealed"] == 1
        service.restart()


def test_predictions_of_a_model_that_is_deleted_unloaded_wait_no_longer(
    start: Callable[..., Service],
) -> None:
    service = start(models_loaded_max=1, pending_total_max=3)
    for i in range(3):
        service.predict("m", [1.0, float(i)], id=f"of-m-{i}")
    service.learn("other", [1.0], 1)
    assert service.client.delete("/models/m").status_code == 204
    assert service.refused("/feedback", {"prediction_id": "of-m-0", "label": 1}) == (
        404,
        "unknown-prediction",
    )
    for i in range(3):
        service.predict("other", [1.0], id=f"of-other-{i}")
    for i in range(3):
        assert service.reveal(f"of-other-{i}", 1)["rounds"] == i + 2, "there was room for all of them"
