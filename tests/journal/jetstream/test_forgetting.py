"""Forgotten events: empty ones stand in their places, and their bytes are not in the files of the streams."""

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest
from msgspec import structs

from service.events import AnyEvent, Prediction, RoundErased, RoundLearned, TagErased, TagForgotten, revealed
from service.journal.jetstream.journal import JetStreamJournal
from service.journal.jetstream.streams import Options
from service.journal.protocol import Erasure, Recorded, Snapshot, WaitingPrediction
from tests.journal.jetstream.test_jetstream_journal import created, opened
from tests.journal.journals import LIFE, jetstream_options
from tests.support import file_search
from tests.support.nats_servers import NatsServer
from tests.support.waiting import eventually_async


@pytest.fixture
def options(nats_server: NatsServer) -> Options:
    return jetstream_options(nats_server, f"t{os.urandom(6).hex()}")


@pytest.fixture
def secret() -> str:
    """Something that is nowhere else."""
    return os.urandom(12).hex()


def files_with(server: NatsServer, secret: str) -> list[str]:
    return file_search.files_with(server.directory / "store", secret.encode())


def learned(at: int, secret: str | None = None) -> RoundLearned:
    """A round of somebody who may want to be forgotten, or of anybody."""
    if secret is None:
        return RoundLearned("m", at, f"id-{at}", 1, b"anything")
    return RoundLearned("m", at, f"id-{at}-{secret}", 1, secret.encode(), tag=f"tag-{secret}")


def without(events: list[tuple[int, AnyEvent]], secret: str) -> list[tuple[int, AnyEvent]]:
    return [(seq, RoundErased("m", event.at, 1) if secret in repr(event) else event) for seq, event in events]


def erasure(events: list[tuple[int, AnyEvent]], secret: str) -> Erasure:
    replaced: list[tuple[int, AnyEvent]] = [
        (seq, event) for seq, event in without(events, secret) if isinstance(event, RoundErased)
    ]
    return Erasure(LIFE, replaced, [], (0, 0), [], is_whole=True)


def plain(recorded: list[Recorded]) -> list[tuple[int, AnyEvent]]:
    return [(each.seq, each.event) for each in recorded]


async def write(journal: JetStreamJournal, secret: str, first: int, count: int) -> None:
    for at in range(first, first + count):
        await journal.append(learned(at, secret if at % 3 == 0 else None), LIFE)


async def erase(journal: JetStreamJournal, wanted: Erasure) -> None:
    assert journal.eraser is not None
    await journal.eraser.erase(wanted)


@asynccontextmanager
async def behind(
    options: Options,
) -> AsyncIterator[tuple[JetStreamJournal, list[tuple[int, AnyEvent]], list[str]]]:
    """A replica of which the test stops the follower, what it has applied, and the models that it loads anew."""
    journal = JetStreamJournal(options)
    applied: list[tuple[int, AnyEvent]] = []
    loaded_anew: list[str] = []
    await journal.open(lambda seq, event: applied.append((seq, event)), distrust=loaded_anew.append)
    try:
        yield journal, applied, loaded_anew
    finally:
        await journal.close()


async def test_empty_events_stand_in_their_places_and_a_replica_that_was_behind_loads_the_model_anew(
    options: Options, nats_server: NatsServer, secret: str
) -> None:
    async with opened(options) as (a, of_a), behind(options) as (b, of_b, loaded_anew):
        await a.append(created())
        await write(a, secret, 10, 9)
        await eventually_async(lambda: of_b == of_a)
        await b.load("m")
        await b._follower.stop()  # what comes now it will ask for later
        await write(a, secret, 30, 7)
        was = list(of_a)
        assert files_with(nats_server, secret)
        await erase(a, erasure(was, secret))
        assert files_with(nats_server, secret) == []
        right = without(was, secret)
        await a.append(learned(50), LIFE)
        right.append(of_a[-1])
        for limit in (1, 2, 3, 100):
            read: list[Recorded] = []
            while page := await a.events("m", after=read[-1].seq if read else 0, limit=limit):
                assert len(page) <= limit
                read += page
            assert plain(read) == right
        await b._follower.start(b._follower.position)
        await eventually_async(lambda: of_b[-1] == right[-1])
        assert set(loaded_anew) == {"m"} and b.figures.damage_found == 0
        stored = await b.load("m")
        assert stored is not None and plain(stored.tail) == right
        assert await b.find(f"id-12-{secret}") is None and await b.find("id-11") is not None
        again = await b.append(learned(60, secret), LIFE)
        assert again.is_new  # it is new to everybody
    async with opened(options) as (c, _):
        stored = await c.load("m")
        assert stored is not None and plain(stored.tail)[:-1] == right


