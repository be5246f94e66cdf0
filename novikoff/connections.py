"""Connections of `Client`: each waits for one response at a time."""

import socket
import ssl
from typing import Any

import httpx

from novikoff.http1 import FAILURES, Origin, Parser, Pool, Response, has_input

READ_BYTES = 65_536


class Connections:
    """Sends requests as `httpx.Client.request` does, at a fifth of its CPU: see bench/clients.py."""

    def __init__(
        self, base_url: httpx.URL, headers: dict[str, str], timeout: float, verify: ssl.SSLContext | bool
    ) -> None:
        self._origin = Origin(base_url, headers)
        self._timeout_seconds = timeout
        self._tls = verify if isinstance(verify, ssl.SSLContext) else None
        self._pool: Pool[_Connection] = Pool()

    def request(self, **request: Any) -> Response:
        data = self._origin.request(**request)
        connection = self._pool.take() or self._connect()
        try:
            response = connection.exchange(data)
        except FAILURES as error:
            connection.close()
            raise self._origin.failure(error, sent=True) from error
        except BaseException:
            connection.close()
            raise
        if connection.parser.keep_alive:
            self._pool.put(connection)
        else:
            connection.close()
        return response

    def close(self) -> None:
        self._pool.close()

    def _connect(self) -> "_Connection":
        host = self._origin.host
        try:
            made = socket.create_connection((host, self._origin.port), self._timeout_seconds)
            try:
                made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                return _Connection(self._tls.wrap_socket(made, server_hostname=host) if self._tls else made)
            except BaseException:
                made.close()
                raise
        except OSError as error:
            raise self._origin.failure(error, sent=False) from error


class _Connection:
    def __init__(self, made: socket.socket) -> None:
        self._socket = made
        self.parser = Parser()

    def exchange(self, data: bytes) -> Response:
        self.parser.begin()
        self._send(data)
        while (response := self.parser.feed(self._socket.recv(READ_BYTES))) is None:
            pass
        return response

    def _send(self, data: bytes) -> None:
        rest = memoryview(data)
        while rest:
            try:
                rest = rest[self._socket.send(rest) :]
            except TimeoutError:
                raise
            except OSError:  # a service that refuses a request amid its body has responded already
                return

    def is_open(self) -> bool:
        return not has_input(self._socket.fileno())

    def close(self) -> None:
        self._socket.close()
