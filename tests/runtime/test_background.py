"""Tasks beside the requests: one that ends is missed."""

import asyncio
from pathlib import Path

import httpx
import pytest

from service.app import create_app
from service.runtime.cooperative import ended_tasks, keep_running, run_once
from service.settings import Settings
from tests.support.service_process import problem_of


async def fails() -> None:
    raise LookupError("nobody foresaw this")


async def ends() -> None:
    pass


async def runs() -> None:
    await asyncio.sleep(3600)


async def test_a_task_that_ends_is_missed_unless_it_was_cancelled(caplog: pytest.LogCaptureFixture) -> None:
    tasks = [keep_running(work.__name__, work()) for work in (fails, ends, runs)]
    tasks[-1].cancel()
    await asyncio.wait(tasks)
    assert ended_tasks() == ["fails", "ends"]
    assert [record.levelname for record in caplog.records] == ["CRITICAL"] * 2


async def test_a_task_with_an_end_tells_only_of_its_failure(caplog: pytest.LogCaptureFixture) -> None:
    await asyncio.wait([run_once("fails", fails()), run_once("ends", ends())])
    assert ended_tasks() == []
    assert [record.levelname for record in caplog.records] == ["ERROR"]


async def test_a_service_that_misses_a_task_is_not_ready(tmp_path: Path) -> None:
    app = create_app(Settings(data=tmp_path, loop_pause_seconds_max=60))
    async with app.router.lifespan_context(app):
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
            assert (await client.get("/readyz")).status_code == 200
            await asyncio.wait([keep_running("the watch", fails())])
            answer = await client.get("/readyz")
            assert problem_of(answer) == (503, "not-ready") and "the watch" in answer.json()["detail"]
            assert (await client.get("/livez")).status_code == 200
