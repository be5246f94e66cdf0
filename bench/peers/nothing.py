"""Servers that do nothing, for the price of HTTP alone."""

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from fastapi import FastAPI
from pydantic import BaseModel

Message = MutableMapping[str, Any]


class Example(BaseModel):
    model: str
    features: list[float]


route = FastAPI(telemetry={"tracing": False, "metrics": False, "logs": False})


@route.post("/nothing")
async def nothing(example: Example) -> dict[str, bool]:
    return {"done": True}


async def asgi(
    scope: Message, receive: Callable[[], Awaitable[Message]], send: Callable[[Message], Awaitable[None]]
) -> None:
    while (await receive()).get("more_body"):
        pass
    headers = [(b"content-type", b"application/json"), (b"content-length", b"13")]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": b'{"done":true}'})
