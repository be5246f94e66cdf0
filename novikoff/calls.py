"""Requests as data, and retries: when to try again and when to give up. Nothing here sends or waits."""

import os
import random
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from http.client import responses as phrases
from typing import Any, Generic, TypeVar
from urllib.parse import quote

import httpx
import msgspec

from novikoff.errors import BadOption, NotUnderstood, Problem, Refused, Unreachable
from novikoff.http1 import Response
from novikoff.schemas import Outcome

DEFAULT_URL = "http://127.0.0.1:8000"
TIMEOUT_SECONDS = 10.0
RETRY_SECONDS = 10.0
PORT_MAX = 65_535

NEVER_SENT = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout)
"""Failures before anything was sent: any call may be tried again after them."""

RETRY_STATUSES = frozenset({429, 502, 503, 504})
"""Statuses of a service, or of a proxy before it, that is busy, starting or stopping: worth a retry."""

FIRST_PAUSE_SECONDS = 0.05
PAUSE_SECONDS_MAX = 2.0

Answer = TypeVar("Answer")

Features = Sequence[float] | Mapping[str, Any]
"""A list for models with dense features, a dictionary for those with named or hashed ones."""

Time = datetime | str
"""With its zone; as text, as in responses: 2026-01-31T12:00:00Z."""


def _plain(value: Any) -> Any:
    """Arrays and scalars of numpy as JSON has them."""
    if hasattr(value, "tolist"):
        return value.tolist()
    raise TypeError(f"a {type(value).__name__} cannot be sent")


encode = msgspec.json.Encoder(enc_hook=_plain).encode
"""TypeError if there is something that JSON has not."""


def make_id() -> str:
    """An id for a round: unique, and sorted by time, which keeps the index of a journal compact.

    >>> len(make_id()), make_id() != make_id()
    (33, True)
    """
    return f"c{time.time_ns() // 1_000_000:012x}{os.urandom(10).hex()}"


def path_of(*parts: str) -> str:
    """
    >>> path_of("models", "a/b", "weights")
    '/models/a%2Fb/weights'
    """
    return "".join(f"/{quote(part, safe='')}" for part in parts)


def given(**fields: Any) -> dict[str, Any]:
    """What is not None of the fields of a body.

    >>> given(label=False, reason=None)
    {'label': False}
    """
    return {name: value for name, value in fields.items() if value is not None}


@dataclass(frozen=True, slots=True)
class Call(Generic[Answer]):
    """A request, and as what its answer is read: `bytes` as it is. `repeatable`: twice does no more than once."""

    method: str
    path: str
    answer: type[Answer]
    body: bytes | None = None
    params: Mapping[str, object] | None = None
    """Those that are None or empty are not sent."""
    repeatable: bool = True
    media_type: str = "application/json"

    @property
    def request(self) -> dict[str, Any]:
        """The request as httpx takes it."""
        params = {name: str(value) for name, value in (self.params or {}).items() if value not in (None, "")}
        headers = None if self.body is None else {"content-type": self.media_type}
        return {
            "method": self.method, "url": self.path, "content": self.body, "params": params, "headers": headers,
        }  # fmt: skip

    def read(self, response: httpx.Response | Response) -> Answer:
        """What the service has answered; Refused if that is a problem document."""
        if not response.is_success:
            raise refusal(response)
        return self._read(response)

    def _read(self, response: httpx.Response | Response) -> Answer:
        if self.answer is bytes:
            return response.content  # type: ignore[return-value]
        answer = msgspec.json.decode(response.content or b"null", type=self.answer)
        if isinstance(answer, Outcome) and response.headers.get("idempotent-replay") == "true":
            return msgspec.structs.replace(answer, replayed=True)
        return answer


