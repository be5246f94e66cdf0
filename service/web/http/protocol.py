"""A connection, as uvicorn serves it with httptools, but faster for short requests that arrive in one piece.

The size of a head is bounded, and a request that is not HTTP gets a problem document before the connection is closed.
"""

import logging
from collections.abc import Container
from types import SimpleNamespace
from typing import Any

from httptools import HttpParserError, HttpParserUpgrade, HttpRequestParser
from uvicorn.config import Config
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.server import ServerState

from service.runtime.logs import LogLimiter
from service.web.http.bodies import Header
from service.web.http.cycle import Cycle, WholeCycle
from service.web.http.door import PROBES, Door, Place, Refusal
from service.web.http.heads import NO_BODY, framing_of, target_of, with_host
from service.web.http.held_bytes import FREE_BYTES, FULL, HeldBytes
from service.web.http.outbox import Outbox
from service.web.http.portions import Portions
from service.web.http.whole_requests import RequestHeads
from service.web.problems import HttpError, last_answer

FIELDS_MAX = 200
"""In a head, or in a trailer."""

FIELD_BYTES = 160
"""What a field takes beside its own bytes: a tuple, and the heads of two objects."""

ASGI = {"version": "3.0", "spec_version": "2.3"}

MALFORMED: Refusal = "malformed-http", "this is not a request that HTTP/1.1 allows"

log = logging.getLogger(__name__)
_refused = LogLimiter()
_ended = LogLimiter()


