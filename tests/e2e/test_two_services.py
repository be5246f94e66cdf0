"""A service that is corrected later comes to the same as a reference that got the right data at once.

One service gets wrong labels and rounds that are corrected, voided or forgotten later. The reference gets only what is
right. Both get the same predictions, resets, rollbacks, fits, challengers and promotions, drawn from a seed. The first
one has fewer models in memory than there are, and is restarted and killed. Then exports, statistics, histories and
earlier versions of both are compared. WORLDS in the environment says how many models are tried, WORLDS_SEED with which
seed to begin.
"""

import json
import os
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import pytest

from tests.support.service_process import Service
from tests.support.waiting import eventually
from tests.web.routes.test_corrections import SHIFTED, substance
from tests.web.routes.test_warm_challengers import entered

Start = Callable[..., Service]

SERVICES = int(os.environ.get("WORLDS", "20")) // 4
FIRST_SEED = int(os.environ.get("WORLDS_SEED", "0"))
MODELS = 4
"""Of a service; twice as many as are in memory at once."""
STEPS, FEW_STEPS = 60, 20
"""Of each model: in the tests that take long, and in `make test`."""
VERSIONS_COMPARED = 10
ON_CLUSTER_EVERY = 5
"""Every fifth service has its journal on NATS."""

KINDS: dict[str, dict[str, Any]] = {
    "perceptron": {},
    "arow": {"learner": {"algorithm": "arow"}, "features": {"standardize": True}},
    "auto": {"learner": {"algorithm": "auto"}},
    "sets": {"learner": {"algorithm": "pa1"}, "coverage": 0.9},
    "classes": {"labels": None, "learner": {"algorithm": "scw"}},
    "named": {"features": "named", "learner": {"algorithm": "logistic"}},
    "averaged": {"learner": {"algorithm": "averaged"}, "labels": ["a", "b", "c"], "coverage": 0.8},
    "challengers": {
        "challengers": {"rival": {"learner": {"algorithm": "arow"}}},
        "promote": {"confidence": 0.5, "rounds_min": 5},
    },
}
NOT_COMPARED = (
    "created_at",
    "updated_at",
    "corrections",
    "windows",
    "delay",
    "drift",
    "live_since",
    *SHIFTED,
)
"""Fields of /stats that depend on the clock, or on how each service counts its versions."""
TIMES_AND_VERSIONS = (
    "at",
    "from_version",
    "to_version",
    "since",
    "began_at",
    "version",
    "added_at",
    "time",
    "times",
)


