"""Request heads: what RFC 9112 asks of them beyond what the parser checks, and a cache of those that come again."""

import re
from collections.abc import Container
from functools import lru_cache
from typing import Any, NamedTuple, NoReturn
from urllib.parse import unquote

from httptools import parse_url

from service.web.http.requests import WHOLE_BODY, Header, Scope, is_plain_json
from service.web.problems import HttpError

SHORT_URL_BYTES = 64

HEAD_BYTES_MAX = 2_048
HEADS_MAX = 4
"""Cached for a connection, of at most so many bytes and fields."""
HEAD_FIELDS_MAX = 32
CACHE_BYTES_MAX = 14_336
"""What they may take together: less than the `FREE_BYTES` of a connection, so that they never cost it a request."""

FIELD_BYTES = 160
"""What a field takes beside its own bytes: a tuple, and the heads of two objects."""

SCOPE_BYTES = 1_024
"""What a scope takes, its headers left out."""

_HOST = re.compile(rb"([A-Za-z0-9._~!$&'()*+,;=%-]*|\[[0-9A-Fa-f:.]+\])(:\d*)?")
_LENGTH = re.compile(rb"\r\ncontent-length: (0|[1-9]\d{0,8})\r\n", re.IGNORECASE)
LENGTH_DIGITS_MAX = 9


class Framing(NamedTuple):
    """How the body of a request ends: after so many bytes, or with the last of its chunks."""

    length: int
    is_chunked: bool

    @property
    def has_body(self) -> bool:
        return self.is_chunked or self.length > 0

    @property
    def line(self) -> bytes:
        """The header field that says so."""
        return b"transfer-encoding: chunked" if self.is_chunked else b"content-length: %d" % self.length


NO_BODY = Framing(0, is_chunked=False)


def framing_of(headers: list[Header], version: str) -> Framing:
    """How the body ends; HttpError for a head that RFC 9112 does not allow, or an unknown transfer coding."""
    if version not in ("1.0", "1.1"):
        _malformed("the HTTP version must be 1.1 or 1.0")
    hosts = 0
    codings: list[bytes] = []
    length = 0
    for name, value in headers:
        if name == b"host":
            hosts += 1
            if _HOST.fullmatch(value) is None:
                _malformed("the header Host is not a name with or without a port")
        elif name == b"content-length":
            length = int(value)
        elif name == b"transfer-encoding":
            codings += [coding.strip().lower() for coding in value.split(b",")]
    if hosts != 1 and (hosts or version != "1.0"):
        _malformed("an HTTP/1.1 request needs exactly one Host header")
    if not codings:
        return Framing(length, is_chunked=False) if length else NO_BODY
    if version == "1.0" or codings[-1] != b"chunked" or codings.count(b"chunked") > 1:
        _malformed("the transfer encoding does not define where the body ends")
    if len(codings) > 1:
        raise HttpError("not-implemented", "the only supported transfer encoding is chunked")
    return Framing(0, is_chunked=True)


class Target(NamedTuple):
    """What a request is for: the path, decoded and as it was sent, the query, and the host if the target names one."""

    path: str
    raw_path: bytes
    query: bytes
    host: bytes | None


def target_of(url: bytes) -> Target:
    """HttpError, or an error of the parser, if it is no address."""
    return _short_target_of(url) if len(url) <= SHORT_URL_BYTES else _target_of(url)


def _target_of(url: bytes) -> Target:
    parsed = parse_url(url)
    raw_path = parsed.path or b"/"
    path = raw_path.decode("ascii")
    host = None
    if parsed.host is not None:
        if parsed.userinfo is not None:
            _malformed("the request target must not contain a user name")
        host = b"[%b]" % parsed.host if b":" in parsed.host else parsed.host
        if parsed.port is not None:
            host += b":%d" % parsed.port
    return Target(unquote(path) if "%" in path else path, raw_path, parsed.query or b"", host)


_short_target_of = lru_cache(maxsize=256)(_target_of)


def with_host(headers: list[Header], host: bytes) -> list[Header]:
    """The fields of a request whose target names a host: that one counts, whatever the header says."""
    return [(b"host", host), *(field for field in headers if field[0] != b"host")]


def _malformed(why: str) -> NoReturn:
    raise HttpError("malformed-http", why)


class HeadCache:
    """Heads of short POST requests on one connection: a client sends the same one again with another length.

    A head is cached when the parser has read it, so what is found here is what the parser would read. The cache ends
    with its connection, since there may be API keys in it.
    """

    def __init__(self, paths: Container[str]) -> None:
        """`paths`: only requests to these are cached."""
        self._paths = paths
        self._heads: list[tuple[bytes, bytes, Scope]] = []
        """What stands before the length of the body and behind it, and the scope of such a request."""
        self._bytes = 0

    def __len__(self) -> int:
        return len(self._heads)

    def find(self, data: bytes) -> tuple[Scope, bytes] | None:
        """The scope and the body, if these bytes are exactly one request with a cached head."""
        for before, behind, scope in self._heads:
            if data.startswith(before):
                at = len(before)
                end = data.find(behind, at, at + LENGTH_DIGITS_MAX + len(behind))
                if end > 0:
                    length, body = data[at:end], data[end + len(behind) :]
                    if length == b"%d" % len(body):
                        scope = {**scope, "headers": [*scope["headers"], (b"content-length", length)]}
                        if WHOLE_BODY in scope:
                            scope[WHOLE_BODY] = body
                        return scope, body
        return None

    def add(self, data: bytes, scope: dict[str, Any]) -> int:
        """Cache the head of this request, which the parser has read: its connection stays open, and nothing of it
        concerns the connection but the length of its body. How many more bytes the cache takes now."""
        headers: list[Header] = scope["headers"]
        if scope["method"] != "POST" or scope["query_string"] or scope["path"] not in self._paths:
            return 0
        end = data.find(b"\r\n\r\n", 0, HEAD_BYTES_MAX)
        lengths = _LENGTH.findall(data, 0, end + 2) if end > 0 else []
        is_plain = (
            len(lengths) == 1
            and data.startswith(b"POST ")
            and len(data) - end - 4 == int(lengths[0])
            and len(headers) <= HEAD_FIELDS_MAX
            and (b"content-length", lengths[0]) in headers
        )
        if not is_plain:
            return 0
        found = _LENGTH.search(data, 0, end + 2)
        assert found is not None
        others = [field for field in headers if field[0] != b"content-length"]
        before, size = (
            self._bytes,
            SCOPE_BYTES + 2 * end + FIELD_BYTES * len(others),
        )  # once more in its fields
        if len(self._heads) >= HEADS_MAX or before + size > CACHE_BYTES_MAX:
            self._heads.clear()
            self._bytes = 0
        cached = {**scope, "headers": others}
        if is_plain_json(headers):
            cached[WHOLE_BODY] = b""
        self._heads.append((data[: found.start(1)], data[found.end(1) : end + 4], cached))
        self._bytes += size
        return self._bytes - before
