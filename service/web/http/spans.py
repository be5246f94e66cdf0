"""Spans (OpenTelemetry): what each request was, when it began and ended, and which trace it belongs to.

The event loop only fills in a record for each; a thread sends them on, see `span_export.py`. Nothing here runs unless
there is somewhere to send them.
"""

from collections import deque
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from random import getrandbits, random
from time import time_ns
from typing import Any
from urllib.parse import parse_qs

from service import logs
from service.engine.names import is_name
from service.web.http.bodies import WHOLE_BODY, Scope
from service.web.http.traces import parent_of
from service.web.http.traffic import METHODS, Traffic

SPAN_BYTES_MAX = 1_024
"""What a record that waits takes at most: all that is in it has a bounded length."""

_Handle = Callable[[Any], Awaitable[tuple[Any, Any]]]


class Span:
    """One request. `status` is 0 if it was never answered, `model` None if it is about none and "" if about several."""

    __slots__ = (
        "began_ns",
        "ended_ns",
        "method",
        "model",
        "parent_id",
        "route",
        "span_id",
        "status",
        "trace_id",
    )

    def __init__(self, trace_id: str, parent_id: str | None, method: str) -> None:
        self.trace_id = trace_id
        self.span_id = f"{getrandbits(64):016x}"
        self.parent_id = parent_id
        self.method = method if method in METHODS else "_OTHER"
        self.route = "unknown"
        self.status = 0
        self.model: str | None = None
        self.began_ns = time_ns()
        self.ended_ns = 0

    def is_about(self, model: object) -> None:
        """Note the model of the request, or of one of its items; what cannot be a model's name is passed over."""
        if model != self.model and is_name(model):
            self.model = str(model) if self.model is None else ""


current: ContextVar[Span | None] = ContextVar("span", default=None)
"""The span of the request that is being answered, if it is recorded."""


class Spans:
    """Spans that wait to be sent, at most `waiting_max`: newer ones are dropped then, and counted.

    `share`: of the requests that come without a trace, this part gets one. Those with a trace are recorded if their
    clients record them.
    """

    def __init__(self, *, share: float, waiting_max: int) -> None:
        self._share = share
        self._waiting_max = waiting_max
        self._waiting: deque[Span] = deque()
        self.sent = 0
        self.dropped_at_once = 0
        """Too many waited."""
        self.dropped_unsent = 0
        """The endpoint did not take them. This one and `sent` are counted by the thread that sends."""

    def begin(self, scope: Scope) -> Span | None:
        """The span of a request, which is the current one from now on; None if it is not to be recorded."""
        parent = None if WHOLE_BODY in scope else parent_of(scope["headers"])
        if not (parent.is_sampled if parent is not None else random() < self._share):
            return None
        if parent is not None:
            span = Span(parent.trace_id, parent.span_id, scope["method"])
        else:
            span = Span(f"{getrandbits(128):032x}", None, scope["method"])
        current.set(span)
        logs.trace.set((span.trace_id, span.span_id))
        return span

    def end(self, span: Span, scope: Scope, status: int) -> None:
        """The request has been answered with this status."""
        span.ended_ns = time_ns()
        span.status = status
        span.is_about(scope.get("path_params", {}).get("model"))
        if b"model=" in scope["query_string"]:
            asked = parse_qs(scope["query_string"].decode("latin-1"))
            span.is_about(asked.get("model", [None])[0])
        if len(self._waiting) < self._waiting_max:
            self._waiting.append(span)
        else:
            self.dropped_at_once += 1

    def __len__(self) -> int:
        return len(self._waiting)

    def take(self, count: int) -> list[Span]:
        """The oldest that wait. A thread of its own may call this: both ends of a deque are safe."""
        return [self._waiting.popleft() for _ in range(min(count, len(self._waiting)))]


class TracedTraffic(Traffic):
    """Traffic that tells the current span which route its request came to."""

    def observe(self, method: str, route: str, status: int, seconds: float) -> None:
        super().observe(method, route, status, seconds)
        span = current.get()
        if span is not None:
            span.route = route


def noting_model(handle: _Handle) -> _Handle:
    """A handler that tells the current span which model its body or its answer names."""

    async def noted(body: Any) -> tuple[Any, Any]:
        span = current.get()
        if span is None:
            return await handle(body)
        try:
            answer, headers = await handle(body)
        except Exception:
            span.is_about(getattr(body, "model", None))
            raise
        span.is_about(answer.model)
        return answer, headers

    return noted
