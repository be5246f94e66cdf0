"""A kill while large models are copied and saved: what was acknowledged is there, to the bit."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import httpx
import numpy as np
import pytest

from tests.support.service_process import Service

pytestmark = pytest.mark.thorough

WIDE = 16_384
LABELS = list(range(20))


def test_a_kill_amid_snapshots_of_large_models_loses_nothing(start: Callable[..., Service]) -> None:
    service = start(snapshot_every_events=2)
    learner = {"algorithm": "perceptron", "rule": "margin", "delta": 1.0}
    for name in ("a", "b"):
        service.create(name, labels=LABELS, learner=learner, features={"dimension": WIDE})
    numbers = np.random.default_rng(1).normal(size=WIDE).round(2).tolist()
    for kill in range(3):
        acknowledged = {name: service.stats(name)["version"] for name in ("a", "b")}
        with ThreadPoolExecutor(3) as clients:
            rounds = [
                clients.submit(_learn, service, name, numbers, LABELS[(at + kill) % 20])
                for at in range(6)
                for name in ("a", "b")
            ]
            reading = clients.submit(_read, service)
            for done in rounds[:9]:
                acknowledged[done.result()] += 1
            service.process.kill()
            for done in rounds[9:]:
                if done.exception() is None:
                    acknowledged[done.result()] += 1
            reading.exception()
        service.kill()
        service.start()
        for name, version in acknowledged.items():
            assert version <= service.stats(name)["version"] <= 6 * (kill + 1)
            service.assert_replay_equals_live(name)


def _learn(service: Service, name: str, numbers: list[float], label: int) -> str:
    service.learn(name, numbers, label)
    return name


def _read(service: Service) -> None:
    """Exports, which copy the models, until the service is gone."""
    while True:
        try:
            service.client.get("/models/a/export?format=sklearn")
        except httpx.HTTPError:
            return
