"""What a service says of a model, noted version by version, to be compared with what it says of these later."""

import random
from typing import Any

import httpx
import msgspec

from tests.support.service_process import Service

OF_THE_MOMENT = ("windows", "rounds", "unlabelled", "ask")
"""Statistics that depend on when one asks, or on predictions that wait."""


def lasting(stats: dict[str, Any]) -> dict[str, Any]:
    kept = {name: value for name, value in stats.items() if name not in OF_THE_MOMENT}
    return kept | {name: stats["rounds"][name] for name in ("revealed", "expired")}


class Witness:
    """Asks for everything after each step; the last answer at a version counts."""

    def __init__(self, service: Service, model: str) -> None:
        self.service = service
        self.model = model
        self.seen: dict[int, tuple[Any, Any, Any]] = {}
        self.version = 0

    def look(self) -> None:
        weights, stats, export = self.said()
        assert weights["version"] == stats["version"] == export["version"]
        self.version = export["version"]
        self.seen[self.version] = weights, stats, export

    def said(self, **query: Any) -> tuple[Any, Any, Any]:
        answers = [self.ask(path, **query) for path in self.paths]
        for answer in answers:
            assert answer.status_code == 200, answer.text
        weights, stats, export = (msgspec.json.decode(answer.content) for answer in answers)
        return weights, lasting(stats), export

    @property
    def paths(self) -> list[str]:
        return [f"/models/{self.model}/weights", f"/stats/{self.model}", f"/models/{self.model}/export"]

    def ask(self, path: str, **query: Any) -> httpx.Response:
        return self.service.client.get(path, params=query)

    def assert_all_can_be_had_again(self, versions: list[int] | None = None) -> None:
        """Weights, statistics and export at every version that was seen, in any order, are what they were."""
        chosen = list(self.seen) if versions is None else versions
        random.Random(7).shuffle(chosen)
        for version in chosen:
            for then, now in zip(self.seen[version], self.said(at=version), strict=True):
                assert now == then, version


class Stream:
    """A seeded stream of steps: whole rounds, predictions revealed late, resets, blocks, rollbacks."""

    def __init__(self, service: Service, model: str, seed: int, *, named: bool, labels: list[Any]) -> None:
        self.service = service
        self.model = model
        self.chance = random.Random(seed)
        self.named = named
        self.labels = labels
        self.waiting: list[str] = []
        self.told: list[dict[str, Any]] = []
        """Of each round, what its clients sent and were told, as the history has it."""
        self._served: dict[str, tuple[Any, dict[str, Any]]] = {}

    def example(self) -> tuple[Any, Any]:
        values = [self.chance.choice([-2.0, -1.0, 0.5, 1.0, 3.0]) for _ in range(3)]
        label = self.labels[int(sum(values) * 2) % len(self.labels)]
        if not self.named:
            return values, label
        return {f"n{self.chance.randrange(9)}": value for value in values}, label

    def step(self, *, rollback_to: list[int] | None = None) -> None:
        service, dice = self.service, self.chance.random()
        features, label = self.example()
        if dice < 0.45:
            self._tell(features, service.learn(self.model, features, label, id=f"i{len(self.told)}"))
        elif dice < 0.65:
            served = service.predict(self.model, features)
            self._served[served["prediction_id"]] = features, served
            self.waiting.append(served["prediction_id"])
        elif dice < 0.85 and self.waiting:
            prediction_id = self.waiting.pop(self.chance.randrange(len(self.waiting)))
            features, served = self._served[prediction_id]
            answer = service.reveal(prediction_id, label)
            self._tell(features, {"score": served["score"], "probability": served["probability"], **answer})
        elif dice < 0.90:
            rounds = [self.example() for _ in range(self.chance.randrange(2, 25))]
            answers = service.stream([{"features": x, "label": y} for x, y in rounds], self.model)
            for (sent, _), answer in zip(rounds, answers, strict=True):
                self._tell(sent, answer)
        elif dice < 0.92:
            service.post(f"/models/{self.model}/reset", {})
            self.waiting.clear()
        elif dice < 0.95 and rollback_to:
            service.post(f"/models/{self.model}/rollback", {"to": self.chance.choice(rollback_to)})
            self.waiting.clear()
        else:
            self._tell(features, service.learn(self.model, features, label, weight=2.0), weight=2.0)

    def _tell(self, features: Any, answer: dict[str, Any], weight: float = 1.0) -> None:
        same = ("version", "prediction_id", "label", "score", "probability", "mistake", "updated")
        line = {"features": features, "served": answer["predicted"], "weight": weight}
        self.told.append(line | {name: answer.get(name) for name in same})
