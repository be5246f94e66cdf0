"""Answers made in the same turn of the event loop are written one right after the other, at its end.

Writing to a client that sleeps wakes it, which takes longer than the write. A load generator or a proxy that has many
connections is woken once for several answers.
"""

import asyncio

ANSWERS_MAX = 8
"""So many are written at once: the first of them shall not wait for more."""


class Outbox:
    """Answers to be written, in their order. Call `send` before anything else is written to one of the transports."""

    def __init__(self) -> None:
        self._answers: list[tuple[asyncio.Transport, bytes]] = []

    def put(self, transport: asyncio.Transport, answer: bytes, loop: asyncio.AbstractEventLoop) -> None:
        if not self._answers:
            loop.call_soon(self.send)
        self._answers.append((transport, answer))
        if len(self._answers) >= ANSWERS_MAX:
            self.send()

    def send(self) -> None:
        answers, self._answers = self._answers, []
        for transport, answer in answers:
            if not transport.is_closing():  # the client may have gone
                transport.write(answer)
