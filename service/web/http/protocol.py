"""A connection, as uvicorn serves it with httptools, but faster for short requests that arrive in one piece.

The size of a head is bounded, and a request that is not HTTP gets a problem document before the connection is closed.
"""

from functools import lru_cache
from sys import maxsize
from typing import Any
from urllib.parse import unquote

from httptools import parse_url
from uvicorn.config import Config
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.server import ServerState

from service.web.http.bodies import Header
from service.web.http.cycle import Cycle, WholeCycle
from service.web.http.outbox import Outbox
from service.web.http.whole_requests import RequestHeads
from service.web.problems import last_answer

READ_BYTES_MAX = 262_144
"""The most bytes that one `data_received` brings."""

SHORT_URL_BYTES = 64
ASGI = {"version": "3.0", "spec_version": "2.3"}


class Protocol(HttpToolsProtocol):
    """One connection.

    `bytes_without_progress` counts bytes that completed no head and held no part of a body; a limit on it bounds heads,
    trailers and chunk extensions alike. Idle connections are closed by `slow_clients`, without a timer for each answer.
    """

    connections_max = maxsize
    head_bytes_max = 65_536
    quick_paths: frozenset[str] = frozenset()
    outbox = Outbox()

    def __init__(
        self, config: Config, server_state: ServerState, app_state: dict[str, Any], _loop: Any = None
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self.bytes_without_progress = 0
        self._too_large = False
        self._unstarted: Cycle | None = None
        self._is_amid_request = False
        self._request_heads = RequestHeads(self.quick_paths, self.head_bytes_max)

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        if len(self.connections) > self.connections_max:
            others = len(self.connections) - 1
            transport.write(last_answer("overloaded", f"{others} clients are connected; try again later"))
            transport.close()

    def data_received(self, data: bytes) -> None:
        if not self._is_amid_request and (self.cycle is None or self.cycle.response_complete):
            whole = self._request_heads.split(data)
            if whole is not None:
                self._start_whole(*whole)
                return
        self.bytes_without_progress += len(data)
        super().data_received(data)
        if (
            self.bytes_without_progress > self.head_bytes_max + READ_BYTES_MAX
            and not self.transport.is_closing()
        ):
            self._too_large = True
            self.send_400_response("")
        cycle, self._unstarted = self._unstarted, None
        if cycle is not None and not self.transport.is_closing():
            self._start_asgi_task(cycle, self.app)

    def _start_whole(self, path: str, headers: list[Header], body: bytes) -> None:
        self.bytes_without_progress = 0
        scope = {
            "type": "http",
            "asgi": ASGI,
            "http_version": "1.1",
            "server": self.server,
            "client": self.client,
            "scheme": self.scheme,
            "method": "POST",
            "root_path": self.root_path,
            "path": path,
            "raw_path": path.encode(),
            "query_string": b"",
            "headers": headers,
            "state": self.app_state.copy(),
        }
        cycle = self.cycle = WholeCycle(self, scope, self.outbox, body)
        self._start_asgi_task(cycle, self.app)

    def on_message_begin(self) -> None:
        self._is_amid_request = True
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        # Mostly the whole request has come and is smaller than a head may be: then there is nothing to add up.
        if self.bytes_without_progress > self.head_bytes_max:
            size = len(self.url) + sum(len(name) + len(value) for name, value in self.headers)
            if size > self.head_bytes_max:
                self._too_large = True
                raise ValueError  # the parser stops, and the answer is below
        self.bytes_without_progress = 0
        scope: Any = self.scope
        version = scope["http_version"] = self.parser.get_http_version()
        scope["method"] = self.parser.get_method().decode("ascii")
        split = _split_short if len(self.url) <= SHORT_URL_BYTES else _split
        scope["path"], scope["raw_path"], scope["query_string"] = split(self.url)
        before = self.cycle
        keep_alive = version != "1.0" and self.parser.should_keep_alive()
        cycle = self.cycle = Cycle(self, scope, self.outbox, keep_alive=keep_alive)
        if before is None or before.response_complete:
            self._unstarted = cycle  # until all that came with it is known to be HTTP
        else:
            self.flow.pause_reading()
            self.pipeline.appendleft((cycle, self.app))

    def on_body(self, body: bytes) -> None:
        self.bytes_without_progress = 0
        cycle: Any = self.cycle
        if not cycle.response_complete:
            cycle.add_piece(body)

    def on_message_complete(self) -> None:
        self._is_amid_request = False
        cycle = self.cycle
        cycle.more_body = False
        if not cycle.response_complete:
            cycle.message_event.set()

    def on_response_complete(self) -> None:
        self.server_state.total_requests += 1
        if self.transport.is_closing():
            return
        self.flow.resume_reading()
        if self.pipeline:
            self._start_asgi_task(*self.pipeline.pop())

    def shutdown(self) -> None:
        self.outbox.send()
        super().shutdown()

    def send_400_response(self, msg: str) -> None:
        self.outbox.send()
        if self._too_large:
            code, detail = "head-too-large", f"a head may have {self.head_bytes_max} bytes at most"
        else:
            code, detail = "malformed-http", "this is not a request that HTTP/1.1 allows"
        cycle = self.cycle
        if cycle is None or cycle.response_complete or cycle is self._unstarted:  # else an answer ends here
            self.transport.write(last_answer(code, detail))
        self.transport.close()

    def _unsupported_upgrade_warning(self) -> None:
        """A client that asks for WebSockets gets an ordinary answer, and no line in the log."""


def _split(url: bytes) -> tuple[str, bytes, bytes]:
    """The path as a string and as it was sent, and the query."""
    parsed = parse_url(url)
    path = parsed.path.decode("ascii")
    return (unquote(path) if "%" in path else path), parsed.path, parsed.query or b""


_split_short = lru_cache(maxsize=256)(_split)


def protocol(
    *, connections_max: int, head_bytes_max: int, quick_paths: frozenset[str] = frozenset()
) -> type[Protocol]:
    """`quick_paths`: requests to them that come in one piece are read without the parser."""
    own = {
        "connections_max": connections_max,
        "head_bytes_max": head_bytes_max,
        "quick_paths": quick_paths,
        "outbox": Outbox(),
    }
    return type("OwnProtocol", (Protocol,), own)