class Protocol(HttpToolsProtocol):
    """One connection.

    The parser reads one request at a time. What a client has sent behind it waits, as the bytes that it is, until the
    request is answered; while that is much, nothing more is read from the client.

    `bytes_without_progress` counts bytes that completed no head and held no part of a body: `head_bytes_max` bounds
    heads, trailers and chunk extensions. Fields of a trailer are ignored. Idle connections are closed by
    `slow_clients`, without a timer for each answer.
    """

    head_bytes_max: int
    quick_paths: Container[str]
    outbox: Outbox
    door: Door
    held: HeldBytes

    def __init__(
        self, config: Config, server_state: ServerState, app_state: dict[str, Any], _loop: Any = None
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self.place: Place | None = None
        self.bytes_without_progress = 0
        self.held_bytes = 0
        """What is kept for this connection: requests until they are answered, later ones, answers until taken."""
        self._untaken_bytes = 0
        self._unread = b""
        self._unread_at = 0
        self._head_bytes = 0
        """What is kept for the head of the request, from its first bytes until the answer is complete."""
        self._fields = 0
        self._unstarted: Cycle | None = None
        self._is_amid_request = False
        self._is_amid_head = False
        self._framing = NO_BODY
        self._portions = Portions()
        self._request_heads = RequestHeads(self.quick_paths, self.head_bytes_max)
        self._same_of_all: dict[str, Any] = {}
        """What the scopes of all requests have in common that come whole."""

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        transport.set_write_buffer_limits(FREE_BYTES)
        self._same_of_all = {
            "type": "http",
            "asgi": ASGI,
            "http_version": "1.1",
            "server": self.server,
            "client": self.client,
            "scheme": self.scheme,
            "method": "POST",
            "root_path": self.root_path,
            "query_string": b"",
        }
        self.door.enter(self)
        if self.place is not None and self.place.for_probes:
            self._request_heads = RequestHeads(frozenset())

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self.door.leave(self)
        self.held.total -= self.held_bytes
        self.held_bytes = 0
        self._unread = b""
        self.cycle = None  # type: ignore[assignment]  # they hold on to each other: both would wait for the collector

    def shutdown(self) -> None:
        self.outbox.send()
        super().shutdown()

    def refuse(self, refusal: Refusal) -> None:
        """Close, and say why unless an answer is under way: that one ends here."""
        if self.transport.is_closing():
            return
        self.outbox.send()
        cycle = self.cycle
        if cycle is None or cycle.response_complete or cycle is self._unstarted:
            self.transport.write(last_answer(*refusal))
        self.transport.close()

    # Bytes that are kept

    def hold(self, size: int) -> None:
        """Count bytes that are kept for this connection; negative: that are kept no longer."""
        if self.parser is not None:  # else the connection is lost, and nothing is counted for it any more
            self.held_bytes += size
            self.held.total += size

    def _hold_head(self) -> None:
        """Count what the head takes, as far as it has come."""
        size = self.bytes_without_progress + FIELD_BYTES * self._fields
        self.hold(size - self._head_bytes)
        self._head_bytes = size
        if self.held.are_too_many(self.held_bytes):
            self.refuse(("overloaded", FULL))

    def read_on(self) -> None:
        """Read from the client again, unless it has sent enough for now."""
        if self._is_amid_request or self.held_bytes <= self.held.connection_bytes_max:
            self.flow.resume_reading()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._untaken_bytes = self.transport.get_write_buffer_size()
        self.hold(self._untaken_bytes)
        self._end_if_too_many_are_held()

    def resume_writing(self) -> None:
        super().resume_writing()
        self.hold(-self._untaken_bytes)
        self._untaken_bytes = 0
        if not self._is_amid_request:
            self.read_on()

    def _wait_with(self, data: bytes, at: int) -> None:
        """Keep what is behind `at` until the request before it is answered."""
        if self._unread:
            data, at = self._unread[self._unread_at :] + data, 0
        self.hold(len(data) - len(self._unread))
        self._unread, self._unread_at = data, at
        if self.held_bytes > self.held.connection_bytes_max:
            self.flow.pause_reading()
        self._end_if_too_many_are_held()

    def _end_if_too_many_are_held(self) -> None:
        """When all together hold too many bytes, the client that lets more pile up has to go."""
        if self.held.are_too_many(self.held_bytes) and not self.transport.is_closing():
            if (held_back := _ended.turn()) is not None:
                log.warning(
                    "a connection was ended, since all hold too many bytes", extra={"others": held_back}
                )
            self.transport.abort()

    # Requests

    def data_received(self, data: bytes) -> None:
        if self._is_amid_request:
            self._parse(data, 0)
        elif self.cycle is not None and not self.cycle.response_complete:
            self._wait_with(data, 0)
        else:
            whole = self._request_heads.split(data)
            if whole is None:
                self._parse(data, 0)
            else:
                self._start_whole(*whole)

    def _parse(self, data: bytes, at: int) -> None:
        """Parse from `at` on, up to the end of a request."""
        while at < len(data) and not self.transport.is_closing():
            if not self._is_amid_request and self.cycle is not None and not self.cycle.response_complete:
                self._wait_with(data, at)
                break
            end = self._portions.end(data, at)
            self._feed(data[at:end])
            at = end
        self._portions.remember_end(data, is_amid_request=self._is_amid_request)
        cycle, self._unstarted = self._unstarted, None
        if cycle is not None and not self.transport.is_closing():
            self._start_asgi_task(cycle, self.app)

    def _feed(self, portion: bytes) -> None:
        self.bytes_without_progress += len(portion)
        try:
            self.parser.feed_data(portion)
        except HttpParserError as error:
            why = error.__context__  # what a method below has raised, if one has
            refusal = (why.code, why.detail) if isinstance(why, HttpError) else MALFORMED
            if (held_back := _refused.turn()) is not None:
                log.warning("refused: %s", refusal[1], extra={"others": held_back})
            self.refuse(refusal)
        except HttpParserUpgrade:
            self._read_body_of_upgrade()
        if self.bytes_without_progress > self.head_bytes_max:
            self.refuse(self._head_too_large)
        elif self._is_amid_head:
            self._hold_head()

    def _start_whole(self, path: str, headers: list[Header], body: bytes, plain: bool) -> None:
        self.bytes_without_progress = 0
        scope = {
            **self._same_of_all,
            "path": path,
            "raw_path": path.encode(),
            "headers": headers,
            "state": self.app_state.copy(),
        }
        cycle = self.cycle = WholeCycle(self, scope, self.outbox, body, plain=plain)
        self._start_asgi_task(cycle, self.app)

    # The parser calls these; with an HttpError it stops, and the client gets the refusal.

    def on_message_begin(self) -> None:
        self._is_amid_request = self._is_amid_head = True
        self._fields = 0
        super().on_message_begin()

    def on_header(self, name: bytes, value: bytes) -> None:
        self._fields += 1
        if self._fields > FIELDS_MAX:
            raise HttpError("head-too-large", f"a head or trailer may have {FIELDS_MAX} fields at most")
        if self._is_amid_head:  # else it is of a trailer
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        if self.bytes_without_progress > self.head_bytes_max:
            raise HttpError(*self._head_too_large)
        self._hold_head()
        self.bytes_without_progress = self._fields = 0
        self._is_amid_head = False
        scope: Any = self.scope
        version = scope["http_version"] = self.parser.get_http_version()
        scope["method"] = self.parser.get_method().decode("ascii")
        scope["path"], scope["raw_path"], scope["query_string"], host = target_of(self.url)
        self._framing = framing_of(self.headers, version)
        self._portions.begin_body(self._framing)
        if host is not None:
            scope["headers"] = with_host(self.headers, host)
        for_probes = self.place is not None and self.place.for_probes
        if for_probes and scope["path"] not in PROBES:
            raise HttpError(*self.door.is_full)
        keep_alive = version != "1.0" and self.parser.should_keep_alive() and not for_probes
        self.cycle = self._unstarted = Cycle(self, scope, self.outbox, keep_alive=keep_alive)

    def on_body(self, body: bytes) -> None:
        self.bytes_without_progress = 0
        self._portions.take(len(body))
        cycle: Any = self.cycle
        if not cycle.response_complete:
            cycle.add_piece(body)

    def on_message_complete(self) -> None:
        if self._framing.has_body and self.parser.should_upgrade():
            return  # its body is still to come
        self._is_amid_request = False
        self.bytes_without_progress = 0
        self._portions.end_request()
        cycle = self.cycle
        if cycle.keep_alive and not self.parser.should_keep_alive():
            self.parser = HttpRequestParser(self)  # `Connection: close` in a trailer has closed the other one
        cycle.more_body = False
        if not cycle.response_complete:
            cycle.message_event.set()

    def _read_body_of_upgrade(self) -> None:
        """Requests for another protocol are answered in this one, but the parser takes their bodies for that protocol:
        so another parser reads them."""
        if not self._framing.has_body:
            return
        of_requests = self.parser

        def end() -> None:
            self.on_message_complete()
            self.parser = of_requests

        self.parser = HttpRequestParser(SimpleNamespace(on_body=self.on_body, on_message_complete=end))
        self.parser.feed_data(b"POST / HTTP/1.1\r\n%b\r\n\r\n" % self._framing.line)

    def on_response_complete(self) -> None:
        self.server_state.total_requests += 1
        if self._head_bytes:
            self.hold(-self._head_bytes)
            self._head_bytes = 0
        if self.transport.is_closing():
            return
        if self._unread:
            data, at = self._unread, self._unread_at
            self._unread = b""
            self.hold(-len(data))
            self._parse(data, at)
            self.read_on()
        else:
            self.flow.resume_reading()

    @property
    def _head_too_large(self) -> Refusal:
        return "head-too-large", f"a head may have {self.head_bytes_max} bytes at most"


def protocol(
    *, door: Door, held: HeldBytes, head_bytes_max: int, quick_paths: Container[str] = frozenset()
) -> type[Protocol]:
    """`quick_paths`: requests to them that come in one piece are read without the parser."""
    own = {"door": door, "held": held, "head_bytes_max": head_bytes_max, "quick_paths": quick_paths}
    return type("OwnProtocol", (Protocol,), own | {"outbox": Outbox()})
