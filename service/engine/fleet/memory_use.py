"""What the models in memory take, by estimate, kept as they are loaded, grow and go."""

from service.engine.fleet.live import Live
from service.engine.model.checks import bytes_in_memory
from service.engine.model.outcomes import OUTCOME_BYTES


class MemoryUse:
    """Bytes of models and of the outcomes that no snapshot has yet, and whether they are too many."""

    def __init__(self, *, models_max: int, models_bytes_max: int, outcomes_bytes_max: int) -> None:
        self._models_max = models_max
        self._models_bytes_max = models_bytes_max
        self.outcomes_bytes_max = outcomes_bytes_max
        self._models = 0
        self.models_bytes = 0
        self.outcomes_bytes = 0

    @property
    def has_too_many_models(self) -> bool:
        return self._models > self._models_max or self.models_bytes > self._models_bytes_max

    @property
    def has_too_many_outcomes(self) -> bool:
        return self.outcomes_bytes > self.outcomes_bytes_max

    def admit(self, live: Live) -> None:
        self._models += 1
        self.add_outcomes(len(live.outcomes))
        self.weigh(live)

    def remove(self, live: Live) -> None:
        self._models -= 1
        self.models_bytes -= live.weight_bytes
        self.add_outcomes(-len(live.outcomes))

    def add_outcomes(self, more: int) -> None:
        self.outcomes_bytes += OUTCOME_BYTES * more

    def weigh(self, live: Live) -> bool:
        """Estimate what a model takes if it was not, or has grown; whether it was estimated."""
        model = live.model
        extent = (model.features.size(), len(model.labels.values))
        if live.weighed == extent:
            return False
        live.weighed = extent
        before, live.weight_bytes = live.weight_bytes, bytes_in_memory(model)
        self.models_bytes += live.weight_bytes - before
        return True
