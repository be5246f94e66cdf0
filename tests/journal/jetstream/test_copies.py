"""A large model is copied while other replicas teach it: what they have appended is applied after that."""

import asyncio
import os

from service.engine.engine import Engine
from service.journal.jetstream.journal import JetStreamJournal
from tests.engine.test_copying import SMALLER, WIDE_SETTINGS, Reader, digest_of, example, learn, make, read
from tests.journal.journals import jetstream_options
from tests.support.nats_servers import NatsServer
from tests.support.waiting import eventually_async


async def test_what_another_replica_has_appended_waits_for_a_copy(nats_server: NatsServer) -> None:
    options = jetstream_options(nats_server, f"t{os.urandom(6).hex()}")
    here, there = (Engine(JetStreamJournal(options), WIDE_SETTINGS) for _ in range(2))
    await here.open()
    await there.open()
    try:
        live = await make(here, "m", **SMALLER)
        await learn(here, live, 2)
        await there.fleet.reach("m", 2)
        reader = Reader()
        copy = asyncio.create_task(read(here, live, reader))
        await reader.begun()
        of_there = await there.fleet.get("m")
        await learn(there, of_there, 3, first=4)
        mine = asyncio.create_task(learn(here, live, 1, first=9))
        assert (await here.rounds.predict("m", example(live, 9), None)).prediction.version == 2
        assert of_there.model.version == 5 and live.model.version == 2 and not mine.done()
        reader.may_end.set()
        assert (await copy)[0] == 2
        await mine
        await eventually_async(lambda: live.model.version == of_there.model.version == 6)
        assert digest_of(live.model) == digest_of(of_there.model)
    finally:
        await here.close()
        await there.close()
