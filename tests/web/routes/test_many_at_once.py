"""What is asked of many models, or by many at the same moment, is answered in slices: the loop has its turns."""

import asyncio
import json
from pathlib import Path

import pytest

from service.runtime.cooperative import SLICE_SECONDS, Turns
from tests.support.loop_pauses import InLoop, in_loop, shortest_pause, watched
from tests.support.loop_pauses import Turns as Pauses

pytestmark = pytest.mark.slow  # thousands of models, measured again where the machine stopped meanwhile

NDJSON = (b"content-type", b"application/x-ndjson")
MODELS = 1_000
FEEDS = 40

PAUSE_SECONDS_MAX = 0.1
"""Work is done in slices of 5 ms. Without slices they took 0.2 to 1 second."""


def rounds_of_all(label: int) -> bytes:
    return b"".join(
        b'{"model":"m%d","features":[1.0,2.0],"label":%d}\n' % (at, label) for at in range(MODELS)
    )


async def learn_all(service: InLoop, label: int = 1) -> None:
    status, told, _ = await service.post("/stream", [rounds_of_all(label)], NDJSON, query="answers=summary")
    assert (status, json.loads(told)["errors"]) == (200, 0)


@pytest.mark.thorough
async def test_many_who_follow_the_feed_do_not_hold_up_the_others(tmp_path: Path) -> None:
    async def followed(number: int) -> Pauses:
        async with in_loop(tmp_path / str(number)) as service:
            await learn_all(service)
            async with watched() as turns:
                following = [
                    asyncio.create_task(service.get("/feed", until=b"event: changes")) for _ in range(FEEDS)
                ]
                await learn_all(service, -1)
                frames = await asyncio.gather(*following)
        for frame in frames:
            told = json.loads(frame.partition(b"data: ")[2].partition(b"\n")[0])
            assert len(told["models"]) == MODELS and told["totals"]["models"] == MODELS
        return turns

    assert await shortest_pause(followed, PAUSE_SECONDS_MAX) < PAUSE_SECONDS_MAX


@pytest.mark.parametrize("path", ["/metrics", "/stats", "/models"])
async def test_what_is_told_of_many_models_is_told_in_slices(tmp_path: Path, path: str) -> None:
    async with in_loop(tmp_path, metrics_models_max=MODELS) as service:
        await learn_all(service)
        query = "" if path == "/metrics" else "limit=1000"

        async def asked(_: int) -> Pauses:
            async with watched() as turns:
                answers = await asyncio.gather(*(service.get(path, query) for _ in range(4)))
            assert all(answer.count(b'"m77"') >= 1 for answer in answers)
            return turns

        assert await shortest_pause(asked, PAUSE_SECONDS_MAX) < PAUSE_SECONDS_MAX


async def test_a_stream_that_makes_many_models_does_not_hold_up_the_others(tmp_path: Path) -> None:
    async def learned(number: int) -> Pauses:
        async with in_loop(tmp_path / str(number), models_loaded_max=300) as service, watched() as turns:
            for label in (1, -1):  # the second time they are loaded, and others unloaded
                await learn_all(service, label)
        return turns

    assert await shortest_pause(learned, PAUSE_SECONDS_MAX) < PAUSE_SECONDS_MAX


@pytest.mark.thorough
async def test_outcomes_of_many_models_are_saved_in_slices(tmp_path: Path) -> None:
    lines = [
        b'{"model":"m%d","features":[1.0],"label":1,"id":"r%d-%d"}\n' % (at, at, number)
        for number in range(2)
        for at in range(MODELS)
    ]

    async def learned(number: int) -> Pauses:
        async with in_loop(tmp_path / str(number), outcomes_bytes_max=150_000) as service:
            _, told, turns = await service.post("/stream", [b"".join(lines)], NDJSON, query="answers=summary")
            figures = (await service.get("/metrics")).splitlines()
        used = [line for line in figures if b'{of="outcomes"}' in line]
        assert json.loads(told)["revealed"] == 2 * MODELS
        assert float(used[0].split()[1]) <= 150_000
        return turns

    assert await shortest_pause(learned, PAUSE_SECONDS_MAX) < PAUSE_SECONDS_MAX


async def test_tasks_with_long_work_share_a_slice() -> None:
    """Each of them waits for all the others: with a slice each, a turn of the loop would take as many."""

    async def work() -> None:
        mine = Turns()
        for _ in range(100_000):  # many slices on any machine
            await mine.give()

    async def worked(_: int) -> Pauses:
        async with watched() as turns:
            await asyncio.gather(*(work() for _ in range(40)))
        return turns

    assert await shortest_pause(worked, 8 * SLICE_SECONDS) < 8 * SLICE_SECONDS
