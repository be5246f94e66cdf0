"""HTTP/1.1 without sockets: requests as bytes, responses out of the bytes that come, and which connections are kept."""

import gzip
import select
import time
import zlib
from collections import deque
from collections.abc import Mapping
from contextlib import suppress
from typing import Generic, Protocol, TypeVar
from urllib.parse import quote, urlencode
from urllib.request import getproxies, proxy_bypass

import httptools
import httpx

KEPT_OPEN_SECONDS = 3.0
"""How long a connection without a request is used again: less than the 5 s after which the service closes it."""

FAILURES = (OSError, httptools.HttpParserError)
"""What a connection fails with; TimeoutError is an OSError."""


def is_direct(address: httpx.URL) -> bool:
    """Whether requests go straight to the service; those to a proxy, or with a password in the URL, go by httpx."""
    proxies = getproxies().keys() & {address.scheme, "all"}
    return not address.userinfo and (not proxies or bool(proxy_bypass(address.netloc.decode())))


class Response:
    """What the clients read of a response, under the names of httpx."""

    __slots__ = ("_body", "headers", "status_code")

    def __init__(self, status_code: int, headers: dict[str, str], body: bytes) -> None:
        self.status_code = status_code
        self.headers = headers
        self._body = body

    @property
    def is_success(self) -> bool:
        return 200 <= self.status_code < 300

    @property
    def content(self) -> bytes:
        if self.headers.get("content-encoding", "identity") == "identity":
            return self._body
        try:
            return gzip.decompress(self._body)  # no other encoding was asked for
        except (OSError, EOFError, zlib.error) as error:
            raise httpx.DecodingError(str(error)) from error


class Parser:
    """The responses of one connection, one after another. httptools calls what is named `on_`."""

    def __init__(self) -> None:
        self._parser = httptools.HttpResponseParser(self)
        self._whole: Response | None = None

    def begin(self) -> None:
        """A request is sent: the next response is the one to it."""
        self._whole = None
        self._ends_with_connection = False

    def feed(self, data: bytes) -> Response | None:
        """The response as soon as it is whole; no data at all means that the service has closed the connection."""
        if data:
            self._parser.feed_data(data)
        elif not self._ends_with_connection:
            raise httptools.HttpParserError("the connection was closed before the whole response had come")
        else:
            self.on_message_complete()
        return self._whole

    def on_message_begin(self) -> None:
        if self._whole is not None:
            raise httptools.HttpParserError("there are two responses to one request")
        self._headers: dict[str, str] = {}
        self._parts: list[bytes] = []

    def on_header(self, name: bytes, value: bytes) -> None:
        self._headers[name.decode("latin-1").lower()] = value.decode("latin-1")

    def on_headers_complete(self) -> None:
        self._ends_with_connection = not self._headers.keys() & {"content-length", "transfer-encoding"}

    def on_body(self, part: bytes) -> None:
        self._parts.append(part)

    def on_message_complete(self) -> None:
        status = self._parser.get_status_code()
        if status >= 200:  # an interim response is followed by the final one
            self.keep_alive = self._parser.should_keep_alive()
            self._whole = Response(status, self._headers, b"".join(self._parts))


class Origin:
    """The service that requests are sent to."""

    def __init__(self, address: httpx.URL, headers: Mapping[str, str]) -> None:
        self.host = address.raw_host.decode("ascii")
        self.port = address.port or (443 if address.scheme == "https" else 80)
        self._url = f"{address.scheme}://{address.netloc.decode('ascii')}"
        self._path = address.raw_path.decode("ascii").rstrip("/")
        fields = {
            "Host": address.netloc.decode("ascii"),
            "Accept": "*/*",
            "Accept-Encoding": "gzip",
            **headers,
        }
        self._fields = _lines(fields)

    def request(
        self,
        method: str,
        url: str,
        content: bytes | None,
        params: Mapping[str, str],
        headers: Mapping[str, str] | None,
    ) -> bytes:
        query = f"?{urlencode(params, quote_via=quote)}" if params else ""
        length = f"Content-Length: {len(content or b'')}\r\n" if content or method in ("POST", "PUT") else ""
        head = (
            f"{method} {self._path}{url}{query} HTTP/1.1\r\n{self._fields}{_lines(headers or {})}{length}\r\n"
        )
        return head.encode("ascii") + (content or b"")

    def failure(self, error: Exception, *, sent: bool) -> httpx.RequestError:
        """The error that httpx would raise. Unless it was `sent`, the request is safe to repeat."""
        kind: type[httpx.RequestError]
        if isinstance(error, TimeoutError):
            kind = httpx.ReadTimeout if sent else httpx.ConnectTimeout
        elif isinstance(error, OSError):
            kind = httpx.ReadError if sent else httpx.ConnectError
        else:
            kind = httpx.RemoteProtocolError
        return kind(str(error), request=httpx.Request("GET", self._url))


def _lines(fields: Mapping[str, str]) -> str:
    return "".join(f"{name}: {value}\r\n" for name, value in fields.items())


class Connection(Protocol):
    def is_open(self) -> bool: ...
    def close(self) -> None: ...


Kept = TypeVar("Kept", bound=Connection)


class Pool(Generic[Kept]):
    """Connections without a request, the one used last on top. Threads may share it."""

    def __init__(self) -> None:
        self._idle: deque[tuple[float, Kept]] = deque()
        self._is_closed = False

    def take(self) -> Kept | None:
        """None: a new one has to be made."""
        if self._is_closed:
            raise RuntimeError("the client is closed")
        with suppress(IndexError):
            while True:
                since, connection = self._idle.pop()
                if time.monotonic() < since + KEPT_OPEN_SECONDS and connection.is_open():
                    return connection
                connection.close()
        return None

    def put(self, connection: Kept) -> None:
        """Keep it, and close the one that was not used for longest if that is long ago."""
        now = time.monotonic()
        self._idle.append((now, connection))
        with suppress(IndexError):
            if self._idle[0][0] + KEPT_OPEN_SECONDS < now:
                self._idle.popleft()[1].close()
        if self._is_closed:
            self.close()

    def close(self) -> None:
        self._is_closed = True
        with suppress(IndexError):
            while True:
                self._idle.pop()[1].close()


def has_input(descriptor: int) -> bool:
    """Whether a connection without a request has something to read: most likely its end."""
    if not hasattr(select, "poll"):  # Windows
        return bool(select.select([descriptor], [], [], 0)[0])
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    return bool(poll.poll(0))