class Pair:
    """One model in both services, and what each has been sent."""

    def __init__(self, corrected: Service, reference: Service, name: str, kind: str, random: Random) -> None:
        self.corrected, self.reference, self.name, self.random = corrected, reference, name, random
        self.both = corrected, reference
        self.labels = KINDS[kind].get("labels", [-1, 1]) or ["x", "y", "z"]
        self.is_named = KINDS[kind].get("features") == "named"
        self.may_fit = kind not in ("arow", "auto", "named")
        """A panel cannot be fitted, and the others standardize examples by what each service has seen so far."""
        self.pending: dict[str, tuple[Any, Any]] = {}
        """By id: the label to reveal first, and the right label; None if the round is to be voided or forgotten."""
        self.revealed: dict[str, tuple[Any, Any]] = {}
        """By id: the present label, and the right label."""
        self.tags: dict[str, list[str]] = {}
        """Tags to forget, each with the ids that carry it."""
        self.versions: dict[int, int] = {}
        """By versions of the corrected model, those of the reference."""
        self.log: list[str] = []
        self._ids = 0
        for service in self.both:
            service.create(name, **KINDS[kind])
        self.note("created")

    def note(self, what: str, block_rounds: int = 1) -> None:
        """Log a step, and record which versions belong together now; for a block, also those within it."""
        corrected, reference = (
            each.get(f"/stats/{self.name}?fields=version")["version"] for each in self.both
        )
        for back in range(block_rounds):
            self.versions[corrected - back] = reference - back
        self.log.append(f"{what} {corrected} {reference}")

    def new_id(self) -> str:
        self._ids += 1
        return f"{self.name}-{self._ids}"

    def example(self) -> Any:
        values = [round(self.random.uniform(-1, 1), 3) for _ in range(3)]
        return {f"f{self.random.randrange(6)}": value for value in values} if self.is_named else values

    def draw_labels(self) -> tuple[Any, Any]:
        label, drawn = self.random.choice(self.labels), self.random.random()
        return label, None if drawn < 0.12 else self.random.choice(self.labels) if drawn < 0.3 else label

    def draw_tag(self, prediction_id: str, right: Any) -> dict[str, str]:
        """Half of the rounds that do not count are forgotten by a tag; the others are voided."""
        if right is not None or self.random.random() < 0.5:
            return {"tag": "stays"} if self.random.random() < 0.2 else {}
        tag = f"goes-{self.random.randrange(3)}"
        self.tags.setdefault(tag, []).append(prediction_id)
        return {"tag": tag}

    # Steps

    def step(self) -> None:
        drawn, pending = self.random.random(), list(self.pending)
        if drawn < 0.3:
            self.predict()
        elif drawn < 0.55 and pending:
            self.reveal(self.random.choice(pending))
        elif drawn < 0.75:
            self.learn()
        elif drawn < 0.8:
            self.learn_block()
        elif drawn < 0.82:
            self.reset()
        elif drawn < 0.85:
            self.roll_back()
        elif drawn < 0.93:
            self.correct_some()
        elif drawn < 0.96:
            self.fit()
        elif drawn < 0.975:
            self.add_warm_challenger()
        elif drawn < 0.99:
            self.promote()

    def predict(self) -> None:
        prediction_id, features, (label, right) = self.new_id(), self.example(), self.draw_labels()
        tag = self.draw_tag(prediction_id, right)
        self.corrected.predict(self.name, features, id=prediction_id, **tag)
        if right is not None:
            self.reference.predict(self.name, features, id=prediction_id)
        self.pending[prediction_id] = label, right
        self.note(f"predict {prediction_id} {label} {right}")

    def reveal(self, prediction_id: str) -> None:
        label, right = self.pending.pop(prediction_id)
        weight = {"weight": self.random.choice((0.5, 3.0))} if self.random.random() < 0.3 else {}
        self.corrected.reveal(prediction_id, label, **weight)
        if right is not None:
            self.reference.reveal(prediction_id, right, **weight)
        self.revealed[prediction_id] = label, right
        self.note(f"reveal {prediction_id}")

    def learn(self) -> None:
        prediction_id, features, (label, right) = self.new_id(), self.example(), self.draw_labels()
        tag = self.draw_tag(prediction_id, right)
        self.corrected.learn(self.name, features, label, id=prediction_id, **tag)
        if right is not None:
            self.reference.learn(self.name, features, right, id=prediction_id)
        self.revealed[prediction_id] = label, right
        self.note(f"learn {prediction_id} {label} {right}")

    def learn_block(self) -> None:
        lines = [{"features": self.example(), "label": self.random.choice(self.labels)} for _ in range(12)]
        for service in self.both:
            assert len(service.stream(lines, self.name)) == len(lines)
        self.note("block", len(lines))

    def reset(self) -> None:
        for service in self.both:
            service.post(f"/models/{self.name}/reset", {})
        self.pending.clear()
        self.note("reset")

    def roll_back(self) -> None:
        self.wait_for_rebuild()
        now = self.reference.stats(self.name)["version"]
        to_reference = self.random.choice(list(by_reference := self.latest_versions()))
        if to_reference == now:
            return
        self.corrected.post(f"/models/{self.name}/rollback", {"to": by_reference[to_reference]})
        self.reference.post(f"/models/{self.name}/rollback", {"to": to_reference})
        self.pending.clear()
        self.note(f"rollback {by_reference[to_reference]}")

    def latest_versions(self) -> dict[int, int]:
        """By versions of the reference, the latest of the corrected model: challengers do not raise versions, so an
        earlier one may lack some of the reference."""
        return {reference: corrected for corrected, reference in sorted(self.versions.items())}

    def fit(self) -> None:
        if not self.may_fit or self.corrected.get(f"/models/{self.name}")["dimension"] is None:
            return
        examples = [{"features": self.example(), "label": self.random.choice(self.labels)} for _ in range(8)]
        for each, label in zip(examples, self.labels, strict=False):  # a fit refuses examples of one class
            each["label"] = label
        self.correct_all()
        for service in self.both:
            job = service.post(f"/models/{self.name}/fit", {"examples": examples, "algorithm": "online"})
            eventually(partial(has_ended, service, job["id"]))
        self.note("fit")

    def challengers(self) -> list[str]:
        contest = self.corrected.stats(self.name)["challengers"]
        return sorted(each["name"] for each in contest["line"]) if contest else []

    def add_warm_challenger(self) -> None:
        self.correct_all()
        if len(self.challengers()) >= 3:
            return
        challenger = self.new_id().replace(self.name, "warm")
        for service in self.both:
            entered(service, self.name, challenger, learner={"algorithm": "pa"})
        self.note(f"warm {challenger}")

    def promote(self) -> None:
        self.correct_all()
        if challengers := self.challengers():
            for service in self.both:
                service.post(f"/models/{self.name}/promote", {"challenger": challengers[0]})
            self.note(f"promote {challengers[0]}")

    # Corrections

    def correct_some(self) -> None:
        if self.random.random() < 0.5:
            self.forget_tags()
        self.correct_labels(share=0.5)
        if self.random.random() < 0.5:
            self.wait_for_rebuild()

    def correct_all(self) -> None:
        self.forget_tags()
        self.correct_labels(share=1.0)
        self.wait_for_rebuild()

    def forget_tags(self) -> None:
        for tag in list(self.tags):
            self.corrected.post(f"/models/{self.name}/forget", {"tag": tag})
            for prediction_id in self.tags.pop(tag):
                self.pending.pop(prediction_id, None)
                self.revealed.pop(prediction_id, None)
            self.note(f"forget {tag}")

    def correct_labels(self, share: float) -> None:
        for prediction_id, (present, right) in list(self.revealed.items()):
            if present == right or self.random.random() >= share:
                continue
            if right is None:
                self.void(prediction_id)
            else:
                if self.random.random() < 0.1:
                    self.correct(prediction_id, self.random.choice(self.labels))
                self.correct(prediction_id, right)
            self.revealed[prediction_id] = right, right

    def correct(self, prediction_id: str, label: Any) -> None:
        answer = self.corrected.client.put(f"/feedback/{prediction_id}", json={"label": label})
        assert answer.status_code in (200, 202), answer.text
        self.note(f"correct {prediction_id} {label}")

    def void(self, prediction_id: str) -> None:
        answer = self.corrected.client.delete(f"/predictions/{prediction_id}")
        assert answer.status_code in (200, 202), answer.text
        self.note(f"void {prediction_id}")

    def void_pending(self) -> None:
        """Void the predictions that do not count and were not revealed."""
        for prediction_id, (_, right) in list(self.pending.items()):
            if right is None:
                self.void(prediction_id)
                del self.pending[prediction_id]

    def wait_for_rebuild(self) -> None:
        def is_rebuilt() -> bool:
            corrections = self.corrected.stats(self.name)["corrections"]
            return corrections is None or not corrections["rebuilding"]

        eventually(is_rebuilt)
        self.note("rebuilt")

    # Comparison

    def assert_same(self) -> None:
        corrected, reference = (comparable(substance(each, self.name)) for each in self.both)
        self.assert_equal("export", corrected, reference)
        corrected, reference = (statistics(each.stats(self.name)) for each in self.both)
        self.assert_equal("stats", corrected, reference)
        self.assert_equal("history", *({"rounds": rounds(each, self.name)} for each in self.both))

    def assert_same_earlier(self) -> None:
        by_reference = self.latest_versions()
        some = self.random.sample(list(by_reference), min(len(by_reference), VERSIONS_COMPARED))
        for version in sorted(some):
            reference = statistics(self.reference.get(f"/stats/{self.name}?at={version}"))
            corrected = statistics(self.corrected.get(f"/stats/{self.name}?at={by_reference[version]}"))
            if not reference["features"]["weights"]:
                continue  # the number of features stays, though the round that has fixed it does not count
            self.assert_equal(f"at {by_reference[version]} and {version}", corrected, reference)

    def assert_equal(self, what: str, corrected: Any, reference: Any) -> None:
        assert [*differences(corrected, reference)] == [], "\n".join([f"{self.name}, {what}", *self.log])


