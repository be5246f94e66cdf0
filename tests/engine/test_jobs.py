"""Jobs end once: their place is free when they are told to be over, whenever somebody cancels them."""

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest

from service.engine.clock import Clock
from service.engine.engine_settings import EngineSettings
from service.engine.fleet.fleet import Fleet
from service.engine.jobs.jobs import Jobs, Running
from service.errors import InvalidRequest, Overloaded
from service.events import ModelCreated
from service.runtime.processes import Worker
from service.web.routes.model_settings import ModelLimits, ModelSettings
from tests.journal.journals import sqlite_at

SETTINGS = ModelSettings().complete(ModelLimits(100, 100, 100, 10**8))
LIMITS = EngineSettings(fit_seconds_max=60)
Ends = Callable[[Running], Awaitable[None]]


@asynccontextmanager
async def jobs_at(path: Path, limits: EngineSettings = LIMITS) -> AsyncIterator[tuple[Jobs, Fleet]]:
    journal, clock = sqlite_at(path), Clock()
    fleet = Fleet(journal, clock, limits)
    await journal.open(fleet.apply)
    await fleet.create(ModelCreated("m", clock.now(), SETTINGS))
    try:
        yield Jobs(journal, fleet, clock, limits), fleet
    finally:
        await journal.close()


async def with_a_process(running: Running) -> None:
    """A worker that waits for a message which never comes."""
    running.worker = await Worker.start("service.engine.jobs.fit_process", LIMITS)


async def fails(running: Running) -> None:
    await with_a_process(running)
    raise InvalidRequest("it is not so")


async def goes_on(running: Running) -> None:
    await with_a_process(running)
    await asyncio.Event().wait()


@pytest.mark.parametrize(("work", "state"), [(with_a_process, "done"), (fails, "failed")])
@pytest.mark.slow
async def test_who_sees_a_job_over_can_start_the_next(work: Ends, state: str, tmp_path: Path) -> None:
    async with jobs_at(tmp_path) as (jobs, fleet):
        live = await fleet.get("m")
        job = jobs.start(live, "fit", {}, work).job
        with pytest.raises(Overloaded):
            jobs.check_room("another")
        while job.state == "running":
            assert job.finished_at is None
            await asyncio.sleep(0)
        assert (job.state, job.finished_at is None) == (state, False)
        jobs.check_room("m")


@pytest.mark.parametrize("turns", [0, 1, 2, 3, 5, 10, 20, 100, 1000])
@pytest.mark.parametrize("work", [with_a_process, goes_on])
@pytest.mark.slow
async def test_a_job_that_is_cancelled_at_any_time_leaves_its_place(
    turns: int, work: Ends, tmp_path: Path
) -> None:
    async with jobs_at(tmp_path) as (jobs, fleet):
        job = jobs.start(await fleet.get("m"), "fit", {}, work).job
        for _ in range(turns):
            await asyncio.sleep(0)
        for cancelled in await asyncio.gather(jobs.cancel(job.id), jobs.cancel(job.id)):
            assert cancelled is job
        assert job.state == "cancelled" or (work is with_a_process and job.state == "done")
        jobs.check_room("m")


@pytest.mark.slow
async def test_a_job_that_is_cancelled_while_its_process_ends_leaves_its_place(tmp_path: Path) -> None:
    async with jobs_at(tmp_path) as (jobs, fleet):
        running = jobs.start(await fleet.get("m"), "fit", {}, with_a_process)
        await asyncio.wait([running.work])
        assert (await jobs.cancel(running.job.id)).state == "done"
        jobs.check_room("m")


@pytest.mark.slow
async def test_a_process_is_waited_for_however_often_that_is_cancelled() -> None:
    """A stop cancels what takes long again and again, and nobody else waits for the process."""
    worker = await Worker.start("service.engine.jobs.fit_process", LIMITS)
    ending = asyncio.create_task(worker.end())
    while not ending.done():
        await asyncio.sleep(0)
        ending.cancel()
    assert ending.cancelled() and worker._process.returncode is not None


@pytest.mark.slow
@pytest.mark.parametrize("turns", range(12))
async def test_a_start_that_is_cancelled_leaves_no_process(turns: int) -> None:
    before = children()
    starting = asyncio.create_task(Worker.start("service.engine.jobs.fit_process", LIMITS))
    for _ in range(turns):
        await asyncio.sleep(0)
    while not starting.done():
        starting.cancel()
        await asyncio.sleep(0)
    if starting.cancelled():
        assert children() <= before
    else:
        await starting.result().end()


def children() -> set[str]:
    """The processes that this one has started and has not waited for."""
    found = set()
    for status in Path("/proc").glob("[0-9]*/status"):
        with suppress(FileNotFoundError, ProcessLookupError):
            if f"\nPPid:\t{os.getpid()}\n" in status.read_text():
                found.add(status.parent.name)
    return found
