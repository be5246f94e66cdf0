"""python -m bench.challengers: what challengers cost, in CPU of the service, beside a model that has none.

One service, models of 64 dense numbers with 0, 1, 4 and 8 challengers of the champion's kind, loaded in turn: with
predictions alone, and with predictions and reveals in turn. What a challenger adds is the slope over their number, as a
share of what a prediction, or a reveal, takes without any. The same in the engine alone, without HTTP and journal.
"""

import sys
import tempfile
import time
from pathlib import Path
from statistics import median

import numpy as np

from bench import examples
from bench.load import sockets
from bench.load.work import Work
from bench.processes import Server, novikoff
from service.engine.models.model import Model
from service.engine.models.settings import ModelLimits
from service.events import ModelCreated, RoundRevealed
from service.web.routes.model_settings import ModelSettings

COUNTS = (0, 1, 4, 8)
KINDS = ("perceptron", "arow")
TURNS = 5
SECONDS = 2.0
CONNECTIONS = 32
ROUNDS = 4_000
LIMITS = ModelLimits(1000, 1000, 512, 10**8)
PREDICTION_MAX, REVEAL_MAX = 0.25, 0.40


def over_http(service: Server, model: str, *, reveals: bool) -> float:
    """Microseconds of CPU of all processes of the service, for a prediction or for that and its reveal."""
    work = Work("/predict", examples.predict_bodies([model]), reveals)
    before = service.cpu_seconds_in_all()
    load = sockets.run(service.port, work, SECONDS, CONNECTIONS)
    spent = service.cpu_seconds_in_all() - before
    return 1e6 * spent / (load.requests / (2 if reveals else 1))


def in_engine(kind: str, count: int) -> tuple[float, float]:
    """Microseconds of CPU of predicting, and of applying a reveal, without HTTP and journal."""
    asked = {"learner": {"algorithm": kind}, "challengers": {f"c{at}": {} for at in range(count)}}
    settings = ModelSettings.model_validate(asked).complete(LIMITS)
    model = Model(ModelCreated("m", 1, settings))
    model.fix_dimension(examples.FEATURES)
    predicting = revealing = 0
    known = examples.examples()
    for number in range(ROUNDS):
        example = known[number % examples.EXAMPLES]
        row = np.array(example.features)
        began = time.process_time_ns()
        chosen, score, certainty = model.predict(row)
        predicting += time.process_time_ns() - began
        at = 1_700_000_000_000_000 + 2_000 * number
        event = RoundRevealed(
            "m", at + 1_000, f"p{number}", example.label, at, row.tobytes(), model.labels.label(chosen), score,
            model.version, model.updates, certainty,
        )  # fmt: skip
        began = time.process_time_ns()
        model.apply(event)
        revealing += time.process_time_ns() - began
    return predicting / 1000 / ROUNDS, revealing / 1000 / ROUNDS


def slope(by_count: dict[int, list[float]]) -> float:
    """What one more challenger takes: by least squares over the medians."""
    counts = np.array(COUNTS, dtype=float)
    medians = np.array([median(by_count[count]) for count in COUNTS])
    centred = counts - counts.mean()
    return float(centred @ medians / (centred @ centred))


def tell(what: str, by_count: dict[int, list[float]], most: float, base: float | None = None) -> None:
    alone = median(by_count[0]) if base is None else base
    more = slope(by_count)
    verdict = "reached" if more / alone <= most else "not reached"
    figures = ", ".join(f"{count}: {median(by_count[count]):.1f}" for count in COUNTS)
    print(f"{what}: {figures} µs; a challenger adds {more:.2f} µs, {more / alone:.1%} of {alone:.1f}; "
          f"at most {most:.0%}: {verdict}")  # fmt: skip


def measure_engine(kind: str) -> None:
    predicting: dict[int, list[float]] = {count: [] for count in COUNTS}
    revealing: dict[int, list[float]] = {count: [] for count in COUNTS}
    for _ in range(TURNS):
        for count in COUNTS:
            for taken, value in zip((predicting, revealing), in_engine(kind, count), strict=True):
                taken[count].append(value)
    tell(f"{kind}, a prediction in the engine alone", predicting, PREDICTION_MAX)
    tell(f"{kind}, a reveal in the engine alone", revealing, REVEAL_MAX)


def measure_http(service: Server, kind: str) -> None:
    for count in COUNTS:
        settings = {"learner": {"algorithm": kind}, "challengers": {f"c{at}": {} for at in range(count)}}
        for use in ("predict", "turn"):
            service.post("/models", examples.encode({"model": f"{kind}-{count}-{use}", **settings}))
    taken = {use: {count: list[float]() for count in COUNTS} for use in ("predict", "turn")}
    for _ in range(TURNS):
        for count in COUNTS:
            for use, values in taken.items():
                values[count].append(over_http(service, f"{kind}-{count}-{use}", reveals=use == "turn"))
    reveals = {
        count: [both - median(taken["predict"][count]) for both in taken["turn"][count]] for count in COUNTS
    }
    tell(f"{kind}, a prediction over HTTP", taken["predict"], PREDICTION_MAX)
    tell(f"{kind}, a reveal over HTTP, by difference", reveals, REVEAL_MAX)


def main() -> None:
    for kind in KINDS:
        measure_engine(kind)
    if "--engine" in sys.argv:
        return
    for kind in KINDS:
        with tempfile.TemporaryDirectory() as data, novikoff(Path(data)) as service:
            measure_http(service, kind)


if __name__ == "__main__":
    main()