def has_ended(service: Service, job_id: str) -> bool:
    job = service.get(f"/jobs/{job_id}")
    assert job["state"] in ("running", "done"), job
    return bool(job["state"] == "done")


def differences(one: Any, other: Any, path: str = "") -> Iterator[str]:
    """Where two JSON documents differ."""
    if isinstance(one, dict) and isinstance(other, dict):
        for name in one.keys() | other.keys():
            yield from differences(one.get(name), other.get(name), f"{path}.{name}")
    elif isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        for at, (first, second) in enumerate(zip(one, other, strict=True)):
            yield from differences(first, second, f"{path}[{at}]")
    elif one != other:
        yield f"{path}: {one!r:.200} and {other!r:.200}"


def comparable(export: dict[str, Any]) -> dict[str, Any]:
    """An export without what depends on how its service counts versions."""
    for name in ("amended", "rises", "ask_key"):
        export.pop(name, None)
    for challenger in (export.get("contest") or {"challengers": {}})["challengers"].values():
        challenger["comparison"][1] = None  # when it began
        if challenger.get("warm"):
            del challenger["warm"][:2]
    return export


def statistics(stats: dict[str, Any]) -> dict[str, Any]:
    kept = {name: value for name, value in stats.items() if name not in NOT_COMPARED}
    return json.loads(json.dumps(kept), object_hook=_without_times)  # type: ignore[no-any-return]


