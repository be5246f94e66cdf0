"""Wrong keys, counted by who sends them: after too many a caller has to pause, longer after each further one."""

from collections import OrderedDict
from dataclasses import dataclass
from math import ceil
from time import monotonic

from service.web.problems import HttpError

CALLERS_MAX = 10_000
"""The most callers that are remembered, those seen last."""

PAUSE_SECONDS_MAX = 60.0
FORGET_SECONDS = 600.0
"""Who has sent no wrong key for so long begins anew."""


@dataclass(slots=True)
class Refused:
    """How many wrong keys a caller has sent, when the last one, and until when no further one is looked at."""

    count: int = 0
    at: float = 0.0
    until: float = 0.0


class RefusedKeys:
    """Callers who have sent wrong keys.

    >>> refused = RefusedKeys(free=2)
    >>> for at in (0.0, 0.1, 2.0):
    ...     refused.add("10.0.0.1", at)
    >>> refused.pause_seconds("10.0.0.1", 2.5), refused.pause_seconds("10.0.0.2", 2.5)
    (1.5, 0.0)
    """

    def __init__(self, free: int) -> None:
        """`free`: how many wrong keys a caller may send before the first pause, which takes a second."""
        self._free = free
        self._callers: OrderedDict[str, Refused] = OrderedDict()

    def add(self, caller: str, now: float) -> None:
        refused = self._callers.setdefault(caller, Refused())
        self._callers.move_to_end(caller)
        if now - refused.at > FORGET_SECONDS:
            refused.count = 0
        refused.count += 1
        refused.at = now
        if refused.count >= self._free:
            refused.until = now + min(PAUSE_SECONDS_MAX, 2.0 ** min(refused.count - self._free, 6))
        if len(self._callers) > CALLERS_MAX:
            self._callers.popitem(last=False)

    def pause_seconds(self, caller: str, now: float) -> float:
        """How long the caller still has to wait."""
        refused = self._callers.get(caller)
        return max(0.0, refused.until - now) if refused is not None else 0.0

    def check(self, caller: str) -> None:
        """HttpError (429) for a caller who has to wait."""
        seconds = self.pause_seconds(caller, monotonic())
        if seconds:
            again = (b"retry-after", b"%d" % ceil(seconds))
            raise HttpError("rate-limited", "too many wrong keys have come from this address; wait", (again,))
