"""The golden files of commit 8f0831c: every kind of event that 0.1.0 did not have, on one machine and on a cluster.

They were written once, by the program of that commit, and are not to be written again:

    git worktree add ../novikoff-8f0831c 8f0831c   # and install it there into an environment of its own
    python -m tests.golden.later ../novikoff-8f0831c/.venv/bin/novikoff
"""

import os
import random
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec

from tests.golden.archives import LATER, pack
from tests.golden.fleet import features_of, stream
from tests.golden.make import PREFIX, kill_with_its_writer, service_of
from tests.golden.transcripts import save
from tests.support.nats_servers import NatsServer
from tests.support.service_process import Service
from tests.support.waiting import eventually

Answers = dict[str, Any]
"""What a service answers, by path."""

KEPT: dict[str, object] = {"snapshot_every_events": 25, "events_kept_max": 1000, "pending_max": 1000}
"""All versions can be had again, from snapshots and events."""

NUMBERS = {"kind": "dense"}
NAMES = {"kind": "named"}
STEADY = {"learner": {"algorithm": "arow"}}
SCALED = {"learner": {"algorithm": "pa1", "C": 0.1}, "features": {"standardize": True}}

MODELS: dict[str, dict[str, Any]] = {
    "late": {"declared_margin": 0.01},
    "normalized": {"features": {**NAMES, "normalize": "l2"}, "declared_margin": 0.01},
    "fourier": {"features": {**NUMBERS, "fourier": {"features": 6, "seed": 7}}, "declared_margin": 0.01},
    "crosses": {"features": {**NUMBERS, "crosses": 2}, "learner": {"algorithm": "scw"}},
    "logistic": {"learner": {"algorithm": "logistic"}, "features": {**NUMBERS, "standardize": True}},
    "forgetful": {"learner": {"algorithm": "arow_forgetting", "forget": 0.01}},
    "weighted": {"class_weights": {"-1": 0.4, "1": 3}, "declared_margin": 0.01},
    "sets": {"labels": None, "coverage": 0.8, "learner": {"algorithm": "pa1"}},
    "asks": {"ask": {"b": 0.5}, "coverage": 0.9},
    "asks-auto": {"ask": "auto", "features": NAMES},
    "auto": {"learner": {"algorithm": "auto"}},
    "auto-names": {"learner": {"algorithm": "auto"}, "features": NAMES, "labels": None},
    "contest": {  # a champion that learns nothing, so that the evidence is soon enough
        "features": {**NUMBERS, "fourier": {"features": 6, "gamma": 1e3, "seed": 7}},
        "challengers": {"steady": {**STEADY, "features": {"fourier": None}}, "scaled": SCALED},
        "promote": {"confidence": 0.9, "rounds_min": 20},
    },
}
"""Each has rounds of every sort; some have more happen to them below."""
FORGOTTEN: dict[str, Any] = {"features": NAMES}


def examples(model: str, count: int) -> Iterator[tuple[Any, Any]]:
    """Features and labels, the same whenever they are asked for."""
    settings = (MODELS | {"forgotten": FORGOTTEN}).get(model, {})
    kind = settings.get("features", NUMBERS)["kind"]
    chance = random.Random(f"{model} {count}")
    for _ in range(count):
        x = [round(chance.uniform(-2, 2), 3) or 1.0 for _ in range(3)]
        which = (x[0] + x[1] > 0) + (x[2] > 0.5)
        label = "abc"[which] if "labels" in settings else (-1, 1, 1)[which]
        yield features_of(kind, x), label


def live(service: Service, model: str, rounds: int, *, run: str = "") -> None:
    """Whole rounds with tags and weights, a block, and labels that come up to nine predictions late."""
    chance = random.Random(f"{model} {run}")
    pending: list[tuple[str, Any]] = []
    known = list(examples(model, rounds))
    for number, (features, label) in enumerate(known):
        name, tag = f"{model}:{run}{number}", f"user-{number % 7}"
        if number % 4 == 0:
            service.learn(model, features, label, id=name, tag=tag, weight=0.5 + number % 3)
            continue
        service.predict(model, features, id=name, tag=tag)
        pending.append((name, label))
        if len(pending) > 9:
            prediction_id, label = pending.pop(chance.randrange(len(pending)))
            service.reveal(prediction_id, label, weight=1 + number % 2)
    stream(service, model, known[:8])
    for prediction_id, label in pending[:-3]:
        service.reveal(prediction_id, label)


def is_rebuilt(service: Service, model: str) -> bool:
    corrections = service.stats(model)["corrections"]
    return corrections is None or not corrections["rebuilding"]


def correct(service: Service, prediction_id: str, label: Any) -> None:
    body = {"label": label, "reason": "mislabelled"}
    assert service.client.put(f"/feedback/{prediction_id}", json=body).status_code in (200, 202)


def void(service: Service, prediction_id: str) -> None:
    assert service.client.delete(f"/predictions/{prediction_id}").status_code in (200, 202)


def done(service: Service, path: str) -> None:
    eventually(lambda: service.get(path)["state"] != "running")
    assert service.get(path)["state"] == "done", service.get(path)


def fill(service: Service) -> list[str]:
    """The names of the models."""
    for model, settings in MODELS.items():
        service.create(model, **settings)
        live(service, model, 150 if model == "contest" else 60)
    assert service.stats("contest")["challengers"]["promotions"] == 1
    others = (_corrected, _forgotten, _turned_back, _fitted, _warm, _contested, _reset)
    return [*MODELS, *(model for happens in others for model in happens(service))]


