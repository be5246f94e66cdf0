"""Sums over the summaries of many models, kept up to date one summary at a time."""

from collections import OrderedDict
from collections.abc import Callable, Iterable

from service.journal.protocol import Summary, Totals

PREFIXES_MAX = 64
"""How many prefixes are kept up to date: each costs a little with every summary that changes."""


class Sums:
    """Totals by the prefix of names. A prefix that is asked for the first time is summed over all models."""

    def __init__(self, summaries: Callable[[], Iterable[Summary]]) -> None:
        self._summaries = summaries
        self._kept: OrderedDict[str, list[int]] = OrderedDict()

    def of(self, prefix: str) -> Totals:
        kept = self._kept.get(prefix)
        if kept is None:
            kept = self._kept[prefix] = [0] * 6
            for summary in self._summaries():
                if summary.model.startswith(prefix):
                    _count(kept, summary, 1)
            if len(self._kept) > PREFIXES_MAX:
                self._kept.popitem(last=False)
        self._kept.move_to_end(prefix)
        return Totals(*kept)

    def add(self, summary: Summary) -> None:
        self._change(summary, 1)

    def remove(self, summary: Summary) -> None:
        self._change(summary, -1)

    def _change(self, summary: Summary, sign: int) -> None:
        for prefix, kept in self._kept.items():
            if summary.model.startswith(prefix):
                _count(kept, summary, sign)


def _count(sums: list[int], summary: Summary, sign: int) -> None:
    s = summary
    for i, number in enumerate((1, s.revealed, s.mistakes, s.updates, s.pending, s.expired)):
        sums[i] += sign * number
