"""HTTP as uvicorn speaks it with httptools, with two things more: a head may not be endless, and a request that
cannot be understood is told so as a problem document. The connection is closed in both cases.
"""

from typing import Any

from uvicorn.config import Config
from uvicorn.server import ServerState

from service.web.one_write import OneWriteProtocol
from service.web.problems import MEDIA_TYPE, problem

READ_BYTES_MAX = 262_144
"""The most that arrives at once."""

REASONS = {400: b"Bad Request", 431: b"Request Header Fields Too Large"}


class Protocol(OneWriteProtocol):
    """A connection. What is counted is bytes that brought neither a whole head nor a piece of a body, so that
    heads, trailers and the extensions of chunks are all bounded."""

    head_bytes_max = 65_536

    def __init__(
        self, config: Config, server_state: ServerState, app_state: dict[str, Any], _loop: Any = None
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self._fruitless_bytes = 0
        self._too_large = False

    def data_received(self, data: bytes) -> None:
        self._fruitless_bytes += len(data)
        super().data_received(data)
        if self._fruitless_bytes > self.head_bytes_max + READ_BYTES_MAX and not self.transport.is_closing():
            self._too_large = True
            self.send_400_response("")

    def on_headers_complete(self) -> None:
        # Mostly the whole request has come and is smaller than a head may be: then there is nothing to add up.
        if self._fruitless_bytes > self.head_bytes_max:
            size = len(self.url) + sum(len(name) + len(value) for name, value in self.headers)
            if size > self.head_bytes_max:
                self._too_large = True
                raise ValueError  # the parser stops, and the answer is below
        self._fruitless_bytes = 0
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        self._fruitless_bytes = 0
        super().on_body(body)

    def send_400_response(self, msg: str) -> None:
        if self._too_large:
            code, detail = "head-too-large", f"a head may have {self.head_bytes_max} bytes at most"
        else:
            code, detail = "malformed-http", "this is not a request that HTTP/1.1 allows"
        status, content = problem(code, detail)
        if self.cycle is None or self.cycle.response_complete:  # else an answer is under way, and ends here
            head = b"HTTP/1.1 %d %s\r\ncontent-type: %s\r\ncontent-length: %d\r\nconnection: close\r\n\r\n"
            self.transport.write(
                head % (status, REASONS[status], MEDIA_TYPE.encode(), len(content)) + content
            )
        self.transport.close()

    def _unsupported_upgrade_warning(self) -> None:
        """Whoever asks for WebSockets gets an ordinary answer; the log need not say that there are none."""


def protocol(*, head_bytes_max: int) -> type[Protocol]:
    return type("BoundedProtocol", (Protocol,), {"head_bytes_max": head_bytes_max})
