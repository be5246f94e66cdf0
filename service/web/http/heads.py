"""What RFC 9112 asks of the head of a request beyond what the parser checks."""

import re
from functools import lru_cache
from typing import NamedTuple, NoReturn
from urllib.parse import unquote

from httptools import parse_url

from service.web.http.bodies import Header
from service.web.problems import HttpError

SHORT_URL_BYTES = 64

_HOST = re.compile(rb"([A-Za-z0-9._~!$&'()*+,;=%-]*|\[[0-9A-Fa-f:.]+\])(:\d*)?")


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
    """How the body ends; HttpError for a head that RFC 9112 does not allow, or a coding that is not known here."""
    if version not in ("1.0", "1.1"):
        _malformed("the version of HTTP must be 1.1 or 1.0")
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
        _malformed("a request of HTTP/1.1 has the header Host, once")
    if not codings:
        return Framing(length, is_chunked=False) if length else NO_BODY
    if version == "1.0" or codings[-1] != b"chunked" or codings.count(b"chunked") > 1:
        _malformed("where the body ends cannot be told from its transfer encoding")
    if len(codings) > 1:
        raise HttpError("not-implemented", "the only transfer encoding that is taken is chunked")
    return Framing(0, is_chunked=True)


class Target(NamedTuple):
    """What a request is for: the path as a string and as it was sent, the query, and the host if it is said here."""

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
            _malformed("an address has no user's name here")
        host = b"[%b]" % parsed.host if b":" in parsed.host else parsed.host
        if parsed.port is not None:
            host += b":%d" % parsed.port
    return Target(unquote(path) if "%" in path else path, raw_path, parsed.query or b"", host)


_short_target_of = lru_cache(maxsize=256)(_target_of)


def with_host(headers: list[Header], host: bytes) -> list[Header]:
    """The fields of a request whose address names a host: that one counts, whatever the header says."""
    return [(b"host", host), *(field for field in headers if field[0] != b"host")]


def _malformed(why: str) -> NoReturn:
    raise HttpError("malformed-http", why)
