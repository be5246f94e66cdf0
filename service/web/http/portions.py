"""Cuts what comes on a connection into portions of which none goes beyond the end of a request.

The parser reads everything that it is given. To keep it from reading requests whose turn has not come, it is given no
more than a portion at a time.
"""

from service.web.http.heads import Framing

EMPTY_LINE = b"\r\n\r\n"


class Portions:
    """Where to cut. It has to be told what the parser has found: heads, bytes of bodies, and ends."""

    def __init__(self) -> None:
        self._body_left = 0
        self._last_bytes = b""

    def begin_body(self, framing: Framing) -> None:
        """The head is complete: this is how its request ends."""
        self._body_left = framing.length

    def take(self, size: int) -> None:
        """So many bytes of the body have come; those of chunks are not counted."""
        if self._body_left:
            self._body_left -= size

    def end_request(self) -> None:
        self._body_left = 0

    def end(self, data: bytes, at: int) -> int:
        """Where the portion from `at` on ends. Heads, last chunks and trailers all end with an empty line.

        >>> portions = Portions()
        >>> head = b"GET / HTTP/1.1\\r\\nhost: a\\r\\n\\r\\n"
        >>> portions.end(head + b"GET /next HTTP/1.1", 0) == len(head)
        True
        """
        if self._body_left:
            return min(at + self._body_left, len(data))
        if at == 0 and self._last_bytes:  # the line may have begun in what came before
            begun = (self._last_bytes + data[:3]).find(EMPTY_LINE)
            if begun >= 0:
                return begun + len(EMPTY_LINE) - len(self._last_bytes)
        end = data.find(EMPTY_LINE, at)
        return len(data) if end < 0 else end + len(EMPTY_LINE)

    def remember_end(self, data: bytes, *, is_amid_request: bool) -> None:
        """How the data end that were read last."""
        self._last_bytes = (self._last_bytes + data[-3:])[-3:] if is_amid_request else b""
