"""Seals: what is stored carries a digest of itself and of its place, so that damage is seen and never served.

SQLite notices a torn page, but not a bit that has turned over in the middle of one. The digest is MurmurHash3, seven
times as fast as a hash that is safe against people: it tells of accidents, and anyone who can write the file can
seal it.
"""

from collections.abc import Iterable

from mmh3 import mmh3_x64_128, mmh3_x64_128_digest

SEAL_BYTES = 8
DIGESTED_BYTES = 1_048_576
"""How much is digested in one go: the interpreter has to wait for that."""


class Damaged(ValueError):
    """The content is not what was sealed."""


def seal(content: bytes, place: str = "") -> bytes:
    """The content with a digest of it and of the place where it is kept, such as the other columns of its row."""
    # As `digest` does: there is one for every row, and a call takes as long as the hash itself.
    return content + mmh3_x64_128_digest(place.encode() + mmh3_x64_128_digest(content))[:SEAL_BYTES]


def unseal(sealed: object, place: str = "") -> bytes:
    """The content again; Damaged unless it and its place are the same to the bit.

    A damaged column may have anything in it: a number, a text, nothing.

    >>> unseal(seal(b"weights", "snapshot 7"), "snapshot 7")
    b'weights'
    >>> unseal(None)
    Traceback (most recent call last):
    service.journal.seals.Damaged: its digest does not match
    """
    if not isinstance(sealed, bytes) or len(sealed) < SEAL_BYTES:
        raise Damaged("its digest does not match")
    content = sealed[:-SEAL_BYTES]
    if sealed[-SEAL_BYTES:] != digest(content, place):
        raise Damaged("its digest does not match")
    return content


def digest_of_parts(parts: Iterable[bytes | memoryview], place: str = "") -> bytes:
    """The digest of a content that comes in parts."""
    whole = mmh3_x64_128()
    for part in parts:
        for start in range(0, len(part), DIGESTED_BYTES):
            whole.update(part[start : start + DIGESTED_BYTES])
    return mmh3_x64_128_digest(place.encode() + whole.digest())[:SEAL_BYTES]


def digest(content: bytes, place: str = "") -> bytes:
    return mmh3_x64_128_digest(place.encode() + mmh3_x64_128_digest(content))[:SEAL_BYTES]
