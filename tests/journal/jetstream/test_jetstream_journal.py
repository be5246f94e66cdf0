"""What is particular to the journal on a cluster: several that share it, large bodies, trims, the dead."""

import asyncio
import os
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest
from nats.aio.msg import Msg

from service.engine.engine import Engine
from service.engine.engine_settings import EngineSettings
from service.errors import InvalidRequest, ModelDamaged, PredictionIdTaken
from service.events import (
    AnyEvent,
    ModelCreated,
    ModelDeleted,
    Prediction,
    RoundLearned,
    RoundsLearned,
    Table,
)
from service.journal.jetstream.journal import JetStreamJournal
from service.journal.jetstream.link.api import Api, Message
from service.journal.jetstream.link.connecting import Link
from service.journal.jetstream.messages import Link as ChainLink
from service.journal.jetstream.messages import StoredSummary, encode
from service.journal.jetstream.streams import Options
from service.journal.jetstream.subjects import Subjects
from service.journal.protocol import Page, Recorded, Snapshot, WaitingPrediction
from tests.journal.journals import LIFE, jetstream_options
from tests.support.nats_servers import NatsServer
from tests.support.tcp_proxy import TcpProxy
from tests.support.waiting import eventually_async

MODELS = 10_000


@pytest.fixture
def options(nats_server: NatsServer) -> Options:
    return jetstream_options(nats_server, f"t{os.urandom(6).hex()}")


@asynccontextmanager
async def opened(options: Options) -> AsyncIterator[tuple[JetStreamJournal, list[tuple[int, AnyEvent]]]]:
    journal = JetStreamJournal(options)
    applied: list[tuple[int, AnyEvent]] = []
    await journal.open(lambda seq, event: applied.append((seq, event)))
    try:
        yield journal, applied
    finally:
        await journal.close()


@asynccontextmanager
async def asking(options: Options) -> AsyncIterator[Api]:
    link = Link(options.access)
    await link.open()
    try:
        yield Api(link)
    finally:
        await link.close()


@asynccontextmanager
async def running(options: Options, rules: EngineSettings) -> AsyncIterator[Engine]:
    engine = Engine(JetStreamJournal(options), rules)
    await engine.open()
    try:
        yield engine
    finally:
        await engine.close()


def created(model: str = "m", at: int = 1) -> ModelCreated:
    return ModelCreated(model, at, {"any": "settings"})


def learned(at: int, event_id: str | None = None, features: bytes = b"x", model: str = "m") -> RoundLearned:
    return RoundLearned(model, at, event_id, 1, features)


async def test_what_two_append_both_apply_in_one_order(options: Options) -> None:
    async with opened(options) as (a, of_a), opened(options) as (b, of_b):
        await asyncio.gather(a.append(created(at=1)), b.append(created(at=2)))
        await eventually_async(lambda: len(of_a) == len(of_b) == 1)
        appended = await asyncio.gather(*((a, b)[at % 2].append(learned(at), LIFE) for at in range(10, 310)))
        assert all(one.is_new for one in appended)
        await eventually_async(lambda: len(of_a) == len(of_b) == 301)
        assert of_a == of_b and {event.at for _, event in of_a[1:]} == set(range(10, 310))
        seqs = [seq for seq, _ in of_a]
        assert seqs == sorted(set(seqs))
    async with opened(options) as (c, _):
        stored = await c.load("m")
        assert stored is not None and [(r.seq, r.event) for r in stored.tail] == of_a


async def test_a_message_that_was_lost_on_the_way_is_fetched_again(options: Options) -> None:
    async with opened(options) as (a, of_a), opened(options) as (b, of_b):
        follower = b._follower
        receive, lost = follower._received, []

        async def lossy(message: Msg) -> None:
            if not lost and len(of_b) == 20:
                lost.append(message)
            else:
                await receive(message)

        follower._received = lossy  # type: ignore[method-assign]
        await a.append(created())
        await asyncio.gather(*(a.append(learned(at), LIFE) for at in range(2, 102)))
        await eventually_async(lambda: len(of_b) == 101)
        assert of_b == of_a and len(lost) == 1


async def test_an_event_is_found_only_after_it_is_applied_here(options: Options) -> None:
    async with opened(options) as (a, _), opened(options) as (b, of_b):
        await a.append(created())
        await eventually_async(lambda: len(of_b) == 1)
        async with b._follower._taking:  # b has fallen behind
            await a.append(learned(2, "once"), LIFE)
            finding = asyncio.create_task(b.find("once"))
            assert not (await asyncio.wait([finding], timeout=0.5))[0]
        found = await finding
        assert isinstance(found, Recorded) and (found.seq, found.event) == of_b[-1]


