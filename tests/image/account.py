"""Rounds that are sent until they are acknowledged, and an account of them."""

import threading
import time
from dataclasses import dataclass, field

import httpx

from tests.support.waiting import eventually

RETRY_SECONDS = 0.05
PATIENCE_SECONDS = 120


@dataclass
class Account:
    """What clients were told: how many rounds were acknowledged, and how long the slowest one took."""

    acknowledged: int = 0
    retries: int = 0
    slowest_seconds: float = 0.0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def add(self, retries: int, seconds: float) -> None:
        with self._lock:
            self.acknowledged += 1
            self.retries += retries
            self.slowest_seconds = max(self.slowest_seconds, seconds)

    def __str__(self) -> str:
        slowest = f"{self.slowest_seconds:.1f} s"
        return f"{self.acknowledged} acknowledged, {self.retries} sent again, the slowest after {slowest}"


class Load:
    """Clients that send `/learn` with ids of their own, each again until it is acknowledged, until told to stop."""

    def __init__(self, url: str, model: str, clients: int = 4) -> None:
        self.account = Account()
        self._url, self._model = url, model
        self._stop = threading.Event()
        self._failures: list[BaseException] = []
        self._threads = [threading.Thread(target=self._run, args=(number,)) for number in range(clients)]

    def __enter__(self) -> "Load":
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()
        assert not self._failures, self._failures

    def until_more(self, rounds: int) -> None:
        """Wait until so many more have been acknowledged."""
        goal = self.account.acknowledged + rounds

        def has_come_so_far() -> bool:
            assert not self._failures, self._failures
            return self.account.acknowledged >= goal

        eventually(has_come_so_far, PATIENCE_SECONDS, otherwise=f"no more are acknowledged: {self.account}")

    def _run(self, number: int) -> None:
        try:
            with httpx.Client(base_url=self._url, timeout=20, trust_env=False) as client:
                sent = 0
                while not self._stop.is_set():
                    self._send(client, f"{self._model}-{number}-{sent}")
                    sent += 1
        except BaseException as error:
            self._failures.append(error)

    def _send(self, client: httpx.Client, round_id: str) -> None:
        body = {"model": self._model, "id": round_id, "features": [1.0, 2.0], "label": 1}
        began = time.monotonic()
        retries = 0
        while True:
            try:
                answer = client.post("/learn", json=body)
                if answer.status_code == 200:
                    return self.account.add(retries, time.monotonic() - began)
                assert answer.status_code >= 500, answer.text
            except httpx.TransportError:
                pass
            assert time.monotonic() - began < PATIENCE_SECONDS, f"{round_id} was never acknowledged"
            retries += 1
            time.sleep(RETRY_SECONDS)
