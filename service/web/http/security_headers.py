"""Headers of every answer that tell a browser not to guess its type, run scripts from it or show it in a frame."""

import re
from collections.abc import MutableMapping
from typing import Any

from service.web.http.bodies import Header, Send

_HOST = re.compile(rb"^https?://[^/]*/*")

NOSNIFF: Header = (b"x-content-type-options", b"nosniff")

DEFAULTS: dict[bytes, bytes] = {
    b"x-content-type-options": b"nosniff",
    b"content-security-policy": b"default-src 'none'; frame-ancestors 'none'",
    b"referrer-policy": b"no-referrer",
    b"cache-control": b"no-store",
}
"""For answers that do not set these themselves. Most are data that belongs to one caller, so they are not cached."""


def relative(header: Header) -> Header:
    """A `location` without its host, which whoever has sent the request may have made up.

    >>> relative((b"location", b"http://evil.example/stats?limit=3")), relative((b"location", b"http://a//evil.example"))
    ((b'location', b'/stats?limit=3'), (b'location', b'/evil.example'))
    """
    name, value = header
    return (name, _HOST.sub(b"/", value)) if name == b"location" else header


def secured(send: Send) -> Send:
    """A `send` that adds the defaults, and makes redirects relative."""

    async def send_secured(message: MutableMapping[str, Any]) -> None:
        if message["type"] == "http.response.start":
            headers = [relative(header) for header in message.get("headers", ())]
            said = {name for name, _ in headers}
            message["headers"] = [*headers, *(each for each in DEFAULTS.items() if each[0] not in said)]
        await send(message)

    return send_secured
