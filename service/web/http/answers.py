"""JSON answers, and times as they are written in them."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import msgspec
from fastapi import Response

_encode = msgspec.json.Encoder().encode


class Json(Response):
    """A JSON answer, encoded at once."""

    media_type = "application/json"

    def __init__(self, content: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(_encode(content), status, headers)


def timestamp(at: int) -> str:
    """Microseconds since 1970 as people and parsers read them.

    >>> timestamp(1_700_000_000_123_456)
    '2023-11-14T22:13:20.123456Z'
    """
    return datetime.fromtimestamp(at / 1e6, UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
