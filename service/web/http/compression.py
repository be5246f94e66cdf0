"""gzip: request bodies that come compressed, of one member or of several, and responses that go compressed."""

import asyncio
import gzip
import zlib
from collections.abc import AsyncIterator, Iterator

from fastapi import Response

from service.web.problems import HttpError

PART_BYTES_MAX = 262_144
"""The most that is inflated at once: a few bytes may become a thousand times as many."""

SLICE_BYTES = 16_384
"""So much is taken from what came at once: it may be 800 empty members, and what follows each is copied."""

MEMBERS_FREE = 1_000
MEMBER_BYTES_MIN = 32
"""Members past the free ones have so many bytes each, on average. An empty one has 20, and takes as long as 10 KB."""

RATIO_FREE_BYTES = 262_144
"""So much may come out of any body, however small it is: a short text of zeros shrinks well."""

PACKED_BYTES_MIN = 1_000
PACKED_LEVEL = 1
"""Ten times as fast as the usual one, for a tenth more bytes."""

GZIP = 31
"""What zlib calls it: a window of 2^15 bytes, with the head and the sum of gzip."""


class TooInflated(HttpError):
    """Gzip that becomes larger than it may; nothing that comes after can be taken."""


class Inflating:
    """Inflates what comes piece by piece, as long as it does not become too large."""

    def __init__(self, *, ratio_max: int, bytes_max: int | None = None) -> None:
        """`ratio_max`: the largest expansion factor of a body; `bytes_max`: its largest decompressed size."""
        self._ratio_max = ratio_max
        self._bytes_max = bytes_max
        self._came_bytes = 0
        self._inflated_bytes = 0
        self._members = 0
        self._member: zlib._Decompress | None = None

    def parts(self, data: bytes) -> Iterator[bytes]:
        """A piece of gzip decompressed, at most `PART_BYTES_MAX` at a time, an empty part after each slice.

        HttpError if it is not gzip; TooInflated as soon as it exceeds a limit.
        """
        self._came_bytes += len(data)
        for at in range(0, len(data), SLICE_BYTES):
            yield from self._parts_of_slice(data[at : at + SLICE_BYTES])
            yield b""

    def _parts_of_slice(self, data: bytes) -> Iterator[bytes]:
        while data:
            if self._member is None:
                data = data.lstrip(b"\0")  # files may be padded with zeros after a member
                if not data:
                    return
                self._begin_member()
            assert self._member is not None
            try:
                inflated = self._member.decompress(data, PART_BYTES_MAX)
            except zlib.error:
                raise HttpError("malformed-json", "the body is not gzip, or damaged") from None
            data = self._member.unconsumed_tail
            if self._member.eof:
                data, self._member = self._member.unused_data, None
            if inflated:
                self._check_size(len(inflated))
                yield inflated

    def _begin_member(self) -> None:
        self._members += 1
        if self._members > MEMBERS_FREE + self._came_bytes // MEMBER_BYTES_MIN:
            raise TooInflated("body-too-large", f"more than {MEMBERS_FREE} empty gzip members")
        self._member = zlib.decompressobj(wbits=GZIP)

    def _check_size(self, more: int) -> None:
        self._inflated_bytes += more
        if self._bytes_max is not None and self._inflated_bytes > self._bytes_max:
            raise TooInflated("body-too-large", f"the decompressed body exceeds {self._bytes_max} bytes")
        if self._inflated_bytes > RATIO_FREE_BYTES + self._ratio_max * self._came_bytes:
            raise TooInflated(
                "body-too-large",
                f"the gzip body expands more than {self._ratio_max} times (`inflated_ratio_max`)",
            )

    def check_end(self) -> None:
        """HttpError unless all that came is whole."""
        if self._member is not None:
            raise HttpError("malformed-json", "the gzip body ends too early")


def inflating_of(encoding: bytes, *, ratio_max: int, bytes_max: int | None = None) -> Inflating | None:
    """For a body with this Content-Encoding; None if it is not compressed, HttpError if that is not known.

    >>> inflating_of(b"identity", ratio_max=9), type(inflating_of(b"GZip", ratio_max=9)).__name__
    (None, 'Inflating')
    """
    name = encoding.strip().lower()
    if name in (b"", b"identity"):
        return None
    if name in (b"gzip", b"x-gzip"):
        return Inflating(ratio_max=ratio_max, bytes_max=bytes_max)
    accepted = (b"accept-encoding", b"gzip")
    raise HttpError("unsupported-media-type", "the only content encoding is gzip", (accepted,))


async def inflated(pieces: AsyncIterator[bytes], inflating: Inflating) -> AsyncIterator[bytes]:
    """Pieces of gzip decompressed; after each part, and each slice that has made none, other tasks have their turn."""
    async for piece in pieces:
        for part in inflating.parts(piece):
            if part:
                yield part
            await asyncio.sleep(0)
    inflating.check_end()


def packed(answer: Response, accept_encoding: str | None) -> Response:
    """The answer as gzip, if the client takes that and it is worth it.

    Its ETag stays: it is that of what is said, and no parts of answers are served that could be put together wrongly.

    >>> packed(Response(b"a" * 5000), "br, gzip;q=0.8").headers["content-encoding"]
    'gzip'
    >>> [len(packed(Response(b"a" * 5000), taken).body) for taken in (None, "br", "gzip;q=0")]
    [5000, 5000, 5000]
    """
    answer.headers["vary"] = "accept-encoding"
    taken = (coding.partition(";") for coding in (accept_encoding or "").split(","))
    if len(answer.body) < PACKED_BYTES_MIN or not any(
        name.strip() == "gzip" and quality.replace(" ", "") not in ("q=0", "q=0.0")
        for name, _, quality in taken
    ):
        return answer
    answer.body = gzip.compress(bytes(answer.body), PACKED_LEVEL, mtime=0)
    answer.headers["content-encoding"] = "gzip"
    answer.headers["content-length"] = str(len(answer.body))
    return answer
