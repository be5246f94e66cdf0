"""What every answer tells a browser: take it for what it says it is, run nothing in it, frame it nowhere."""

from collections.abc import MutableMapping
from typing import Any

from service.web.http.bodies import Header, Send

NOSNIFF: Header = (b"x-content-type-options", b"nosniff")

DEFAULTS: dict[bytes, bytes] = {
    b"x-content-type-options": b"nosniff",
    b"content-security-policy": b"default-src 'none'; frame-ancestors 'none'",
    b"referrer-policy": b"no-referrer",
    b"cache-control": b"no-store",
}
"""For answers that say nothing else: most are data, and of somebody in particular."""


def secured(send: Send) -> Send:
    """A `send` that adds the defaults."""

    async def send_secured(message: MutableMapping[str, Any]) -> None:
        if message["type"] == "http.response.start":
            headers = list(message.get("headers", ()))
            said = {name for name, _ in headers}
            message["headers"] = [*headers, *(each for each in DEFAULTS.items() if each[0] not in said)]
        await send(message)

    return send_secured