async def test_what_one_has_begun_another_ends(
    options: Options, nats_server: NatsServer, secret: str
) -> None:
    async with opened(options) as (a, of_a):
        await a.append(created())
        await write(a, secret, 10, 9)
        was = list(of_a)
        wanted, right = erasure(was, secret), without(was, secret)
        eraser = a.eraser
        assert eraser is not None
        await eraser._replace(wanted)  # type: ignore[attr-defined]
        assert plain(await a.events("m", after=0, limit=-1)) == right and files_with(nats_server, secret)
    async with opened(options) as (b, _):
        assert plain(await b.events("m", after=0, limit=-1)) == right
        assert b.eraser is not None
        await b.eraser._delete_events(LIFE, [wanted.events[1][0]])  # type: ignore[attr-defined]
        assert plain(await b.events("m", after=0, limit=-1)) == right and files_with(nats_server, secret)
    async with opened(options) as (c, _), opened(options) as (d, _):
        await erase(c, wanted)
        assert files_with(nats_server, secret) == []
        await erase(d, wanted)  # it had begun, too
        assert plain(await d.events("m", after=0, limit=-1)) == right


async def test_what_is_thinned_written_anew_or_taken_over_leaves_nothing_either(
    options: Options, nats_server: NatsServer, secret: str
) -> None:
    options = replace(options, events_kept_max=1_000)
    async with opened(options) as (a, of_a):
        await a.append(created())
        await write(a, secret, 10, 3)
        waits = Prediction(f"waits-{secret}", "m", 100, b"x", 1, 0.0, 0, 0)
        stored = a.put_pending(waits, LIFE, wait=True)
        assert stored is not None
        await stored
        state = os.urandom(600_000) + secret.encode()  # more than fits into one message
        for version in range(1, 31):
            a.save_snapshot(Snapshot("m", LIFE, of_a[-1][0], version, state, secret.encode()))
            state = b"of today"
            await a.append(learned(100 + version), LIFE)
            await a.settle()
    async with opened(options) as (b, _):
        await b.load("m")  # takes over the list of what waits
        assert b.eraser is not None
        pages = await b.eraser.pages(LIFE, 0)
        assert pages and all(outcomes == secret.encode() for _, _, outcomes in pages)
        await b.eraser.erase(Erasure(LIFE, [], [], (0, 0), [waits.prediction_id], is_whole=False))
        pages = [(through, version, b"none") for through, version, _ in pages]
        await erase(b, replace(erasure(of_a, secret), pages=pages))
        assert files_with(nats_server, secret) == []
        assert await b.outcomes("m", of_a[1][0]) == b"none"


@pytest.mark.parametrize("ended_after", ["nothing", "the copy", "the deletion"])
async def test_a_class_is_forgotten_of_predictions_that_stay(
    options: Options, nats_server: NatsServer, secret: str, ended_after: str
) -> None:
    """Also if a process that had begun was killed: before or after it deleted what it had copied."""
    served = {"a": secret, "b": "another", "c": None, "d": secret}
    async with opened(options) as (a, _):
        await a.append(created())
        for at, (name, label) in enumerate(served.items(), 1):
            stored = a.put_pending(Prediction(name, "m", at, b"x", label, 0.0, 0, 0), LIFE, wait=True)
            assert stored is not None
            await stored
        assert files_with(nats_server, secret)
        s = a._subjects
        found = await a.find("a")
        assert isinstance(found, WaitingPrediction)
        if ended_after != "nothing":
            record = a._ids.record(LIFE, structs.replace(found.prediction, served=None))
            await a._publisher.publish(s.spare_id("a"), record, expected=0)
        if ended_after == "the deletion":
            await a.api.overwrite_last(s.ids, [s.id("a")])
    async with opened(options) as (b, _):
        await erase(b, Erasure(LIFE, [], [], (0, 0), [], is_whole=True, labels=[secret, 7]))
        for name, label in served.items():
            found = await b.find(name)
            assert isinstance(found, WaitingPrediction)
            assert found.prediction.served == (None if label == secret else label)
        assert len(await b.api.subjects(s.ids, s.known_ids)) == len(served)
        assert files_with(nats_server, secret) == []


