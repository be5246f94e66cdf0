"""What the models in memory take, by estimate, kept as they are loaded, grow and go; and which of them go first."""

from collections import Counter, OrderedDict
from collections.abc import Iterable, Iterator

from service.engine.engine_settings import EngineSettings
from service.engine.fleet.live import Live
from service.engine.models.sizes import bytes_in_memory
from service.runtime.byte_budget import ByteBudget, Tenants


class MemoryUse:
    """Bytes of models and of the outcomes that no snapshot has yet, and whether they are too many."""

    def __init__(self, settings: EngineSettings, tenants: Tenants) -> None:
        self._tenants = tenants
        self._models_max = settings.models_loaded_max
        self.models = ByteBudget(settings.models_loaded_bytes_max, tenants)
        self.outcomes = ByteBudget(settings.outcomes_bytes_max)
        self._peers: dict[str, OrderedDict[str, Live]] = {}
        """The models in memory of each tenant, the least recently used first."""

    @property
    def has_too_many_models(self) -> bool:
        return self.models.count > self._models_max or self.models.is_exceeded

    def admit(self, live: Live) -> None:
        live.tenant = self._tenants.of(live.model.name)
        live.peers = self._peers.setdefault(live.tenant, OrderedDict())
        live.peers[live.model.name] = live
        self.models.add(live.tenant, 0)
        self.add_outcomes(live.outcomes.size_bytes)
        self.weigh(live)

    def remove(self, live: Live) -> None:
        del live.peers[live.model.name]
        if not live.peers:
            self._peers.pop(live.tenant, None)
        self.models.remove(live.tenant, live.weight_bytes)
        self.add_outcomes(-live.outcomes.size_bytes)

    def add_outcomes(self, more_bytes: int) -> bool:
        """Count outcomes; whether there are too many now."""
        self.outcomes.bytes += more_bytes
        return self.outcomes.is_exceeded

    def weigh(self, live: Live) -> bool:
        """Estimate what a model takes if it was not, or has grown; whether it was estimated."""
        model = live.model
        extent: tuple[int, ...] = (model.features.size(), len(model.labels.values))
        if model.contest is not None:
            extent += model.contest.extent
        if live.weighed == extent:
            return False
        live.weighed = extent
        before, live.weight_bytes = live.weight_bytes, bytes_in_memory(model)
        self.models.add(live.tenant, live.weight_bytes - before, count=0)
        return True

    def eviction_order(self) -> Iterator[Live]:
        """Models to be unloaded, in this order: of the tenant that has most, the least recently used first.

        Those of tenants with less than an equal share are not among them. Nothing may change while it is read.
        """
        yield from self.of(self.models.eviction_order(by_bytes=self.models.is_exceeded))

    def of(self, tenants: Iterable[str]) -> Iterator[Live]:
        """The models in memory of these tenants in turn, the least recently used of each first."""
        for tenant in tenants:
            yield from self._peers.get(tenant, {}).values()

    def by_outcomes(self) -> list[Live]:
        """Models with outcomes, those of the tenant that has most of them first, then those that have most.

        They are counted only when somebody asks, since that is seldom, and every round would have to pay for it.
        """
        having = [live for peers in self._peers.values() for live in peers.values() if live.outcomes]
        of_tenants: Counter[str] = Counter()
        for live in having:
            of_tenants[live.tenant] += len(live.outcomes)
        return sorted(having, key=lambda live: (of_tenants[live.tenant], len(live.outcomes)), reverse=True)
