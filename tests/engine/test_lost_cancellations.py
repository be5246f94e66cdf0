"""A stop whose cancellation is lost: `asyncio.wait_for` of Python 3.11 drops one that comes when an answer has."""

import asyncio
from pathlib import Path

from service.engine.engine_settings import EngineSettings
from service.engine.housekeeping import Housekeeping
from service.engine.jobs.jobs import Running
from service.engine.rounds.expiry import Expiry
from tests.engine.test_jobs import jobs_at
from tests.support.waiting import PATIENCE_SECONDS


class Asked:
    """Somebody who asks again and again, as one does of a cluster; the first answer is given by `answer`."""

    def __init__(self) -> None:
        self.waits = asyncio.Event()
        self._first: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def ask(self) -> None:
        self.waits.set()
        await asyncio.wait_for(self._first, 3600)
        self._first = asyncio.get_running_loop().create_future()

    def answer(self) -> None:
        self._first.set_result(None)


class AskingExpiry(Expiry):
    def __init__(self, asked: Asked) -> None:
        self._asked = asked

    async def sweep(self) -> None:
        await self._asked.ask()


async def test_housekeeping_ends(tmp_path: Path) -> None:
    """The service gave up its stop after 20 seconds, and with it what it should have handed over."""
    async with jobs_at(tmp_path) as (_, fleet), asyncio.timeout(PATIENCE_SECONDS):
        asked = Asked()
        housekeeping = Housekeeping(fleet._journal, fleet, AskingExpiry(asked))
        housekeeping.start()
        await asked.waits.wait()
        asked.answer()
        stopping = asyncio.create_task(housekeeping.stop())
        await asyncio.wait([housekeeping._task])
        asked.answer()  # it looks once more, in its own name
        await stopping


async def test_a_job_ends_that_somebody_cancels(tmp_path: Path) -> None:
    long = EngineSettings(fit_seconds_max=3600)
    async with jobs_at(tmp_path, long) as (jobs, fleet), asyncio.timeout(PATIENCE_SECONDS):
        asked = Asked()

        async def asks(_: Running) -> None:
            while True:
                await asked.ask()

        job = jobs.start(await fleet.get("m"), "fit", {}, asks).job
        await asked.waits.wait()
        asked.answer()
        await jobs.stop()
        assert job.state == "cancelled"
