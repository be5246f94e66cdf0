"""Processes that work for jobs, so that the service goes on at full speed meanwhile: both ends of the pipe to one.

The service writes messages to the process's standard input and reads messages from its standard output. A message is
its length in four bytes and then MessagePack.
"""

import asyncio
import resource
import signal
import sys
from asyncio.subprocess import PIPE, Process
from contextlib import suppress
from math import ceil
from pathlib import Path
from typing import Any, NoReturn, TypeVar

import msgspec

from service.child_processes import command_of, kill
from service.errors import InvalidRequest

Message = TypeVar("Message")


class JobLimits(msgspec.Struct, frozen=True):
    """What a job may take."""

    seconds_max: float = 3600.0
    memory_bytes_max: int = 4_294_967_296
    examples_bytes_max: int = 134_217_728
    """Of a model's history, for a fit. Examples that are sent have the limit of their request's body."""


def frame(message: Any) -> bytes:
    body = msgspec.msgpack.encode(message)
    return len(body).to_bytes(4, "big") + body


class Worker:
    """The service's end."""

    def __init__(self, process: Process) -> None:
        self._process = process

    @classmethod
    async def start(cls, module: str, limits: JobLimits) -> "Worker":
        return cls(
            await asyncio.create_subprocess_exec(
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


# The other end


def read_message(expected: type[Message]) -> Message:
    size = int.from_bytes(sys.stdin.buffer.read(4), "big")
    return msgspec.msgpack.decode(sys.stdin.buffer.read(size), type=expected)


def write_message(message: msgspec.Struct) -> None:
    sys.stdout.buffer.write(frame(message))
    sys.stdout.buffer.flush()


def limits_given() -> tuple[int, int]:
    """How many bytes and seconds the service has allowed this process."""
    memory_bytes_max, seconds_max = map(int, sys.argv[-2:])
    return memory_bytes_max, seconds_max


def set_limits(memory_bytes_max: int, seconds_max: int) -> None:
    """Raise MemoryError beyond so much memory on top of what the interpreter has mapped by now; TimeoutError beyond so
    much CPU time: the service watches the clock, but this process may outlive it."""

    def give_up(*_: object) -> NoReturn:
        raise TimeoutError

    signal.signal(signal.SIGXCPU, give_up)
    resource.setrlimit(resource.RLIMIT_CPU, (seconds_max, seconds_max + 10))
    with suppress(OSError, ValueError):  # not every system counts it
        mapped = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (mapped + memory_bytes_max,) * 2)
