"""How far replicas go: 1 to 64 of them and a million models, simulated from costs that were measured.

`python -m bench.simulation` prints the table of docs/scaling.md. The costs are those of `COSTS`, in which every
number says how it was measured; the assumptions are in `simulate`. It is a queueing simulation, not a benchmark:
it says what follows from the costs, and nothing about networks or machines that were not there.
"""

from dataclasses import dataclass, replace
from functools import cache

import numpy as np
import numpy.typing as npt

Times = npt.NDArray[np.float64]

SECONDS = 2.0
MODELS = 1_000_000
ZIPF = 0.9
"""The exponent of the models' popularity: the commonest of a million gets 3% of all traffic."""

P99_LIMIT_SECONDS = 0.050
REPLICAS = (1, 2, 4, 8, 16, 32, 64)


@dataclass(frozen=True)
class Costs:
    """Seconds of one core, unless it says otherwise."""

    predict: float = 70e-6  # a request of `/predict`: `make bench`, figure 2, CPU of the service
    reveal: float = 75e-6  # a request of `/feedback` without the fold
    apply: float = 20e-6  # following an event of a loaded model: decode, fold, statistics, bound
    skip: float = 6e-6  # following an event of a model that is not loaded
    load: float = 400e-6  # bringing a model back from its snapshot
    append_latency: float = 4e-3  # from handing over to applied, elapsed, journal idle
    appends_per_second: float = 10_000.0  # of one cluster of three servers
    loaded_max: int = 10_000


@dataclass(frozen=True)
class Outcome:
    p99: float
    busiest: float
    """The share of its time that the busiest replica works."""
    journal: float
    """The share of the journal's rate that is used."""


@cache
def popularity() -> Times:
    """The share of all traffic that the commonest models have together."""
    share: Times = np.cumsum(np.arange(1, MODELS + 1, dtype=np.float64) ** -ZIPF)
    return share / share[-1]


def finished(arrivals: Times, work: Times) -> Times:
    """When each job of one worker is done, first come first served.

    >>> finished(np.array([0.0, 1.0, 5.0]), np.array([2.0, 2.0, 1.0])).tolist()
    [2.0, 4.0, 6.0]
    """
    done = np.cumsum(work)
    waited: Times = np.maximum.accumulate(arrivals - (done - work))
    return waited + done


def simulate(replicas: int, rate: float, *, by_model: bool, costs: Costs, seed: int = 1) -> Outcome:
    """A stretch of traffic: `rate` rounds a second, each a prediction and its reveal.

    Requests come at random times (Poisson), models by a Zipf law. A request goes to any replica, or with
    `by_model` to the one that a hash of the model's name says. A replica has the commonest of the models it is
    asked for in memory. Every replica follows the whole log. The journal is one server of a fixed rate behind a
    fixed latency.
    """
    chance = np.random.default_rng(seed)
    count = max(1, int(chance.poisson(rate * SECONDS)))
    starts = np.sort(chance.uniform(0, SECONDS, count))
    model = np.searchsorted(popularity(), chance.uniform(size=count)) + 1
    home = model * 2_654_435_761 % 2**32 % replicas  # a hash, so that neighbours in rank are not neighbours
    served_by = home if by_model else chance.integers(0, replicas, count)
    # With routing by name each replica has its share of the models to keep in memory.
    in_memory = model <= costs.loaded_max * (replicas if by_model else 1)
    loading = np.where(in_memory, 0.0, costs.load)

    appended = finished(starts, np.full(count, 1 / costs.appends_per_second)) + costs.append_latency
    latencies, busiest = [], 0.0
    for replica in range(replicas):
        mine = served_by == replica
        loaded_here = in_memory & ((home == replica) | (not by_model))
        following = np.where(loaded_here | mine, costs.apply, costs.skip)
        jobs = np.concatenate((starts[mine], starts[mine], appended))
        work = np.concatenate((costs.predict + loading[mine], np.full(mine.sum(), costs.reveal), following))
        order = np.argsort(jobs, kind="stable")
        done = np.empty(len(jobs))
        done[order] = finished(jobs[order], work[order])
        answered = done[2 * mine.sum() :][mine]  # a reveal is answered when its event is applied
        latencies.append(answered - starts[mine])
        busiest = max(busiest, float(work.sum()) / SECONDS)
    p99 = float(np.percentile(np.concatenate(latencies), 99))
    return Outcome(p99, busiest, rate / costs.appends_per_second)


def capacity(replicas: int, *, by_model: bool, costs: Costs) -> tuple[float, Outcome]:
    """The highest rate at which 99 of 100 reveals are answered in time, and how it is then."""
    low, high = 0.0, 2 * costs.appends_per_second
    for _ in range(12):
        rate = (low + high) / 2
        outcome = simulate(replicas, rate, by_model=by_model, costs=costs)
        good = outcome.p99 < P99_LIMIT_SECONDS and outcome.journal < 1 and outcome.busiest < 1
        low, high = (rate, high) if good else (low, rate)
    return low, simulate(replicas, low, by_model=by_model, costs=costs)


def table(costs: Costs) -> str:
    lines = [
        "| replicas | rounds/s, any replica | rounds/s, by model's name | what is full then |",
        "|---|---|---|---|",
    ]
    for replicas in REPLICAS:
        anywhere, _ = capacity(replicas, by_model=False, costs=costs)
        by_name, outcome = capacity(replicas, by_model=True, costs=costs)
        full = "the journal" if outcome.journal > 0.95 else "the replicas"
        lines.append(f"| {replicas} | {anywhere:,.0f} | {by_name:,.0f} | {full} |")
    return "\n".join(lines)


def main() -> None:
    print(table(Costs()))
    print("\nThe same with a journal ten times as fast:\n")
    print(table(replace(Costs(), appends_per_second=10 * Costs.appends_per_second)))


if __name__ == "__main__":
    main()
