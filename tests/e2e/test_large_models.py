"""Nobody waits for a large model: while it is loaded, saved or deleted, others are answered."""

import itertools
import random
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import httpx
import pytest

from tests.support.service_process import Service
from tests.support.waiting import PATIENCE_SECONDS, eventually

pytestmark = pytest.mark.thorough

OVER_EVERY_JOURNAL = True

FEATURES, CLASSES = 2_000, 40


class Watch:
    """When somebody else was answered."""

    def __init__(self) -> None:
        self.answered: list[float] = []

    def gaps(self, began: float, ended: float) -> list[float]:
        times = [began, *(at for at in self.answered if began < at < ended), ended]
        return [after - before for before, after in itertools.pairwise(times)]


@contextmanager
def watching(service: Service) -> Iterator[Watch]:
    """Ask for /livez again and again meanwhile."""
    watch, over = Watch(), threading.Event()

    def ask() -> None:
        with httpx.Client(base_url=service.url, verify=False, timeout=PATIENCE_SECONDS) as client:
            while not over.is_set():
                assert client.get("/livez").status_code == 200
                watch.answered.append(time.monotonic())

    asking = threading.Thread(target=ask)
    asking.start()
    try:
        yield watch
    finally:
        over.set()
        asking.join()


def teach(service: Service, count: int) -> None:
    draw = random.Random(1)
    service.create(
        "large",
        features={"kind": "dense", "dimension": FEATURES},
        labels=list(range(CLASSES)),
        learner={"algorithm": "arow"},
    )
    for start in range(0, count, 20):
        items = [
            {
                "model": "large",
                "features": [round(draw.gauss(0, 1), 3) for _ in range(FEATURES)],
                "label": at % CLASSES,
            }
            for at in range(start, start + 20)
        ]
        service.post("/learn", {"items": items})


def test_others_are_answered_while_a_large_model_is_loaded_and_it_is_the_same_to_the_bit(
    start: Callable[..., Service],
) -> None:
    service = start(snapshot_every_events=100_000)
    teach(service, 400)
    export = service.get("/models/large/export")
    held: list[float] = []

    def others_are_answered() -> bool:
        """Again and again, and not after the half of it only; unless the machine itself holds them up."""
        service.kill()
        service.start()
        with watching(service) as watch:
            service.get("/models")  # the service is warm
            began = time.monotonic()
            assert service.get("/models/large")["version"] == 400
            ended = time.monotonic()
        held.append(max(watch.gaps(began, ended)) / (ended - began))
        return held[-1] < 0.5

    eventually(others_are_answered, otherwise=lambda: f"the longest gaps, as parts of the whole: {held}")
    again = service.get("/models/large/export")
    assert again["digest"] == export["digest"]
    service.assert_replay_equals_live("large")
