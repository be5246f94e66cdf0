"""The event loop has its turns while large models are saved and read."""

import asyncio
import json
import resource
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from time import process_time, thread_time
from typing import Any

import numpy as np
import pytest

from service.engine.models.model import Model
from service.engine.transfer.json_export import learned
from service.learning.sklearn_export import take_linear
from service.runtime.cooperative import favour_the_loop
from service.web.routes.exports import read_weights
from tests.engine.test_copying import EAGER, WIDE, learn, make, running
from tests.support.loop_pauses import InLoop, Turns, _scope, in_loop, shortest_pause

pytestmark = pytest.mark.thorough

SLICE_SECONDS_MAX = 0.01
"""Work is done in slices of 5 ms, and what cannot be divided comes on top."""
SAVED_SECONDS_MAX = 0.05
"""The encoder keeps the interpreter while it copies an array, which may be all of a model."""
JSON = (b"content-type", b"application/json")

KINDS: dict[str, dict[str, Any]] = {
    "dense": {"labels": list(range(80)), "features": {"dimension": WIDE}, "learner": EAGER},
    "arow": {
        "labels": list(range(40)),
        "features": {"dimension": WIDE},
        "learner": {"algorithm": "arow"},
    },
    "full": {
        "labels": list(range(20)),
        "features": {"dimension": 500},
        "learner": {"algorithm": "arow", "covariance": "full"},
    },
    "classes": {"labels": list(range(600)), "features": {"dimension": 8_192}, "learner": EAGER},
    "text": {"features": {"kind": "hashed", "bits": 24, "text": ["said"]}},
}
"""Models of about 42 MB, and one that is mostly empty."""


class Standstills(Turns):
    """The longest time between two turns of the loop, in CPU time of its thread and of those that it waits for.

    The loop stands still, too, while a thread keeps the interpreter. It then asks for it at every switch interval, and
    sleeps in between. So what threads do counts up to so many intervals: not while the loop could go on but gets no
    core. And an interval counts only as far as threads do something: one that keeps the interpreter may get no core.
    """

    async def watch(self) -> None:
        while True:
            began, own, slept = process_time(), thread_time(), sleeps()
            await asyncio.sleep(0)
            own = thread_time() - own
            others = process_time() - began - own
            held = own + max(0.0, min(others, (sleeps() - slept) * sys.getswitchinterval()))
            self.longest_seconds = max(self.longest_seconds, held)


def sleeps() -> int:
    """How often this thread has waited for something."""
    return resource.getrusage(resource.RUSAGE_THREAD).ru_nvcsw


async def longest_of(work: Callable[[], Any]) -> Turns:
    turns = Standstills()
    watching = asyncio.create_task(turns.watch())
    await asyncio.sleep(0)  # or what is done before the first turn is not seen
    await work()
    await asyncio.sleep(0)
    watching.cancel()
    return turns


@pytest.fixture(autouse=True)
def favoured() -> Iterator[None]:
    """The loop goes on soon when threads are busy, as in the service."""
    before = sys.getswitchinterval()
    favour_the_loop()
    yield
    sys.setswitchinterval(before)


TEXTS = ["x" * 1_000] * 200_000


async def test_the_loop_stands_still_while_a_thread_keeps_the_interpreter() -> None:
    """So it is seen if one of those below does: `str.join` does not let it go."""
    took: list[float] = []

    def join() -> None:
        began = thread_time()
        "".join(TEXTS)
        took.append(thread_time() - began)

    seen = [(await longest_of(lambda: asyncio.to_thread(join))).longest_seconds for _ in range(3)]
    assert any(held > seconds / 2 for held, seconds in zip(seen, took, strict=True)), (seen, took)


@pytest.mark.parametrize("kind", KINDS)
async def test_the_loop_has_its_turns_while_a_large_model_is_saved(tmp_path: Path, kind: str) -> None:
    async with running(tmp_path) as engine:
        live = await make(engine, "m", **KINDS[kind])
        await learn(engine, live, 2)

        async def saved(number: int) -> Turns:
            await learn(engine, live, 1, first=10 + number)
            return await longest_of(lambda: engine.fleet.save(live))

        longest = await shortest_pause(saved, SAVED_SECONDS_MAX)
        stored = await engine.past._journal.load("m")
        assert stored is not None and stored.seq == live.seq and not stored.tail
        assert longest < SAVED_SECONDS_MAX


