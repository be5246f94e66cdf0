"""X-Request-ID: a request has the id that it came with, or gets one."""

import re
from collections.abc import MutableMapping
from typing import Any

from service.runtime import logs
from service.web.http.bodies import Header, Send

HEADER = b"x-request-id"

_VALID = re.compile(rb"[!-~]{1,128}")


def sent(headers: list[Header]) -> bytes | None:
    """The id that a client gave: 1 to 128 visible ASCII characters, or it counts as none.

    >>> sent([(b"x-request-id", b"abc-1")]), sent([(b"x-request-id", b"a b")]), sent([(b"x-other", b"abc")])
    (b'abc-1', None, None)
    """
    for name, value in headers:
        if name == HEADER:
            return value if _VALID.fullmatch(value) else None
    return None


def identified(send: Send, request_id: bytes) -> Send:
    """A `send` that puts the id into the answer's head; from now on it is in every line of the log as well."""
    logs.request_id.set(request_id.decode())
    header = (HEADER, request_id)

    async def send_identified(message: MutableMapping[str, Any]) -> None:
        if message["type"] == "http.response.start":
            message["headers"] = [*message.get("headers", ()), header]
        await send(message)

    return send_identified
