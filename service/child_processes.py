"""Processes of our own: the writer of the journal, fits, and readers of large imports."""

import asyncio
import sys
from asyncio.subprocess import Process
from contextlib import suppress
from pathlib import Path

ROOT = str(Path(__file__).parent.parent)
"""Where this very package is, installed or not."""


NICENESS = 10
"""Of processes whose work can wait: where cores are few, the service itself comes first."""


def command_of(module: str, *, can_wait: bool = False) -> list[str]:
    """The command that runs a module of ours, and never a file that lies in the working directory.

    -P keeps that directory out of the path. What is appended instead is where the service itself was found, for when
    it is run from a directory that it is not installed from.
    """
    code = (
        "import runpy, sys; sys.path.append(sys.argv[1]); runpy.run_module(sys.argv[2], run_name='__main__')"
    )
    if can_wait:
        code = f"import os; os.nice({NICENESS}); {code}"
    return [sys.executable, "-P", "-c", code, ROOT, module]


async def kill(process: Process) -> None:
    """End a process, if it has not ended, and wait for that, however often the caller is cancelled meanwhile: it ends
    soon, and nobody else would see to it."""
    if process.returncode is not None:
        return
    with suppress(ProcessLookupError):
        process.kill()
    ended = asyncio.create_task(process.wait())
    is_cancelled = False
    while not ended.done():
        try:
            await asyncio.wait([ended])
        except asyncio.CancelledError:
            is_cancelled = True
    if is_cancelled:
        raise asyncio.CancelledError
