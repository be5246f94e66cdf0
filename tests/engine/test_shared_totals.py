"""Totals are found once for all who ask: counted at a real journal, over real feeds."""

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from time import monotonic
from typing import Any

import msgspec
import pytest

from service.engine.engine import Engine
from service.engine.engine_settings import EngineSettings
from service.engine.fleet.shared_totals import PACE_SECONDS
from service.journal.jetstream.journal import JetStreamJournal
from service.journal.protocol import Totals
from service.journal.sqlite.journal import SqliteJournal
from service.web.access.tenants import TenantModels
from service.web.routes.feed import Feed
from service.web.routes.model_settings import ModelLimits, ModelSettings
from tests.journal.journals import jetstream_options

OVER_EVERY_JOURNAL = True
CLIENTS = 20
FRAMES = 4
SETTINGS = ModelSettings().complete(ModelLimits(100, 100, 100, 10**8))
DEFAULTS = {"dense": SETTINGS}
ENGINE_SETTINGS = EngineSettings(
    pending_ttl_seconds=60,
    pending_max=100,
    pending_total_max=100,
    features_max=10,
    feature_abs_max=1e6,
    jobs_max=1,
    models_max=100,
    models_loaded_max=100,
    snapshot_every_events=1000,
)


class AskedOfSqlite(SqliteJournal):
    """Counts how often it was asked for totals."""

    asked = 0

    async def totals(self, prefix: str) -> Totals:
        self.asked += 1
        return await super().totals(prefix)


class AskedOfJetStream(JetStreamJournal):
    asked = 0

    async def totals(self, prefix: str) -> Totals:
        self.asked += 1
        return await super().totals(prefix)


@pytest.fixture
def counted(journal: str, tmp_path: Path, request: pytest.FixtureRequest) -> Any:
    made: AskedOfSqlite | AskedOfJetStream
    if journal == "jetstream":
        server = request.getfixturevalue("nats_server")
        made = AskedOfJetStream(jetstream_options(server, f"t{os.urandom(6).hex()}"))
    else:
        made = AskedOfSqlite(
            tmp_path,
            durability="process",
            queue_events_max=1000,
            queue_seconds_max=60,
            events_kept_max=5,
            expired_remembered_max=2,
        )
    return made


@asynccontextmanager
async def engine_on(journal: Any) -> AsyncIterator[Engine]:
    engine = Engine(journal, ENGINE_SETTINGS, DEFAULTS)
    await engine.open()
    journal.asked = 0
    try:
        yield engine
    finally:
        await engine.close()


async def learn(engine: Engine, rounds: int, model: str = "m") -> None:
    for _ in range(rounds):
        await engine.rounds.learn(model, [1.0], 1, None)


async def test_who_asks_at_the_same_time_shares_the_answer(counted: Any) -> None:
    async with engine_on(counted) as engine:
        await learn(engine, 3)
        found = await asyncio.gather(*(engine.models.totals.now("") for _ in range(CLIENTS)))
        assert {totals.revealed for totals in found} == {3}
        assert counted.asked == 1


async def test_each_answer_has_all_that_was_acknowledged_before_the_question(counted: Any) -> None:
    async with engine_on(counted) as engine:
        asking = []
        for _ in range(30):
            await learn(engine, 1)
            asking.append(asyncio.create_task(engine.models.totals.now("")))
        revealed = [(await each).revealed for each in asking]
        assert all(told >= rounds for rounds, told in enumerate(revealed, 1)), revealed
        assert (await engine.models.totals.now("")).revealed == 30
        assert (await engine.models.totals.now("other")).models == 0


@pytest.mark.slow
async def test_many_feeds_cost_as_much_as_one(counted: Any) -> None:
    """At most once a second after the snapshots, though there is something new all the time."""
    async with engine_on(counted) as engine:
        await learn(engine, 1)
        feed = Feed(TenantModels(engine.models), engine.fleet, engine.clock, clients_max=CLIENTS)
        done = asyncio.Event()

        async def keep_learning() -> None:
            while not done.is_set():
                await learn(engine, 1)
                await asyncio.sleep(0.01)

        async def follow(number: int) -> list[dict[str, Any]]:
            await asyncio.sleep(number * 0.9 / CLIENTS)  # they come one after the other
            told = []
            async for frame in feed.frames(None, None, None):
                if b"data: " in frame:
                    told.append(msgspec.json.decode(frame.partition(b"data: ")[2]))
                if len(told) == FRAMES:
                    break
            return told

        began = monotonic()
        learning = asyncio.create_task(keep_learning())
        frames = await asyncio.gather(*map(follow, range(CLIENTS)))
        done.set()
        await learning
        for told in frames:
            revealed = [frame["totals"]["rounds"]["revealed"] for frame in told]
            assert revealed == sorted(revealed) and revealed[-1] > revealed[0]
        seconds = monotonic() - began
        snapshots = CLIENTS  # who comes gets totals of that moment
        assert FRAMES <= counted.asked <= snapshots + seconds / PACE_SECONDS + 1, "not once a frame"


async def test_the_last_change_is_in_the_last_frame(counted: Any) -> None:
    async with engine_on(counted) as engine:
        await learn(engine, 1)
        feed = Feed(TenantModels(engine.models), engine.fleet, engine.clock, clients_max=1)
        last = 0
        async for frame in feed.frames(None, None, None):
            if b"data: " in frame:
                last = msgspec.json.decode(frame.partition(b"data: ")[2])["totals"]["rounds"]["revealed"]
                if last == 1:
                    await learn(engine, 5)
                else:
                    break
        assert last == 6


async def test_sums_by_prefix_follow_creations_rounds_and_deletions(counted: Any) -> None:
    async with engine_on(counted) as engine:
        for step in range(12):
            await learn(engine, 1 + step % 3, f"{'ab'[step % 2]}{step % 5}")
            if step % 4 == 3:
                await engine.models.delete(f"{'ab'[step % 2]}{step % 5}")
            loaded = [live.summary() for live in engine.fleet.loaded.values()]
            for prefix in ("", "a", "b", "a0", "c", "~", "\0"):
                wanted = [summary for summary in loaded if summary.model.startswith(prefix)]
                told = await engine.models.totals.now(prefix)
                assert (told.models, told.revealed, told.mistakes, told.updates) == (
                    len(wanted),
                    sum(summary.revealed for summary in wanted),
                    sum(summary.mistakes for summary in wanted),
                    sum(summary.updates for summary in wanted),
                ), (step, prefix)
