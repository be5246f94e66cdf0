"""Clients of models that come and go: deletes, second lives of other shapes, and every request sent twice at once.

Whatever such a client is told, it is never told of a fault of the service, and two equal requests at the same
moment get the same answer. Used by a test of `make test` and by `make soak`.
"""

import asyncio
import random
from collections import Counter
from collections.abc import Awaitable, Callable
from itertools import count
from typing import Any

import httpx

SHAPES: list[dict[str, Any]] = [
    {"features": {"kind": "dense", "dimension": 2}},
    {"features": {"kind": "dense", "dimension": 5}},
    {"features": "named"},
    {"features": {"kind": "dense", "dimension": 3}, "labels": ["a", "b", "c"]},
]
EXAMPLES: list[Any] = [[1.0, -1.0], [0.5, 1.0, -1.0, 2.0, 0.0], {"x": 1.0, "y": -2.0}, [1.0, 2.0, 3.0]]
LABELS = [-1, 1, "a", "c"]

GOOD = {200, 201, 202, 204}
EXPECTED = GOOD | {404, 409, 410, 422}
"""A model was deleted in the meantime, made by somebody else or with another shape, or reset."""

Send = Callable[[str, str, Any], Awaitable[httpx.Response]]
"""Sends a request (method, path, body) and gives its answer."""


class Mortals:
    """One client. It needs `models` to itself and to others of its kind."""

    def __init__(self, send: Send, number: int, models: list[str], name: str = "mortal") -> None:
        self._send = send
        self._chance = random.Random(number)
        self._models = models
        self._ids = (f"{name}-{number}-{i}" for i in count())
        self.statuses: Counter[str] = Counter()

    async def step(self) -> None:
        """One thing that such a client may do."""
        model = self._chance.choice(self._models)
        kinds = [self._round, self._learn, self._new_life, self._reset, self._look]
        await self._chance.choices(kinds, [8, 6, 3, 1, 2])[0](model)

    def _example(self) -> tuple[Any, Any]:
        return self._chance.choice(EXAMPLES), self._chance.choice(LABELS)

    async def _round(self, model: str) -> None:
        features, label = self._example()
        body = {"model": model, "features": features}
        if self._chance.random() < 0.5:
            body["id"] = next(self._ids)
            served = await self._twice("/predict", body)
        else:
            served = await self._once("POST", "/predict", body)
        if served.status_code == 200:
            await self._twice("/feedback", {"prediction_id": served.json()["prediction_id"], "label": label})

    async def _learn(self, model: str) -> None:
        features, label = self._example()
        await self._twice(
            "/learn", {"model": model, "features": features, "label": label, "id": next(self._ids)}
        )

    async def _new_life(self, model: str) -> None:
        await asyncio.gather(
            self._once("DELETE", f"/models/{model}"),
            self._once("POST", "/models", {"model": model, **self._chance.choice(SHAPES)}),
            self._learn(model),
            self._round(model),
        )

    async def _reset(self, model: str) -> None:
        await self._once("POST", f"/models/{model}/reset")

    async def _look(self, model: str) -> None:
        paths = [f"/stats/{model}", "/stats", "/stats?sort=rounds", f"/models/{model}", "/metrics"]
        await self._once("GET", self._chance.choice(paths))

    async def _once(self, method: str, path: str, body: Any = None) -> httpx.Response:
        answer = await self._send(method, path, body)
        self.statuses[f"{method} {path.split('?')[0].split('/')[1]} {answer.status_code}"] += 1
        assert answer.status_code in EXPECTED, (method, path, body, answer.status_code, answer.text)
        return answer

    async def _twice(self, path: str, body: Any) -> httpx.Response:
        """As after a timeout: the same request again while the first is under way."""
        first, second = await asyncio.gather(self._once("POST", path, body), self._once("POST", path, body))
        if first.status_code == second.status_code == 200:
            # Unless the model died between the two, and a new one has learned the second.
            told = [{**one.json(), "score": None} for one in (first, second)]
            replayed = [one.headers.get("idempotent-replay") for one in (first, second)]
            assert told[0] == told[1] or replayed == [None, None], (path, body, first.text, second.text)
        return first if first.status_code == 200 else second
