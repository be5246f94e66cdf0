"""How many models there are, and of whom."""

from collections.abc import Iterator
from contextlib import contextmanager

from service.events import AnyEvent, ModelCreated, ModelDeleted, ModelImported
from service.runtime.byte_budget import Shares, Tenants


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
