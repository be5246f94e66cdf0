"""What a replica reads at its start, and who brings summaries up to date that a killed one has left behind."""

import asyncio
import os
import struct
import time

import pytest

from service.engine.engine_settings import EngineSettings
from service.events import DimensionFixed, ModelCreated, ModelReset, RoundLearned
from service.journal.jetstream.catalogue import Catalogue
from service.journal.jetstream.format import read_unsealed
from service.journal.jetstream.journal import JetStreamJournal
from service.journal.jetstream.link.api import Api
from service.journal.jetstream.link.connecting import Link
from service.journal.jetstream.link.publishing import Publisher
from service.journal.jetstream.messages import Bodies
from service.journal.jetstream.opening import read_catalogue
from service.journal.jetstream.streams import Options, Streams
from service.journal.jetstream.subjects import Subjects
from service.journal.protocol import Snapshot, Summary
from service.journal.seals import SEAL_BYTES
from service.web.routes.model_settings import ModelLimits, ModelSettings
from tests.journal.jetstream.test_jetstream_journal import asking, created, opened, running
from tests.journal.journals import LIFE, jetstream_options
from tests.support.nats_servers import NatsServer
from tests.support.waiting import eventually_async

MODELS = 5
EVENTS = 3_000


@pytest.fixture
def options(nats_server: NatsServer) -> Options:
    return jetstream_options(nats_server, f"t{os.urandom(6).hex()}")


def learned(model: str, at: int) -> RoundLearned:
    return RoundLearned(model, at, None, 1, b"x")


def summary(life: int, rounds: int) -> Summary:
    return Summary("m", life, rounds, rounds, 0, 0, 0, 0)


async def load_steadily(journal: JetStreamJournal, events: int) -> None:
    """Learn, with summaries now and then, and never a moment at which they cover all events."""
    now = time.time_ns() // 1000
    for start in range(0, events, 500):
        await asyncio.gather(
            *(
                journal.append(learned(f"m{i % MODELS}", now + i), LIFE + i % MODELS)
                for i in range(start, start + 500)
            )
        )
        await journal.save_summaries([summary(LIFE + i, start) for i in range(MODELS)])
        await asyncio.gather(*(journal.append(learned(f"m{i}", now + i), LIFE + i) for i in range(MODELS)))
        await journal._upkeep.store_summaries()


async def messages_read_at_start(options: Options, server: NatsServer) -> int:
    """How many messages the server sends to one who reads the catalogue."""
    subjects = Subjects(options.prefix)
    async with Link(options.access) as link:
        streams = Streams(Api(link), Publisher(link, seconds=60), subjects, options)
        streams.api.unsealed_through = await read_unsealed(streams.api, subjects)
        await read_catalogue(streams, Bodies(streams), Catalogue())
        told = server.ask(f"connz?cid={link.client.client_id}")["connections"]
        return int(told[0]["out_msgs"])


async def test_a_start_under_load_reads_no_more_after_many_events_than_after_few(
    options: Options, nats_server: NatsServer
) -> None:
    async with opened(options) as (journal, _):
        for i in range(MODELS):
            await journal.append(created(f"m{i}"))
        await load_steadily(journal, 500)
        after_few = await messages_read_at_start(options, nats_server)
        await load_steadily(journal, EVENTS)
        assert await messages_read_at_start(options, nats_server) == after_few


async def test_a_model_that_is_never_quiet_does_not_hold_back_what_summaries_cover(options: Options) -> None:
    subjects = Subjects(options.prefix)
    async with asking(options) as api, opened(options) as (journal, applied):
        for i in range(MODELS):
            await journal.append(created(f"m{i}"))
        await journal.unsummarised()  # until it knows what it found at its start
        marks = []
        for _ in range(3):
            before = applied[-1][0]
            await load_steadily(journal, 500)
            found = await api.last_from_leader(subjects.state, subjects.mark)
            marks.append(found is not None and int(found.data[:-SEAL_BYTES]) > before)
        assert marks == [True] * 3


async def test_predictions_that_were_void_when_the_snapshot_was_made_are_so_after_a_start(
    options: Options,
) -> None:
    """A new replica need not read the reset, which the snapshot covers and the stored summary does not."""
    subjects = Subjects(options.prefix)
    async with opened(options) as (journal, applied):
        await journal.append(created())
        await journal.save_summaries([summary(LIFE, 0)])
        await journal._upkeep.store_summaries()
        await journal.append(ModelReset("m", 77), LIFE)
        end = applied[-1][0]
        journal.save_snapshot(Snapshot("m", LIFE, end, 1, b"state", b""))
        await journal.settle()
        # So that the events which no summary covers, read after the start, do not tell of it either.
        await journal._publisher.publish(subjects.mark, b"%d" % end)
        async with opened(options) as (other, _):
            stored = await other.load("m")
            assert stored is not None and (stored.state, stored.voided_through) == (b"state", 77)


async def test_summaries_that_a_killed_replica_has_left_behind_are_made_by_another(options: Options) -> None:
    rules = EngineSettings(
        pending_ttl_seconds=60,
        pending_max=10,
        pending_total_max=1_000,
        models_max=20_000,
        models_loaded_max=20_000,
    )
    settings = ModelSettings().complete(ModelLimits(100, 100, 100, 10**8))
    a_minute_ago = time.time_ns() // 1000 - 60_000_000

    async def learn(count: int) -> None:
        """As a replica does that is killed before it has made a summary."""
        async with opened(options) as (journal, _):
            await journal.append(ModelCreated("m", a_minute_ago, settings))  # unless it is there already
            await journal.append(DimensionFixed("m", a_minute_ago, 2), LIFE)
            for i in range(count):
                features = struct.pack("<2d", 1.0, float(i))
                await journal.append(RoundLearned("m", a_minute_ago + 1 + i, None, 1, features), LIFE)

    await learn(3)
    async with running(options, rules) as engine:

        async def are_counted(rounds: int) -> bool:
            await engine._housekeeping.load_stale()
            return (await engine.models.totals.now("")).revealed == rounds

        await eventually_async(lambda: are_counted(3), otherwise="those that were there at the start")
        for live in list(engine.fleet.loaded.values()):
            engine.fleet._unload(live)
        await learn(2)
        await eventually_async(lambda: are_counted(5), otherwise="those of one that was killed later")
