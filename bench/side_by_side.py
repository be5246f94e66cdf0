"""python -m bench.side_by_side OTHER/.venv/bin/python: figures 1 to 6 of this tree beside those of another checkout.

Both services run at the same time and are loaded in turn, so that a machine whose speed changes is the same for both.
What is compared is the CPU of the service's processes for each request or round: unlike requests a second, it
hardly depends on what else the machine is doing.
"""

import json
import sys
import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from itertools import count
from pathlib import Path
from statistics import median

from bench import examples
from bench.load import sockets, streams
from bench.load.work import Work
from bench.processes import Server

TURNS = 5
SECONDS = 3.0
CONNECTIONS = 32

Load = Callable[[Server], float]
"""Loads a service for a while; how many requests or rounds that were."""


def service_of(python: str, data: Path) -> Server:
    # -P: or the folder that this is run in would be that of both.
    command = [python, "-P", "-m", "service", "serve", "--port", "0", "--data", str(data)]
    return Server(command, NOVIKOFF_DURABILITY="power")


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


def main() -> None:
    (other,) = sys.argv[1:]
    with ExitStack() as stack:
        servers = {}
        for name, python in {"this": sys.executable, "other": other}.items():
            data = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="novikoff-bench-")))
            servers[name] = stack.enter_context(service_of(python, data / "data"))
        print("| figure | this, µs of CPU | other, µs of CPU | this ÷ other |\n|---|---:|---:|---:|")
        for figure, load in LOADS.items():
            took: dict[str, list[float]] = {name: [] for name in servers}
            for turn in range(TURNS + 1):
                for name, server in servers.items():
                    before = server.cpu_seconds_in_all()
                    done = load(server)
                    if turn:  # the first one warms up
                        took[name].append((server.cpu_seconds_in_all() - before) / done * 1e6)
            this, that = median(took["this"]), median(took["other"])
            print(f"| {figure} | {this:.1f} | {that:.1f} | {this / that:.2f} |", flush=True)


if __name__ == "__main__":
    main()
