"""7: how long feedback takes at half of the highest load, beside an fsync."""

from collections.abc import Iterator

from bench import disk, examples
from bench.figures import Bench, Figure, ratio_under
from bench.load import sockets
from bench.load.work import Work
from bench.machine import Stolen
from bench.processes import novikoff
from bench.samples import Samples, in_turn, number


def measure(bench: Bench) -> Iterator[Figure]:
    scale = bench.scale
    bodies = examples.predict_bodies(["latency"])
    with bench.data("latency") as data, novikoff(data) as service:
        work = Work("/predict", bodies, reveals=True)
        flat_out = bench.loading("highest load", service, work)
        flat_out(scale.warmup_seconds)
        highest = flat_out(scale.seconds)
        alone = Samples((sockets.run(service.port, work, scale.seconds, connections=1).rate,))
        pace = highest / 4  # half of the requests, two of which are a round
        medians: list[float] = []
        paces: list[float] = []

        def feedback_p99(seconds: float) -> float:
            took, kept = sockets.paced_feedback(
                service.port, bodies, rounds_a_second=pace, seconds=seconds, connections=scale.connections
            )
            medians.append(disk.quantile(took, 0.5))
            paces.append(kept)
            return 1000 * disk.quantile(took, 0.99)

        stolen = Stolen()
        taken = in_turn(
            {"feedback": feedback_p99, "fsync": lambda seconds: 1000 * disk.fsync_p99(data, seconds / 2)},
            scale,
        )
    bench.absolute["Novikoff, predict and feedback in turn, by one client alone"] = (alone, "requests/s")
    bench.absolute["feedback at half of the highest load, p50"] = (Samples(tuple(medians[1:])) * 1000, "ms")
    bench.absolute["feedback at half of the highest load, p99"] = (taken["feedback"], "ms")
    bench.absolute["append of 1 KiB and fsync, p99"] = (taken["fsync"], "ms")
    bench.notes.append(
        f"7: the highest load was {number(highest)} requests/s; the pace was {number(pace)} rounds/s "
        f"(kept: {Samples(tuple(paces[1:]))}), predict and feedback on {scale.connections} connections. "
        f"Meanwhile the host took {stolen} for others."
    )
    what = "p99 of feedback at half of the highest load ÷ p99 of an fsync"
    yield ratio_under("7", what, taken["feedback"], taken["fsync"], 10.0, "ms")
