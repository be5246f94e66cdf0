"""Runs checks in processes of their own, forked from this one: they may die or hang, and import nothing again."""

import asyncio
import os
import signal
import sys
import time
import traceback
from asyncio.subprocess import Process
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise
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


Check = Callable[[], Coroutine[Any, Any, Verdict]]


def run_forked(check: Check) -> Ended:
    """The verdict of a check. A service that ends itself has refused, if its log says why."""
    return run_each_forked([check])[0]


def run_each_forked(checks: Sequence[Check]) -> list[Ended]:
    """The verdicts of checks, one after the other in one process, which copies what it shares with this one once.

    After one that is wrong, or that ends the process, the others are made in another.
    """
    ended: list[Ended] = []
    while len(ended) < len(checks):
        ended += _run_some(checks[len(ended) :])
    return ended


def _run_some(checks: Sequence[Check]) -> list[Ended]:
    """Those up to the first that is wrong."""
    with TemporaryFile() as answers, TemporaryFile() as log:
        pid = os.fork()
        if pid == 0:
            _run(checks, answers.fileno(), log.fileno())
        is_over = _wait(pid, SECONDS_MAX * len(checks))
        answers.seek(0)
        told = [msgspec.json.decode(line, type=tuple[str | None, list[str], int]) for line in answers]
        log.seek(0)
        lines = log.read()
    begins = [0, *(end for _, _, end in told)]
    logs = [lines[begin:end].decode("utf-8", "replace") for begin, end in pairwise([*begins, len(lines)])]
    ended = [Ended(wrong, refusals, own) for (wrong, refusals, _), own in zip(told, logs, strict=False)]
    if len(told) == len(checks) or (told and ended[-1].wrong is not None):
        return ended
    why = [line for line in logs[-1].splitlines() if "stopping" in line]
    if not is_over:
        return [*ended, Ended("it hangs", [], logs[-1])]
    return [*ended, Ended(None, why, logs[-1]) if why else Ended("it died", [], logs[-1])]


def _wait(pid: int, seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    while os.waitpid(pid, os.WNOHANG)[0] == 0:
        if time.monotonic() > deadline:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            return False
        time.sleep(0.001)
    return True


def _run(checks: Sequence[Check], answers: int, log: int) -> None:
    """In the child: check, tell, end. Each line is a verdict, and up to where the log is about it."""
    os.dup2(log, 2)
    asyncio.create_subprocess_exec = fork_writer  # type: ignore[assignment]
    for check in checks:
        wrong, refusals = None, []
        try:
            refusals = asyncio.run(check()).refusals
        except Wrong as error:
            wrong = str(error)
        except BaseException:
            wrong = f"unexpected error: {traceback.format_exc()}"
        sys.stderr.flush()
        end = os.lseek(log, 0, os.SEEK_END)
        os.write(answers, msgspec.json.encode((wrong, refusals, end)) + b"\n")
        if wrong is not None:
            break
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


start_process = asyncio.create_subprocess_exec


async def fork_writer(*command: str, **how: Any) -> Process:
    """The journal's process, without the fifth of a second that its imports take; others as ever."""
    if command[-1] != WRITER:
        return await start_process(*command, **how)
    stdin, stdout, pass_fds = how["stdin"], how["stdout"], how["pass_fds"]
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
