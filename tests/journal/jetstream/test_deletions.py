"""Creations and deletions of models in the log: purged once every replica has read them, and not before."""

import asyncio
import os
import time
from dataclasses import replace

import pytest

from service.events import ModelDeleted
from service.journal.jetstream.streams import Options
from service.journal.jetstream.subjects import Subjects
from service.journal.protocol import Page
from tests.journal.jetstream.test_jetstream_journal import asking, created, learned, opened
from tests.journal.journals import jetstream_options
from tests.support.nats_servers import NatsServer
from tests.support.waiting import eventually_async


@pytest.fixture
def options(nats_server: NatsServer) -> Options:
    return jetstream_options(nats_server, f"t{os.urandom(6).hex()}")


async def test_creations_and_deletions_of_a_name_are_purged_while_replicas_run(options: Options) -> None:
    """All but the newest, whether the name lives again or not, once no event of theirs can be under way."""
    options = replace(options, ids_kept_seconds=0.2)
    subjects = Subjects(options.prefix)
    async with asking(options) as api, opened(options) as (a, _), opened(options) as (b, of_b):

        async def are_left(messages: int) -> bool:
            await asyncio.gather(a._upkeep.purge_old_deletions(), b._upkeep.purge_old_deletions())
            return int((await api.request(f"STREAM.INFO.{subjects.log}"))["state"]["messages"]) == messages

        now = time.time_ns() // 1000
        for life in range(20):
            for name in ("in-use", "deleted"):
                birth = await a.append(created(name, now + 2 * life))
                await a.append(learned(now + 2 * life, model=name), birth.seq)
                await a.append(ModelDeleted(name, now + 2 * life + 1), birth.seq)
        await a.append(created("in-use", now + 50))
        await eventually_async(lambda: are_left(1), otherwise="more than the last creation")
        assert [listed.model for listed in await a.models(Page())] == ["in-use"]
        await eventually_async(lambda: len(of_b) == 121)
        assert (await b.append(created("deleted", now + 60))).is_new, (
            "though the log has no deletion any more"
        )
        assert not (await b.append(created("in-use", now + 60))).is_new
        assert a._catalogue.deletions_before(2 * now) == b._catalogue.deletions_before(2 * now) == []
    async with opened(options) as (c, _):
        assert [listed.model for listed in await c.models(Page())] == ["deleted", "in-use"]


async def test_deletions_are_not_purged_while_a_replica_may_not_have_read_them(options: Options) -> None:
    subjects = Subjects(options.prefix)
    now = time.time_ns() // 1000
    async with asking(options) as api, opened(options) as (journal, _):
        for life in range(3):
            birth = await journal.append(created("m", now + 2 * life))
            await journal.append(ModelDeleted("m", now + 2 * life + 1), birth.seq)
        await journal._upkeep.purge_old_deletions()
        assert (await api.request(f"STREAM.INFO.{subjects.log}"))["state"]["messages"] == 6
