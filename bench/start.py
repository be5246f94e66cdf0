"""python -m bench.start [--runs 20] [TREE ...]: how long a start takes until /readyz answers, with an empty directory.

Told are the least and the median of the runs: seconds by the clock, and CPU of the service's own process and of the
process that writes the journal. CPU hardly depends on what else the machine is doing, the clock does. Of several
checkouts (by default this one alone) each starts in its turn, with the Python and the libraries that this is run with.
A first run of each, which compiles its modules, does not count.
"""

import argparse
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

from bench.processes import Server

RUNS = 20
THIS = Path(__file__).parent.parent


def started(tree: Path) -> tuple[float, float, float]:
    """Seconds until it was ready, and of CPU by then: of the service and of its children."""
    with tempfile.TemporaryDirectory(prefix="novikoff-bench-") as data:
        # -P: or the folder that this is run in would be that of every tree.
        command = [sys.executable, "-P", "-m", "service", "serve", "--port", "0", "--data", data]
        service = Server(command, PYTHONPATH=str(tree), PYTHONDONTWRITEBYTECODE="")
        began = time.perf_counter()
        with service:
            service.wait_until_ready()
            seconds = time.perf_counter() - began
            own = service.cpu_seconds()
            return seconds, own, service.cpu_seconds_in_all() - own


def main() -> None:
    arguments = argparse.ArgumentParser(description="Measure starts.")
    arguments.add_argument("trees", nargs="*", type=Path, default=[THIS], help="checkouts to compare")
    arguments.add_argument("--runs", type=int, default=RUNS, help="starts of each")
    asked = arguments.parse_args()
    took: dict[Path, list[tuple[float, float, float]]] = {tree.absolute(): [] for tree in asked.trees}
    for turn in range(asked.runs + 1):
        for tree, runs in took.items():
            figures = started(tree)
            if turn:
                runs.append(figures)
    print("| tree | seconds until ready | CPU of the service | CPU of its writer |\n|---|---:|---:|---:|")
    for tree, runs in took.items():
        columns = (f"{min(one):.3f} (median {median(one):.3f})" for one in zip(*runs, strict=True))
        print(f"| {tree.name} | {' | '.join(columns)} |")


if __name__ == "__main__":
    main()
