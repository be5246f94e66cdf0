"""One request and its answer, as uvicorn keeps them, with fewer system calls.

The head of an answer is sent together with its body: a send is the most expensive thing that a short request does. The
heads of answers are cached, since most answers have the same.
"""

import asyncio
import re
from collections.abc import Iterable, MutableMapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, RequestResponseCycle

from service.errors import Overloaded
from service.web.http.bodies import WHOLE_ANSWER, WHOLE_BODY, Header
from service.web.http.breaking_off import BREAK_OFF
from service.web.http.held_bytes import FULL
from service.web.http.outbox import Outbox

if TYPE_CHECKING:
    from service.web.http.protocol import Protocol

NEVER_AWAITED = asyncio.Event()
"""The `message_event` of every `WholeCycle`. uvicorn sets it when more of a body arrives or the client disconnects; a
request whose body is all there waits for neither, so they can share one."""

UNKNOWN_LENGTH = -1
"""The length of a body that is sent in pieces without a `content-length`."""

_LINE = re.compile(rb"[!-9;-~]+: [\t -~\x80-\xff]*")


class Cycle(RequestResponseCycle):
    """An answer that is complete goes through the outbox if the connection stays open, any other at once."""

    def __init__(self, connection: "Protocol", scope: Any, outbox: Outbox, *, keep_alive: bool) -> None:
        super().__init__(
            scope,
            connection.transport,
            connection.flow,
            connection.logger,
            connection.access_logger,
            access_log=False,
            default_headers=[],
            message_event=asyncio.Event(),
            expect_100_continue=connection.expect_100_continue and scope["http_version"] != "1.0",
            keep_alive=keep_alive,
            on_response=connection.on_response_complete,
        )
        self._connection = connection
        self._loop = connection.loop
        self._outbox = outbox
        self._head = b""
        self.pieces: list[bytes] = []
        """Parts of the body that the application has not received yet; when it does, a new list takes their place."""
        self._pieces_bytes = 0
        self._unanswered_bytes = 0
        """What the application has received and not begun to answer: it keeps a body until that is whole."""
        self.came_bytes = 0
        """How many bytes of the body have arrived so far."""

    def add_piece(self, piece: bytes) -> None:
        self.pieces.append(piece)
        self.came_bytes += len(piece)
        self._pieces_bytes += len(piece)
        self._connection.hold(len(piece))
        if self._pieces_bytes > self._connection.held.connection_bytes_max:
            self.flow.pause_reading()
        self.message_event.set()

    async def receive(self) -> Any:
        if self.waiting_for_100_continue and not self.transport.is_closing():
            self._outbox.send()
            self.transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
            self.waiting_for_100_continue = False
        if not self.disconnected and not self.response_complete:
            self._check_room()
            self._connection.read_on()
            await self.message_event.wait()
            self.message_event.clear()
        if self.disconnected or self.response_complete:
            return {"type": "http.disconnect"}
        body = b"".join(self.pieces)  # which is no copy if there is one
        self.pieces = []
        if self.response_started:
            self._connection.hold(-self._pieces_bytes)
        else:
            self._unanswered_bytes += self._pieces_bytes
        self._pieces_bytes = 0
        return {"type": "http.request", "body": body, "more_body": self.more_body}

    def _check_room(self) -> None:
        """Overloaded if the rest of a body must not be collected, since all connections hold too many bytes."""
        if (
            self._unanswered_bytes
            and self.more_body
            and self._connection.held.are_too_many(self._unanswered_bytes)
        ):
            raise Overloaded(FULL)

    async def send(self, message: MutableMapping[str, Any]) -> None:  # type: ignore[override]
        if self.flow.write_paused and not self.disconnected:
            await self.flow.drain()
        if self.disconnected:
            return
        if message["type"] == BREAK_OFF:
            self._flush()
            self.transport.close()  # without the end of the body, so that nobody takes what was sent for all of it
            self.disconnected = True
            return
        wanted = "http.response.body" if self.response_started else "http.response.start"
        if message["type"] != wanted or self.response_complete:
            raise RuntimeError(f"{message['type']} is sent at the wrong time")
        if self.response_started:
            self._send_body(message.get("body", b""), message.get("more_body", False))
        else:
            self._begin(message["status"], message.get("headers", ()))

    def _begin(self, status: int, headers: Iterable[Header]) -> None:
        """Make the head. It is sent with the body, or if that comes in pieces, in the next turn of the loop."""
        self.response_started = True
        self.waiting_for_100_continue = False
        if self._unanswered_bytes:
            self._connection.hold(-self._unanswered_bytes)
            self._unanswered_bytes = 0
        version, method = self.scope["http_version"], self.scope["method"]
        head = _head(status, tuple(headers), self.keep_alive, method, version)
        self._head, self.keep_alive, self.chunked_encoding, self.expected_content_length = head
        if self.chunked_encoding or self.expected_content_length == UNKNOWN_LENGTH:
            self._loop.call_soon(self._flush)

    def _send_body(self, body: bytes, more: bool) -> None:
        if self.scope["method"] == "HEAD":
            self.expected_content_length = 0
            body = b""
        elif self.chunked_encoding:
            body = b"%x\r\n%b\r\n" % (len(body), body) if body else b""
            if not more:
                body += b"0\r\n\r\n"
        elif self.expected_content_length != UNKNOWN_LENGTH:
            self.expected_content_length -= len(body)
            if self.expected_content_length < 0 or (self.expected_content_length and not more):
                raise RuntimeError("the body is not as long as the head says")
        if self._head:
            body, self._head = self._head + body, b""
        if more or not self.keep_alive:
            self._outbox.send()
            self.transport.write(body)
        else:
            self._outbox.put(self.transport, body, self._loop)
        if not more:
            self.response_complete = True
            if self._pieces_bytes:
                self._connection.hold(-self._pieces_bytes)
                self.pieces = []
            self.message_event.set()
            if not self.keep_alive:
                self.transport.close()
            self.on_response()

    def _flush(self) -> None:
        if self._head:
            self._outbox.send()
            head, self._head = self._head, b""
            self.transport.write(head)


