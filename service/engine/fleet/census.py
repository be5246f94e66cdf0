"""How many models there are."""

from collections.abc import Iterator
from contextlib import contextmanager

from service.events import AnyEvent, ModelCreated, ModelDeleted, ModelImported


class Census:
    """Counts births and deaths as the journal tells of them, so that all replicas that have come as far agree."""

    def __init__(self) -> None:
        self._living = 0
        self._making: set[str] = set()

    @property
    def count(self) -> int:
        """How many there are, with those that are just being made here."""
        return self._living + len(self._making)

    def start(self, models: int) -> None:
        """So many there are before the next event."""
        self._living = models

    @contextmanager
    def making(self, name: str) -> Iterator[None]:
        """Count a model while its birth is on its way into the journal."""
        self._making.add(name)
        try:
            yield
        finally:
            self._making.discard(name)

    def is_making(self, name: str) -> bool:
        return name in self._making

    def take(self, event: AnyEvent) -> None:
        """Count a birth or a death that counts, whoever has asked for it."""
        if isinstance(event, ModelCreated | ModelImported):
            self._living += 1
            self._making.discard(event.model)
        elif isinstance(event, ModelDeleted):
            self._living -= 1
