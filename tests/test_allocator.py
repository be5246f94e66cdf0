"""What large models leave behind when they are gone: their memory is given back."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from tests.memory import resident_bytes
from tests.running import Service

MB = 1_000_000
DIMENSION = 60_000
LABELS = list(range(16))
CLIENTS = 6
TIMES = 6


def test_the_memory_of_large_models_is_given_back_when_they_are_gone(start: Callable[..., Service]) -> None:
    service = start(models_loaded_bytes_max=20 * MB, weights_max=1_000_000)
    service.create("large", labels=LABELS, features={"kind": "dense", "dimension": DIMENSION})
    for label in LABELS:
        service.learn("large", np.random.default_rng(label).normal(size=DIMENSION).round(3).tolist(), label)

    def come_and_go(client: int) -> None:
        for at in range(TIMES):
            name = f"fork-{client}-{at}"
            service.post("/models/large/fork", {"as": name})
            service.client.get(f"/models/{name}/weights?largest=10")
            for _ in range(4):  # small things that stay, between the large ones that go
                service.learn(f"small-{client}-{at}", [1.0] * 50, 1)
            service.client.delete(f"/models/{name}")

    come_and_go(CLIENTS)
    before = resident_bytes(service.process.pid)
    with ThreadPoolExecutor(CLIENTS) as clients:
        list(clients.map(come_and_go, range(CLIENTS)))
    grown = resident_bytes(service.process.pid) - before
    assert grown < 90 * MB, "it was 165 to 190 MB, and is 16"