class WholeCycle(Cycle):
    """A request that arrived in one piece: what uvicorn keeps of each is the same for all of these."""

    access_log = False
    came_bytes = 0
    chunked_encoding = None
    disconnected = False
    expected_content_length = 0
    keep_alive = True
    more_body = False
    response_complete = False
    response_started = False
    waiting_for_100_continue = False
    _head = b""
    _pieces_bytes = 0
    _unanswered_bytes = 0

    def __init__(
        self, connection: "Protocol", scope: Any, outbox: Outbox, body: bytes, *, plain: bool
    ) -> None:
        if plain:
            scope[WHOLE_BODY] = body
        self.scope = scope
        self.transport = connection.transport
        self.flow = connection.flow
        self.logger = connection.logger
        self.message_event = NEVER_AWAITED
        self.on_response = connection.on_response_complete
        self._loop = connection.loop
        self._outbox = outbox
        self._body: bytes | None = body

    async def receive(self) -> Any:
        """The body the first time, then `http.disconnect` at once: nobody waits for the client to disconnect."""
        body, self._body = self._body, None
        if body is None:
            return {"type": "http.disconnect"}
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(self, message: MutableMapping[str, Any]) -> None:  # type: ignore[override]
        content = message.get(WHOLE_ANSWER)
        if content is None or self.response_started:
            await super().send(message)
            return
        if self.flow.write_paused and not self.disconnected:
            await self.flow.drain()
        if self.disconnected:
            return
        status, headers = message["status"], tuple(message["headers"])
        head, stays_open, _, length = _head(status, headers, self.keep_alive, "POST", "1.1")
        if not stays_open or length != len(
            content
        ):  # the service stops, say: uvicorn has changed `keep_alive`
            self._begin(status, headers)
            self._send_body(content, more=False)
            return
        self.response_started = self.response_complete = True
        self._outbox.put(self.transport, head + content, self._loop)
        self.on_response()


@lru_cache(maxsize=1024)
def _head(
    status: int, headers: tuple[Header, ...], keep_alive: bool, method: str, version: str
) -> tuple[bytes, bool, bool, int]:
    """The head of an answer, whether the connection stays open, whether the body is chunked, and its length if not.

    HTTP/1.0 has no chunks: there a body of unknown length ends when the connection is closed.
    """
    lines = [STATUS_LINE[status]]
    length: int | None = None
    for name, value in headers:
        if name == b"connection":
            keep_alive = keep_alive and value != b"close"
            continue
        lines.append(_line(name, value))
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


def _line(name: bytes, value: bytes) -> bytes:
    """A header line; RuntimeError if the name or the value has characters that a header may not have."""
    line = b"%b: %b" % (name, value)
    if _LINE.fullmatch(line) is None:
        raise RuntimeError(f"{line!r} is no line for a head")
    return line + b"\r\n"
