"""The protocol in a hundred lines: what a service that never fails would answer.

Nothing is learned here. What is kept is who has promised what: which models there are, how many rounds of each
were revealed, and how it stands with each id.
"""

from dataclasses import dataclass, field
from typing import Any

Expected = set[tuple[int, str]]
"""Statuses and codes that are right; more than one where a crash leaves it open. `ok` is any good answer."""

OK = (200, "ok")
TAKEN: Expected = {(409, "prediction-id-taken")}
CONFLICT: Expected = {(409, "feedback-conflict")}


@dataclass
class Example:
    """What an id was used for. `how` is served, revealed, learned or given up."""

    model: str
    features: list[float]
    how: str
    label: int | None = None
    answer: dict[str, Any] = field(default_factory=dict)
    may_wait_again: bool = False


class Protocol:
    def __init__(self, pending_max: int) -> None:
        self._pending_max = pending_max
        self.revealed: dict[str, int] = {}
        """Rounds since the last reset, by model."""
        self.examples: dict[str, Example] = {}
        """By id, in the order in which they were served."""

    def create(self, model: str) -> Expected:
        if model in self.revealed:
            return {(409, "model-exists")}
        self.revealed[model] = 0
        return {(201, "ok")}

    def delete(self, model: str) -> Expected:
        if self.revealed.pop(model, None) is None:
            return {(404, "unknown-model")}
        self.examples = {i: example for i, example in self.examples.items() if example.model != model}
        return {(204, "ok")}

    def reset(self, model: str) -> Expected:
        if model not in self.revealed:
            return {(404, "unknown-model")}
        self.revealed[model] = 0
        for example in self._waiting(model):
            example.how = "given up"
        return {OK}

    def predict(self, model: str, features: list[float], identity: str) -> Expected:
        """What to expect; if it is OK, `served` has to be told of the answer."""
        known = self.examples.get(identity)
        if known is None:
            return {OK}
        if known.how == "given up":
            forgotten = {OK, (404, "unknown-prediction")} | TAKEN
            return {(410, "prediction-expired")} | forgotten
        same = (known.model, known.features) == (model, features)
        return {OK} if same and known.how != "learned" else TAKEN

    def served(self, model: str, features: list[float], identity: str, answer: dict[str, Any]) -> None:
        known = self.examples.get(identity)
        self.revealed.setdefault(model, 0)
        if known is not None and known.how != "given up":
            assert known.how == "revealed" or answer == known.answer, "a retry is answered as the first time"
            return
        self.examples.pop(identity, None)  # the order is that of serving
        self.examples[identity] = Example(model, features, "served", answer=answer)
        for oldest in self._waiting(model)[: -self._pending_max]:
            oldest.how, oldest.may_wait_again = "given up", True

    def reveal(self, identity: str, label: int) -> Expected:
        known = self.examples.get(identity)
        if known is None:
            return {(404, "unknown-prediction")}
        if known.how == "given up":
            open_end = {OK} if known.may_wait_again else set()
            return {(410, "prediction-expired"), (404, "unknown-prediction")} | open_end
        return {OK} if known.how == "served" or known.label == label else CONFLICT

    def learn(self, model: str, features: list[float], label: int, identity: str | None) -> Expected:
        known = self.examples.get(identity or "")
        if known is None:
            return {OK}
        if known.how == "given up":
            return {OK} | TAKEN
        if known.how != "learned" or (known.model, known.features) != (model, features):
            return TAKEN
        return {OK} if known.label == label else CONFLICT

    def counted(self, how: str, identity: str | None, label: int, answer: dict[str, Any],
                model: str = "", features: list[float] | None = None) -> None:  # fmt: skip
        """A round was answered: for the first time, or as it was then."""
        known = self.examples.get(identity or "")
        if known is not None and known.how in ("revealed", "learned"):
            # Who asks by /feedback for what came of a /learn is not told its score and its probability.
            first = {name: value for name, value in known.answer.items() if name in answer}
            assert answer == first, "a retry is answered as the first time"
            return
        model = known.model if known is not None and how == "revealed" else model
        self.revealed[model] = self.revealed.get(model, 0) + 1
        assert answer["rounds"] == self.revealed[model], "every round counts once"
        if identity is not None:
            features = known.features if known is not None and how == "revealed" else features or []
            self.examples[identity] = Example(model, features, how, label, answer)

    def _waiting(self, model: str) -> list[Example]:
        return [
            example for example in self.examples.values() if (example.model, example.how) == (model, "served")
        ]
