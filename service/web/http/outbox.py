"""Answers that leave together, at the end of a turn of the loop.

To send to a client that sleeps is to wake it, which takes longer than the sending. While many are served, a
client that gets several answers in a row is woken once.
"""

import asyncio

ANSWERS_MAX = 8
"""The first one waits for no more."""


class Outbox:
    """What is to be written, in its order. Whoever writes to one of these transports or closes it sends first."""

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
