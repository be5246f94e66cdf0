"""JSON answers, and times as they are written in them."""

import gzip
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import msgspec
from fastapi import Response

PACKED_BYTES_MIN = 1_000
PACKED_LEVEL = 1
"""Ten times as fast as the usual one, for a tenth more bytes."""

_encode = msgspec.json.Encoder().encode


class Json(Response):
    """A JSON answer, encoded at once."""

    media_type = "application/json"

    def __init__(self, content: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(_encode(content), status, headers)


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


def timestamp(at: int) -> str:
    """Microseconds since 1970 as people and parsers read them.

    >>> timestamp(1_700_000_000_123_456)
    '2023-11-14T22:13:20.123456Z'
    """
    return datetime.fromtimestamp(at / 1e6, UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
