"""13: what `auto` costs beside a perceptron: a reveal over HTTP, a round of a stream, memory."""

import time
from collections.abc import Iterator

from bench import examples
from bench.figures import Bench, Figure, ratio_under
from bench.load import streams
from bench.load.work import Work
from bench.measures.streams import ARROW_TYPE
from bench.processes import Server, novikoff
from bench.samples import Samples, Thing, in_turn

LEARNERS = {"auto": {"algorithm": "auto"}, "perceptron": {"algorithm": "perceptron"}}
STREAM_MIN = 15_000.0
MODELS = 200
UNIT = "µs of CPU"


def measure(bench: Bench) -> Iterator[Figure]:
    with bench.data("auto") as data, novikoff(data) as service:
        for name, learner in LEARNERS.items():
            for way in ("turn", "lines", "arrow"):
                service.post("/models", examples.encode({"model": f"{name}-{way}", "learner": learner}))
        taken = in_turn({name: _in_turn(bench, service, f"{name}-turn") for name in LEARNERS}, bench.scale)
        what = "predict+feedback in turn with `auto` ÷ with a perceptron, 64 numbers"
        yield ratio_under("13a", what, taken["auto"], taken["perceptron"], 6.0, UNIT)
        lines = examples.lines([None])
        things: dict[str, Thing] = {
            "`/stream` dense, `auto`": lambda seconds: streams.rounds_per_second(
                service.port, lines, seconds, "auto-lines"
            ),
            "`/stream` Arrow, `auto`": _arrow(service, bench.scale.arrow_rows // 5),
        }
        for at, (what, rates) in enumerate(in_turn(things, bench.scale).items()):
            yield _at_least(f"13{'bc'[at]}", what, rates)
    with bench.data("many") as data, novikoff(data) as service:
        yield _memory(service)


def _in_turn(bench: Bench, service: Server, model: str) -> Thing:
    """Microseconds of CPU of the service, its writer too, for a prediction and its reveal."""
    work = Work("/predict", examples.predict_bodies([model]), reveals=True)

    def thing(seconds: float) -> float:
        load = bench.loading(model, service, work)
        before = service.cpu_seconds_in_all()
        rate = load(seconds)
        spent = service.cpu_seconds_in_all() - before
        return 1e6 * spent / (rate / 2 * seconds)  # two requests a round

    return thing


def _arrow(service: Server, rows: int) -> Thing:
    body = examples.arrow(rows)

    def thing(seconds: float) -> float:
        rounds, began = 0, time.perf_counter()
        while time.perf_counter() < began + seconds:
            service.post("/stream?model=auto-arrow", body, ARROW_TYPE)
            rounds += rows
        return rounds / (time.perf_counter() - began)

    return thing


def _at_least(name: str, what: str, rates: Samples) -> Figure:
    target = f"at least {STREAM_MIN:,.0f} rounds/s"
    return Figure(name, what, f"{rates} rounds/s", None, target, rates.median >= STREAM_MIN)


def _memory(service: Server) -> Figure:
    """What a loaded model takes, by many that have learned a round each."""
    names = examples.model_names(MODELS, "auto")
    for name in names:
        service.post("/models", examples.encode({"model": name, "learner": LEARNERS["auto"]}))
    bodies = examples.learn_bodies(names)
    service.post("/learn", bodies[0])
    before = service.rss_bytes()
    for body in bodies[1:MODELS]:
        service.post("/learn", body)
    each = (service.rss_bytes() - before) / (MODELS - 1) / 1024
    return Figure("13d", "memory of a model with `auto`, 64 numbers, two labels", f"{each:.0f} KiB")
