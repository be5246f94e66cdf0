"""Runs a check in a process of its own, forked from this one: it may die or hang, and imports nothing again."""

import asyncio
import os
import signal
import sys
import time
import traceback
from asyncio.subprocess import Process
from collections.abc import Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

import msgspec

from service.journal.sqlite import writer_process
from tests.torture import recording
from tests.torture.checking import Verdict, Wrong

SECONDS_MAX = 60.0
"""Far more than a check takes."""

WRITER = "service.journal.sqlite.writer_process"


@dataclass(frozen=True, slots=True)
class Ended:
    """`wrong` is what the service did that it must not do; without that, `refusals` is what it refused and why."""

    wrong: str | None
    refusals: list[str]
    log: str


def run_forked(check: Callable[[], Coroutine[Any, Any, Verdict]]) -> Ended:
    """The verdict of a check. A service that ends itself has refused, if its log says why."""
    told, tell = os.pipe()
    with TemporaryFile("w+") as log:
        pid = os.fork()
        if pid == 0:
            _run(check, tell, log.fileno())
        os.close(tell)
        is_over = _wait(pid)
        with os.fdopen(told, "rb") as answer:
            content = answer.read()
        log.seek(0)
        lines = log.read()
    if not is_over:
        return Ended("it hangs", [], lines)
    if content:
        wrong, refusals = msgspec.json.decode(content)
        return Ended(wrong, refusals, lines)
    why = [line for line in lines.splitlines() if "stopping" in line]
    return Ended(None, why, lines) if why else Ended("it died", [], lines)


def _wait(pid: int) -> bool:
    deadline = time.monotonic() + SECONDS_MAX
    while os.waitpid(pid, os.WNOHANG)[0] == 0:
        if time.monotonic() > deadline:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            return False
        time.sleep(0.001)
    return True


def _run(check: Callable[[], Coroutine[Any, Any, Verdict]], tell: int, log: int) -> None:
    """In the child: check, tell, end."""
    os.dup2(log, 2)
    wrong, refusals = None, []
    asyncio.create_subprocess_exec = fork_writer  # type: ignore[assignment]
    try:
        refusals = asyncio.run(check()).refusals
    except Wrong as error:
        wrong = str(error)
    except BaseException:
        wrong = f"unforeseen: {traceback.format_exc()}"
    os.write(tell, msgspec.json.encode((wrong, refusals)))
    os._exit(0)


class _Forked:
    """As much of `asyncio.subprocess.Process` as the journal needs."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.returncode: int | None = None

    async def wait(self) -> int:
        while self.returncode is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self.returncode = os.waitstatus_to_exitcode(status)
            else:
                await asyncio.sleep(0.001)
        return self.returncode

    def kill(self) -> None:
        with suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)


def _close_all_but(kept: list[int]) -> None:
    """Above all the other ends of the pipes: the process ends when its input does."""
    log = [recording.recorder.log_file] if recording.recorder is not None else []
    for number in map(int, os.listdir("/proc/self/fd")):  # noqa: PTH208
        if number > 2 and number not in (*kept, *log):
            with suppress(OSError):
                os.close(number)


async def fork_writer(*command: str, stdin: int, stdout: int, pass_fds: list[int], **_: Any) -> Process:
    """The journal's process, without the fifth of a second that its imports take."""
    assert command[-1] == WRITER, command
    pid = os.fork()
    if pid == 0:
        os.dup2(stdin, 0)
        os.dup2(stdout, 1)
        _close_all_but(pass_fds)
        sys.stdin, sys.stdout = open(0, closefd=False), open(1, "w", closefd=False)  # noqa: SIM115
        status = 1
        try:
            if recording.recorder is not None:
                recording.recorder.is_writer = True
            writer_process.main()
            if recording.recorder is not None:
                recording.recorder.note_calls()
            status = 0
        except BaseException:
            traceback.print_exc()
            sys.stderr.flush()
        finally:
            os._exit(status)
    return _Forked(pid)  # type: ignore[return-value]


def write_image(directory: Path, image: dict[str, bytes]) -> None:
    directory.mkdir(parents=True)
    for name, content in image.items():
        (directory / name).write_bytes(content)
