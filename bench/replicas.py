"""python -m bench.replicas: 1 to 64 replicas and a million models, from measured costs.

What is assumed: predictions and reveals come in equal numbers, at random moments, to replicas at random; models are
asked for by Zipf's law; a replica keeps the `LOADED` asked for last and applies the events of those only; one log
orders everything; replicas have a core each. The costs are CPU times of the service's process, measured over 4,000
requests on a 2-core machine that was busy with other work (load average 10; a prediction on SQLite took 505 µs
there), so a row tells what bounds a cluster, and where, rather than what yours will do.
"""

import argparse
from dataclasses import dataclass

import numpy as np

MODELS = 1_000_000
LOADED = 10_000
BUSY = 0.7
"""How busy a core or the log may be; above that, waiting grows fast."""

REPLICAS = (1, 2, 4, 8, 16, 32, 64)
REQUESTS = 200_000
"""Drawn for each row."""


@dataclass(frozen=True)
class Costs:
    """Microseconds of a replica's core, and what one log takes in a second with 500 in flight."""

    predict: float = 600.0
    reveal: float = 890.0
    apply: float = 345.0
    load: float = 2_240.0
    log_events: float = 7_200.0


def hits(chance: np.random.Generator, exponent: float) -> float:
    """The share of requests whose model is loaded, if the `LOADED` most popular ones are."""
    weights = 1.0 / np.arange(1, MODELS + 1) ** exponent
    popular = np.cumsum(weights) / weights.sum()
    ranks = np.searchsorted(popular, chance.random(REQUESTS))
    return float((ranks < LOADED).mean())


def most(replicas: int, hit: float, costs: Costs) -> tuple[float, str]:
    """The most rounds a second (a prediction and a reveal each), and what bounds them."""
    own = (costs.predict + costs.reveal + 2 * (1 - hit) * costs.load) / replicas
    others = costs.apply * hit * (replicas - 1) / replicas  # what the other replicas have appended
    by_core = BUSY * 1e6 / (own + others)
    by_log = BUSY * costs.log_events
    return (by_core, "the replicas' cores") if by_core < by_log else (by_log, "the log")


def waiting(chance: np.random.Generator, rate: float, replicas: int, hit: float, costs: Costs) -> float:
    """The p99 of a prediction in milliseconds: the time that one replica's queue takes, simulated."""
    others = (replicas - 1) * hit  # events of theirs for each reveal of ours
    share = np.array([1.0, 1.0, others]) / (2.0 + others)
    kinds = chance.choice(3, REQUESTS, p=share)
    work = np.array([costs.predict, costs.reveal, costs.apply])[kinds]
    work = work + np.where((kinds < 2) & (chance.random(REQUESTS) > hit), costs.load, 0.0)
    arrivals = np.cumsum(chance.exponential(1e6 * replicas / (rate * (2.0 + others)), REQUESTS))
    finished = np.empty(REQUESTS)
    free = 0.0
    for i, (at, takes) in enumerate(zip(arrivals.tolist(), work.tolist(), strict=True)):
        free = max(free, at) + takes
        finished[i] = free
    return float(np.quantile((finished - arrivals)[kinds == 0], 0.99)) / 1e3


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--zipf", type=float, default=1.1, help="how uneven the models are asked for")
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    chance = np.random.default_rng(given.seed)
    costs = Costs()
    hit = hits(chance, given.zipf)
    print(
        f"{MODELS:,} models, Zipf {given.zipf:g}: {hit:.1%} of the requests find their model loaded; {costs}\n"
    )
    print("| replicas | rounds a second | bounded by | p99 of a prediction |\n|---|---|---|---|")
    for replicas in REPLICAS:
        rate, bound = most(replicas, hit, costs)
        print(
            f"| {replicas} | {rate:,.0f} | {bound} | {waiting(chance, rate, replicas, hit, costs):.1f} ms |"
        )


if __name__ == "__main__":
    main()
