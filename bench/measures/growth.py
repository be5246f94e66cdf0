"""8 and 9: the same speed with a long history, and with many models."""

from collections.abc import Iterator
from contextlib import ExitStack
from itertools import cycle, islice

from bench import examples
from bench.figures import Bench, Figure, at_least
from bench.load import streams
from bench.load.work import Work
from bench.processes import Server, novikoff
from bench.samples import Samples, Thing, in_turn

UNIT = "rounds/s"


def history(bench: Bench) -> Iterator[Figure]:
    """A service that has learned much beside one that has learned little."""
    scale = bench.scale
    with ExitStack() as stack:
        long = stack.enter_context(novikoff(stack.enter_context(bench.data("history-long"))))
        _fill(long, scale.history_rounds)
        in_turn_bodies = Work("/predict", examples.predict_bodies(["history"]), reveals=True)
        lines = examples.lines([None])

        def by_requests(service: Server) -> Thing:
            return lambda seconds: bench.loading("8", service, in_turn_bodies)(seconds) / 2

        def by_stream(service: Server) -> Thing:
            return lambda seconds: streams.rounds_per_second(service.port, lines, seconds, "history")

        def with_short_history(thing_of: object) -> Thing:
            """A new service each time, since measuring is what makes a history long."""

            def thing(seconds: float) -> float:
                with bench.data("history-short") as data, novikoff(data) as short:
                    _fill(short, scale.history_short_rounds)
                    return thing_of(short)(seconds)  # type: ignore[operator,no-any-return]

            return thing

        taken = in_turn(
            {
                "requests, long": by_requests(long),
                "requests, short": with_short_history(by_requests),
                "stream, long": by_stream(long),
                "stream, short": with_short_history(by_stream),
            },
            scale,
        )
    of = f"{scale.history_rounds:,} rounds of history ÷ at {scale.history_short_rounds:,}"
    yield from _both(taken, "8", of, "long", "short", 0.9)


def _fill(service: Server, rounds: int) -> None:
    streams.learn(service.port, islice(cycle(examples.lines([None])), rounds), "history")


def many_models(bench: Bench) -> Iterator[Figure]:
    """A service whose rounds go to many models beside one whose rounds all go to one."""
    scale = bench.scale
    names = {"many": examples.model_names(scale.models_spread), "one": ["one"]}
    with ExitStack() as stack:
        things: dict[str, Thing] = {}
        for how_many, models in names.items():
            service = stack.enter_context(novikoff(stack.enter_context(bench.data(f"models-{how_many}"))))
            lines = examples.lines(models)
            streams.learn_at_once(service.port, lines[: len(models)], scale.connections)
            work = Work("/predict", examples.predict_bodies(models), reveals=True)
            load = bench.loading("9", service, work)
            things[f"requests, {how_many}"] = lambda seconds, load=load: load(seconds) / 2  # type: ignore[misc]
            things[f"stream, {how_many}"] = lambda seconds, service=service, lines=lines: (
                streams.rounds_per_second(  # type: ignore[misc]
                    service.port, lines, seconds
                )
            )
        taken = in_turn(things, scale)
    yield from _both(taken, "9", f"{scale.models_spread:,} models ÷ on one", "many", "one", 0.7)


def _both(
    taken: dict[str, Samples], name: str, what: str, top: str, bottom: str, target: float
) -> Iterator[Figure]:
    spread = "at" if name == "8" else "spread over"
    for letter, how, told in (
        ("a", "requests", "predict+feedback"),
        ("b", "stream", "one `/stream`"),
    ):
        yield at_least(
            f"{name}{letter}",
            f"{told}, rounds/s {spread} {what}",
            taken[f"{how}, {top}"],
            taken[f"{how}, {bottom}"],
            target,
            UNIT,
        )
