"""The meter of the event loop: what it measures, and what `/readyz` and `/metrics` make of it."""

import asyncio
import time
from pathlib import Path

import httpx
import pytest

from service.app import create_app
from service.runtime.timings import LATELY_SECONDS, UNREADY_SECONDS, LoopPauses
from service.settings import Settings
from tests.support.service_process import problem_of


class Time:
    """A clock that is moved by hand."""

    now = 1_000.0

    def __call__(self) -> float:
        return self.now


async def metered(pauses: LoopPauses, held_seconds: float, clock: Time, *, after: float = 0.0) -> None:
    """Let the meter ask for one turn after some time, which comes so late."""
    clock.now += after
    task = asyncio.create_task(pauses.run())
    count = pauses.timings.count
    await asyncio.sleep(0)  # now it waits for its turn
    clock.now += 0.02 + held_seconds
    while pauses.timings.count == count:
        await asyncio.sleep(0)
    task.cancel()
    await asyncio.wait([task])


async def test_a_pause_is_as_long_as_a_turn_is_late() -> None:
    clock = Time()
    pauses = LoopPauses(seconds_max=1.0, clock=clock)
    for seconds in (0.0, 0.3, 0.04):
        await metered(pauses, seconds, clock)
    assert pauses.timings.count == 3
    assert pauses.timings.seconds == pytest.approx(0.34)
    assert pauses.longest_seconds == pytest.approx(0.3)


@pytest.mark.slow
async def test_the_longest_pause_is_forgotten_after_a_while_and_not_before() -> None:
    clock = Time()
    pauses = LoopPauses(seconds_max=1.0, clock=clock)
    await metered(pauses, 0.5, clock)
    seen = []
    for _ in range(25):
        await metered(pauses, 0.04, clock, after=LATELY_SECONDS / 10)
        seen.append(pauses.longest_seconds)
    assert seen[:10] == pytest.approx([0.5] * 10)
    assert seen[20:] == pytest.approx([0.04] * 5)


async def test_a_pause_that_is_too_long_makes_unready_for_a_while(caplog: pytest.LogCaptureFixture) -> None:
    clock = Time()
    pauses = LoopPauses(seconds_max=1.0, clock=clock)
    await metered(pauses, 0.9, clock)
    assert pauses.why_unready() is None and not caplog.records
    await metered(pauses, 1.5, clock)
    assert "stalled for 1.5 seconds" in (pauses.why_unready() or "")
    assert [record.getMessage() for record in caplog.records] == ["the event loop stalled for 1.5 seconds"]
    await metered(pauses, 0.0, clock, after=UNREADY_SECONDS / 2)
    assert pauses.why_unready() is not None
    await metered(pauses, 0.0, clock, after=UNREADY_SECONDS / 2)
    assert pauses.why_unready() is None


async def test_a_service_whose_loop_was_held_is_not_ready_and_its_metrics_tell(tmp_path: Path) -> None:
    app = create_app(Settings(data=tmp_path, loop_pause_seconds_max=0.5))
    async with app.router.lifespan_context(app):
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
            await asyncio.sleep(0)  # now the meter waits for a turn
            time.sleep(0.7)
            answer = await client.get("/readyz")
            assert problem_of(answer) == (503, "not-ready") and "event loop" in answer.json()["detail"]
            figures = await pause_figures(client)
            assert figures["novikoff_loop_pause_longest_seconds"] >= 0.6
            while not figures["novikoff_loop_pause_seconds_count"]:  # until the meter has had its turn
                figures = await pause_figures(client)
    assert figures["novikoff_loop_pause_seconds_sum"] >= 0.6


async def pause_figures(client: httpx.AsyncClient) -> dict[str, float]:
    await asyncio.sleep(0)
    lines = (await client.get("/metrics")).text.splitlines()
    found = (line.rsplit(" ", 1) for line in lines if line.startswith("novikoff_loop_pause"))
    return {name: float(value) for name, value in found}
