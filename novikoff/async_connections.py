"""Connections of `AsyncClient`: as in connections.py, over the event loop."""

import asyncio
import ssl
from typing import Any, cast

import httpx

from novikoff.http1 import FAILURES, Origin, Parser, Pool, Response, has_input

CONNECTIONS_MAX = 100
"""Requests beyond that wait for a connection, in their order."""

SECOND_ADDRESS_SECONDS = 0.25
"""When a service that has several addresses is tried at the next one too."""


class AsyncConnections:
    """Sends requests as `httpx.AsyncClient.request` does, at a seventh of its CPU or less: see bench/clients.py."""

    def __init__(
        self, base_url: httpx.URL, headers: dict[str, str], timeout: float, verify: ssl.SSLContext | bool
    ) -> None:
        self._origin = Origin(base_url, headers)
        self._timeout_seconds = timeout
        self._tls = verify if isinstance(verify, ssl.SSLContext) else None
        self._pool: Pool[_Connection] = Pool()
        self._free = asyncio.Semaphore(CONNECTIONS_MAX)

    async def request(self, **request: Any) -> Response:
        data = self._origin.request(**request)
        async with self._free:
            connection = self._pool.take() or await self._connect()
            try:
                response = await connection.exchange(data)
            except FAILURES as error:
                connection.close()
                raise self._origin.failure(error, sent=True) from error
            except BaseException:
                connection.close()
                raise
            if connection.parser.keep_alive and connection.has_sent_all():
                self._pool.put(connection)
            else:
                connection.close()
            return response

    async def aclose(self) -> None:
        self._pool.close()

    async def _connect(self) -> "_Connection":
        try:
            async with asyncio.timeout(self._timeout_seconds):
                _, connection = await asyncio.get_running_loop().create_connection(
                    lambda: _Connection(self._timeout_seconds),
                    self._origin.host,
                    self._origin.port,
                    ssl=self._tls,
                    happy_eyeballs_delay=SECOND_ADDRESS_SECONDS,
                )
        except OSError as error:
            raise self._origin.failure(error, sent=False) from error
        return connection


class _Connection(asyncio.Protocol):
    def __init__(self, timeout_seconds: float) -> None:
        self._timeout_seconds = timeout_seconds
        self.parser = Parser()
        self._response: asyncio.Future[Response] | None = None

    async def exchange(self, data: bytes) -> Response:
        self.parser.begin()
        self._loop = asyncio.get_running_loop()
        self._response = self._loop.create_future()
        self._transport.write(data)
        self._watch()
        try:
            return await self._response
        finally:
            self._response = None
            self._timer.cancel()

    def _watch(self) -> None:
        """Fail when for a whole time limit nothing was received, and nothing of a long request was sent."""
        self._has_received, self._unsent = False, self._transport.get_write_buffer_size()
        self._timer = self._loop.call_later(self._timeout_seconds, self._check)

    def _check(self) -> None:
        if self._has_received or self._transport.get_write_buffer_size() < self._unsent:
            self._watch()
        else:
            self._fail(TimeoutError("timed out"))

    def _fail(self, error: Exception) -> None:
        if self._response is not None and not self._response.done():
            self._response.set_exception(error)
        self.close()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        self._has_received = True
        if self._response is None or self._response.done():  # it is not the response to anything
            self.close()
            return
        try:
            response = self.parser.feed(data)
        except FAILURES as error:
            self._fail(error)
            return
        if response is not None:
            self._response.set_result(response)

    def eof_received(self) -> None:
        self.data_received(b"")

    def connection_lost(self, error: Exception | None) -> None:
        self._fail(error or ConnectionResetError("the connection was closed"))

    def has_sent_all(self) -> bool:
        return self._transport.get_write_buffer_size() == 0

    def is_open(self) -> bool:
        return not self._transport.is_closing() and not has_input(
            self._transport.get_extra_info("socket").fileno()
        )

    def close(self) -> None:
        self._transport.abort()
