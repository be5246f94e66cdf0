"""HTTP/1.1 connections: an `asyncio.Protocol` that uvicorn's server runs instead of its own.

uvicorn's own protocol does not limit what a client without an API key can hold: the size and the number of fields of a
head, trailers, requests sent ahead, bodies that never end, responses that are not taken. This one does, and short
requests take fewer system calls. Of uvicorn it uses what `Config(http=…)` needs: the arguments with which a server
makes a protocol, `shutdown`, and `connections`, `tasks` and `total_requests` of its `ServerState`.
"""

import asyncio
import logging
import re
import struct
from collections.abc import Callable, Container, Iterable, MutableMapping
from contextvars import Context
from functools import lru_cache
from http import HTTPStatus
from socket import SO_LINGER, SOL_SOCKET
from types import SimpleNamespace
from typing import Any

from httptools import HttpParserError, HttpParserUpgrade, HttpRequestParser
from starlette.types import ASGIApp
from uvicorn.server import ServerState

from service.errors import Overloaded
from service.runtime.byte_budget import ByteBudget
from service.runtime.logs import LogLimiter
from service.web.http.connection_limits import PROBES, Awaited, ConnectionLimiter, Place, Refusal
from service.web.http.request_heads import FIELD_BYTES, NO_BODY, HeadCache, framing_of, target_of, with_host
from service.web.http.requests import WHOLE_RESPONSE, Header
from service.web.http.responses import BREAK_OFF
from service.web.problems import HttpError, internal_error, last_answer

FIELDS_MAX = 200
"""In a head, or in a trailer."""

PIECE_BYTES = 64
"""What a piece of a body takes beside its own bytes: a chunk may have a single one."""

FREE_BYTES = 16_384
"""A connection may hold so much whatever the others hold, so that short requests are always served."""

OUTBOX_MAX = 8
"""So many responses are written at once: the first of them shall not wait for more."""

PORTIONS_MAX = 64
"""So many are parsed in a turn of the loop. A chunk may hold an empty line every four bytes, each of which ends one."""

RETURNS_MAX = 16
"""After so many carriage returns that begin no empty line, both line ends are looked for together: for one byte `find`
is thirty times as fast, but each one found costs a step."""

UNKNOWN_LENGTH = -1
"""The length of a body that is sent in pieces without a `content-length`."""

FULL = "the limit of buffered bytes is reached (`connections_bytes_max`); try again later"
MALFORMED: Refusal = "malformed-http", "not a valid HTTP/1.1 request"

_BEGUN_LINE = re.compile(rb"(?:\n?\r)?\n")
"""What may be the rest of an empty line that began in data that came before."""

_HEADER_LINE = re.compile(rb"[!-9;-~]+: [\t -~\x80-\xff]*")

log = logging.getLogger(__name__)
_refused = LogLimiter()
_ended = LogLimiter()


class Outbox:
    """Responses of the same turn of the event loop, written one right after the other at its end.

    Writing to a client that sleeps wakes it, which takes longer than the write. A load generator or a proxy that has
    many connections is woken once for several responses.
    """

    def __init__(self) -> None:
        self._responses: list[tuple[asyncio.Transport, bytes]] = []

    def put(self, transport: asyncio.Transport, response: bytes, loop: asyncio.AbstractEventLoop) -> None:
        if not self._responses:
            loop.call_soon(self.send)
        self._responses.append((transport, response))
        if len(self._responses) >= OUTBOX_MAX:
            self.send()

    def send(self) -> None:
        """Has to be called before anything else is written to one of the transports."""
        responses, self._responses = self._responses, []
        for transport, response in responses:
            if not transport.is_closing():  # the client may have gone
                transport.write(response)


