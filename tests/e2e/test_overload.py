"""Three times what the service can do, for eight seconds: it refuses at once, loses nothing and recovers."""

import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from statistics import quantiles
from threading import Event, Thread
from typing import Any

import pytest

from tests.memory import resident_bytes
from tests.open_loop import CONNECTIONS
from tests.running import Service

pytestmark = pytest.mark.alone  # what the service can do must not change between the calm and the storm

OVERLOAD_SECONDS = 8
QUEUE_SECONDS = 1.0
P99_SECONDS = 10 * QUEUE_SECONDS
"""An id that is looked up, then an event that is written, each within QUEUE_SECONDS; what was let in before it was
seen to be slow; and a machine that has more to do."""
GROWTH_MEGABYTES = 60
RECOVERY_SECONDS = 2


def offered(service: Service, rate: float, seconds: float, prefix: str) -> dict[str, Any]:
    """What came of a load that another process makes."""
    ran = subprocess.run(
        [sys.executable, "-m", "tests.open_loop", service.url, str(rate), str(seconds), prefix],
        capture_output=True, text=True, timeout=100,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    tally: dict[str, Any] = json.loads(ran.stdout)
    return tally


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
    for number in range(3):
        storm = offered(service, 3 * capacity, OVERLOAD_SECONDS, f"storm-{number}")
        if storm["refused"] > storm["accepted"] / 4:
            return storm, earlier
        earlier += storm["accepted"]
        capacity = max(capacity, storm["accepted"] / storm["seconds"])
    raise AssertionError("the load was no overload")


@pytest.mark.timeout(180)
def test_three_times_the_capacity_is_refused_in_part_and_nothing_is_lost(
    start: Callable[..., Service],
) -> None:
    service = start(queue_seconds_max=QUEUE_SECONDS)
    # A learner that takes long, so that it is the service that is at its limit and not this test.
    features = {"dimension": 2, "fourier": {"features": 400, "gamma": 0.5}}
    service.create("m", learner={"algorithm": "arow", "covariance": "full"}, features=features)
    calm = offered(service, 0, 3, "calm")
    capacity = calm["accepted"] / calm["seconds"]
    memory = Memory(service.process.pid)
    memory.start()
    storm, earlier = overloaded(service, capacity)
    memory.over.set()
    memory.join()

    began = time.monotonic()
    recovered = service.client.post("/learn", json={"model": "m", "features": [1.0, 1.0], "label": 1})
    recovery_seconds = time.monotonic() - began
    while recovered.status_code == 503 and time.monotonic() < began + 10 * RECOVERY_SECONDS:
        recovered = service.client.post("/learn", json={"model": "m", "features": [1.0, 1.0], "label": 1})
        recovery_seconds = time.monotonic() - began
    after = offered(service, 0, 2, "after")
    capacity = min(capacity, after["accepted"] / after["seconds"])  # a neighbour may have come meanwhile
    p99 = quantiles(storm["accepted_seconds"], n=100)[98]
    refused_p99 = quantiles(storm["refused_seconds"], n=100)[98]
    print(
        f"capacity {capacity:.0f}/s; {storm['accepted']} accepted, p99 {p99:.2f} s; {storm['refused']} refused,"
        f" p99 {refused_p99:.2f} s; memory {memory.megabytes[0]:.0f} to {max(memory.megabytes):.0f} MB;"
        f" recovered in {recovery_seconds:.2f} s"
    )
    assert calm["others"] == storm["others"] == after["others"] == []
    assert min(calm["refused"], after["refused"]) == 0
    assert storm["without_retry_after"] == 0
    assert storm["accepted"] > capacity * OVERLOAD_SECONDS / 4, "it does little but refuse"
    assert p99 < P99_SECONDS
    assert max(memory.megabytes) < memory.megabytes[0] + GROWTH_MEGABYTES
    assert recovered.status_code == 200 and recovery_seconds < RECOVERY_SECONDS

    service.kill()
    service.start()
    counted = service.stats("m")["rounds"]["revealed"]
    assert counted == calm["accepted"] + earlier + storm["accepted"] + after["accepted"] + 1, (
        "acknowledged rounds count once, refused ones never"
    )
