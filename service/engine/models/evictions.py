"""Waiting predictions of a model that were evicted before their time, because a limit was reached."""

from __future__ import annotations

from typing import Any

from service.events import PredictionsExpired
from service.learning import saved

LIMIT_CHARS_MAX = 64


class Evictions:
    """How many there were, and what is known of the last ones."""

    __slots__ = ("at", "count", "limit", "through")

    def __init__(self) -> None:
        self.count = 0
        self.through = 0
        """When the newest of them was made."""
        self.at = 0
        """When it was evicted."""
        self.limit = ""
        """The setting that was reached."""

    def record(self, event: PredictionsExpired) -> None:
        self.count += event.evicted
        self.through = max(self.through, event.through)
        self.at, self.limit = event.at, event.limit

    def state(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self.__slots__}

    @classmethod
    def restore(cls, state: Any) -> Evictions:
        evictions = cls()
        for name, value in zip(cls.__slots__, saved.fields(state, *cls.__slots__), strict=True):
            if name == "limit":
                is_name = type(value) is str and len(value) <= LIMIT_CHARS_MAX
                saved.check(is_name, name, "must be the name of a setting")
            else:
                saved.whole(value, name)
            setattr(evictions, name, value)
        return evictions
