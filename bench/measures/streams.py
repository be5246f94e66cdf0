"""4 to 6: rounds a second over HTTP, kept on disk, beside libraries that learn in-process."""

import time
from collections.abc import Iterator
from contextlib import ExitStack
from itertools import count

from bench import disk, examples
from bench.figures import Bench, Figure, at_least
from bench.load import streams
from bench.peers.in_process import InProcess
from bench.processes import NotMeasured, Server, novikoff
from bench.samples import Samples, Thing, in_turn, number

DENSE = "Novikoff, /stream, dense, every line answered"
NAMED = "Novikoff, /stream, 64 names a line, every line answered"
ARROW = "Novikoff, /stream, Arrow"
RIVER = "river in-process, predict_one + learn_one"
SKLEARN = "scikit-learn in-process, predict + partial_fit, one row"
VW = "Vowpal Wabbit in-process, learn, which predicts before"
UNIT = "rounds/s"
ARROW_TYPE = "application/vnd.apache.arrow.stream"
ROUND_BYTES = 8 * examples.FEATURES
"""What the journal cannot do without."""

LIBRARIES = {RIVER: "river", SKLEARN: "sklearn", VW: "vowpalwabbit"}


def measure(bench: Bench) -> Iterator[Figure]:
    taken, bytes_a_second = _take(bench)
    bench.absolute |= {name: (samples, UNIT) for name, samples in taken.items()}
    river = taken[RIVER]
    for figure, what, name, target in (
        (4, "`/stream` dense ÷ river in-process", DENSE, 2.0),
        (5, "`/stream` named, 64 names a line ÷ river in-process", NAMED, 0.8),
    ):
        if bench.wants(figure):
            yield at_least(str(figure), what, taken[name], river, target, UNIT)
    if bench.wants(6):
        what = "`/stream` Arrow ÷ river in-process"
        if bytes_a_second is None:
            yield Figure("6", what, "the service answers 415: no Arrow yet", target="at least 4")
            return
        bench.absolute["the disk, blocks of 5 MiB, each with an fsync"] = (bytes_a_second * 1e-6, "MB/s")
        disk_ratio = (bytes_a_second * (1 / ROUND_BYTES) / river).median
        yield at_least("6", what, taken[ARROW], river, min(4.0, disk_ratio), UNIT)
        bench.notes.append(
            f"6: at {ROUND_BYTES} bytes a round, the disk alone could take {number(disk_ratio)} times river's "
            "rounds; the target is 4, or that if it is less. SQLite writes every byte twice (log, then file)."
        )


def _take(bench: Bench) -> tuple[dict[str, Samples], Samples | None]:
    """Rounds a second of each, and the disk's bytes a second if Arrow was measured."""
    with ExitStack() as stack:
        data = stack.enter_context(bench.data("streams"))
        service = stack.enter_context(novikoff(data))
        things: dict[str, Thing] = {}
        for name, library in LIBRARIES.items():
            if name == RIVER or bench.with_peers:
                thing = stack.enter_context(InProcess(library)).rounds_per_second
                try:
                    thing(0.1)
                except NotMeasured as reason:
                    bench.notes.append(f"Missing: {reason}.")
                else:
                    things[name] = thing
        if RIVER not in things:
            raise NotMeasured("river is missing")
        if bench.wants(4):
            things[DENSE] = _lines(service, named=False)
        if bench.wants(5):
            things[NAMED] = _lines(service, named=True)
        arrow = _arrow(service, bench.scale.arrow_rows) if bench.wants(6) else None
        if arrow is not None:
            things[ARROW] = arrow
            things["disk"] = lambda seconds: disk.write_rate(data, seconds / 4)
        taken = in_turn(things, bench.scale)
        return taken, taken.pop("disk", None)


def _lines(service: Server, *, named: bool) -> Thing:
    """Each time with a new model."""
    lines = examples.lines([None], named=named)
    numbers = count()

    def thing(seconds: float) -> float:
        model = f"{'named' if named else 'dense'}-{next(numbers)}"
        kind = "named" if named else "dense"
        service.post("/models", examples.encode({"model": model, "features": {"kind": kind}}))
        return streams.rounds_per_second(service.port, lines, seconds, model)

    return thing


def _arrow(service: Server, rows: int) -> Thing | None:
    """One request after the other; None if the service knows no Arrow."""
    body = examples.arrow(rows)
    try:
        service.post("/stream?model=arrow", examples.arrow(10), ARROW_TYPE)
    except NotMeasured as reason:
        if " 415" in str(reason):
            return None
        raise
    numbers = count()

    def thing(seconds: float) -> float:
        path = f"/stream?model=arrow-{next(numbers)}"
        rounds = 0
        began = time.perf_counter()
        while time.perf_counter() < began + seconds:
            service.post(path, body, ARROW_TYPE)
            rounds += rows
        return rounds / (time.perf_counter() - began)

    return thing
