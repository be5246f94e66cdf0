"""8 and 9: the same speed with a long history, and with many models."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from itertools import cycle, islice

from bench import examples
from bench.figures import Bench, Figure, at_least
from bench.load import streams
from bench.load.work import Work
from bench.processes import Server, novikoff
from bench.samples import Samples, Thing, in_turn

UNIT = "rounds/s"

Way = Callable[[Bench, Server, list[str]], Thing]
"""How rounds are made: rounds a second with these models."""


def history(bench: Bench) -> Iterator[Figure]:
    """A service that has learned much beside one that has learned little."""
    scale = bench.scale

    def with_short_history(way: Way) -> Thing:
        """A new service each time, since measuring is what makes a history long."""

        def thing(seconds: float) -> float:
            with bench.data("history-short") as data, novikoff(data) as short:
                _fill(short, scale.history_short_rounds)
                return way(bench, short, ["history"])(seconds)

        return thing

    with bench.data("history-long") as data, novikoff(data) as long:
        _fill(long, scale.history_rounds)
        things: dict[str, Thing] = {}
        for way in (by_requests, by_stream):
            things[f"{way.__name__}, top"] = way(bench, long, ["history"])
            things[f"{way.__name__}, bottom"] = with_short_history(way)
        taken = in_turn(things, scale)
    what = f"rounds/s at {scale.history_rounds:,} rounds of history ÷ at {scale.history_short_rounds:,}"
    yield from _figures(taken, "8", what, 0.9)


def _fill(service: Server, rounds: int) -> None:
    streams.learn(service.port, islice(cycle(examples.lines(["history"])), rounds))


def many_models(bench: Bench) -> Iterator[Figure]:
    """A service whose rounds go to many models beside one whose rounds all go to one."""
    scale = bench.scale
    with ExitStack() as stack:
        things: dict[str, Thing] = {}
        for side, models in (("top", examples.model_names(scale.models_spread)), ("bottom", ["one"])):
            service = stack.enter_context(novikoff(stack.enter_context(bench.data(f"models-{side}"))))
            streams.learn_at_once(service.port, examples.lines(models)[: len(models)], scale.connections)
            for way in (by_requests, by_stream):
                things[f"{way.__name__}, {side}"] = way(bench, service, models)
        taken = in_turn(things, scale)
    yield from _figures(taken, "9", f"rounds/s spread over {scale.models_spread:,} models ÷ on one", 0.7)


def by_requests(bench: Bench, service: Server, models: list[str]) -> Thing:
    """Rounds a second by predict and feedback in turn on all connections."""
    work = Work("/predict", examples.predict_bodies(models), reveals=True)
    load = bench.loading("predict and feedback", service, work)
    return lambda seconds: load(seconds) / 2


def by_stream(bench: Bench, service: Server, models: list[str]) -> Thing:
    """Rounds a second in one `/stream`, every line answered."""
    lines = examples.lines(models)
    return lambda seconds: streams.rounds_per_second(service.port, lines, seconds)


def _figures(taken: dict[str, Samples], name: str, what: str, target: float) -> Iterator[Figure]:
    for letter, how, way in (("a", "predict+feedback", by_requests), ("b", "one `/stream`", by_stream)):
        top, bottom = taken[f"{way.__name__}, top"], taken[f"{way.__name__}, bottom"]
        yield at_least(f"{name}{letter}", f"{how}, {what}", top, bottom, target, UNIT)
