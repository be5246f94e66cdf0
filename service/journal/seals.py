"""Seals: what is stored carries a digest of itself and of its place, so that damage is seen and never served.

SQLite notices a torn page, but not a bit that has turned over in the middle of one.
"""

import hashlib

SEAL_BYTES = 8


class Damaged(ValueError):
    """The content is not what was sealed."""


def seal(content: bytes, place: tuple[object, ...] = ()) -> bytes:
    """The content with a digest of it and of the place where it is kept, such as the other columns of its row."""
    return content + digest(content, place)


def unseal(sealed: object, place: tuple[object, ...] = ()) -> bytes:
    """The content again; Damaged unless it and its place are the same to the bit.

    A damaged column may have anything in it: a number, a text, nothing.

    >>> unseal(seal(b"weights", ("snapshot", 7)), ("snapshot", 7))
    b'weights'
    >>> unseal(None)
    Traceback (most recent call last):
    service.journal.seals.Damaged: its digest does not fit
    """
    if not isinstance(sealed, bytes) or len(sealed) < SEAL_BYTES:
        raise Damaged("its digest does not fit")
    content = sealed[:-SEAL_BYTES]
    if sealed[-SEAL_BYTES:] != digest(content, place):
        raise Damaged("its digest does not fit")
    return content


def digest(content: bytes, place: tuple[object, ...] = ()) -> bytes:
    hashed = hashlib.blake2b(content, digest_size=SEAL_BYTES)
    if place:
        hashed.update(repr(place).encode())
    return hashed.digest()