@pytest.mark.parametrize(
    "kind", sorted({*KINDS} - {"text"})
)  # most of its weights are 0, and its state is small
async def test_the_loop_has_its_turns_while_a_large_model_is_loaded(tmp_path: Path, kind: str) -> None:
    async with running(tmp_path) as engine:
        live = await make(engine, "m", **KINDS[kind])
        await learn(engine, live, 2)
        await engine.fleet.save(live)
        await learn(engine, live, 1, first=10)
        state = live.model.to_bytes()
        del live

        async def loaded(_: int) -> Turns:
            engine.fleet._unload(engine.fleet.loaded["m"])
            return await longest_of(lambda: engine.fleet.get("m"))

        longest = await shortest_pause(loaded, SLICE_SECONDS_MAX)
        assert engine.fleet.loaded["m"].model.to_bytes() == state
        assert longest < SLICE_SECONDS_MAX


READ: dict[str, Callable[[Model], Any]] = {
    "weights": lambda model: read_weights(model, None),
    "largest": lambda model: read_weights(model, 1_000),
    "export": learned,
    "sklearn": lambda model: take_linear(model.features, model.classifier, model.labels.values),
}


@pytest.mark.parametrize(
    ("kind", "what"),
    [(kind, what) for kind in KINDS for what in READ if (kind, what) != ("text", "sklearn")],  # no columns
)
async def test_the_loop_has_its_turns_while_a_large_model_is_read(
    tmp_path: Path, kind: str, what: str
) -> None:
    async with running(tmp_path) as engine:
        live = await make(engine, "m", **KINDS[kind])
        await learn(engine, live, 2)
        taken: list[Any] = []

        async def work() -> None:
            taken.append(await engine.past.read("m", None, READ[what]))

        async def reading(_: int) -> Turns:
            taken.clear()  # what was taken before is given back here, and not while it is watched
            return await longest_of(work)

        assert await shortest_pause(reading, SLICE_SECONDS_MAX) < SLICE_SECONDS_MAX


async def answered(service: InLoop, path: str, query: str) -> None:
    """Ask, and let each part of the answer go as it comes: all of it is as large as the model."""
    size = 0

    async def receive() -> Any:
        return await asyncio.Event().wait()

    async def send(message: Any) -> None:
        nonlocal size
        size += len(message.get("body", b""))

    await service._app(_scope("GET", path, query), receive, send)
    assert size > 1_000_000


PATHS = ["weights", "weights?largest=1000", "export", "export?format=sklearn", "export?format=onnx"]


@pytest.mark.parametrize("path", PATHS)
async def test_the_loop_has_its_turns_while_a_large_model_is_answered(tmp_path: Path, path: str) -> None:
    async with in_loop(tmp_path) as service:
        new = {"model": "m", "labels": list(range(120)), "features": {"dimension": WIDE}, "learner": EAGER}
        await service.post("/models", [json.dumps(new).encode()], JSON)
        numbers = np.random.default_rng(1).normal(size=WIDE).round(2).tolist()
        body = json.dumps({"model": "m", "features": numbers, "label": 1}).encode()
        assert (await service.post("/learn", [body], JSON))[0] == 200
        before = await service.get("/models/m/weights", "largest=5")
        route, _, query = path.partition("?")

        async def asked(_: int) -> Turns:
            return await longest_of(lambda: answered(service, f"/models/m/{route}", query))

        longest = await shortest_pause(asked, SLICE_SECONDS_MAX)
        assert await service.get("/models/m/weights", "largest=5") == before, "only a copy was given back"
        assert longest < SLICE_SECONDS_MAX


async def test_the_loop_has_its_turns_while_statistics_of_many_weights_are_told(tmp_path: Path) -> None:
    async with in_loop(tmp_path) as service:
        new = {"model": "m", "features": {"kind": "hashed", "bits": 23}}
        await service.post("/models", [json.dumps(new).encode()], JSON)

        async def asked(number: int) -> Turns:
            body = json.dumps({"model": "m", "features": {f"word {number}": 1.0}, "label": 1}).encode()
            assert (await service.post("/learn", [body], JSON))[0] == 200  # so that it is told anew
            return await longest_of(lambda: service.get("/stats/m"))

        # It was 27 ms at best: the norm of the weights took several copies of them.
        assert await shortest_pause(asked, SLICE_SECONDS_MAX) < SLICE_SECONDS_MAX
