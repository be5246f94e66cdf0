"""python -m bench.clients [--seconds 5] [TREE ...]: rounds a second of the Python clients, on a service beside them.

A round is a prediction and its feedback, of 64 features. `Client` has one round at a time, `AsyncClient` one and then
a hundred. Each tree's clients are run in a process of their own, in turn, against one and the same service. Plain
sockets, which do nothing with a response but find its id, show what the service and the machine have to give.
"""

import argparse
import asyncio
import subprocess
import sys
import tempfile
import time
from functools import partial
from itertools import cycle
from pathlib import Path

from bench.examples import examples, predict_bodies
from bench.load import sockets
from bench.load.work import Work
from bench.processes import novikoff
from novikoff import AsyncClient, Client

SECONDS = 5.0
TOGETHER = 100
THIS = Path(__file__).parent.parent


def waiting(url: str, seconds: float) -> int:
    """The rounds that one `Client` plays in so long."""
    with Client(url) as client:
        end = time.perf_counter() + seconds
        for rounds, example in enumerate(cycle(examples())):
            if time.perf_counter() > end:
                return rounds
            prediction = client.predict("waiting", example.features)
            client.feedback(prediction.prediction_id, example.label)
    raise AssertionError


def awaited(url: str, seconds: float, together: int) -> int:
    """The rounds of one `AsyncClient` that has so many under way."""
    supply = cycle(examples())

    async def play(client: AsyncClient, end: float, number: int) -> int:
        rounds = 0
        while time.perf_counter() < end:
            example = next(supply)
            prediction = await client.predict(f"awaited-{number % 10}", example.features)
            await client.feedback(prediction.prediction_id, example.label)
            rounds += 1
        return rounds

    async def play_all() -> int:
        end = time.perf_counter() + seconds
        async with AsyncClient(url) as client:
            return sum(await asyncio.gather(*(play(client, end, number) for number in range(together))))

    return asyncio.run(play_all())


def measure(url: str, seconds: float) -> None:
    """Rounds a second and milliseconds of CPU of a round, for each way."""
    for run in (waiting, partial(awaited, together=1), partial(awaited, together=TOGETHER)):
        began, cpu = time.perf_counter(), time.process_time()
        rounds = run(url, seconds)
        took, used = time.perf_counter() - began, time.process_time() - cpu
        print(f"{rounds / took:,.0f} ({1000 * used / rounds:.2f} ms)", end=" | ", flush=True)


def main() -> None:
    arguments = argparse.ArgumentParser(description="Measure the Python clients.")
    arguments.add_argument("trees", nargs="*", type=Path, default=[THIS], help="checkouts to compare")
    arguments.add_argument("--seconds", type=float, default=SECONDS)
    arguments.add_argument("--url", help=argparse.SUPPRESS)
    asked = arguments.parse_args()
    if asked.url:
        measure(asked.url, asked.seconds)
        return
    print(
        f"| rounds a second (CPU of one) | Client | AsyncClient | {TOGETHER} at once |\n|---|---:|---:|---:|"
    )
    with tempfile.TemporaryDirectory(prefix="novikoff-bench-") as data, novikoff(Path(data)) as service:
        work = Work("/predict", predict_bodies(["plain"]), reveals=True)
        one, many = (
            sockets.run(service.port, work, asked.seconds, count).rate / 2 for count in (1, TOGETHER)
        )
        print(f"| plain sockets | {one:,.0f} | {one:,.0f} | {many:,.0f} |")
        for tree in asked.trees:
            print(f"| {tree.absolute().name} | ", end="", flush=True)
            url = f"http://127.0.0.1:{service.port}"
            command = [sys.executable, "-P", __file__, "--url", url, "--seconds", str(asked.seconds)]
            subprocess.run(command, env={"PYTHONPATH": f"{tree.absolute()}:{THIS}"}, check=True)
            print()


if __name__ == "__main__":
    main()
