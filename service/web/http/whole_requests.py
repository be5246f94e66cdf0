"""Requests that arrive in one piece, recognised by their head, without the HTTP parser.

A client sends the same head with every request, except for the length of the body. The first time it is read line by
line, then it is cached for this connection. Only plain heads are: anything unusual is left to the parser.
"""

import re
from collections.abc import Container

from service.web.http.bodies import Header, is_plain
from service.web.http.heads import framing_of
from service.web.problems import HttpError

HEAD_BYTES_MAX = 2_048
FIELDS_MAX = 32
HEADS_MAX = 4
"""Cached for a connection. With these three it takes 36 KB at most, and mostly 2."""
LENGTH_DIGITS_MAX = 9

_LENGTH = re.compile(
    rb"\r\ncontent-length: (0|[1-9]\d{0,%d})(?=\r\n|\Z)" % (LENGTH_DIGITS_MAX - 1), re.IGNORECASE
)
_LINE = re.compile(rb"([A-Za-z0-9-]+): ([!-~]([ -~]*[!-~])?)")
_LEFT_TO_PARSER = frozenset(
    {b"content-length", b"expect", b"proxy-connection", b"te", b"trailer", b"transfer-encoding", b"upgrade"}
)

Head = tuple[str, list[Header], bool]
"""The path of a request, the fields of its head, and whether it is plain; see `is_plain`."""


class RequestHeads:
    """Request heads cached for one connection, and only while it lasts: there may be keys in them."""

    def __init__(self, paths: Container[str], bytes_max: int = HEAD_BYTES_MAX) -> None:
        """`paths`: only requests that POST to one of these, without a query, are read here."""
        self._paths = paths
        self._bytes_max = min(bytes_max, HEAD_BYTES_MAX)
        self._cached: list[tuple[bytes, bytes, Head]] = []
        """Heads as they came: what stands before the length of the body, what stands behind it, and what they say."""

    def split(self, data: bytes) -> tuple[str, list[Header], bytes, bool] | None:
        """The path, the fields, the body and whether the head is plain, if these bytes are one whole request.

        None if they are more or less than that, or anything about them is unusual.

        >>> heads = RequestHeads(frozenset({"/learn"}))
        >>> heads.split(b"POST /learn HTTP/1.1\\r\\nHost: here\\r\\nContent-Length: 2\\r\\n\\r\\n{}")
        ('/learn', [(b'host', b'here'), (b'content-length', b'2')], b'{}', False)
        >>> heads.split(b"POST /learn HTTP/1.1\\r\\nHost: here\\r\\nContent-Length: 3\\r\\n\\r\\n{}")
        """
        for before, behind, (path, fields, plain) in self._cached:
            if data.startswith(before):
                at = len(before)
                end = data.find(behind, at, at + LENGTH_DIGITS_MAX + len(behind))
                if end > 0:
                    length, body = data[at:end], data[end + len(behind) :]
                    if length == b"%d" % len(body):
                        return path, [*fields, (b"content-length", length)], body, plain
        return self._split_new(data)

    def _split_new(self, data: bytes) -> tuple[str, list[Header], bytes, bool] | None:
        """The same for a head that is not cached; if it is plain enough, it is from now on."""
        end = data.find(b"\r\n\r\n", 0, self._bytes_max)
        length = _LENGTH.search(data, 0, max(end, 0))
        if length is None or int(length[1]) != len(data) - end - 4:
            return None
        head = self._read(data[: length.start()] + data[length.end() : end])
        if head is None:
            return None
        if len(self._cached) >= HEADS_MAX:
            self._cached.clear()
        self._cached.append((data[: length.start(1)], data[length.end() : end + 4], head))
        path, fields, plain = head
        return path, [*fields, (b"content-length", length[1])], data[end + 4 :], plain

    def _read(self, head: bytes) -> Head | None:
        """The path and the fields of a head, its `content-length` taken out; None if it is not plain."""
        first, *lines = head.split(b"\r\n")
        if len(lines) > FIELDS_MAX:
            return None
        path = first.removeprefix(b"POST ").removesuffix(b" HTTP/1.1").decode("latin-1")
        if path not in self._paths or first != f"POST {path} HTTP/1.1".encode("latin-1"):
            return None
        fields: list[Header] = []
        for line in lines:
            found = _LINE.fullmatch(line)
            if found is None:
                return None
            name, value = found[1].lower(), found[2]
            if name in _LEFT_TO_PARSER or (name == b"connection" and value.lower() != b"keep-alive"):
                return None
            fields.append((name, value))
        try:
            framing_of(fields, "1.1")
        except HttpError:
            return None
        return path, fields, is_plain(fields)
