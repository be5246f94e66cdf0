"""A restart costs the same with a short history and with a long one: its work is measured, and not its time."""

import asyncio
from pathlib import Path

import pytest

from service.engine.clock import Clock
from service.engine.engine_settings import EngineSettings
from service.engine.fleet.fleet import Fleet
from service.events import ModelCreated, RoundLearned
from service.journal.sqlite.soundness import CHECKED_WHOLE_BYTES_MAX
from service.web.routes.model_settings import ModelLimits, ModelSettings
from tests.journal.journals import sqlite_at
from tests.support.process_usage import cpu_seconds, read_bytes
from tests.support.service_process import Service

pytestmark = pytest.mark.thorough

EVENTS_MANY = 60_000
"""So that the file is larger than what is checked whole at a start."""


async def write_history(directory: Path, events: int) -> None:
    journal = sqlite_at(directory, events_kept_max=1_000_000)
    fleet = Fleet(
        journal,
        Clock(),
        EngineSettings(models_loaded_max=10, snapshot_every_events=1000),
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


def cost_of_first_answer(service: Service) -> tuple[float, int]:
    """Seconds of the processor, and bytes that were read, of the service and of the process that writes."""
    service.start()
    service.learn("m", [1.0, 2.0], 1)
    pids = service.process.pid, service.writer_pid
    cost = sum(map(cpu_seconds, pids)), sum(map(read_bytes, pids))
    service.kill()
    return cost


def test_a_restart_does_not_take_longer_with_a_long_history(tmp_path: Path) -> None:
    """Without a snapshot, the long one takes 3 seconds of the processor and reads 9 MB more."""
    services = {
        events: Service(tmp_path / str(events), scrub_rows_per_second=0) for events in (200, EVENTS_MANY)
    }
    for events, service in services.items():
        asyncio.run(write_history(service.data, events))
    long_file = services[EVENTS_MANY].data / "journal.sqlite"
    assert long_file.stat().st_size > CHECKED_WHOLE_BYTES_MAX
    costs: dict[int, list[tuple[float, int]]] = {events: [] for events in services}
    for _ in range(2):
        for events, service in services.items():
            costs[events].append(cost_of_first_answer(service))
    for service in services.values():
        service.client.close()
    # The most of both starts: the first may have made what the second began with.
    (short, short_bytes), (long, long_bytes) = (
        map(max, zip(*costs[events], strict=True)) for events in services
    )
    print(f"{short:.2f} s, {short_bytes} bytes with 200 events; {long:.2f} s, {long_bytes} bytes with many")
    assert long < 3 * short + 0.5  # a neighbour on the same core makes either of them dearer
    assert long_bytes < short_bytes + 2_000_000
