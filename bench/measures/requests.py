"""1 to 3: requests a second, beside servers that do nothing."""

from collections.abc import Iterator
from contextlib import ExitStack

from bench import examples
from bench.figures import Bench, Figure, at_least
from bench.load.work import Work
from bench.peers import chantilly
from bench.processes import NotMeasured, novikoff, peer
from bench.samples import Samples, in_turn

ROUTE = "a FastAPI route that does nothing, same body"
ASGI = "raw ASGI that does nothing, same body"
IN_TURN = "Novikoff, predict and feedback in turn"
PREDICT = "Novikoff, /predict"
LEARN = "Novikoff, /learn"
RIVER = "river behind FastAPI, a round a request, nothing kept"
CHANTILLY = "chantilly 0.3.0 under waitress, a round a request, kept without fsync"

RATIOS = (
    (1, "predict+feedback in turn ÷ do-nothing FastAPI route", IN_TURN, ROUTE, 2.0),
    (2, "`/predict` ÷ raw ASGI that does nothing", PREDICT, ASGI, 0.6),
    (3, "`/learn` ÷ do-nothing FastAPI route", LEARN, ROUTE, 2.0),
)
UNIT = "requests/s"


def measure(bench: Bench) -> Iterator[Figure]:
    taken = _take(bench)
    bench.absolute |= {name: (samples, UNIT) for name, samples in taken.items()}
    for figure, what, top, bottom, target in RATIOS:
        if bench.wants(figure):
            what += f", {bench.scale.connections} connections"
            yield at_least(str(figure), what, taken[top], taken[bottom], target, UNIT)


def _take(bench: Bench) -> dict[str, Samples]:
    with ExitStack() as stack:
        service = stack.enter_context(novikoff(stack.enter_context(bench.data("requests"))))
        dense = examples.predict_bodies(["nothing"])
        rounds = examples.learn_bodies(["bench"])
        works = {
            ROUTE: (stack.enter_context(peer("bench.peers.nothing:route")), Work("/nothing", dense)),
            ASGI: (stack.enter_context(peer("bench.peers.nothing:asgi")), Work("/nothing", dense)),
            IN_TURN: (service, Work("/predict", examples.predict_bodies(["in-turn"]), reveals=True)),
            PREDICT: (service, Work("/predict", examples.predict_bodies(["predict"]))),
            LEARN: (service, Work("/learn", examples.learn_bodies(["learn"]))),
        }
        if bench.with_peers:
            works[RIVER] = (
                stack.enter_context(peer("bench.peers.river_service:app")),
                Work("/learn", rounds),
            )
            try:
                server = chantilly.server(stack.enter_context(bench.data("chantilly")))
                works[CHANTILLY] = (stack.enter_context(server), chantilly.work())
            except NotMeasured as reason:
                bench.notes.append(f"chantilly is missing: {reason}.")
        needed = {name for n, _, *pair, _ in RATIOS if bench.wants(n) for name in pair}
        things = {
            name: bench.loading(name, server, work)
            for name, (server, work) in works.items()
            if bench.with_peers or name in needed
        }
        return in_turn(things, bench.scale)