class Attempts:
    """One call and its repetitions, for at most `retry_seconds`."""

    def __init__(
        self, call: Call[Any], retry_seconds: float, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._call = call
        self._clock = clock
        self._deadline = clock() + retry_seconds
        self._tries = 0

    def pause_after(self, error: Exception) -> float:
        """How many seconds to wait before the request is sent again; raises the caller's error if it is not."""
        call, request = self._call, f"{self._call.method} {self._call.path}"
        is_safe, at_least_seconds = call.repeatable or isinstance(error, NEVER_SENT), 0.0
        if isinstance(error, httpx.DecodingError | msgspec.MsgspecError):
            raise NotUnderstood(f"the response to {request} is not from Novikoff: {error}") from error
        if isinstance(error, httpx.RequestError):
            told: Exception = Unreachable(f"no response to {request}{_place(error)}: {words(error)}")
            told.__cause__ = error
        else:
            told = error
        if isinstance(told, Refused):
            is_safe = is_safe and told.status in RETRY_STATUSES
            at_least_seconds = told.retry_after_seconds
        self._tries += 1
        longest = min(FIRST_PAUSE_SECONDS * 2**self._tries, PAUSE_SECONDS_MAX)
        seconds = max(at_least_seconds, random.uniform(longest / 2, longest))
        if not is_safe or self._clock() + seconds > self._deadline:
            raise told
        return seconds


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


def refusal(response: httpx.Response | Response) -> Refused:
    """The error of an answer, even if a proxy made it and it is no problem document.

    >>> str(refusal(httpx.Response(410, json={"code": "prediction-expired", "detail": "too late"})))
    'too late (prediction-expired, 410)'
    >>> str(refusal(httpx.Response(502, text="<h1>Bad gateway</h1>")))
    'Bad Gateway (http-502, 502)'
    """
    status = response.status_code
    try:
        problem = msgspec.json.decode(response.content, type=Problem)
        refused = Refused(problem.code, status, problem.detail, problem.errors)
    except msgspec.MsgspecError:
        refused = Refused(f"http-{status}", status, phrases.get(status, "an unknown status"))
    refused.retry_after_seconds = retry_after_seconds(response.headers.get("retry-after"))
    return refused


def words(cause: httpx.RequestError) -> str:
    return str(cause) or type(cause).__name__


def _place(cause: httpx.RequestError) -> str:
    """Where the request was sent, without a path or whatever is secret in an address."""
    try:
        url = cause.request.url
    except RuntimeError:  # it never became one
        return ""
    return f" at {url.scheme}://{url.netloc.decode()}"


def options(url: str, key: str | None, timeout_seconds: float) -> dict[str, Any]:
    """The options of an httpx client, sync or async; BadOption if the URL or the key cannot be used.

    >>> options("localhost:8000", "secret", 1.0)["headers"]["Authorization"]
    'Bearer secret'
    """
    address = _address(url)
    if key is not None and not (key.isascii() and key.isprintable()):
        raise BadOption("the API key has characters that are not allowed")
    headers = {"user-agent": "novikoff-client"} | given(
        Authorization=None if key is None else f"Bearer {key}"
    )
    verify = address.scheme == "https" and httpx.create_ssl_context()  # it takes 30 ms of a core
    return {"base_url": address, "headers": headers, "timeout": timeout_seconds, "verify": verify}


def _address(url: str) -> httpx.URL:
    """
    >>> _address("localhost:8000"), _address("https://example.org/models")
    (URL('http://localhost:8000'), URL('https://example.org/models'))
    >>> _address("http://localhost:99999")
    Traceback (most recent call last):
    novikoff.errors.BadOption: 'http://localhost:99999' is not an http:// or https:// URL
    """
    try:
        address = httpx.URL(url if "://" in url else f"http://{url}")
    except httpx.InvalidURL:
        address = httpx.URL("")
    if address.scheme not in ("http", "https") or not address.host or (address.port or 0) > PORT_MAX:
        raise BadOption(f"{url!r} is not an http:// or https:// URL")
    return address
