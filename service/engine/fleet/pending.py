"""Pending predictions of loaded models: which model each belongs to, and the memory that they take."""

from typing import Any

from service.engine.fleet.live import Live
from service.events import Prediction
from service.runtime.byte_budget import ByteBudget, Tenants

PREDICTION_BYTES = 1_024
"""What a prediction takes beside its features: itself, its id, its model's name and its places in dictionaries."""

WORD_BYTES = 512
"""What the word of a challenger takes that is kept with it; that of a panel of experts is the longest."""

RESTING_BYTES = 256
"""What a prediction takes that is in the journal only: its id, its time and its place in a dictionary."""

NAME_BYTES = 160
"""What a name and its number take beside the name's characters."""


def bytes_of(prediction: Prediction) -> int:
    """What a prediction takes in memory, at most; at least a quarter of this.

    >>> bytes_of(Prediction("p", "m", 0, b"12345678", 1, 0.5, 0, 0))
    1032
    """
    features, certainty = prediction.features, prediction.certainty
    total = PREDICTION_BYTES + (len(features) if type(features) is bytes else features_bytes(features))
    if certainty is None or certainty.lineup is None:
        return total
    return total + WORD_BYTES * len(certainty.lineup.shadows)


def features_bytes(features: Any) -> int:
    """What features take in memory, in the form that the journal has them, at most.

    >>> features_bytes(b"12345678"), features_bytes({"ab": 1.0})
    (8, 168)
    """
    if isinstance(features, bytes):
        return len(features)
    return NAME_BYTES * len(features) + 4 * sum(map(len, features))


class Waiting:
    """Finds the model of a waiting prediction, and keeps what all of them take, for each tenant."""

    def __init__(self, tenants: Tenants, bytes_max: int) -> None:
        self._tenants = tenants
        self._owner: dict[str, Live] = {}
        self.budget = ByteBudget(bytes_max, tenants)
        """What they take in memory, and whose they are."""
        self.unloaded = 0
        self.unloaded_of: dict[str, int] = {}
        """How many predictions wait of models that are not loaded, by their summaries; and of each tenant."""

    def __len__(self) -> int:
        """How many wait, in memory or in the journal only."""
        return self.budget.count

    @property
    def in_memory(self) -> int:
        return len(self._owner)

    def __contains__(self, prediction_id: str) -> bool:
        return prediction_id in self._owner

    def get(self, prediction_id: str) -> Live | None:
        return self._owner.get(prediction_id)

    def prediction(self, prediction_id: str) -> Prediction | None:
        live = self._owner.get(prediction_id)
        return None if live is None else live.pending[prediction_id]

    def admit(self, live: Live) -> None:
        """Count those of a model that is loaded now."""
        for prediction in live.pending.values():
            self.add(live, prediction)
        if count := len(live.resting):
            self.budget.add(live.tenant, count * RESTING_BYTES, count)

    def rest(self, live: Live, prediction: Prediction) -> None:
        """Let one wait in the journal only."""
        self.remove(live, prediction)
        live.rest(prediction)
        self.budget.add(live.tenant, RESTING_BYTES)

    def let_go(self, live: Live, prediction_id: str) -> None:
        """One that the model has still waits no longer."""
        if (prediction := live.pending.get(prediction_id)) is not None:
            self.remove(live, prediction)
        elif prediction_id in live.resting:
            self.forget_resting(live)

    def forget_resting(self, live: Live, count: int = 1) -> None:
        """So many predictions that are in the journal only are no longer pending."""
        self.budget.remove(live.tenant, count * RESTING_BYTES, count)

    def count_unloaded(self, model: str, more: int) -> None:
        """Note that so many more, or fewer, wait of a model that is not loaded."""
        tenant = self._tenants.of(model)
        self.unloaded = max(0, self.unloaded + more)
        self.unloaded_of[tenant] = max(0, self.unloaded_of.get(tenant, 0) + more)

    def heaviest(self, *, by_bytes: bool) -> str:
        """The tenant with the most, in memory if bytes are counted."""
        if by_bytes:
            return next(self.budget.eviction_order(by_bytes=True), "")
        counts = dict(self.unloaded_of)
        for tenant, use in self.budget.of.items():
            counts[tenant] = counts.get(tenant, 0) + use.count
        return max(counts, key=lambda tenant: counts[tenant], default="")

    def add(self, live: Live, prediction: Prediction) -> None:
        if prediction.prediction_id in self._owner:
            return
        self._owner[prediction.prediction_id] = live
        self.budget.add(live.tenant, bytes_of(prediction))

    def remove(self, live: Live, prediction: Prediction) -> None:
        """One that is not here any more does not matter."""
        if self._owner.pop(prediction.prediction_id, None) is not None:
            self.budget.remove(live.tenant, bytes_of(prediction))
