"""The event loop has its turns while large models are saved and read."""

import asyncio
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from time import process_time
from typing import Any

import pytest

from service.turns import favour_the_loop
from tests.engine.test_copying import EAGER, WIDE, learn, make, running
from tests.pauses import Turns, shortest_pause

SLICE_SECONDS_MAX = 0.01

KINDS: dict[str, dict[str, Any]] = {
    "dense": {"labels": list(range(200)), "features": {"dimension": WIDE}, "learner": EAGER},
    "arow": {
        "labels": list(range(100)),
        "features": {"dimension": WIDE},
        "learner": {"algorithm": "arow"},
    },
    "full": {
        "labels": list(range(60)),
        "features": {"dimension": 500},
        "learner": {"algorithm": "arow", "covariance": "full"},
    },
    "classes": {"labels": list(range(1_000)), "features": {"dimension": 8_192}, "learner": EAGER},
    "text": {"features": {"kind": "hashed", "bits": 24, "text": ["said"]}},
}
"""Models of 65 to 134 MB."""


class Standstills(Turns):
    """The longest time between two turns of the loop in CPU time of the whole process.

    The loop stands still, too, while a thread keeps the interpreter. A thread that does not is busy for microseconds
    between two turns.
    """

    async def watch(self) -> None:
        while True:
            began = process_time()
            await asyncio.sleep(0)
            self.longest_seconds = max(self.longest_seconds, process_time() - began)


async def longest_of(work: Callable[[], Any]) -> Turns:
    turns = Standstills()
    watching = asyncio.create_task(turns.watch())
    await asyncio.sleep(0)  # or what is done before the first turn is not seen
    await work()
    await asyncio.sleep(0)
    watching.cancel()
    return turns


@pytest.fixture(autouse=True)
def favoured() -> Iterator[None]:
    """The loop goes on soon when threads are busy, as in the service."""
    before = sys.getswitchinterval()
    favour_the_loop()
    yield
    sys.setswitchinterval(before)


@pytest.mark.alone
@pytest.mark.parametrize("kind", KINDS)
async def test_the_loop_has_its_turns_while_a_large_model_is_saved(tmp_path: Path, kind: str) -> None:
    async with running(tmp_path) as engine:
        live = await make(engine, "m", **KINDS[kind])
        await learn(engine, live, 2)

        async def saved(number: int) -> Turns:
            await learn(engine, live, 1, first=10 + number)
            return await longest_of(lambda: engine.fleet.save(live))

        longest = await shortest_pause(saved, SLICE_SECONDS_MAX)
        stored = await engine.past._journal.load("m")
        assert stored is not None and stored.seq == live.seq and not stored.tail
        assert longest < SLICE_SECONDS_MAX, "it was 20 to 200 ms, in one piece"