async def test_an_id_belongs_to_one_model_of_all(options: Options) -> None:
    async with opened(options) as (a, _), opened(options) as (b, of_b):
        await a.append(created("m"))
        await a.append(created("n"))
        await eventually_async(lambda: len(of_b) == 2)
        both = await asyncio.gather(
            a.append(learned(5, "once", model="m"), LIFE),
            b.append(learned(6, "once", model="n"), 2),
            return_exceptions=True,
        )
        assert [isinstance(one, PredictionIdTaken) for one in both].count(True) == 1


async def test_a_body_too_large_for_a_message_is_kept_beside_the_log(options: Options) -> None:
    large = os.urandom(3_000_000)
    block = RoundsLearned("m", 4, [1] * 100, [Table(None, 100, os.urandom(2_000_000))])
    async with opened(options) as (a, of_a), opened(options) as (b, of_b):
        birth = await a.append(ModelCreated("m", 1, {"long": "x" * 2_000_000}))
        waiting = [
            a.append(event, LIFE) for event in (learned(2, "large", large), learned(3), block, learned(5))
        ]
        appended = [birth, *await asyncio.gather(*waiting)]
        assert all(one.is_new for one in appended)
        assert [event.at for _, event in of_a] == [1, 2, 3, 4, 5], "in their order all the same"
        await eventually_async(lambda: of_b == of_a)
        found = await b.find("large")
        assert found is not None and found == (await a.events("m", after=0, limit=2))[1]
        assert not (await b.append(learned(6, "large", large), LIFE)).is_new
        a.save_snapshot(Snapshot("m", LIFE, appended[-1].seq, 4, large, large[:700_000]))
        await a.settle()
    async with opened(options) as (c, _):
        stored = await c.load("m")
        assert stored is not None and stored.state == large and stored.tail == []
        assert await c.outcomes("m", appended[1].seq) == large[:700_000]
        assert [(r.seq, r.event) for r in await c.events("m", after=0, limit=-1)] == of_a


async def test_a_prediction_too_large_to_be_kept_is_refused(options: Options) -> None:
    async with opened(options) as (journal, _):
        await journal.append(created())
        with pytest.raises(InvalidRequest, match="at most"):
            journal.put_pending(Prediction("p", "m", 2, b"x" * 1_100_000, 1, 0.5, 0, 0), LIFE, wait=False)
        assert journal.finished == journal.submitted


async def test_young_events_are_never_trimmed(options: Options) -> None:
    options = replace(options, events_kept_max=0, events_kept_seconds=3600.0)
    async with opened(options) as (journal, applied):
        await journal.append(created())
        for version in range(1, 10):
            await journal.append(learned(version, f"q{version}"), LIFE)
            journal.save_snapshot(Snapshot("m", LIFE, applied[-1][0], version, b"state", b""))
        await journal.settle()
        assert [(r.seq, r.event) for r in await journal.events("m", after=0, limit=-1)] == applied


async def test_no_event_is_trimmed_that_a_snapshot_needs(options: Options) -> None:
    options = replace(options, events_kept_max=0)
    async with opened(options) as (journal, applied):
        await journal.append(created())
        for version in range(1, 10):
            await journal.append(learned(version), LIFE)
            journal.save_snapshot(Snapshot("m", LIFE, applied[-1][0], version, b"%d" % version, b""))
        await journal.settle()
        kept = [r.seq for r in await journal.events("m", after=0, limit=-1)]
        assert kept == [seq for seq, _ in applied[-1:]], "those after the older one of two snapshots"


async def test_of_two_snapshots_at_one_place_one_is_kept_and_an_older_one_comes_too_late(
    options: Options,
) -> None:
    async with opened(options) as (a, of_a), opened(options) as (b, of_b):
        await a.append(created())
        for at in range(2, 6):
            await a.append(learned(at), LIFE)
        await eventually_async(lambda: of_a == of_b)
        seq = of_a[-1][0]
        for one in (a, b):
            one.save_snapshot(Snapshot("m", LIFE, seq, 4, b"state", b"page"))
        await asyncio.gather(a.settle(), b.settle())
        b.save_snapshot(Snapshot("m", LIFE, seq - 1, 3, b"older", b"older page"))
        await b.settle()
        stored = await a.load("m")
        assert stored is not None and (stored.state, stored.seq, stored.tail) == (b"state", seq, [])
        assert await b.outcomes("m", seq) == b"page"


