"""A cache of encoded reports, valid until something in them changes: dashboards poll."""

from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import msgspec

from service.engine.fleet.live import Live

ENTRIES_MAX = 2_000

_encode = msgspec.json.Encoder().encode

Key = tuple[str, frozenset[str]]


def clock_step(now: int, updated_at: int) -> int:
    """A number that changes whenever the windows by time of an unchanged model may change.

    The windows have buckets of 1 s, 1 min and 30 min, and the finer ones are empty a while after the last
    reveal.

    >>> now = 10_000_000_000_000
    >>> [clock_step(now + 999_999, now - idle) == clock_step(now, now - idle) for idle in (0, 90_000_000)]
    [True, True]
    >>> [clock_step(now + 1_000_000, now - idle) == clock_step(now, now - idle) for idle in (0, 90_000_000)]
    [False, True]
    """
    idle_seconds = (now - updated_at) / 1e6
    if idle_seconds < 61:
        return now // 1_000_000
    if idle_seconds < 3_660:
        return now // 60_000_000
    return now // 1_800_000_000 if idle_seconds < 90_000 else 0


class ReportCache:
    """Encoded reports of the models asked for last, at most ENTRIES_MAX."""

    def __init__(self, report: Callable[[Live, int, frozenset[str]], dict[str, Any]]) -> None:
        self._report = report
        self._kept: OrderedDict[Key, tuple[int, int, msgspec.Raw]] = OrderedDict()

    def get(self, live: Live, now: int, fields: frozenset[str]) -> msgspec.Raw:
        key = (live.model.name, fields)
        step = clock_step(now, live.model.updated_at)
        kept = self._kept.get(key)
        if kept is not None and kept[0] == live.tick and kept[1] == step:
            return kept[2]
        made = msgspec.Raw(_encode(self._report(live, now, fields)))
        self._kept[key] = (live.tick, step, made)
        self._kept.move_to_end(key)
        if len(self._kept) > ENTRIES_MAX:
            self._kept.popitem(last=False)
        return made