def _corrected(service: Service) -> list[str]:
    service.create("corrected", labels=[-1, 1], coverage=0.9)
    live(service, "corrected", 40)
    for number in (4, 8, 20):
        correct(service, f"corrected:{number}", 1)
        correct(service, f"corrected:{number}", -1)
    void(service, "corrected:12")
    void(service, "corrected:39")  # still pending
    eventually(lambda: is_rebuilt(service, "corrected"))
    live(service, "corrected", 24, run="on:")
    return ["corrected"]


def _forgotten(service: Service) -> list[str]:
    service.create("forgotten", **FORGOTTEN)
    live(service, "forgotten", 40)
    assert service.post("/models/forgotten/forget", {"tag": "user-2"})["rounds"] > 3
    eventually(lambda: is_rebuilt(service, "forgotten"))
    live(service, "forgotten", 12, run="on:")
    return ["forgotten"]


def _turned_back(service: Service) -> list[str]:
    service.create("turned", learner={"algorithm": "averaged"})
    live(service, "turned", 30)
    service.post("/models/turned/rollback", {"to": 10})
    live(service, "turned", 12, run="on:")
    service.post("/models/turned/fork", {"as": "forked", "at": 16})
    live(service, "forked", 12)
    return ["turned", "forked"]


def _fitted(service: Service) -> list[str]:
    service.create("fitted", learner={"algorithm": "pa1"})
    live(service, "fitted", 30)
    done(service, f"/jobs/{service.post('/models/fitted/fit', {'source': 'history'})['id']}")
    live(service, "fitted", 12, run="on:")
    return ["fitted"]


def _warm(service: Service) -> list[str]:
    service.create("warm")
    live(service, "warm", 30)
    body = {"name": "knowing", "start": "history", **STEADY}
    done(service, service.client.post("/models/warm/challengers", json=body).headers["location"])
    live(service, "warm", 16, run="on:")
    return ["warm"]


def _contested(service: Service) -> list[str]:
    service.create("contested", challengers={"steady": STEADY})
    live(service, "contested", 24)
    service.post("/models/contested/challengers", {"name": "scaled", **SCALED})
    live(service, "contested", 24, run="two:")
    service.post("/models/contested/promote", {"challenger": "steady"})
    live(service, "contested", 24, run="promoted:")
    assert service.client.delete("/models/contested/challengers/scaled").status_code == 204
    service.client.put("/models/contested/promote", json={"promote": {"confidence": 0.8, "rounds_min": 5}})
    live(service, "contested", 24, run="ruled:")
    return ["contested"]


def _reset(service: Service) -> list[str]:
    service.create("reset", challengers={"steady": STEADY}, ask={"b": 1.0})
    live(service, "reset", 20)
    service.post("/models/reset/reset", {})
    live(service, "reset", 20, run="again:")
    return ["reset"]


def record(service: Service, models: list[str]) -> Answers:
    """What a service says of its models, now and at some versions."""
    said: Answers = {}
    for model in models:
        version = service.stats(model)["version"]
        for at in ("", f"?at={version - 3}", f"?at={version // 2}"):
            for path in (f"/models/{model}/weights{at}", f"/stats/{model}{at}"):
                said[path] = service.get(path)
        said[f"/models/{model}/events?limit=1000"] = service.get(f"/models/{model}/events?limit=1000")
        path = f"/models/{model}/history"
        said[path] = [msgspec.json.decode(line) for line in service.client.get(path).text.splitlines()]
    return said


def go_on(service: Service, models: list[str]) -> None:
    """A few rounds of every sort more, corrections and a forgetting."""
    for model in models:
        live(service, model, 12, run="later:")
    for model in ("corrected", "late", "contest", "turned"):
        correct(service, f"{model}:later:4", -1)
        eventually(lambda model=model: is_rebuilt(service, model))  # type: ignore[misc]
        void(service, f"{model}:later:0")
        eventually(lambda model=model: is_rebuilt(service, model))  # type: ignore[misc]
    service.post("/models/auto-names/forget", {"tag": "user-1"})
    eventually(lambda: is_rebuilt(service, "auto-names"))


def make(name: str, service: Service, restarted: Callable[[], Service]) -> None:
    """Fill a service; record what it says after it was started again, and what it says after some more rounds."""
    models = fill(service)
    if name == "directory":
        save(LATER / "exports.json.xz", [service.get(f"/models/{model}/export") for model in models])
    service = restarted()
    found = record(service, models)
    go_on(service, models)
    save(LATER / f"{name}.json.xz", {"models": models, "found": found, "left": record(service, models)})
    service.stop()
    service.close()


def main() -> None:
    program = Path(sys.argv[1]).absolute()
    LATER.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch:
        os.chdir(scratch)  # else the program's writing process would find the `service` that lies here
        data = Path(scratch, "data")

        def start(**settings: object) -> Service:
            return service_of(program, data, **KEPT, **settings).start(cold=True)

        service = start()

        def restarted() -> Service:
            kill_with_its_writer(service)
            pack(data, LATER / "directory.tar.xz")
            return start()

        make("directory", service, restarted)
        server = NatsServer(Path(scratch, "nats")).start()
        server.wait_until_healthy()
        replica = start(**server.settings(PREFIX))

        def restarted_replica() -> Service:
            replica.kill()
            replica.close()
            server.process.terminate()
            server.process.wait()
            pack(Path(scratch, "nats", "store"), LATER / "streams.tar.xz")
            server.start().wait_until_healthy()
            return start(**server.settings(PREFIX))

        make("streams", replica, restarted_replica)
        server.kill()


if __name__ == "__main__":
    main()