def _without_times(found: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in found.items() if name not in TIMES_AND_VERSIONS}


def rounds(service: Service, name: str) -> list[Any]:
    """The rounds of a history without what was answered, in which each service tells its own."""
    answer = service.client.get(f"/models/{name}/history")
    assert answer.status_code == 200, answer.text
    rows = map(json.loads, answer.text.splitlines())
    return [[row[each] for each in ("prediction_id", "features", "label", "weight")] for row in rows]


@pytest.fixture
def reference(tmp_path: Path) -> Iterator[Service]:
    service = Service(tmp_path / "reference", durability_of_predictions="strict").start()
    yield service
    service.close()


def drawn_services() -> Iterator[Any]:
    if "WORLDS" not in os.environ:
        yield pytest.param("sqlite", 0, FEW_STEPS, id="few-steps")
    for seed in range(FIRST_SEED, FIRST_SEED + SERVICES):
        journal = "jetstream" if seed % ON_CLUSTER_EVERY == ON_CLUSTER_EVERY - 1 else "sqlite"
        yield pytest.param(journal, seed, STEPS, id=f"{seed}-{journal}", marks=pytest.mark.thorough)


@pytest.mark.timeout(1200)
@pytest.mark.parametrize(("journal", "seed", "steps"), [*drawn_services()], indirect=["journal"])
def test_a_corrected_service_comes_to_the_same_as_one_that_got_the_right_data_at_once(
    start: Start, reference: Service, journal: str, seed: int, steps: int
) -> None:
    random = Random(seed)
    snapshot_every_events = random.choice((5, 20, 1_000))
    corrected = start(
        models_loaded_max=MODELS // 2,
        snapshot_every_events=snapshot_every_events,
        durability_of_predictions="strict",
    )

    def kill() -> None:
        corrected.kill()
        corrected.start()

    # On a cluster, a kill forgets which predictions a rebuild has to serve again (docs/api.md).
    stop_at_random = kill if journal == "sqlite" else corrected.restart
    kinds = random.sample(list(KINDS), MODELS)
    pairs = [Pair(corrected, reference, f"{kind}-{seed}", kind, random) for kind in kinds]
    for _ in range(steps * MODELS):
        random.choice(pairs).step()
        drawn = random.random()
        if drawn < 0.01:
            stop_at_random()
        elif drawn < 0.015:
            corrected.restart()
    for pair in pairs:
        pair.correct_all()
        pair.void_pending()
        pair.assert_same()
    for pair in pairs:
        for prediction_id in list(pair.pending):
            pair.reveal(prediction_id)
        pair.correct_all()
        pair.assert_same()
        pair.assert_same_earlier()
        corrected.assert_replay_equals_live(pair.name)
    kill()
    for pair in pairs:
        pair.assert_same()
