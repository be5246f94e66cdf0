"""python -m bench.side_by_side OTHER/.venv/bin/python: figures 1 to 6 of this tree beside those of another checkout.

Then how long a start takes over 5,000 models; with --starts only that.

Both services run at the same time and are loaded in turn, so that a machine whose speed changes is the same for both.
What is compared is the CPU of the service's processes for each request or round: unlike requests a second, it
hardly depends on what else the machine is doing. A turn of one is divided by the turn of the other that came next to
it, and the median of these quotients is told, with the quartiles: a single run shows no more than they are apart.
Starts are compared in seconds until /readyz answers, each with its program compiled, as it is once it is installed, and
each over models that it has made itself.
"""

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from itertools import count
from pathlib import Path
from statistics import median, quantiles

from bench import examples
from bench.load import sockets, streams
from bench.load.work import Work
from bench.processes import Server

TURNS = 20
SECONDS = 1.0
CONNECTIONS = 32
STARTS = 10
MODELS = 5_000

Load = Callable[[Server], float]
"""Loads a service for a while; how many requests or rounds that were."""


def service_of(python: str, data: Path) -> Server:
    # -P: or the folder that this is run in would be that of both.
    command = [python, "-P", "-m", "service", "serve", "--port", "0", "--data", str(data)]
    return Server(command, NOVIKOFF_DURABILITY="power", PYTHONDONTWRITEBYTECODE="")


def requests(path: str, bodies: list[bytes], *, reveals: bool = False) -> Load:
    work = Work(path, bodies, reveals)
    return lambda server: sockets.run(server.port, work, SECONDS, CONNECTIONS).requests


def lines(*, named: bool) -> Load:
    some, numbers = examples.lines([None], named=named), count()

    def load(server: Server) -> float:
        model = f"{'named' if named else 'dense'}-{next(numbers)}"
        streams.rounds_per_second(server.port, some, SECONDS, model)
        return float(json.loads(server.get(f"/stats/{model}"))["rounds"]["revealed"])

    return load


def arrow(rows: int) -> Load:
    body, numbers = examples.arrow(rows), count()

    def load(server: Server) -> float:
        query = f"/stream?model=arrow-{next(numbers)}"
        server.post(query, body, "application/vnd.apache.arrow.stream")
        return rows

    return load


LOADS: dict[str, Load] = {
    "1 predict and feedback in turn": requests(
        "/predict", examples.predict_bodies(["in-turn"]), reveals=True
    ),
    "2 /predict": requests("/predict", examples.predict_bodies(["predict"])),
    "3 /learn": requests("/learn", examples.learn_bodies(["learn"])),
    "4 /stream, dense": lines(named=False),
    "5 /stream, named": lines(named=True),
    "6 /stream, Arrow": arrow(50_000),
}


def compare_loads(services: dict[str, Server], figures: str, turns: int) -> None:
    print("| figure | this, µs of CPU | other, µs of CPU | this ÷ other (quartiles) |\n|---|---:|---:|---:|")
    for figure, load in LOADS.items():
        if figure[0] not in figures:
            continue
        took: dict[str, list[float]] = {name: [] for name in services}
        for turn in range(turns + 1):
            for name in sorted(services, reverse=bool(turn % 2)):
                before = services[name].cpu_seconds_in_all()
                done = load(services[name])
                if turn:  # the first one warms up
                    took[name].append((services[name].cpu_seconds_in_all() - before) / done * 1e6)
        this, that = median(took["this"]), median(took["other"])
        low, middle, high = quantiles((a / b for a, b in zip(took["this"], took["other"], strict=True)), n=4)
        print(f"| {figure} | {this:.1f} | {that:.1f} | {middle:.3f} ({low:.2f} to {high:.2f}) |", flush=True)


def make_models(server: Server) -> None:
    """Each with a few rounds."""
    for first in range(0, MODELS, 500):
        some = [
            json.dumps({"model": f"m{at}", "features": [at % 7 + 0.5, 1.0, 0.5], "label": at % 2 * 2 - 1})
            for at in range(first, first + 500)
            for _ in range(6)
        ]
        server.post("/stream?answers=summary", "\n".join(some).encode(), "application/x-ndjson")


def learn_some(server: Server) -> None:
    for at in range(50):
        body = {"model": f"m{at}", "features": [1.0, 2.0, 3.0], "label": 1}
        server.post("/learn", json.dumps(body).encode())


def compare_starts(services: dict[str, Server]) -> None:
    """Of services that do not run."""
    for server in services.values():
        with server:
            make_models(server)
    print("| start until ready | this, s | other, s | this ÷ other |\n|---|---:|---:|---:|")
    for what, end in {"after a stop": Server.stop, "after a kill": Server.kill}.items():
        took: dict[str, list[float]] = {name: [] for name in services}
        for turn in range(STARTS + 1):
            for name in sorted(services, reverse=bool(turn % 2)):
                server = services[name]
                began = time.perf_counter()
                server.start()
                server.wait_until_ready()
                if turn:  # the one before ended in another way
                    took[name].append(time.perf_counter() - began)
                learn_some(server)
                end(server)
        this, that = median(took["this"]), median(took["other"])
        print(f"| {what} | {this:.3f} | {that:.3f} | {this / that:.2f} |", flush=True)


def main() -> None:
    arguments = argparse.ArgumentParser()
    arguments.add_argument("other", help="the other checkout's Python")
    arguments.add_argument("--starts", action="store_true", help="compare starts only")
    arguments.add_argument("--figures", default="", help="compare these only, such as 236")
    arguments.add_argument("--turns", type=int, default=TURNS, help="how many turns of each")
    asked = arguments.parse_args()
    other = str(Path(asked.other).absolute())
    os.chdir(
        tempfile.gettempdir()
    )  # child processes of older versions import what is in the working directory
    with ExitStack() as stack:
        services, to_start = {}, {}
        for name, python in {"this": sys.executable, "other": other}.items():
            data = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="novikoff-bench-")))
            to_start[name] = service_of(python, data / "of-starts")
            if not asked.starts:
                services[name] = stack.enter_context(service_of(python, data / "loaded"))
        if services:
            compare_loads(services, asked.figures or "123456", asked.turns)
            for server in services.values():
                server.stop()
        if not asked.figures:
            compare_starts(to_start)


if __name__ == "__main__":
    main()
