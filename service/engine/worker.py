"""Processes that work for jobs, so that the service goes on at full speed meanwhile: the service's end of the pipes."""

import asyncio
from asyncio.subprocess import PIPE, Process
from contextlib import suppress
from math import ceil

import msgspec

from service.child_processes import command_of, kill, start
from service.engine.messages import Message
from service.errors import InvalidRequest


class JobLimits(msgspec.Struct, frozen=True):
    """What a job may take."""

    seconds_max: float = 3600.0
    memory_bytes_max: int = 4_294_967_296
    examples_bytes_max: int = 134_217_728
    """Of a model's history, for a fit. Examples that are sent have the limit of their request's body."""


class Worker:
    """The service's end."""

    def __init__(self, process: Process) -> None:
        self._process = process

    @classmethod
    async def start(cls, module: str, limits: JobLimits) -> "Worker":
        return cls(
            await start(
                *command_of(module, can_wait=True),
                str(limits.memory_bytes_max),
                str(ceil(limits.seconds_max)),
                stdin=PIPE,
                stdout=PIPE,
            )
        )

    async def send(self, framed: bytes) -> None:
        """Hand a message over, waiting until there is room for it."""
        assert self._process.stdin is not None
        self._process.stdin.write(framed)
        with suppress(ConnectionError):  # it may have ended, and has said why
            await self._process.stdin.drain()

    async def receive(self, expected: type[Message]) -> Message:
        """The next message; InvalidRequest if there is none any more."""
        assert self._process.stdout is not None
        try:
            size = int.from_bytes(await self._process.stdout.readexactly(4), "big")
            return msgspec.msgpack.decode(await self._process.stdout.readexactly(size), type=expected)
        except asyncio.IncompleteReadError:
            raise InvalidRequest("the process of the job ended before it was done") from None

    async def end(self) -> None:
        await kill(self._process)
