"""A stream whose labels come late and in any order, given to a model as its journal would give it."""

from typing import Any

import numpy as np

from service.engine.models.model import Model
from service.events import AnyEvent, RoundLearned, RoundRevealed
from service.journal.codec import decode_event, encode
from tests.support.doctored_exports import NOW


class Late:
    """A stream whose labels come when it pleases; every event goes through the journal's codec."""

    def __init__(self, model: Model) -> None:
        self.model = model
        self.events: list[AnyEvent] = []
        self.waiting: list[dict[str, Any]] = []
        self.at = NOW

    def apply(self, event: AnyEvent) -> Any:
        read = decode_event(encode(event))
        self.events.append(read)
        return self.model.apply(read)

    def predict(self, sent: Any) -> dict[str, Any]:
        example = self.model.features.read(sent)
        chosen, score, certainty = self.model.predict(example)
        self.at += 1
        made = {
            "predicted_at": self.at,
            "features": self.model.features.encode(example),
            "served": self.model.labels.label(chosen),
            "score": score,
            "version_seen": self.model.version,
            "updates_seen": self.model.updates,
            "certainty": certainty,
        }
        self.waiting.append(made)
        return made

    def reveal(self, at: int, label: Any, weight: float = 1.0) -> Any:
        self.at += 1
        prediction = self.waiting.pop(at)
        event = RoundRevealed(
            "m", self.at, prediction_id=f"p{self.at}", label=label, weight=weight, **prediction
        )
        return self.apply(event)

    def learn(self, sent: Any, label: Any) -> Any:
        self.at += 1
        stored = self.model.features.encode(self.model.features.read(sent))
        return self.apply(RoundLearned("m", self.at, None, label, stored))


def run(stream: Late, rounds: int, labels: list[Any], seed: int = 0) -> None:
    chance = np.random.default_rng(seed)
    centres = chance.normal(size=(len(labels), 4))
    truths: list[Any] = []
    for _ in range(rounds):
        truth = int(chance.integers(len(labels)))
        numbers = (centres[truth] + chance.normal(size=4)).tolist()
        sent = numbers if stream.model.features.dimension else {"n": numbers[0], f"w{truth}": numbers[1]}
        if chance.random() < 0.4:
            stream.learn(sent, labels[truth])
        else:
            stream.predict(sent)
            truths.append(labels[truth])
        while len(truths) > 20 or (truths and chance.random() < 0.4):
            at = int(chance.integers(len(truths)))
            stream.reveal(at, truths.pop(at), float(chance.choice([0.5, 1.0, 3.0])))
