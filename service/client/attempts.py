"""Retries: when to try again and when to give up. Both clients use it, so it neither waits nor sends itself."""

import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Generic

import httpx
import msgspec

from service.client.calls import Answer, Call
from service.client.problems import CutOff, NotUnderstood, Unreachable, refusal

NEVER_SENT = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout)
"""Failures before anything was sent: any call may be tried again after them."""

RETRY_STATUSES = frozenset({429, 502, 503, 504})
"""Statuses of a service, or of a proxy before it, that is busy, starting or stopping: worth a retry."""

FIRST_PAUSE_SECONDS = 0.05
PAUSE_SECONDS_MAX = 2.0


@dataclass(frozen=True, slots=True)
class Pause:
    """How long to wait before the request is sent again."""

    seconds: float


class Attempts(Generic[Answer]):
    """One call and its repetitions, for at most `retry_seconds`.

    After each try, call `answered` or `failed`: they return the answer, or a pause before the next try, or raise the
    error for the caller.
    """

    def __init__(
        self, call: Call[Answer], retry_seconds: float, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._call = call
        self._clock = clock
        self._deadline = clock() + retry_seconds
        self._tries = 0

    def answered(self, response: httpx.Response) -> Answer | Pause:
        if response.is_success:
            try:
                return self._call.read(response)
            except msgspec.MsgspecError as cause:
                raise self._not_understood(cause) from cause
            except CutOff as cut:
                if self._call.repeatable:
                    return self._pause(cut, 0.0)
                raise
        error = refusal(response)
        if response.status_code in RETRY_STATUSES and self._call.repeatable:
            return self._pause(error, retry_after_seconds(response.headers.get("retry-after")))
        raise error

    def failed(self, cause: httpx.RequestError) -> Pause:
        if isinstance(cause, httpx.DecodingError):
            raise self._not_understood(cause) from cause
        words = str(cause) or type(cause).__name__
        error = Unreachable(f"no answer to {self._call.method} {self._call.path}{_place(cause)}: {words}")
        error.__cause__ = cause
        if self._call.repeatable or isinstance(cause, NEVER_SENT):
            return self._pause(error, 0.0)
        raise error

    def _not_understood(self, cause: Exception) -> NotUnderstood:
        call = self._call
        return NotUnderstood(f"the answer to {call.method} {call.path} is not one of Novikoff's: {cause}")

    def _pause(self, error: Exception, at_least_seconds: float) -> Pause:
        """The next pause, twice as long as the last and a little random; or `error` if time is up."""
        self._tries += 1
        longest = min(FIRST_PAUSE_SECONDS * 2**self._tries, PAUSE_SECONDS_MAX)
        seconds = max(at_least_seconds, random.uniform(longest / 2, longest))
        if self._clock() + seconds > self._deadline:
            raise error
        return Pause(seconds)


def retry_after_seconds(header: str | None) -> float:
    """How long `Retry-After` asks to wait; 0 if it says nothing that can be understood.

    >>> retry_after_seconds("2"), retry_after_seconds(None), retry_after_seconds("soon")
    (2.0, 0.0, 0.0)
    >>> retry_after_seconds("Wed, 21 Oct 2015 07:28:00 GMT")
    0.0
    """
    try:
        return max(0.0, float(header or 0))
    except ValueError:
        pass
    try:
        return max(0.0, (parsedate_to_datetime(header or "") - datetime.now(UTC)).total_seconds())
    except (TypeError, ValueError):
        return 0.0


def _place(cause: httpx.RequestError) -> str:
    """Where the request was sent, without a path or whatever is secret in an address."""
    try:
        url = cause.request.url
    except RuntimeError:  # it never became one
        return ""
    return f" at {url.scheme}://{url.netloc.decode()}"