@pytest.mark.parametrize("purged", [True, False])
async def test_a_deleted_model_leaves_two_messages_which_are_purged_later(
    options: Options, purged: bool
) -> None:
    options = replace(options, ids_kept_seconds=0.2)
    subjects = Subjects(options.prefix)
    async with asking(options) as api:

        async def are_left(messages: int) -> bool:
            told = [await api.request(f"STREAM.INFO.{stream}") for stream in (subjects.log, subjects.state)]
            return sum(one["state"]["messages"] for one in told) <= messages

        async with opened(options) as (journal, applied):
            long_ago = time.time_ns() // 1000 - 10_000_000
            await journal.append(ModelCreated("m", long_ago, {"long": "x" * 2_000_000}))
            await journal.append(learned(2, "q", os.urandom(2_000_000)), LIFE)
            journal.save_snapshot(Snapshot("m", LIFE, applied[-1][0], 1, b"state", b"page"))
            await journal.settle()
            await journal.append(ModelDeleted("m", long_ago + 1), LIFE)
            if purged:
                await eventually_async(
                    lambda: are_left(4), otherwise="more than creation, deletion and format"
                )
        async with opened(options) as (journal, _):
            assert await journal.models(Page()) == []
            await eventually_async(
                lambda: are_left(3), otherwise="more than the marks of summaries, digests and format"
            )
            assert (await journal.append(created())).is_new, "though the log has no deletion any more"


async def test_a_replica_that_has_come_to_other_events_than_another_says_so(options: Options) -> None:
    journal, distrusted = JetStreamJournal(options), list[str]()
    await journal.open(lambda seq, event: None, distrust=distrusted.append)
    await journal.append(created())
    seq = (await journal.append(learned(2), LIFE)).seq
    before = journal.figures.damage_found
    told = StoredSummary(seq, 0, 2, 1, 0, 0, 0, 0, None, ChainLink(seq, b"another!"))
    await journal._publisher.publish(Subjects(options.prefix).summary(LIFE), encode(told))
    await eventually_async(lambda: distrusted == ["m"])
    assert journal.figures.damage_found == before + 1
    with pytest.raises(ModelDamaged, match=r"'m' is damaged.*one is missing or is another"):
        await journal.load("m")
    journal.save_snapshot(Snapshot("m", LIFE, seq, 1, b"state", b""))
    await journal.settle()
    assert (await journal._snapshots.pointer(LIFE))[0].snapshots == [], "past a gap none is saved"
    await journal.close()


async def test_predictions_that_wait_are_taken_over_once(options: Options) -> None:
    predictions = [Prediction(f"p{at}", "m", at, b"x", 1, 0.5, 0, 0) for at in range(2, 30)]
    async with opened(options) as (a, _):
        await a.append(created())
        for prediction in predictions:
            a.put_pending(prediction, LIFE, wait=False)
    async with opened(options) as (b, _), opened(options) as (c, _):
        both = [await one.load("m") for one in (b, c)]
        assert [stored.pending for stored in both if stored] == [predictions, []]
        assert await c.find("p7") == WaitingPrediction(predictions[5], LIFE), "any replica finds any of them"


async def test_ten_thousand_models_need_two_consumers_and_no_memory_but_a_dictionary(
    options: Options,
) -> None:
    rules = EngineSettings(
        pending_ttl_seconds=60,
        pending_max=10,
        pending_total_max=1_000,
        models_max=20_000,
        models_loaded_max=20_000,
    )
    options = replace(options, queue_events_max=20_000, seconds=60.0)
    subjects = Subjects(options.prefix)
    async with asking(options) as api, opened(options) as (journal, _), running(options, rules) as engine:
        now = time.time_ns() // 1000  # so that nobody looks after models that were left behind long ago
        for start in range(0, MODELS, 500):  # all at once would take a slow disk longer than an event may
            births = (created(f"m{i}", now + i) for i in range(start, start + 500))
            await asyncio.gather(*map(journal.append, births))

        async def all_are_known() -> bool:
            return (await engine.models.totals.now("")).models == MODELS

        await eventually_async(all_are_known, every=0.05)
        assert len(engine.fleet.loaded) == 0
        told = [
            await api.request(f"STREAM.INFO.{one}") for one in (subjects.log, subjects.state, subjects.ids)
        ]
        assert [one["state"]["consumer_count"] for one in told] == [2, 2, 0], "one a replica for each stream"
    async with opened(options) as (journal, _):
        assert len(await journal.models(Page(limit=MODELS + 1))) == MODELS


async def test_a_question_that_is_lost_with_its_connection_is_asked_again(
    options: Options, nats_server: NatsServer
) -> None:
    async with opened(options) as (journal, _):
        await journal.append(ModelCreated("m", 1, {}))
    proxy = TcpProxy(nats_server.port).start()
    through = replace(options, access=replace(options.access, servers=(f"nats://127.0.0.1:{proxy.port}",)))
    subjects = Subjects(options.prefix)
    try:
        async with asking(through) as api:
            proxy.lose()
            scanning = asyncio.create_task(_all(api.scan(subjects.log, subjects.lifecycles, after=0)))
            await eventually_async(lambda: b"DIRECT.GET" in (proxy.lost or b""))
            proxy.break_off()
            assert [message.seq for message in await scanning] == [1]
    finally:
        proxy.close()


async def _all(messages: AsyncIterator[Message]) -> list[Message]:
    return [message async for message in messages]
