"""Requests that arrive in one piece, recognised by their head, without the HTTP parser.

A client sends the same head with every request, except for the length of the body. The first time it is read line by
line, then it is cached for this connection. Only plain heads are: anything unusual is left to the parser.
"""

import re
from collections.abc import Container

from service.web.http.bodies import Header, is_plain
from service.web.http.heads import framing_of
from service.web.problems import HttpError

HEAD_BYTES_MAX = 4_096
HEADS_MAX = 4
"""Cached for a connection."""

_LENGTH = re.compile(rb"\r\ncontent-length: (0|[1-9]\d{0,8})(?=\r\n|\Z)", re.IGNORECASE)
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
        self._cached: dict[bytes, Head] = {}

    def split(self, data: bytes) -> tuple[str, list[Header], bytes, bool] | None:
        """The path, the fields, the body and whether the head is plain, if these bytes are one whole request.

        None if they are more or less than that, or anything about them is unusual.

        >>> heads = RequestHeads(frozenset({"/learn"}))
        >>> heads.split(b"POST /learn HTTP/1.1\\r\\nHost: here\\r\\nContent-Length: 2\\r\\n\\r\\n{}")
        ('/learn', [(b'host', b'here'), (b'content-length', b'2')], b'{}', False)
        >>> heads.split(b"POST /learn HTTP/1.1\\r\\nHost: here\\r\\nContent-Length: 3\\r\\n\\r\\n{}")
        """
        end = data.find(b"\r\n\r\n", 0, self._bytes_max)
        length = _LENGTH.search(data, 0, max(end, 0))
        if length is None or int(length[1]) != len(data) - end - 4:
            return None
        rest = data[: length.start()] + data[length.end() : end]
        head = self._cached.get(rest)
        if head is None:
            head = self._read(rest)
            if head is None:
                return None
            if len(self._cached) >= HEADS_MAX:
                self._cached.clear()
            self._cached[rest] = head
        path, fields, plain = head
        return path, [*fields, (b"content-length", length[1])], data[end + 4 :], plain

    def _read(self, head: bytes) -> Head | None:
        """The path and the fields of a head, its `content-length` taken out; None if it is not plain."""
        first, *lines = head.split(b"\r\n")
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
