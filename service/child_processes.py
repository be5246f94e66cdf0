"""Processes of our own: the writer of the journal, fits, and readers of large imports."""

import asyncio
import sys
from asyncio.subprocess import Process
from contextlib import suppress
from pathlib import Path
from typing import Any

from service import logs

ROOT = str(Path(__file__).parent.parent)
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
    """Start a process. If the caller is cancelled meanwhile, the process is ended: asyncio of Python 3.11 can leave one
    behind that it has begun to start."""
    starting = asyncio.create_task(asyncio.create_subprocess_exec(*command, **options))
    if await _is_cancelled_before(starting):
        if starting.exception() is None:
            await kill(starting.result())
        raise asyncio.CancelledError
    return starting.result()


async def kill(process: Process) -> None:
    """End a process, if it has not ended, and wait for that, however often the caller is cancelled meanwhile: it ends
    soon, and nobody else would see to it."""
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
