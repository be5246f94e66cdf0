"""Requests that come in one piece, read without a parser.

A client sends the same head again and again, but for the length of the body. The first time it is looked at line by
line, after that it is known. Only the plainest heads are: whatever is unusual is for the parser to judge.
"""

import re

from service.web.http.bodies import Header

HEAD_BYTES_MAX = 4_096
HEADS_MAX = 4
"""That are known of a connection."""

_LENGTH = re.compile(rb"\r\ncontent-length: (0|[1-9]\d{0,8})(?=\r\n|\Z)", re.IGNORECASE)
_LINE = re.compile(rb"([A-Za-z0-9-]+): ([!-~]([ -~]*[!-~])?)")
_FOR_THE_PARSER = frozenset(
    {b"content-length", b"expect", b"proxy-connection", b"te", b"trailer", b"transfer-encoding", b"upgrade"}
)

Head = tuple[str, list[Header]]
"""The path of a request, and the fields of its head."""


class Heads:
    """The heads that a connection has sent, while it lasts: there may be keys in them."""

    def __init__(self, paths: frozenset[str], bytes_max: int = HEAD_BYTES_MAX) -> None:
        """`paths`: where requests may go that are read here; each is a POST without a query."""
        self._paths = paths
        self._bytes_max = min(bytes_max, HEAD_BYTES_MAX)
        self._known: dict[bytes, Head] = {}

    def split(self, data: bytes) -> tuple[str, list[Header], bytes] | None:
        """The path, the fields and the body, if these bytes are a plain request, whole, and nothing else.

        >>> heads = Heads(frozenset({"/learn"}))
        >>> heads.split(b"POST /learn HTTP/1.1\\r\\nHost: here\\r\\nContent-Length: 2\\r\\n\\r\\n{}")
        ('/learn', [(b'host', b'here'), (b'content-length', b'2')], b'{}')
        >>> heads.split(b"POST /learn HTTP/1.1\\r\\nHost: here\\r\\nContent-Length: 3\\r\\n\\r\\n{}")
        """
        end = data.find(b"\r\n\r\n", 0, self._bytes_max)
        length = _LENGTH.search(data, 0, max(end, 0))
        if length is None or int(length[1]) != len(data) - end - 4:
            return None
        rest = data[: length.start()] + data[length.end() : end]
        head = self._known.get(rest)
        if head is None:
            head = self._read(rest)
            if head is None:
                return None
            if len(self._known) >= HEADS_MAX:
                self._known.clear()
            self._known[rest] = head
        path, fields = head
        return path, [*fields, (b"content-length", length[1])], data[end + 4 :]

    def _read(self, head: bytes) -> Head | None:
        """A head without its length; None if there is anything else about it that is not plain."""
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
            if name in _FOR_THE_PARSER or (name == b"connection" and value.lower() != b"keep-alive"):
                return None
            fields.append((name, value))
        return path, fields
