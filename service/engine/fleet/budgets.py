"""What models take and may take: how many there are, and the memory of those that are loaded."""

from collections import Counter, OrderedDict
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from service.engine.engine_settings import EngineSettings
from service.engine.fleet.live import Live
from service.engine.models.sizes import bytes_in_memory
from service.events import AnyEvent, ModelCreated, ModelDeleted, ModelImported
from service.runtime.byte_budget import ByteBudget, Shares, Tenants


class ModelCount:
    """Counts models as the journal reports them made and deleted, so all replicas that have come as far agree."""

    def __init__(self, tenants: Tenants) -> None:
        self._tenants = tenants
        self._recorded = Shares(tenants)
        self._creating: set[str] = set()

    @property
    def total(self) -> int:
        """How many there are, with those whose creation is on its way into the journal from here."""
        return self._recorded.count + len(self._creating)

    def start(self, tenant: str, models: int) -> None:
        """Add those of a tenant as of before the next event."""
        self._recorded.add(tenant, 0, models)

    def has_room(self, name: str, models_max: int) -> bool:
        """Whether a model of this name may be made; those that are being made count as if they were its tenant's."""
        return self._recorded.may_take(self._tenants.of(name), 1 + len(self._creating), models_max)

    @contextmanager
    def creating(self, name: str) -> Iterator[None]:
        """Count a model while its creation is on its way into the journal."""
        self._creating.add(name)
        try:
            yield
        finally:
            self._creating.discard(name)

    def is_creating(self, name: str) -> bool:
        return name in self._creating

    def apply(self, event: AnyEvent) -> None:
        """Count a creation or a deletion, whichever replica has asked for it."""
        if isinstance(event, ModelCreated | ModelImported):
            self._recorded.add(self._tenants.of(event.model), 0)
            self._creating.discard(event.model)
        elif isinstance(event, ModelDeleted):
            self._recorded.remove(self._tenants.of(event.model), 0)


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