class Exchange:
    """One request and its response: what an ASGI application is called with."""

    more_body = True
    body_bytes = 0
    """How many bytes of the body have arrived so far."""
    response_started = False
    response_complete = False
    _changed: asyncio.Event | None = None
    """For `receive`, once it has had to wait."""
    has_changed = False
    pieces_bytes = 0
    task: asyncio.Task[None] | None = None
    """In which it runs."""
    _unanswered_bytes = 0
    """What the application has received before it began to respond: it keeps a body until that is whole."""
    _head = b""
    _is_chunked = False
    _length_left = 0

    def __init__(
        self, connection: "Connection", scope: Any, *, keep_alive: bool = True, expects_continue: bool = False
    ) -> None:
        self.scope = scope
        self.keep_alive = keep_alive
        self.pieces: list[bytes] = []
        """Parts of the body that the application has not received yet; when it does, a new list takes their place."""
        self._connection = connection
        self._transport = connection.transport
        self._expects_continue = expects_continue

    async def run(self, app: ASGIApp) -> None:
        try:
            await app(self.scope, self.receive, self.send)
        except Exception as error:
            problem = internal_error(error)
            if not self.response_complete:  # else it would be taken for the answer to the next request
                self._connection.refuse(problem)
        finally:
            if not self.response_complete:
                self._connection.close()
            # Not by a callback of the task: it would take a turn of the loop of its own.
            self._connection.tasks.discard(self.task)

    # The request

    @property
    def is_over(self) -> bool:
        """Whether what comes next from the client belongs to another request."""
        return self.response_complete and not self.more_body

    def add_piece(self, piece: bytes) -> None:
        self.pieces.append(piece)
        self.body_bytes += len(piece)
        self.pieces_bytes += PIECE_BYTES + len(piece)
        self._connection.hold(PIECE_BYTES + len(piece))
        if self.pieces_bytes > self._connection.bytes_max:
            self._connection.pause_reading()
        self.wake()

    def end_body(self) -> None:
        self.more_body = False
        self.wake()

    def wake(self) -> None:
        """Let `receive` look again."""
        self.has_changed = True
        if self._changed is not None:
            self._changed.set()

    async def receive(self) -> MutableMapping[str, Any]:
        connection = self._connection
        if self._expects_continue and not self._transport.is_closing():
            connection.write(b"HTTP/1.1 100 Continue\r\n\r\n")
            self._expects_continue = False
        if not connection.is_lost and not self.response_complete:
            if (
                self._unanswered_bytes
                and self.more_body
                and connection.holds_too_much(self._unanswered_bytes)
            ):
                raise Overloaded(FULL)
            connection.read_on()
            if not self.has_changed:
                self._changed = asyncio.Event()
                await self._changed.wait()
            self.has_changed = False
        if connection.is_lost or self.response_complete:
            return {"type": "http.disconnect"}
        body = b"".join(self.pieces)  # which is no copy if there is one
        self.pieces = []
        kept = 0 if self.response_started else PIECE_BYTES + len(body)
        self._unanswered_bytes += kept
        connection.hold(kept - self.pieces_bytes)
        self.pieces_bytes = 0
        return {"type": "http.request", "body": body, "more_body": self.more_body}

    # The response

    async def send(self, message: MutableMapping[str, Any]) -> None:
        connection = self._connection
        if connection.may_write is not None:
            await connection.may_write.wait()
        if self._transport.is_closing():
            return
        kind = message["type"]
        if kind == BREAK_OFF:
            self._send_head()
            connection.break_off(has_end=self._length_left != UNKNOWN_LENGTH or self._is_chunked)
        elif kind == "http.response.start" and not self.response_started:
            self._begin(message["status"], message.get("headers", ()))
            if WHOLE_RESPONSE in message:
                self._send_body(message[WHOLE_RESPONSE], more=False)
        elif kind == "http.response.body" and self.response_started and not self.response_complete:
            self._send_body(message.get("body", b""), message.get("more_body", False))
        else:
            raise RuntimeError(f"{kind} at the wrong time")

    def _begin(self, status: int, headers: Iterable[Header]) -> None:
        """Make the head. It is sent with the body, or if that comes in pieces, in the next turn of the loop."""
        self.response_started = True
        self._expects_continue = False
        if self._unanswered_bytes:
            self._connection.hold(-self._unanswered_bytes)
            self._unanswered_bytes = 0
        scope = self.scope
        head = response_head(status, tuple(headers), self.keep_alive, scope["method"], scope["http_version"])
        self._head, self.keep_alive, self._is_chunked, self._length_left = head
        if self._length_left == UNKNOWN_LENGTH:
            self._connection.loop.call_soon(self._send_head)

    def _send_head(self) -> None:
        if self._head and not self._transport.is_closing():
            head, self._head = self._head, b""
            self._connection.write(head)

    def _send_body(self, body: bytes, more: bool) -> None:
        if self.scope["method"] == "HEAD":
            body = b""
        elif self._is_chunked:
            body = b"%x\r\n%b\r\n" % (len(body), body) if body else b""
            if not more:
                body += b"0\r\n\r\n"
        elif self._length_left != UNKNOWN_LENGTH:
            self._length_left -= len(body)
            if self._length_left < 0 or (self._length_left and not more):
                raise RuntimeError("the body does not have the length that the head declares")
        if self._head:
            body, self._head = self._head + body, b""
        connection = self._connection
        if more:
            connection.write(body)
            return
        if self.keep_alive:
            connection.write_soon(body)
        else:
            connection.write(body)
            connection.close()
        self.response_complete = True
        if self.pieces_bytes:
            connection.hold(-self.pieces_bytes)
            self.pieces_bytes = 0
        if self._changed is not None:
            self._changed.set()
        connection.end_exchange()


