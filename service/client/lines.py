"""Answers that come line by line."""


class Lines:
    """Lines out of parts that end anywhere.

    >>> lines = Lines()
    >>> lines.complete(b"one\\ntw"), lines.complete(b"o\\n")
    ([b'one'], [b'two'])
    """

    def __init__(self) -> None:
        self._rest = b""

    @property
    def is_whole(self) -> bool:
        """Whether the last line has ended."""
        return not self._rest

    def complete(self, part: bytes) -> list[bytes]:
        *whole, self._rest = (self._rest + part).split(b"\n")
        return whole
