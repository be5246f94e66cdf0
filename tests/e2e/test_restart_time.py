"""A restart costs the same with a short history and with a long one."""

import asyncio
import statistics
import time
from pathlib import Path

import pytest

from service.engine.clock import Clock
from service.engine.fleet.fleet import Fleet
from service.engine.fleet.memory_use import MemoryUse
from service.events import ModelCreated, RoundLearned
from service.web.routes.model_settings import ModelLimits, ModelSettings
from tests.journal.journals import sqlite_at
from tests.running import Service


async def write_history(directory: Path, events: int) -> None:
    journal = sqlite_at(directory, events_kept_max=1_000_000)
    fleet = Fleet(
        journal,
        Clock(),
        memory=MemoryUse(models_max=10, models_bytes_max=10**9, outcomes_bytes_max=10**9),
        snapshot_every_events=1000,
    )
    await journal.open(fleet.apply)
    settings = ModelSettings(features={"dimension": 2}).complete(ModelLimits(100, 100, 100, 10**8))
    life = (await journal.append(ModelCreated("m", 1, settings))).seq
    features = b"\x00" * 16
    for start in range(0, events, 500):
        times = range(start, min(start + 500, events))
        rounds = [RoundLearned("m", 2 + i, None, 1 if i % 3 else -1, features) for i in times]
        await asyncio.gather(*(journal.append(event, life) for event in rounds))
    await journal.close()


def seconds_to_first_answer(service: Service) -> float:
    began = time.perf_counter()
    service.start(cold=True)
    service.predict("m", [1.0, 2.0])
    taken = time.perf_counter() - began
    service.kill()
    return taken


@pytest.mark.timeout(240)
def test_a_restart_does_not_take_longer_with_a_long_history(tmp_path: Path) -> None:
    services = {events: Service(tmp_path / str(events)) for events in (200, 200_000)}
    for events, service in services.items():
        asyncio.run(write_history(service.data, events))
    times: dict[int, list[float]] = {events: [] for events in services}
    for _ in range(3):
        for events, service in services.items():
            times[events].append(seconds_to_first_answer(service))
    for service in services.values():
        service.client.close()
    short, long = (statistics.median(times[events]) for events in services)
    print(f"first answer after {short:.2f} s with 200 events, {long:.2f} s with 200,000")
    assert long < 2 * short
