"""Bodies that come compressed: gzip, of one member or of several one after the other."""

import asyncio
import zlib
from collections.abc import AsyncIterator, Iterator

from service.web.problems import HttpError

PART_BYTES_MAX = 262_144
"""The most that is inflated at once: a few bytes may become a thousand times as many."""

GZIP = 31
"""What zlib calls it: a window of 2^15 bytes, with the head and the sum of gzip."""


class Inflating:
    """Inflates what comes piece by piece."""

    def __init__(self) -> None:
        self._member: zlib._Decompress | None = None

    def parts(self, data: bytes) -> Iterator[bytes]:
        """A piece of gzip decompressed, at most `PART_BYTES_MAX` at a time; HttpError if it is not gzip."""
        while data:
            if self._member is None:
                data = data.lstrip(b"\0")  # files may be padded with zeros after a member
                if not data:
                    return
                self._member = zlib.decompressobj(wbits=GZIP)
            try:
                inflated = self._member.decompress(data, PART_BYTES_MAX)
            except zlib.error:
                raise HttpError("malformed-json", "the body is not gzip, or it is damaged") from None
            data = self._member.unconsumed_tail
            if self._member.eof:
                data, self._member = self._member.unused_data, None
            if inflated:
                yield inflated

    def check_end(self) -> None:
        """HttpError unless all that came is whole."""
        if self._member is not None:
            raise HttpError("malformed-json", "the gzip of the body was cut off")


def inflating_of(encoding: bytes) -> Inflating | None:
    """For a body with this Content-Encoding; None if it is not compressed, HttpError if that is not known.

    >>> inflating_of(b"identity"), type(inflating_of(b"GZip")).__name__
    (None, 'Inflating')
    """
    name = encoding.strip().lower()
    if name in (b"", b"identity"):
        return None
    if name in (b"gzip", b"x-gzip"):
        return Inflating()
    accepted = (b"accept-encoding", b"gzip")
    raise HttpError("unsupported-media-type", "a body may come as gzip, or as it is", (accepted,))


async def inflated(pieces: AsyncIterator[bytes], inflating: Inflating) -> AsyncIterator[bytes]:
    """Pieces of gzip decompressed; after each part other tasks have their turn."""
    async for piece in pieces:
        for part in inflating.parts(piece):
            yield part
            await asyncio.sleep(0)
    inflating.check_end()
