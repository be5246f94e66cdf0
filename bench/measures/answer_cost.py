"""12c to e: what it costs to ask for statistics."""

import http.client
import time
from collections.abc import Iterator

from bench import examples
from bench.figures import Bench, Figure, under
from bench.load import streams
from bench.processes import HOST, Server, get, novikoff
from bench.samples import Thing, in_turn

REVEALED_ROUNDS = 20_000
"""Of the model whose statistics are asked for."""


def measure(bench: Bench) -> Iterator[Figure]:
    """CPU of the service's process for each answer, HTTP and all."""
    scale = bench.scale
    models = examples.model_names(scale.models_spread)
    page = f"/stats?limit={scale.models_on_page}&model=m"
    with (
        bench.data("costs") as data,
        novikoff(data, models_loaded_max=2 * len(models)) as service,
    ):
        streams.learn_at_once(service.port, examples.lines(models)[: len(models)], scale.connections)
        lines = examples.lines([None])
        streams.learn(service.port, lines * (REVEALED_ROUNDS // len(lines)), "one")
        paths = ("/stats/one", page, "/metrics")
        taken = in_turn({path: _cpu_ms(service, path) for path in paths}, scale)
    yield under("12c", "CPU of `/stats/{model}`", taken["/stats/one"], 1.0, "ms")
    yield under("12d", f"CPU of `/stats` for {scale.models_on_page:,} models", taken[page], 50.0, "ms")
    what = f"CPU of `/metrics` with {len(models):,} models, the busiest with figures of their own"
    yield under("12e", what, taken["/metrics"], 100.0, "ms")


def _cpu_ms(service: Server, path: str) -> Thing:
    def thing(seconds: float) -> float:
        connection = http.client.HTTPConnection(HOST, service.port, timeout=60)
        answers = 0
        before = service.cpu_seconds()
        end = time.perf_counter() + seconds
        while time.perf_counter() < end or not answers:
            get(connection, path)
            answers += 1
        connection.close()
        return 1000 * (service.cpu_seconds() - before) / answers

    return thing
