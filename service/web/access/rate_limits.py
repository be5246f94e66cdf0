"""Rate limits: of requests, and of wrong keys.

Each caller has a token bucket, filled at a steady rate; a request takes one token. Each item of a request, and each
line of a stream, costs a token too. These may put a bucket into debt; until it is paid, a stream is read more slowly
and other requests get 429. Who sends too many wrong keys has to pause, longer after each further one.
"""

import asyncio
from collections import OrderedDict
from contextvars import ContextVar
from dataclasses import dataclass
from math import ceil
from time import monotonic

from service.web.http.requests import Header
from service.web.problems import HttpError

BUCKETS_MAX = 10_000
PAUSE_SECONDS_MAX = 1.0


class Bucket:
    """Tokens of one caller."""

    __slots__ = ("_at", "_burst", "_per_second", "_tokens")

    def __init__(self, per_second: float, burst: int, now: float) -> None:
        self._per_second = per_second
        self._burst = burst
        self._tokens = float(burst)
        self._at = now

    def take(self, tokens: int, now: float) -> None:
        """Take tokens, even if there are fewer: then the bucket is in debt.

        >>> bucket = Bucket(per_second=2.0, burst=5, now=0.0)
        >>> bucket.take(6, now=0.0)
        >>> bucket.seconds_until(1, now=0.0), bucket.seconds_until(1, now=0.5)
        (1.0, 0.5)
        """
        self._fill(now)
        self._tokens -= tokens

    def seconds_until(self, tokens: int, now: float) -> float:
        """How long until there are so many tokens."""
        self._fill(now)
        return max(0.0, (tokens - self._tokens) / self._per_second)

    def headers(self, now: float) -> tuple[Header, Header]:
        """The RateLimit headers: what is allowed and what is left.

        >>> Bucket(per_second=2.0, burst=5, now=0.0).headers(0.0)[1]
        (b'ratelimit', b'"requests";r=5;t=0')
        """
        window = ceil(self._burst / self._per_second)
        until_full = ceil(self.seconds_until(self._burst, now))
        return (
            (b"ratelimit-policy", b'"requests";q=%d;w=%d' % (self._burst, window)),
            (b"ratelimit", b'"requests";r=%d;t=%d' % (max(0, int(self._tokens)), until_full)),
        )

    def _fill(self, now: float) -> None:
        self._tokens = min(self._burst, self._tokens + (now - self._at) * self._per_second)
        self._at = now


_bucket: ContextVar[Bucket | None] = ContextVar("bucket", default=None)


class RateLimits:
    """The buckets of the callers seen last, at most BUCKETS_MAX; a caller without one begins with a full bucket."""

    def __init__(self, per_second: float, burst: int) -> None:
        self._per_second = per_second
        self._burst = burst
        self._buckets: OrderedDict[str, Bucket] = OrderedDict()

    def __len__(self) -> int:
        return len(self._buckets)

    def take(self, who: str) -> Bucket:
        """Take a token for a request; HttpError (429) if there is none."""
        now = monotonic()
        bucket = self._buckets.get(who)
        if bucket is None:
            bucket = self._buckets[who] = Bucket(self._per_second, self._burst, now)
            if len(self._buckets) > BUCKETS_MAX:
                self._buckets.popitem(last=False)
        self._buckets.move_to_end(who)
        seconds = bucket.seconds_until(1, now)
        if seconds > 0:
            again = (b"retry-after", b"%d" % ceil(seconds))
            detail = f"more than {self._per_second:g} requests a second from one caller"
            raise HttpError("rate-limited", detail, (again, *bucket.headers(now)))
        bucket.take(1, now)
        _bucket.set(bucket)
        return bucket


def charge(more: int) -> None:
    """Take tokens for the further items of the request."""
    bucket = _bucket.get()
    if bucket is not None:
        bucket.take(more, monotonic())


def is_paced() -> bool:
    """Whether the caller of this request has a rate limit."""
    return _bucket.get() is not None


async def pace(more: int) -> None:
    """Take tokens for lines of a stream, and wait until the bucket is out of debt."""
    bucket = _bucket.get()
    if bucket is None:
        return
    bucket.take(more, monotonic())
    while (seconds := bucket.seconds_until(0, monotonic())) > 0:
        await asyncio.sleep(min(seconds, PAUSE_SECONDS_MAX))


CALLERS_MAX = 10_000
"""The most callers that are remembered, those seen last."""

REFUSED_PAUSE_SECONDS_MAX = 60.0
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
            refused.until = now + min(REFUSED_PAUSE_SECONDS_MAX, 2.0 ** min(refused.count - self._free, 6))
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
            raise HttpError("rate-limited", "too many invalid API keys from this address", (again,))