async def test_a_prediction_is_found_while_its_record_is_stored_anew(options: Options, secret: str) -> None:
    """Its id has no record for a moment: else another prediction could take it, and labels would be refused."""
    waits = Prediction("waits", "m", 5, b"x", secret, 0.0, 0, 0)
    async with opened(options) as (a, _):
        await a.append(created())
        stored = a.put_pending(waits, LIFE, wait=True)
        assert stored is not None
        await stored
        await a.append(TagForgotten("m", 6, [], 0, 0), LIFE)
        s = a._subjects
        record = a._ids.record(LIFE, structs.replace(waits, served=None))
        await a._publisher.publish(s.spare_id("waits"), record, expected=0)
        await a.api.overwrite_last(s.ids, [s.id("waits")])
        for _ in range(2):
            found = await a.find("waits")
            assert isinstance(found, WaitingPrediction) and found.prediction.served is None
            await a._waiting.drop_forgotten(LIFE)
            assert list(a._waiting._served[LIFE]) == ["waits"]
            pending, _resting = await a._waiting.of(LIFE, 0)
            assert pending == [found.prediction]
            await erase(a, Erasure(LIFE, [], [], (0, 0), [], is_whole=True, labels=[secret]))
        await a.append(TagErased("m", 7, 1), LIFE)
        assert not a._ids.forgetting
    async with opened(options) as (b, _):  # which has not seen that a forgetting was begun
        await b._publisher.publish(s.spare_id("waits"), record, expected=0)
        await b.api.overwrite_last(s.ids, [s.id("waits")])
        assert isinstance(await b.find("waits", expected=True), WaitingPrediction)


async def test_a_snapshot_that_comes_too_late_is_not_kept(
    options: Options, nats_server: NatsServer, secret: str
) -> None:
    async with opened(options) as (a, of_a), opened(options) as (b, of_b):
        await a.append(created())
        await write(a, secret, 10, 3)
        await eventually_async(lambda: of_b == of_a)
        pointer = b._snapshots.pointer

        async def stale(life: int, **_: bool) -> tuple[object, int]:
            """What b has seen before a was quicker."""
            b._snapshots.pointer = pointer  # type: ignore[method-assign]
            found = await pointer(life)
            await a.append(learned(20), LIFE)
            a.save_snapshot(Snapshot("m", LIFE, of_a[-1][0], 4, b"without", b""))
            await a.settle()
            await erase(a, erasure(of_a[:-1], secret))
            return found

        b._snapshots.pointer = stale  # type: ignore[method-assign,assignment]
        b.save_snapshot(Snapshot("m", LIFE, of_b[-1][0], 3, secret.encode(), secret.encode()))
        await b.settle()
        assert files_with(nats_server, secret) == []
        loaded = await b.load("m")
        assert loaded is not None and loaded.state == b"without"


async def test_a_prediction_that_waits_at_a_replica_that_was_behind_is_forgotten_there_too(
    options: Options, nats_server: NatsServer, secret: str
) -> None:
    async with opened(options) as (a, of_a):
        async with behind(options) as (b, of_b, loaded_anew):
            await a.append(created())
            await eventually_async(lambda: of_b == of_a)
            for name in (f"of-{secret}", "of-another"):
                prediction = Prediction(name, "m", 5, secret.encode(), 1, 0.0, 0, 0, tag=secret)
                stored = b.put_pending(prediction, LIFE, wait=True)
                assert stored is not None
                await stored
            await b._follower.stop()
            await a.append(revealed(structs.replace(prediction, prediction_id=f"of-{secret}"), 7, 1), LIFE)
            await erase(a, erasure(list(of_a), secret))
            await a.append(learned(50), LIFE)
            await b._follower.start(b._follower.position)
            await eventually_async(lambda: of_b[-1] == of_a[-1])
            assert loaded_anew == ["m"] and list(b._waiting._served[LIFE]) == ["of-another"]
            assert [found.through for found in (await b.overdue(0, 5, 10))[0]] == [5]
        assert files_with(nats_server, f"of-{secret}") == []
