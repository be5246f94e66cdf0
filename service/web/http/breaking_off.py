"""Answers in parts, which may have to break off: their status is sent before all of their body can be had, and the key
that asked for them may be revoked meanwhile."""

import logging
from collections.abc import AsyncIterator

from fastapi.responses import StreamingResponse
from starlette.types import Send

from service.errors import NovikoffError

BREAK_OFF = "novikoff.response.break_off"
"""The message that closes a connection amid an answer."""

log = logging.getLogger(__name__)


class BreakingOff(StreamingResponse):
    """An answer in parts. What is wrong with the first is the answer instead; if a later one fails, that is logged,
    and the client finds the body without its end."""

    @classmethod
    async def of(cls, parts: AsyncIterator[bytes], media_type: str) -> "BreakingOff":
        first = await anext(parts, b"")

        async def all_parts() -> AsyncIterator[bytes]:
            yield first
            async for part in parts:
                yield part

        return cls(all_parts(), media_type=media_type)

    async def stream_response(self, send: Send) -> None:
        try:
            await super().stream_response(send)
        except NovikoffError as error:
            log.warning("an answer was broken off: %s", error.detail)
            await send({"type": BREAK_OFF})
