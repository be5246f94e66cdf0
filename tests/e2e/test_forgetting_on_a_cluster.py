"""What docs/scaling.md tells to do where the journal cannot forget: void, move the model, delete the old streams."""

import asyncio
import os
from collections.abc import Callable
from pathlib import Path

import nats
import pytest

from tests.nats_servers import NatsServer
from tests.running import Service
from tests.waiting import eventually
from tests.web.routes.test_corrections import label_of, rebuilt, substance


def files_with(directory: Path, needle: str) -> list[str]:
    return [
        str(path.relative_to(directory))
        for path in directory.rglob("*")
        if path.is_file() and needle.encode() in path.read_bytes()
    ]


async def delete_streams(server: NatsServer, prefix: object) -> None:
    client = await nats.connect(server.url)
    try:
        for kind in ("log", "ids", "state"):
            assert await client.jetstream().delete_stream(f"{prefix}-{kind}")
    finally:
        await client.close()


@pytest.mark.parametrize("journal", ["jetstream"], indirect=True)
def test_rounds_are_voided_the_model_moves_and_with_the_old_streams_all_bytes_go(
    start: Callable[..., Service], service: Service, name: str, nats_server: NatsServer
) -> None:
    before = start(snapshot_every_events=5)
    person = os.urandom(8).hex()
    for model in ("m", "twin"):
        before.create(model, features="named", learner={"algorithm": "arow"})
    for number in range(20):
        features = {"a": float(number % 5) - 2.0, "b": float(number % 3) - 1.0}
        if number % 6 == 4:
            sent = features | {f"ailment-{person}": 1.0}
            before.predict("m", sent, id=f"order-{person}-{number}", tag=f"tag-{person}")
            before.reveal(f"order-{person}-{number}", label_of(number))
        else:
            for model in ("m", "twin"):
                before.learn(model, features, label_of(number))
    trail = before.get("/models/m/events?limit=1000")["events"]
    tagged = [line["prediction_id"] for line in trail if line.get("tag") == f"tag-{person}"]
    assert len(tagged) == 3
    for prediction_id in tagged:
        assert before.client.delete(f"/predictions/{prediction_id}").is_success
    rebuilt(before, "m")
    assert substance(before, "m") == substance(before, "twin")
    export = before.client.get("/models/m/export").content
    assert person.encode() not in export

    headers = {"content-type": "application/json"}
    assert service.client.put(f"/models/{name}", content=export, headers=headers).status_code == 201
    before.stop()
    assert files_with(nats_server.directory, person)
    asyncio.run(delete_streams(nats_server, before.settings["nats_prefix"]))
    eventually(lambda: not files_with(nats_server.directory, person), not_yet=OSError)
    service.learn(name, {"a": 1.0}, 1)
