"""Three times what the service can do, for eight seconds: it refuses the rest, loses nothing and recovers."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from statistics import quantiles
from threading import Event, Thread
from typing import Any

import pytest

from tests.support.open_loop_load import CONNECTIONS
from tests.support.process_usage import cpu_seconds, resident_bytes
from tests.support.service_process import Service
from tests.support.waiting import PATIENCE_SECONDS, eventually

pytestmark = pytest.mark.alone  # what the service can do must not change between the calm and the storm

OVERLOAD_SECONDS = 8
QUEUE_SECONDS = 1.0
GROWTH_MEGABYTES = 60
TRIES = 10
"""How often a machine may hold the service up in a calm, or make it seem slow, so that no storm is one."""
SHARE_MIN = 0.1
"""How much of the service's processor time in a storm goes at least into the rounds that it accepts."""


def offered(service: Service, rate: float, seconds: float, prefix: str) -> dict[str, Any]:
    """What came of a load that another process makes, and how much of the processor the service took for it."""
    before = cpu_seconds(service.process.pid)
    ran = subprocess.run(
        [sys.executable, "-m", "tests.support.open_loop_load", service.url, str(rate), str(seconds), prefix],
        capture_output=True, text=True, timeout=PATIENCE_SECONDS,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    tally: dict[str, Any] = json.loads(ran.stdout)
    return tally | {"cpu_seconds": cpu_seconds(service.process.pid) - before}


def calm(service: Service, prefix: str) -> tuple[dict[str, Any], int]:
    """What came of a load by few clients of which nothing was refused, and how many rounds were accepted before it."""
    earlier = 0
    for number in range(TRIES):
        tally = offered(service, 0, 3, f"{prefix}-{number}")
        if not tally["refused"]:
            return tally, earlier
        earlier += tally["accepted"]
    raise AssertionError("a few clients are refused, too")


class Memory(Thread):
    """Looks at the memory of a process until told to stop, from when it has all connections of the storm."""

    def __init__(self, pid: int) -> None:
        super().__init__(daemon=True)
        self.pid = pid
        self.over = Event()
        self.megabytes: list[float] = []

    def run(self) -> None:
        while not self.over.wait(0.2):
            if len(list(Path(f"/proc/{self.pid}/fd").iterdir())) > CONNECTIONS:
                self.megabytes.append(resident_bytes(self.pid) / 2**20)


def overloaded(service: Service, capacity: float) -> tuple[dict[str, Any], int]:
    """What came of a storm that was one, and how many rounds were accepted in those before, which were none.

    A neighbour may have made the service seem slower in the calm than it is: then the next storm is heavier.
    """
    earlier = 0
    for number in range(TRIES):
        storm = offered(service, 3 * capacity, OVERLOAD_SECONDS, f"storm-{number}")
        if storm["refused"] > storm["accepted"] / 4:
            return storm, earlier
        earlier += storm["accepted"]
        capacity = max(capacity, storm["accepted"] / storm["seconds"])
    raise AssertionError("the load was no overload")


@pytest.mark.timeout(600)
def test_three_times_the_capacity_is_refused_in_part_and_nothing_is_lost(
    start: Callable[..., Service],
) -> None:
    # Connections may wait long for their first request: to make thousands of them takes a while.
    service = start(queue_seconds_max=QUEUE_SECONDS, request_timeout_seconds=3600)
    # A learner that takes long, so that it is the service that is at its limit and not this test.
    features = {"dimension": 2, "fourier": {"features": 400, "gamma": 0.5}}
    service.create("m", learner={"algorithm": "arow", "covariance": "full"}, features=features)
    before, before_that = calm(service, "before")
    memory = Memory(service.process.pid)
    memory.start()
    storm, lighter = overloaded(service, before["accepted"] / before["seconds"])
    memory.over.set()
    memory.join()

    body = {"model": "m", "features": [1.0, 1.0], "label": 1}
    eventually(lambda: service.client.post("/learn", json=body).status_code == 200)
    after, before_after = calm(service, "after")
    p99 = quantiles(storm["accepted_seconds"], n=100)[98]
    refused_p99 = quantiles(storm["refused_seconds"], n=100)[98]
    share = storm["accepted"] * before["cpu_seconds"] / before["accepted"] / storm["cpu_seconds"]
    print(
        f"{before['accepted'] / before['seconds']:.0f}/s in the calm; {storm['accepted']} accepted, p99 {p99:.2f} s,"
        f" for {share:.0%} of the processor time; {storm['refused']} refused, p99 {refused_p99:.2f} s;"
        f" memory {memory.megabytes[0]:.0f} to {max(memory.megabytes):.0f} MB"
    )
    assert before["others"] == storm["others"] == after["others"] == []
    assert storm["without_retry_after"] == 0
    assert share > SHARE_MIN, "it does little but refuse"
    assert max(memory.megabytes) < memory.megabytes[0] + GROWTH_MEGABYTES

    service.kill()
    service.start()
    accepted = [tally["accepted"] for tally in (before, storm, after)]
    counted = service.stats("m")["rounds"]["revealed"]
    assert counted == sum(accepted) + before_that + lighter + before_after + 1, (
        "acknowledged rounds count once, refused ones never"
    )
