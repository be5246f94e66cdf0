"""What the statistics and the bound of one model cost: nanoseconds a reveal, microseconds a report, bytes.

    python bench/statistics_cost.py

A reveal and a report are measured as the best of five runs of CPU time. Bytes in memory count every object
that only this model holds, rounded up to the allocator's 16; bytes of state are the snapshot as MessagePack.
"""

from __future__ import annotations

import random
import sys
import time
from array import array
from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import numpy as np

from service.learning.bound.mistake_bound import Bound
from service.learning.bound.observed_margin import Observed
from service.learning.bound.verdict import report as report_of
from service.learning.statistics import STATISTICS, Statistics
from service.learning.statistics.drift import DELTA

PARTS = (Statistics, *STATISTICS.values(), Bound, Observed)
SHARED = {id(DELTA), id(1.0), id(None), id(True), id(False)}
START_US = 1_700_000_000_000_000


def reveals(rounds: int, *, apart_us: int, classes: int) -> list[dict[str, Any]]:
    """A stream with one mistake in ten and labels that come up to an hour late."""
    rng = random.Random(7)
    answer = []
    for number in range(rounds):
        truth = rng.randrange(classes)
        wrong = rng.random() < 0.1
        at_us = START_US + number * apart_us
        delay_us = int(rng.lognormvariate(16.0, 2.0))
        answer.append(
            {
                "truth": truth,
                "served": (truth + 1) % classes if wrong else truth,
                "at_us": at_us,
                "predicted_at_us": at_us - delay_us,
                "updated": wrong,
                "stale_updates": rng.randrange(10),
            }
        )
    return answer


def best_cpu_ns(run: Callable[[], object]) -> float:
    """CPU time of the fastest of five runs."""
    times = []
    for _ in range(5):
        start = time.process_time_ns()
        run()
        times.append(time.process_time_ns() - start)
    return float(min(times))


def sizes(thing: Any) -> Iterator[int]:
    """Bytes of each object that only this model holds."""
    small_integer = isinstance(thing, int) and -5 <= thing <= 256
    if small_integer or thing is None or id(thing) in SHARED:
        return
    # An object with slots has a header for the garbage collector in front, which getsizeof counts too.
    yield -(-sys.getsizeof(thing) // 16) * 16
    if isinstance(thing, PARTS):
        for name in thing.__slots__:
            yield from sizes(getattr(thing, name))
    elif not isinstance(thing, int | float | bytearray | array):
        raise TypeError(type(thing))


def observe_all(statistics: Statistics, stream: list[dict[str, Any]]) -> Statistics:
    for reveal in stream:
        statistics.observe(**reveal)
    return statistics


def nothing_all(stream: list[dict[str, Any]]) -> None:
    """The loop and the call alone, to be subtracted."""

    def observe(
        truth: int, served: int, *, at_us: int, predicted_at_us: int, updated: bool, stale_updates: int
    ) -> bool:
        return False

    for reveal in stream:
        observe(**reveal)


def bound_all(bound: Bound, x: np.ndarray[Any, Any], rounds: int) -> Bound:
    for number in range(rounds):
        bound.observe(x, 1 if number & 1 else -1, updated=number % 10 == 0, score=0.1, stale_updates=1)
    return bound


def main() -> None:
    rounds = 200_000
    print("a reveal, statistics")
    for apart_us, classes, what in [
        (1_000, 2, "2 classes, 1,000 a second"),
        (100_000, 2, "2 classes, 10 a second"),
        (3_000_000, 2, "2 classes, one in 3 seconds"),
        (1_000, 10, "10 classes, 1,000 a second"),
        (1_000, 1000, "1,000 classes, 1,000 a second"),
    ]:
        stream = reveals(rounds, apart_us=apart_us, classes=classes)
        loop_ns = best_cpu_ns(lambda stream=stream: nothing_all(stream))  # type: ignore[misc]
        cost_ns = best_cpu_ns(lambda stream=stream: observe_all(Statistics(), stream))  # type: ignore[misc]
        statistics = observe_all(Statistics(), stream)
        now_us = stream[-1]["at_us"]
        report_ns = best_cpu_ns(lambda: [statistics.report(now_us, classes) for _ in range(100)]) / 100  # noqa: B023
        memory, state = sum(sizes(statistics)), len(msgspec.msgpack.encode(statistics.state()))
        print(
            f"  {what:32} {(cost_ns - loop_ns) / rounds:6.0f} ns   report {report_ns / 1e3:6.0f} µs"
            f"   memory {memory:7,} B   state {state:7,} B"
        )
    print("a reveal, bound with an observed margin")
    for dimension in (5, 64, 500):
        x = np.linspace(-1.0, 1.0, dimension)
        cost_ns = best_cpu_ns(lambda x=x: bound_all(Bound(1.0, 1.0, None), x, 20_000)) / 20_000  # type: ignore[misc]
        bound = bound_all(Bound(1.0, 1.0, None), x, 1_000)
        weights = np.linspace(-1.0, 1.0, dimension + 1)
        report_ns = best_cpu_ns(lambda: [report_of(bound, weights, None) for _ in range(100)]) / 100  # noqa: B023
        memory, state = sum(sizes(bound)), len(msgspec.msgpack.encode(bound.state()))
        print(
            f"  {dimension:3} features {cost_ns:25.0f} ns   report {report_ns / 1e3:6.0f} µs"
            f"   memory {memory:7,} B   state {state:7,} B"
        )
    print("a model of 2 classes and 5 features, statistics and bound")
    for rounds, apart_us, what in [
        (3, 1_000_000, "young: 3 rounds"),
        (30, 60_000_000, "30 rounds, one a minute"),
        (1_000, 1_000_000, "1,000 rounds, one a second"),
        (1_000_000, 500_000, "old: 1,000,000 rounds, two a second"),
    ]:
        stream = reveals(rounds, apart_us=apart_us, classes=2)
        statistics = observe_all(Statistics(), stream)
        bound = bound_all(Bound(1.0, 1.0, None), np.linspace(-1.0, 1.0, 5), min(rounds, 1000))
        memory = sum(sizes(statistics)) + sum(sizes(bound))
        state = len(msgspec.msgpack.encode([statistics.state(), bound.state()]))
        print(f"  {what:60} memory {memory:7,} B   state {state:7,} B")


if __name__ == "__main__":
    main()
