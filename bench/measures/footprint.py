"""10 and 11: memory for many models, and a start with much on disk."""

import http.client
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import cycle, islice
from pathlib import Path

from bench import examples
from bench.figures import Bench, Figure, under
from bench.load import streams
from bench.processes import HOST, NotMeasured, Server, novikoff
from bench.samples import Samples

ITEMS = 500
"""Rounds in one request: an event each, where a chunk of a stream would be one for all."""
CLIENTS = 4
EVENTS_OF_A_NEW_MODEL = 3
"""It was created, its dimension was fixed, and its first round was learned."""
SETTLE_SECONDS = 3.0


def measure(bench: Bench) -> Iterator[Figure]:
    scale = bench.scale
    with bench.data("footprint") as data:
        with novikoff(data, models_loaded_max=2 * scale.models_stored) as service:
            _use_models(service, bench)
            memory = _memory_mb(service)
            if bench.wants(11):
                _add_events(service, bench)
        if bench.wants(10):
            yield _memory_figure(bench, "10a", "all loaded", memory, 600.0)
        if bench.wants(11):
            yield from _start(bench, data)
    if bench.wants(10):
        loaded_max = min(1_000, scale.models_stored // 10)
        with (
            bench.data("footprint-small") as data,
            novikoff(data, models_loaded_max=loaded_max) as service,
        ):
            _use_models(service, bench)
            memory = _memory_mb(service)
        how = f"`models_loaded_max` {loaded_max:,}"
        yield _memory_figure(bench, "10b", how, memory, 250.0)


def _use_models(service: Server, bench: Bench) -> None:
    """Every model is created by its first round, and used for nothing else."""
    models = examples.model_names(bench.scale.models_stored)
    lines = examples.lines(models)
    streams.learn_at_once(service.port, lines[: len(models)], bench.scale.connections)


def _memory_mb(service: Server) -> float:
    """The more of now and a little later."""
    now = service.rss_bytes()
    time.sleep(SETTLE_SECONDS)
    return max(now, service.rss_bytes()) / 1e6


def _memory_figure(bench: Bench, name: str, how: str, memory: float, target: float) -> Figure:
    what = f"memory for {bench.scale.models_stored:,} models of 64 weights used once, {how}"
    return under(name, what, Samples((memory,)), target, "MB")


def _add_events(service: Server, bench: Bench) -> None:
    """Further rounds of all models, until there are as many events as wanted."""
    models = examples.model_names(bench.scale.models_stored)
    missing = bench.scale.events_stored - EVENTS_OF_A_NEW_MODEL * len(models)
    supply = cycle(models)
    requests = [list(islice(supply, ITEMS)) for _ in range(max(0, -(-missing // ITEMS)))]

    def client(share: list[list[str]]) -> None:
        connection = http.client.HTTPConnection(HOST, service.port, timeout=300)
        for names in share:
            connection.request(
                "POST", "/learn", examples.learn_items(names), {"content-type": "application/json"}
            )
            answer = connection.getresponse()
            content = answer.read()
            if answer.status != 200 or b'"error"' in content:
                raise NotMeasured(f"/learn with items answered {answer.status}: {content[:200].decode()}")
        connection.close()

    with ThreadPoolExecutor(CLIENTS) as clients:
        for _ in clients.map(client, [requests[start::CLIENTS] for start in range(CLIENTS)]):
            pass


def _start(bench: Bench, data: Path) -> Iterator[Figure]:
    """After a clean stop; and, for a note, after a kill, and with nothing on disk."""
    scale = bench.scale
    clean: list[float] = []
    empty: list[float] = []
    for _ in range(scale.repetitions):
        clean.append(_seconds_until_ready(data))
        with bench.data("empty") as nothing:
            empty.append(_seconds_until_ready(nothing))
    killed = _seconds_until_ready(data, kill_before=True)
    bench.absolute["start with an empty directory"] = (Samples(tuple(empty)), "s")
    bench.absolute["start after a kill, much on disk"] = (Samples((killed,)), "s")
    bench.notes.append("11: from the creation of the process until `/readyz` answers 200; files were cached.")
    what = f"start until ready with {scale.models_stored:,} models and {scale.events_stored:,} events on disk"
    yield under("11", what, Samples(tuple(clean)), 2.0, "s")


def _seconds_until_ready(data: Path, *, kill_before: bool = False) -> float:
    if kill_before:
        service = novikoff(data)
        service.start()
        streams.learn(service.port, examples.lines(examples.model_names(100))[:100])
        service.kill()
    began = time.perf_counter()
    with novikoff(data) as service:
        service.wait_until_ready()
        return time.perf_counter() - began
