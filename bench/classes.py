"""python -m bench.classes: what several classes cost beside two, by learner, and beside river in-process.

Streams of 16 numbers, an example around the centre of its class, each time to a new model. Told is the CPU of the
service's processes for a round of `/stream` and a request of `/learn`, which hardly depends on what else the machine is
doing, and two classes' CPU divided by it: what is left of the rounds a second. --rates takes time in the place of CPU,
for a machine that has nothing else to do.
"""

import argparse
import os
import tempfile
import time
from collections.abc import Callable
from itertools import count
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from bench.examples import EXAMPLES, encode
from bench.load import sockets, streams
from bench.load.work import Work
from bench.processes import Server, novikoff

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

FEATURES = 16
SECONDS = 0.7
TURNS = 3
CONNECTIONS = 8
CLASSES = (2, 4, 26)
LEARNERS = ("perceptron", "pa", "pa1", "pa2", "arow", "scw", "logistic", "auto")
TARGETS = {**dict.fromkeys(LEARNERS, (0.3, 0.2)), "auto": (0.3, 0.1)} | dict.fromkeys(
    ("perceptron", "pa", "pa1", "pa2"), (0.5, 0.3)
)
"""What should be left of the rounds a second with 4 classes, and with 26."""


def rounds(classes: int) -> list[dict[str, Any]]:
    chance = np.random.default_rng(classes)
    centres = chance.normal(size=(classes, FEATURES))
    labels = chance.integers(classes, size=EXAMPLES)
    features = centres[labels] + chance.normal(size=(EXAMPLES, FEATURES))
    return [{"features": x, "label": y} for x, y in zip(features.tolist(), labels.tolist(), strict=True)]


class Measured:
    """The service, loaded by one model after the other."""

    def __init__(self, server: Server, *, rates: bool) -> None:
        self._server = server
        self._rates = rates
        self._numbers = count()

    def cost(self, learner: str, classes: int, load: Callable[[str, int], int]) -> float:
        """Microseconds for each of the rounds that `load` says it has sent to a model: the median of some turns."""
        return median(self._turn(learner, classes, load) for _ in range(TURNS))

    def _turn(self, learner: str, classes: int, load: Callable[[str, int], int]) -> float:
        model = f"m{next(self._numbers)}"
        labels = list(range(classes))
        body = {"model": model, "learner": {"algorithm": learner}, "labels": labels}
        self._server.post("/models", encode(body))
        clock = time.perf_counter if self._rates else self._server.cpu_seconds_in_all
        before = clock()
        done = load(model, classes)
        return (clock() - before) / done * 1e6

    def stream(self, model: str, classes: int) -> int:
        lines = [encode(each) + b"\n" for each in rounds(classes)]
        began = time.perf_counter()
        rate = streams.rounds_per_second(self._server.port, lines, SECONDS, model)
        return round(rate * (time.perf_counter() - began))

    def learn(self, model: str, classes: int) -> int:
        bodies = [encode({"model": model, **each}) for each in rounds(classes)]
        return sockets.run(self._server.port, Work("/learn", bodies), SECONDS, CONNECTIONS).requests


def of_river(learner: str, classes: int) -> float | None:
    """Microseconds of CPU that river's learner, one for each class, takes for a round; None if river has it not."""
    from river import linear_model, multiclass

    pa: Any = linear_model.PAClassifier
    made: dict[str, Callable[[], Any]] = {
        "perceptron": linear_model.Perceptron,
        "pa1": lambda: pa(mode=1),
        "pa2": lambda: pa(mode=2),
        "logistic": linear_model.LogisticRegression,
    }
    if learner not in made:
        return None
    model = made[learner]()
    if classes > 2:
        model = multiclass.OneVsRestClassifier(model)
    examples: list[Any] = [(dict(enumerate(each["features"])), each["label"]) for each in rounds(classes)]
    began = time.process_time()
    for features, label in examples:
        model.predict_one(features)
        model.learn_one(features, label)
    return (time.process_time() - began) / EXAMPLES * 1e6


def main() -> None:
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--rates", action="store_true", help="by the clock instead of by CPU")
    arguments.add_argument("--learners", default=",".join(LEARNERS))
    asked = arguments.parse_args()
    print("µs a round (rounds a second ÷ those of two classes, at least; river's µs)\n")
    print("| learner | " + " | ".join(f"{classes} classes" for classes in CLASSES) + " | `/learn` 26 ÷ 2 |")
    print("|---|" + "---:|" * (len(CLASSES) + 1))
    with tempfile.TemporaryDirectory(prefix="novikoff-bench-") as data, novikoff(Path(data)) as server:
        measured = Measured(server, rates=asked.rates)
        measured.cost("perceptron", 2, measured.stream)  # warms up
        for learner in asked.learners.split(","):
            costs = [measured.cost(learner, classes, measured.stream) for classes in CLASSES]
            told = []
            for classes, cost, target in zip(CLASSES, costs, (None, *TARGETS[learner]), strict=True):
                beside = [] if target is None else [f"{costs[0] / cost:.2f}, at least {target}"]
                if (its := of_river(learner, classes)) is not None:
                    beside.append(f"river {its:.1f}")
                told.append(f"{cost:.1f}" + (f" ({'; '.join(beside)})" if beside else ""))
            single = [measured.cost(learner, classes, measured.learn) for classes in (2, 26)]
            print(f"| {learner} | {' | '.join(told)} | {single[1] / single[0]:.2f} |", flush=True)


if __name__ == "__main__":
    main()
