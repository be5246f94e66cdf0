"""Seals: what was derived from events carries a digest, so that damage is seen and never served.

SQLite notices a torn page, but not a bit that has turned over in the middle of one.
"""

import hashlib

SEAL_BYTES = 8


class Damaged(ValueError):
    """The content is not what was sealed."""


def seal(content: bytes) -> bytes:
    return content + _digest(content)


def unseal(sealed: bytes) -> bytes:
    """The content again; Damaged unless it is the same to the bit.

    >>> unseal(seal(b"weights"))
    b'weights'
    """
    content = sealed[:-SEAL_BYTES]
    if len(sealed) < SEAL_BYTES or sealed[-SEAL_BYTES:] != _digest(content):
        raise Damaged("its digest does not fit")
    return content


def _digest(content: bytes) -> bytes:
    return hashlib.blake2b(content, digest_size=SEAL_BYTES).digest()
