"""How many models there are."""

from collections.abc import Iterator
from contextlib import contextmanager

from service.events import AnyEvent, ModelCreated, ModelDeleted, ModelImported


class ModelCount:
    """Counts models as the journal reports them made and deleted, so all replicas that have come as far agree."""

    def __init__(self) -> None:
        self._recorded = 0
        self._creating: set[str] = set()

    @property
    def total(self) -> int:
        """How many there are, with those whose creation is on its way into the journal from here."""
        return self._recorded + len(self._creating)

    def start(self, models: int) -> None:
        """Set the count as of before the next event."""
        self._recorded = models

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
            self._recorded += 1
            self._creating.discard(event.model)
        elif isinstance(event, ModelDeleted):
            self._recorded -= 1
