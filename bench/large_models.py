"""How long the event loop stands still while a large model is saved, read, loaded and forked.

python -m bench.large_models        20 classes of 2^18 weights, 42 MB, all of them used

The time is CPU time of the loop's thread and of threads that keep the interpreter, so that a busy machine does not
count; the least of some tries.
"""

import asyncio
import resource
import sys
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path
from time import process_time, thread_time
from typing import Any

import msgspec
import numpy as np

from service.engine.engine import Engine
from service.engine.engine_settings import EngineSettings
from service.engine.models.model import Model
from service.engine.transfer.json_export import learned
from service.journals import make_journal
from service.runtime.cooperative import favour_the_loop
from service.settings import Settings
from service.web.routes.model_settings import ModelLimits, ModelSettings

CLASSES, BITS, TRIES = 20, 18, 5


async def longest_seconds(work: Awaitable[object]) -> float:
    longest = 0.0

    async def watch() -> None:
        nonlocal longest
        while True:
            began, own, slept = process_time(), thread_time(), sleeps()
            await asyncio.sleep(0)
            own = thread_time() - own
            others = process_time() - began - own
            kept = min(others, (sleeps() - slept) * sys.getswitchinterval())
            longest = max(longest, own + max(0.0, kept))

    watching = asyncio.create_task(watch())
    await asyncio.sleep(0)
    await work
    await asyncio.sleep(0)
    watching.cancel()
    return longest


def sleeps() -> int:
    return resource.getrusage(resource.RUSAGE_THREAD).ru_nvcsw


def fill(model: Model) -> None:
    """Give every weight a value: most of those of text are 0, and a state of them is small."""
    rows = model.classifier._bank._room  # type: ignore[attr-defined]
    rows[:] = np.random.default_rng(1).normal(size=rows.shape)


async def measure(engine: Engine, settings: Settings) -> None:
    features: dict[str, Any] = {"kind": "hashed", "bits": BITS, "text": ["said"]}
    limits = msgspec.convert(settings, ModelLimits, from_attributes=True)
    await engine.models.create(
        "m", ModelSettings(labels=list(range(CLASSES)), features=features).complete(limits)
    )
    await learn(engine, 0)
    fill((await engine.fleet.get("m")).model)

    async def save(number: int) -> None:
        await learn(engine, number)
        await engine.fleet.save(await engine.fleet.get("m"))

    async def read(_: int) -> None:
        await engine.past.read("m", None, learned)

    async def load(_: int) -> None:
        engine.fleet._unload(engine.fleet.loaded["m"])
        await engine.fleet.get("m")

    async def fork(number: int) -> None:
        await engine.going_back.fork("m", f"fork{number}", None)

    works: dict[str, Callable[[int], Awaitable[None]]] = {
        "save": save,
        "read": read,
        "load": load,
        "fork": fork,
    }
    for name, work in works.items():
        least = min([await longest_seconds(work(number)) for number in range(TRIES)])
        print(f"{name}: {1e3 * least:.1f} ms")


async def learn(engine: Engine, number: int) -> None:
    await engine.rounds.learn("m", {"said": f"word{number} of many"}, number % CLASSES, None)


async def main() -> None:
    favour_the_loop()
    with tempfile.TemporaryDirectory() as directory:
        settings = Settings(data=Path(directory))
        own = msgspec.convert(settings, EngineSettings, from_attributes=True)
        engine = Engine(make_journal(settings), own)
        await engine.open()
        try:
            await measure(engine, settings)
        finally:
            await engine.close()


if __name__ == "__main__":
    asyncio.run(main())
