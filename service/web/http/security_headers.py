"""Headers of every answer that tell a browser not to guess its type, run scripts from it or show it in a frame."""

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
"""For answers that do not set these themselves. Most are data that belongs to one caller, so they are not cached."""


def secured(send: Send) -> Send:
    """A `send` that adds the defaults."""

    async def send_secured(message: MutableMapping[str, Any]) -> None:
        if message["type"] == "http.response.start":
            headers = list(message.get("headers", ()))
            said = {name for name, _ in headers}
            message["headers"] = [*headers, *(each for each in DEFAULTS.items() if each[0] not in said)]
        await send(message)

    return send_secured
