"""Rounds of a stream that cannot be kept: none after them are learned, also if these could be kept."""

import resource
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from service.engine.engine import Engine
from service.errors import JournalUnavailable
from service.events import Label
from service.learning.vectors import Array, Rows
from service.web.access.tenants import TenantBlocks, TenantRounds
from service.web.stream.answers import StreamAnswers
from service.web.stream.whole_rounds import WholeRounds
from tests.engine.test_shared_totals import DEFAULTS, ENGINE_SETTINGS
from tests.journal.journals import sqlite_at
from tests.support.waiting import eventually_async

ROUNDS = 4
"""So few that they are one event, however long they take."""
Block = tuple[Array, list[Label]]


@asynccontextmanager
async def engine_at(directory: Path) -> AsyncIterator[Engine]:
    engine = Engine(sqlite_at(directory), ENGINE_SETTINGS, DEFAULTS)
    await engine.open()
    try:
        yield engine
    finally:
        await engine.close()


@contextmanager
def full_disk(engine: Engine) -> Iterator[None]:
    """The process that writes the journal can make no file larger."""
    journal: Any = engine._journal
    pid = journal._writer._process.pid
    resource.prlimit(pid, resource.RLIMIT_FSIZE, (1, resource.RLIM_INFINITY))
    try:
        yield
    finally:
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))


def block(seed: int) -> Block:
    rows = np.random.default_rng(seed).normal(size=(ROUNDS, 5))
    return rows, [1 if row.sum() > 0 else -1 for row in rows]


async def test_arrays_after_one_that_is_lost_are_not_learned(tmp_path: Path) -> None:
    async with engine_at(tmp_path / "data") as engine:

        async def blocks() -> AsyncIterator[Block]:
            yield block(0)
            await eventually_async(lambda: engine.fleet.loaded["m"].model.revealed == ROUNDS)
            with full_disk(engine):
                yield block(1)
                await eventually_async(lambda: engine._journal.figures.failures > 0)
            yield block(2)  # for which there is room again

        learned = 0
        with pytest.raises(JournalUnavailable):
            async for outcome in engine.blocks.learn_arrays("m", blocks()):
                learned += len(outcome)
        await engine._journal.settle()
        assert learned == engine.fleet.loaded["m"].model.revealed == ROUNDS


async def test_lines_after_some_that_are_lost_are_not_learned(tmp_path: Path) -> None:
    async with engine_at(tmp_path / "data") as engine:
        answers = StreamAnswers(
            TenantRounds(engine.rounds),
            TenantBlocks(engine.blocks),
            model="m",
            only=False,
            wanted=False,
            ahead=True,
            errors_max=10,
        )

        def lines(seed: int) -> WholeRounds:
            rows, labels = block(seed)
            return WholeRounds("m", Rows(rows), labels)

        await answers.answer(lines(0))
        with full_disk(engine):
            await answers.answer(lines(1))
            under_way = answers.under_way
            assert under_way is not None
            await eventually_async(under_way.done)
        await answers.answer(lines(2))
        await engine._journal.settle()
        assert answers.ended_by is not None and answers.tally.revealed == ROUNDS
        assert engine.fleet.loaded["m"].model.revealed == ROUNDS
