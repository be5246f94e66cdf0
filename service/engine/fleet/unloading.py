"""Which models are unloaded, and in which order, when those in memory take too much."""

from collections.abc import Iterator
from itertools import islice

from service.engine.fleet.budgets import MemoryUse
from service.engine.fleet.live import Live
from service.engine.fleet.pending import Waiting
from service.journal.protocol import Journal

AT_ONCE = 8
"""How many models are looked for at a time when some have to go."""


class Excess:
    """The models that are too many in memory."""

    def __init__(self, journal: Journal, memory: MemoryUse, waiting: Waiting) -> None:
        self._journal = journal
        self._memory = memory
        self._waiting = waiting
        self._none_idle_at = -1
        """`Journal.finished` when no model could be unloaded."""

    def beside(self, wanted: Live) -> Iterator[Live]:
        """Models in eviction order, but not this one nor those in use, until those that are left fit.

        The caller unloads each before it takes the next one.
        """
        while self._has_too_much:
            finished = self._journal.finished
            if finished == self._none_idle_at:  # they are many, and all are still waiting for the disk
                return
            idle = (old for old in self._eviction_order() if old is not wanted and old.is_idle(finished))
            some = list(islice(idle, AT_ONCE))
            if not some:
                self._none_idle_at = finished
                return
            for old in some:
                if not self._has_too_much:
                    return
                yield old

    @property
    def _has_too_much(self) -> bool:
        return self._memory.has_too_many_models or self._waiting.budget.is_exceeded

    def _eviction_order(self) -> Iterator[Live]:
        """Models to be unloaded, in this order: whichever have to, or those whose predictions take too much."""
        if self._memory.has_too_many_models:
            return self._memory.eviction_order()
        tenants = self._waiting.budget.eviction_order(by_bytes=True)
        return (live for live in self._memory.of(tenants) if live.waiting)
