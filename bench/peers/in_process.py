"""Libraries that learn in the process that calls them: one prediction and one example at a time.

Each runs in a process of its own, which is told on its standard input for how many seconds to go on, and
answers with rounds a second. The examples are there before, in the form that the library likes best.
"""

import subprocess
import sys
import time
from collections.abc import Callable
from types import TracebackType
from typing import Self

import numpy as np

from bench.examples import EXAMPLES, FEATURES, examples
from bench.processes import NotMeasured

BETWEEN_LOOKS = 50
"""Rounds between two looks at the clock."""


def river() -> Callable[[int], None]:
    """predict_one, then learn_one, of linear_model.Perceptron, with dicts."""
    from river import linear_model

    model = linear_model.Perceptron()
    rounds = [(example.named, example.label > 0) for example in examples()]

    def one(i: int) -> None:
        features, label = rounds[i]
        model.predict_one(features)
        model.learn_one(features, label)

    return one


def sklearn() -> Callable[[int], None]:
    """predict, then partial_fit, of linear_model.Perceptron, with arrays of one row."""
    from sklearn.linear_model import Perceptron

    model = Perceptron()
    rounds = [(np.array([example.features]), np.array([example.label])) for example in examples()]
    model.partial_fit(*rounds[0], classes=np.array([-1, 1]))

    def one(i: int) -> None:
        features, label = rounds[i]
        model.predict(features)
        model.partial_fit(features, label)

    return one


def vowpalwabbit() -> Callable[[int], None]:
    """learn, which predicts before, with hinge loss and features by number."""
    from vowpalwabbit import Workspace

    workspace = Workspace("--quiet --binary --loss_function hinge --bit_precision 10")
    rounds = [
        ({"x": list(zip(range(FEATURES), example.features, strict=True))}, str(example.label))
        for example in examples()
    ]

    def one(i: int) -> None:
        features, label = rounds[i]
        example = workspace.example(features)
        example.set_label_string(label)
        workspace.learn(example)
        example.get_simplelabel_prediction()
        workspace.finish_example(example)

    return one


LIBRARIES = {"river": river, "sklearn": sklearn, "vowpalwabbit": vowpalwabbit}


class InProcess:
    """One of these libraries, at work in a process of its own."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __enter__(self) -> Self:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "bench.peers.in_process", self._name],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        self._process.communicate()

    def rounds_per_second(self, seconds: float) -> float:
        assert self._process.stdin and self._process.stdout and self._process.stderr
        try:
            self._process.stdin.write(f"{seconds}\n")
            self._process.stdin.flush()
            return float(self._process.stdout.readline())
        except (OSError, ValueError):
            told = self._process.stderr.read().strip().splitlines()
            raise NotMeasured(f"{self._name}: {(told or ['it ended'])[-1]}") from None


def main() -> None:
    one = LIBRARIES[sys.argv[1]]()
    i = 0
    for line in sys.stdin:
        rounds = 0
        began = now = time.perf_counter()
        end = began + float(line)
        while now < end:
            for _ in range(BETWEEN_LOOKS):
                one(i)
                i = (i + 1) % EXAMPLES
            rounds += BETWEEN_LOOKS
            now = time.perf_counter()
        print(rounds / (now - began), flush=True)


if __name__ == "__main__":
    main()
