"""An answer's head and body leave in one piece.

uvicorn writes the head by itself, which is a call of the operating system and a packet of its own: for short
answers a fifth of all the work. Here the head waits for the body, but no longer than for this turn of the loop.
"""

import asyncio
from typing import Any, cast

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol


class OneWriteTransport:
    """A transport that holds a head back until the next write."""

    __slots__ = ("_flushing", "_head", "_loop", "_transport", "_write")

    def __init__(self, transport: Any, loop: asyncio.AbstractEventLoop) -> None:
        self._transport = transport
        self._write = transport.write
        self._loop = loop
        self._head = b""
        self._flushing: asyncio.Handle | None = None

    def write(self, data: bytes) -> None:
        if self._head:
            data, self._head = self._head + data, b""
        elif data.startswith(b"HTTP/1.1 ") and data.endswith(b"\r\n\r\n"):
            self._head = data
            if self._flushing is None:
                self._flushing = self._loop.call_soon(self._flush)
            return
        self._write(data)

    def _flush(self) -> None:
        self._flushing = None
        head, self._head = self._head, b""
        if head:
            self._write(head)

    def close(self) -> None:
        if self._head:
            self._flush()
        self._transport.close()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)


class OneWriteProtocol(HttpToolsProtocol):
    """uvicorn's protocol over such a transport."""

    def connection_made(self, transport: Any) -> None:
        super().connection_made(cast(asyncio.Transport, OneWriteTransport(transport, self.loop)))
