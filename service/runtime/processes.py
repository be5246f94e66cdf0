"""Child processes: the writer of the journal, fits, and readers of large imports. This is the service's end."""

import asyncio
import sys
from asyncio.subprocess import PIPE, Process
from contextlib import suppress
from math import ceil
from pathlib import Path
from typing import Any

import msgspec

from service.errors import InvalidRequest
from service.runtime import logs
from service.runtime.child import Message

ROOT = str(Path(__file__).parents[2])
"""Where this very package is, installed or not."""

NICENESS = 10
"""Of processes whose work can wait: where cores are few, the service itself comes first."""


def command_of(module: str, *, can_wait: bool = False) -> list[str]:
    """The command that runs a module of ours, and never a file that lies in the working directory.

    It logs like this process.
    -P keeps that directory out of the path. What is appended instead is where the service itself was found, for when
    it is run from a directory that it is not installed from.
    """
    code = (
        "import runpy, sys; sys.path.append(sys.argv[4]); runpy.run_module(sys.argv[5], run_name='__main__')"
    )
    if can_wait:
        code = f"import os; os.nice({NICENESS}); {code}"
    return [sys.executable, "-P", "-c", code, *logs.configured, ROOT, module]


async def start(*command: str, **options: Any) -> Process:
    """Start a process in a session of its own, so that Ctrl-C reaches the service alone, which then ends it.

    If the caller is cancelled meanwhile, the process is ended: asyncio of Python 3.11 can leave one behind that it has
    begun to start.
    """
    starting = asyncio.create_task(
        asyncio.create_subprocess_exec(*command, start_new_session=True, **options)
    )
    if await _is_cancelled_before(starting):
        if starting.exception() is None:
            await kill(starting.result())
        raise asyncio.CancelledError
    return starting.result()


async def kill(process: Process) -> None:
    """End a process, if it has not ended, and wait for that, however often the caller is cancelled meanwhile: it ends
    soon, and no other code does it."""
    if process.returncode is not None:
        return
    with suppress(ProcessLookupError):
        process.kill()
    if await _is_cancelled_before(asyncio.create_task(process.wait())):
        raise asyncio.CancelledError


async def _is_cancelled_before(task: asyncio.Task[Any]) -> bool:
    """Wait until a task is done that does not take long, and say whether the caller was cancelled meanwhile."""
    is_cancelled = False
    while not task.done():
        try:
            await asyncio.wait([task])
        except asyncio.CancelledError:
            is_cancelled = True
    return is_cancelled


class JobLimits(msgspec.Struct, frozen=True):
    """What a job may take."""

    fit_seconds_max: float = 3600.0
    fit_memory_bytes_max: int = 4_294_967_296
    fit_examples_bytes_max: int = 134_217_728
    """Of a model's history, for a fit. Examples that are sent have the limit of their request's body."""


class Worker:
    """A process that works for a job, so that the service goes on at full speed meanwhile; they exchange messages."""

    def __init__(self, process: Process) -> None:
        self._process = process

    @classmethod
    async def start(cls, module: str, limits: JobLimits) -> "Worker":
        return cls(
            await start(
                *command_of(module, can_wait=True),
                str(limits.fit_memory_bytes_max),
                str(ceil(limits.fit_seconds_max)),
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
            raise InvalidRequest("the process of the job ended unexpectedly") from None

    async def end(self) -> None:
        await kill(self._process)
