"""Everything in one run, side by side, on Linux. Full runs are written to bench/results.md.

python -m bench              everything, about 20 minutes
python -m bench --quick      everything, too short to mean anything: does the harness work?
python -m bench --only 1,4   some figures, printed
"""

import argparse
import re
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

from bench import machine, report
from bench.figures import Bench, Figure
from bench.measures import answer_cost, auto_cost, footprint, growth, latency, requests, reveal_cost, streams
from bench.processes import NotMeasured
from bench.scale import FULL, QUICK

RESULTS = Path(__file__).with_name("results.md")

MEASURES: tuple[tuple[frozenset[int], Callable[[Bench], Iterator[Figure]]], ...] = (
    (frozenset({1, 2, 3}), requests.measure),
    (frozenset({4, 5, 6}), streams.measure),
    (frozenset({7}), latency.measure),
    (frozenset({8}), growth.history),
    (frozenset({9}), growth.many_models),
    (frozenset({10, 11}), footprint.measure),
    (frozenset({12}), reveal_cost.measure),
    (frozenset({12}), answer_cost.measure),
    (frozenset({13}), auto_cost.measure),
)


def run(bench: Bench) -> Iterator[Figure]:
    """Every figure that is wanted; one that fails does not spoil the others."""
    for numbers, measure in MEASURES:
        if not bench.wants(*numbers):
            continue
        wanted = sorted(numbers if bench.wanted is None else numbers & bench.wanted)
        name = ", ".join(map(str, wanted))
        try:
            yield from measure(bench)
        except NotMeasured as reason:
            yield Figure(name, f"not measured: {report.without_paths(str(reason))}", "–", reached=False)
        except Exception as error:
            traceback.print_exc()
            yield Figure(
                name,
                f"failed: {type(error).__name__}: {report.without_paths(str(error))}",
                "–",
                reached=False,
            )


def numbers(text: str) -> frozenset[int]:
    known = frozenset[int]().union(*(numbers for numbers, _ in MEASURES))
    chosen = frozenset(int(part) for part in text.split(","))
    if not chosen <= known:
        raise argparse.ArgumentTypeError(f"there are {min(known)} to {max(known)}")
    return chosen


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m bench", description="Measure the service beside its peers."
    )
    parser.add_argument(
        "--quick", action="store_true", help="short and small: only to see that all of it works"
    )
    parser.add_argument("--only", type=numbers, metavar="1,4", help="these figures, without further peers")
    parser.add_argument(
        "--output", type=Path, help="where to write the results; a full run has bench/results.md"
    )
    chosen = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # as an error would: every server is stopped
    output = chosen.output or (None if chosen.quick or chosen.only else RESULTS)
    began = time.monotonic()
    stolen = machine.Stolen()
    with tempfile.TemporaryDirectory(prefix="novikoff-bench-") as directory:
        described = machine.describe(Path(directory))
        bench = Bench(QUICK if chosen.quick else FULL, Path(directory), chosen.only)
        figures = []
        for figure in run(bench):
            figures.append(replace(figure, reached=None) if chosen.quick else figure)
            say(figures[-1], time.monotonic() - began)
    described["taken by the host"] = f"{stolen}, during the run"
    figures.sort(key=lambda figure: (int(re.findall(r"\d+", figure.name)[0]), figure.name))
    text = report.page(described, figures, bench, (time.monotonic() - began) / 60)
    if output is None:
        print("\n" + text)
    else:
        output.write_text(text)
        print(f"\nwritten to {output}")


def say(figure: Figure, seconds: float) -> None:
    reached = report.REACHED[figure.reached].strip("*")
    told = f"{figure.ratio}  =  {figure.measured}" if figure.ratio else figure.measured
    print(
        f"{seconds:5.0f} s  {figure.name:>4}  {figure.what}: {told}; {figure.target}: {reached}", flush=True
    )


if __name__ == "__main__":
    main()