class Connection(asyncio.Protocol):
    """One connection.

    The parser reads one request at a time. What a client has sent behind it waits, as the bytes that it is, until the
    request is answered; while that is much, nothing more is read from the client.

    `bytes_without_progress` counts bytes that completed no head and held no part of a body: `head_bytes_max` bounds
    heads, trailers and chunk extensions. Fields of a trailer are ignored. Idle connections are closed by
    `SlowClients`, without a timer for each response.
    """

    def __init__(
        self,
        app: ASGIApp,
        server_state: ServerState,
        app_state: dict[str, Any],
        *,
        limiter: ConnectionLimiter,
        held: ByteBudget,
        outbox: Outbox,
        bytes_max: int,
        head_bytes_max: int,
        quick_paths: Container[str],
    ) -> None:
        self.loop = asyncio.get_running_loop()
        self.transport: asyncio.Transport
        self.client: tuple[str, int] | None = None
        self.place: Place | None = None
        self.exchange: Exchange | None = None
        """The one under way, or the last one."""
        self.is_lost = False
        self.bytes_max = bytes_max
        self.held_bytes = 0
        """What is kept for this connection: requests until they are answered, later ones, responses until taken."""
        self.bytes_without_progress = 0
        self.may_write: asyncio.Event | None = None
        """While the client does not take what was written for it."""
        self._app = app
        self._server_state = server_state
        self.tasks = server_state.tasks
        self._limiter = limiter
        self._held = held
        self._outbox = outbox
        self._head_bytes_max = head_bytes_max
        self.head_cache = HeadCache(quick_paths)
        self._same_of_all: dict[str, Any] = {
            "type": "http",
            "asgi": {"version": "3.0", "spec_version": "2.3"},
            "scheme": "http",
            "root_path": "",
            "state": app_state,
        }
        """What the scopes of all requests have in common."""
        self._requests = 0
        self._is_reading = True
        self._untaken_bytes = 0
        self._unread = b""
        self._unread_at = 0
        self._parser = HttpRequestParser(self)
        self._is_amid_request = self._is_amid_head = False
        self._is_alone = False
        """Whether the data that the parser reads began with its request."""
        self._url = b""
        self._headers: list[Header] = []
        self._fields = 0
        self._framing = NO_BODY
        self._body_left = 0
        self._head_bytes = 0
        """What is kept for the head of the request, from its first bytes until the response is complete."""
        self._unstarted: Exchange | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport  # type: ignore[assignment]  # one of a stream, as sockets have
        self.transport.set_write_buffer_limits(FREE_BYTES)
        self._server_state.connections.add(self)  # type: ignore[arg-type]
        self.client = _address(transport.get_extra_info("peername"))
        server = _address(transport.get_extra_info("sockname"))
        self._same_of_all |= {"client": self.client, "server": server}
        self._limiter.admit(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self.is_lost = True
        self._server_state.connections.discard(self)
        self._limiter.release(self)
        self._held.add("", -self.held_bytes, count=0)
        self.held_bytes = 0
        self._unread = b""
        if self.may_write is not None:
            self.may_write.set()
        if self.exchange is not None:
            self.exchange.wake()
            self.exchange = None
        del self._parser  # like the exchange it holds on to this: all would wait for the garbage collector

    def shutdown(self) -> None:
        """The server stops: end as soon as the request under way is answered."""
        if self.exchange is None or self.exchange.response_complete:
            self.close()
        else:
            self.exchange.keep_alive = False

    def refuse(self, refusal: Refusal) -> None:
        if self.transport.is_closing():
            return
        exchange = self.exchange
        if exchange is None or not exchange.response_started or exchange.is_over:
            self.write(last_answer(*refusal))
        self.close()

    def close(self) -> None:
        self._outbox.send()
        self.transport.close()

    def abort(self) -> None:
        self.transport.abort()

    def break_off(self, *, has_end: bool) -> None:
        """Close amid a response, so that the client does not take what was sent for all of it.

        If the body `has_end`, by its length or its last chunk, that is missing. If the end of the connection is its
        end, as in HTTP/1.0, the connection is reset.
        """
        if has_end:
            self.close()
            return
        socket = self.transport.get_extra_info("socket")
        socket.setsockopt(SOL_SOCKET, SO_LINGER, struct.pack("ii", 1, 0))
        self.transport.abort()

    @property
    def awaited(self) -> Awaited | None:
        """What the client has to do next; None if it is the service's turn."""
        exchange = self.exchange
        if untaken_bytes := self.transport.get_write_buffer_size():
            # Many clients send everything before they take anything.
            return "response", untaken_bytes, exchange.body_bytes if exchange is not None else 0
        if exchange is None:
            what = "probe" if self.place is not None and self.place.for_probes else "head"
        elif exchange.response_complete and exchange.more_body:
            what = "rest"
        elif exchange.response_complete:
            what = "head" if self.bytes_without_progress else "next request"
        elif not exchange.more_body or (exchange.response_started and exchange.pieces):
            return None
        elif exchange.response_started:
            return "line", self._requests, exchange.body_bytes
        else:
            what = "body"
        return what, self._requests, 0

    # Bytes that are held

    def hold(self, size: int) -> None:
        """Count bytes that are kept for this connection; negative: that are kept no longer."""
        if not self.is_lost:
            self.held_bytes += size
            self._held.add("", size, count=0)

    def holds_too_much(self, size: int) -> bool:
        """Whether so many bytes must not become more, since all connections together hold too many."""
        return self._held.is_exceeded and size > FREE_BYTES

    def _hold_head(self) -> None:
        """Count what the head takes, as far as it has come."""
        size = self.bytes_without_progress + FIELD_BYTES * self._fields
        self.hold(size - self._head_bytes)
        self._head_bytes = size
        if self.holds_too_much(self.held_bytes):
            self.refuse(("overloaded", FULL))

    def _hold_unread(self, data: bytes, at: int) -> None:
        """Keep what is behind `at` until the request before it is answered."""
        if self._unread:
            data, at = self._unread[self._unread_at :] + data, 0
        self.hold(len(data) - len(self._unread))
        self._unread, self._unread_at = data, at
        if self.held_bytes > self.bytes_max:
            self.pause_reading()
        self._end_if_too_much_is_held()

    def _end_if_too_much_is_held(self) -> None:
        """When all together hold too many bytes, the client that lets more pile up has to go."""
        if self.holds_too_much(self.held_bytes) and not self.transport.is_closing():
            if (held_back := _ended.turn()) is not None:
                log.warning(
                    "closed a connection: all connections together buffer too many bytes",
                    extra={"others": held_back},
                )
            self.transport.abort()

    # Flow control

    def pause_reading(self) -> None:
        if self._is_reading and not self.transport.is_closing():
            self._is_reading = False
            self.transport.pause_reading()

    def read_on(self) -> None:
        """Read from the client again, unless it has sent enough for now."""
        if self._is_reading or self.transport.is_closing():
            return
        if self._is_amid_request:
            exchange = self.exchange
            may_read = not self._unread and (exchange is None or exchange.pieces_bytes <= self.bytes_max)
        else:
            may_read = self.held_bytes <= self.bytes_max
        if may_read:
            self._is_reading = True
            self.transport.resume_reading()

    def pause_writing(self) -> None:
        self.may_write = asyncio.Event()
        self._untaken_bytes = self.transport.get_write_buffer_size()
        self.hold(self._untaken_bytes)
        self._end_if_too_much_is_held()

    def resume_writing(self) -> None:
        if self.may_write is not None:
            self.may_write.set()
            self.may_write = None
        self.hold(-self._untaken_bytes)
        self._untaken_bytes = 0
        if not self._is_amid_request:
            self.read_on()

    def write(self, data: bytes) -> None:
        self._outbox.send()
        self.transport.write(data)

    def write_soon(self, response: bytes) -> None:
        self._outbox.put(self.transport, response, self.loop)

    # Requests

    def data_received(self, data: bytes) -> None:
        if self._unread:
            self._hold_unread(data, 0)
        elif self._is_amid_request:
            self._parse(data, 0)
        elif self.exchange is not None and not self.exchange.response_complete:
            self._hold_unread(data, 0)
        elif len(data) <= FREE_BYTES and (found := self.head_cache.find(data)) is not None:
            self.bytes_without_progress = 0
            scope, body = found
            self.exchange = exchange = Exchange(self, scope)
            self._requests += 1
            exchange.pieces.append(body)
            exchange.more_body, exchange.has_changed = False, True
            self._start(exchange)
        else:
            self._parse(data, 0)

    def _parse(self, data: bytes, at: int) -> None:
        """Parse from `at` on, in portions that do not go beyond the end of a request: the parser reads all it gets."""
        self._is_alone = at == 0 and not self._is_amid_request
        portions = 0
        while at < len(data) and not self.transport.is_closing():
            if (
                not self._is_amid_request
                and self.exchange is not None
                and not self.exchange.response_complete
            ):
                self._hold_unread(data, at)
                break
            if portions == PORTIONS_MAX:
                self._hold_unread(data, at)
                self.pause_reading()
                self.loop.call_soon(self._parse_unread)
                break
            portions += 1
            end = min(at + self._body_left, len(data)) if self._body_left else _empty_line_end(data, at)
            self._feed(data[at:end])
            at = end
        exchange, self._unstarted = self._unstarted, None
        if exchange is None or self.transport.is_closing():
            return
        if self._is_alone and at == len(data) and not self._is_amid_request and exchange.keep_alive:
            self.hold(self.head_cache.add(data, exchange.scope))
        self._start(exchange)

    def _feed(self, portion: bytes) -> None:
        self.bytes_without_progress += len(portion)
        try:
            self._parser.feed_data(portion)
        except HttpParserError as error:
            why = error.__context__  # what a method below has raised, if one has
            refusal = (why.code, why.detail) if isinstance(why, HttpError) else MALFORMED
            if (held_back := _refused.turn()) is not None:
                log.warning("refused: %s", refusal[1], extra={"others": held_back})
            self.refuse(refusal)
        except HttpParserUpgrade:
            self._read_body_of_upgrade()
        if self.bytes_without_progress > self._head_bytes_max:
            self.refuse(self._head_too_large)
        elif self._is_amid_head:
            self._hold_head()

    def _start(self, exchange: Exchange) -> None:
        # With a context of its own, or the id of a request could stay with its connection.
        exchange.task = self.loop.create_task(exchange.run(self._app), context=Context())
        self.tasks.add(exchange.task)

    def end_exchange(self) -> None:
        """The response is complete: go on with what the client has sent behind the request."""
        self._server_state.total_requests += 1
        if self._head_bytes:
            self.hold(-self._head_bytes)
            self._head_bytes = 0
        if self.exchange is not None:  # an idle connection keeps nothing that is not counted
            self.exchange.scope, self.exchange.pieces = {}, []
        if self._url:
            self._url, self._headers = b"", []
        if self.transport.is_closing():
            return
        if self._unread:
            if not self._is_amid_request:
                self._parse_unread()
        elif not self._is_reading:
            self._is_reading = True
            self.transport.resume_reading()

    def _parse_unread(self) -> None:
        data, at = self._unread, self._unread_at
        self._unread = b""
        self.hold(-len(data))
        self._parse(data, at)
        self.read_on()

    # The parser calls these; with an HttpError it stops, and the client gets the refusal.

    def on_message_begin(self) -> None:
        self._is_amid_request = self._is_amid_head = True
        self._url, self._headers, self._fields = b"", [], 0

    def on_url(self, url: bytes) -> None:
        self._url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        self._fields += 1
        if self._fields > FIELDS_MAX:
            raise HttpError("head-too-large", f"a head or trailer has more than {FIELDS_MAX} fields")
        if self._is_amid_head:  # else it is of a trailer
            self._headers.append((name.lower(), value))

    def on_headers_complete(self) -> None:
        if self.bytes_without_progress > self._head_bytes_max:
            raise HttpError(*self._head_too_large)
        self._hold_head()
        self.bytes_without_progress = self._fields = 0
        self._is_amid_head = False
        parser, headers = self._parser, self._headers
        version = parser.get_http_version()
        path, raw_path, query, host = target_of(self._url)
        self._framing = framing_of(headers, version)
        self._body_left = self._framing.length
        for_probes = self.place is not None and self.place.for_probes
        if for_probes and path not in PROBES:
            raise HttpError(*self._limiter.is_full)
        scope = {
            **self._same_of_all,
            "http_version": version,
            "method": parser.get_method().decode("ascii"),
            "path": path,
            "raw_path": raw_path,
            "query_string": query,
            "headers": headers if host is None else with_host(headers, host),
        }
        expects = any(name == b"expect" and value.lower() == b"100-continue" for name, value in headers)
        self._requests += 1
        self.exchange = self._unstarted = Exchange(
            self,
            scope,
            keep_alive=version != "1.0" and parser.should_keep_alive() and not for_probes,
            expects_continue=expects and version != "1.0",
        )
        self._is_alone = self._is_alone and not expects and host is None and not parser.should_upgrade()

    def on_body(self, body: bytes) -> None:
        self.bytes_without_progress = 0
        if self._body_left:
            self._body_left -= len(body)
        assert self.exchange is not None
        if not self.exchange.response_complete:
            self.exchange.add_piece(body)

    def on_message_complete(self) -> None:
        if self._framing.has_body and self._parser.should_upgrade():
            return  # its body is still to come
        self._is_amid_request = False
        self.bytes_without_progress = self._body_left = 0
        exchange = self.exchange
        assert exchange is not None
        if exchange.keep_alive and not self._parser.should_keep_alive():
            self._parser = HttpRequestParser(
                self
            )  # `Connection: close` in a trailer has closed the other one
        exchange.end_body()

    def _read_body_of_upgrade(self) -> None:
        """Requests for another protocol are answered in this one, but the parser takes their bodies for that protocol:
        so another parser reads them."""
        if not self._framing.has_body:
            return
        of_requests = self._parser

        def end() -> None:
            self.on_message_complete()
            self._parser = of_requests

        self._parser = HttpRequestParser(SimpleNamespace(on_body=self.on_body, on_message_complete=end))
        self._parser.feed_data(b"POST / HTTP/1.1\r\n%b\r\n\r\n" % self._framing.line)

    @property
    def _head_too_large(self) -> Refusal:
        return "head-too-large", f"the request head exceeds {self._head_bytes_max} bytes"


@lru_cache(maxsize=1024)
def response_head(
    status: int, headers: tuple[Header, ...], keep_alive: bool, method: str, version: str
) -> tuple[bytes, bool, bool, int]:
    """The head of a response, whether the connection stays open, whether the body is chunked, and its length if known.

    HTTP/1.0 has no chunks: there a body of unknown length ends when the connection is closed.
    """
    phrase = HTTPStatus(status).phrase
    lines = [f"HTTP/1.1 {status} {phrase}\r\n".encode()]
    length: int | None = None
    for name, value in headers:
        if name == b"connection":
            keep_alive = keep_alive and value != b"close"
            continue
        lines.append(header_line(name, value))
        if name == b"content-length":
            length = int(value)
    if not keep_alive:
        lines.append(b"connection: close\r\n")
    if length is None and (method == "HEAD" or status in (204, 304)):
        length = 0
    is_chunked = length is None and version != "1.0"
    if is_chunked:
        lines.append(b"transfer-encoding: chunked\r\n")
    return b"".join([*lines, b"\r\n"]), keep_alive, is_chunked, UNKNOWN_LENGTH if length is None else length


def header_line(name: bytes, value: bytes) -> bytes:
    """A header line; RuntimeError if the name or the value has characters that a header may not have."""
    line = b"%b: %b" % (name, value)
    if _HEADER_LINE.fullmatch(line) is None:
        raise RuntimeError(f"{line!r} is no line for a head")
    return line + b"\r\n"


def _empty_line_end(data: bytes, at: int) -> int:
    r"""Where the next empty line behind `at` ends, else the data: it is the end of a head, a last chunk or a trailer.

    It may have begun before `at`, or before the data.

    >>> [_empty_line_end(data, 0) for data in (b"a\rb", b"a\r\n\r\nb", b"\r" * 20 + b"\n\r\nb", b"\r" * 20)]
    [3, 5, 23, 20]
    """
    if at == 0 and (begun := _BEGUN_LINE.match(data)) is not None:
        return begun.end()
    at = max(at - 2, 0)
    for _ in range(RETURNS_MAX):
        at = data.find(b"\r", at)
        if at < 0:
            return len(data)
        if data.startswith(b"\r\n\r\n", at):
            return at + 4
        at += 1
    end = data.find(b"\r\n\r\n", at)
    return len(data) if end < 0 else end + 4


def _address(name: Any) -> tuple[str, int] | None:
    """The address of a socket's end; None if it has none, as that of a Unix socket."""
    return (str(name[0]), int(name[1])) if isinstance(name, tuple) else None


def protocol_for(app: ASGIApp, **options: Any) -> Callable[..., Connection]:
    """What uvicorn's server makes its connections with: for `Config(http=…)`."""
    outbox = Outbox()

    def make(
        config: object, server_state: ServerState, app_state: dict[str, Any], _loop: object = None
    ) -> Connection:
        return Connection(app, server_state, app_state, outbox=outbox, **options)

    return make
