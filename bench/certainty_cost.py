"""python -m bench.certainty_cost: what the probabilities add to streams.

The service runs in this process, with its journal but without sockets. It takes streams, each for a model that is
new, in turn with the probabilities as they are and with them switched off: then they are null. Compared is the CPU of
the event loop's thread for a round, the 10th percentile of the turns: on a machine that is busy with other work this
is what others disturb least.
"""

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # as the service does, before numpy is imported

import asyncio
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count, cycle, islice
from pathlib import Path
from statistics import quantiles
from typing import Any

from bench import examples
from service.app import create_app
from service.learning.statistics.calibration import Calibration
from service.learning.statistics.statistic import RevealedBlock
from service.settings import Settings
from service.web.application import Application

TURNS = 12
ROUNDS = 50_000
PART_BYTES = 2**19
"""As much as a stream that is alone is read ahead."""
NDJSON, ARROW = b"application/x-ndjson", b"application/vnd.apache.arrow.stream"


@contextmanager
def switched_off() -> Iterator[None]:
    def no_probabilities(_: Calibration, block: RevealedBlock) -> None:
        block.probabilities.extend([None] * len(block.truths))

    kept = Calibration.observe_rows
    Calibration.observe_rows = no_probabilities  # type: ignore[method-assign]
    try:
        yield
    finally:
        Calibration.observe_rows = kept  # type: ignore[method-assign]


async def cpu_us(app: Application, body: bytes, media_type: bytes, model: str) -> float:
    """Microseconds of this thread's CPU for a round of a stream."""
    parts = [body[at : at + PART_BYTES] for at in range(0, len(body), PART_BYTES)]
    answers: list[dict[str, Any]] = []

    async def receive() -> dict[str, Any]:
        await asyncio.sleep(0)
        part = parts.pop(0) if parts else b""
        return {"type": "http.request", "body": part, "more_body": bool(parts)}

    async def send(message: dict[str, Any]) -> None:
        answers.append(message)

    scope = {
        "type": "http", "http_version": "1.1", "method": "POST", "path": "/stream", "raw_path": b"/stream",
        "query_string": f"model={model}".encode(), "headers": [(b"content-type", media_type), (b"host", b"x")],
        "client": ("127.0.0.1", 1), "server": ("127.0.0.1", 2), "scheme": "http", "root_path": "",
    }  # fmt: skip
    began = time.thread_time_ns()
    await app(scope, receive, send)
    took = time.thread_time_ns() - began
    assert answers[0]["status"] == 200, answers
    return took / 1000 / ROUNDS


async def measure(app: Application) -> None:
    def lines(*, named: bool) -> bytes:
        return b"".join(islice(cycle(examples.lines([None], named=named)), ROUNDS))

    bodies = {
        "`/stream`, dense": (lines(named=False), NDJSON),
        "`/stream`, named": (lines(named=True), NDJSON),
        "`/stream`, Arrow": (examples.arrow(ROUNDS), ARROW),
    }
    numbers = count()
    print("| a round of | on, µs of CPU | off, µs of CPU | on ÷ off |\n|---|---:|---:|---:|")
    for what, (body, media_type) in bodies.items():
        took: dict[str, list[float]] = {"on": [], "off": []}
        for _ in range(TURNS):
            took["on"].append(await cpu_us(app, body, media_type, f"m{next(numbers)}"))
            with switched_off():
                took["off"].append(await cpu_us(app, body, media_type, f"m{next(numbers)}"))
        on, off = (quantiles(took[name], n=10)[0] for name in ("on", "off"))
        print(f"| {what} | {on:.2f} | {off:.2f} | {on / off:.3f} |", flush=True)


async def main() -> None:
    with tempfile.TemporaryDirectory(prefix="novikoff-bench-") as data:
        app = create_app(Settings(data=Path(data) / "data"), guarded=False)
        async with app.router.lifespan_context(app):
            await measure(app)


if __name__ == "__main__":
    asyncio.run(main())
