"""Answers of a stream that wait until its client takes them.

Many clients send all of a request before they read any of its answer. If the service waited for them to read,
both would wait for ever. So it learns on, and the answers wait: some in memory, the others in temporary files,
which have no names and are gone with the process, however it ends.
"""

import asyncio
import os
import tempfile
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from io import FileIO
from pathlib import Path
from typing import Any, TypeVar

from service.runtime.byte_budget import ByteBudget
from service.web.problems import HttpError

T = TypeVar("T")

MEMORY_BYTES_MAX = 524_288
"""The most bytes of answers that one stream keeps in memory; beyond that they go to a file."""

READ_BYTES_MAX = 65_536
"""The most that is read back from a file at once."""

UNTAKEN_SECONDS_MAX = 3.0
"""With no room left on disk, a client that takes answers is waited for. One that has taken none for so long is
taken for one that will send everything first."""


class AnswerFiles:
    """Files for the answers that wait on disk, and how many bytes those of all streams together may have.

    Files are used in a thread, so that no request waits for the disk; in a single one, so that a file is never
    closed while it is still being written.
    """

    def __init__(self, budget: ByteBudget, directory: Path | None) -> None:
        """Without a `directory`, the system's for temporary files is used."""
        self.budget = budget
        self._directory = directory
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="stream-answers")

    async def run(self, function: Callable[..., T], *args: Any) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, partial(function, *args))

    def close_later(self, file: FileIO) -> None:
        self._thread.submit(file.close)

    def make_file(self) -> FileIO:
        return tempfile.TemporaryFile(buffering=0, dir=self._directory)


@dataclass(slots=True)
class Part:
    """A file, what of it was written, and what of that was read."""

    file: FileIO | None = None
    written: int = 0
    read: int = 0


class HeldAnswers:
    """A queue of answers: one task puts them in, another one takes them out and sends them.

    Answers go to a file only when there is no room in memory, and to memory again only when no file has any, so
    their order stays. There are two files: while one is read to its end, the other one is written. So what was
    read takes no room for long, however long the stream lasts.
    """

    def __init__(self, files: AnswerFiles, tenant: str = "") -> None:
        """`tenant`: whose stream it is."""
        self._files = files
        self._budget = files.budget
        self._tenant = tenant
        self._memory: deque[bytes] = deque()
        self._memory_bytes = 0
        self._reading = Part()
        self._writing = Part()
        self._reserved = 0
        self._files_in_use = asyncio.Lock()
        self._came = asyncio.Event()
        self._taken = asyncio.Event()
        self._last: bytes | None = None
        self._may_begin = asyncio.Event()

    def begin(self) -> None:
        """Let answers go out from now on. Until then they wait for the last one, as long as there is room in memory."""
        self._may_begin.set()

    async def begun(self) -> None:
        await self._may_begin.wait()

    def whole(self) -> bytes | None:
        """All answers, before any is taken, if no more will come and all are in memory."""
        if self._last is None or self._is_on_disk():
            return None
        return b"".join([*self._memory, self._last])

    async def put(self, answers: bytes) -> None:
        """Let answers wait; HttpError if there is no room for them, nor will be soon."""
        if not self._is_on_disk() and (not self._memory or self._memory_bytes < MEMORY_BYTES_MAX):
            self._memory.append(answers)
            self._memory_bytes += len(answers)
        else:
            self.begin()
            await self._reserve(len(answers))
            try:
                await self._write(answers)
            except OSError as error:
                why = os.strerror(error.errno or 0).lower()
                raise _untaken(f"unread responses cannot be buffered: {why}") from error
        self._came.set()

    def end(self, last: bytes = b"") -> None:
        """Say that no more will come but this, for which there is always room."""
        self._last = last
        self._came.set()
        self.begin()

    async def take(self) -> bytes:
        """The next answers, as soon as there are some; none when the last were taken."""
        self._taken.set()
        while not self._memory:
            if self._is_on_disk():
                return await self._read()
            if self._last is not None:
                last, self._last = self._last, b""
                return last
            self._came.clear()
            await self._came.wait()
        answers = self._memory.popleft()
        self._memory_bytes -= len(answers)
        return answers

    def close(self) -> None:
        """Drop what still waits."""
        for part in (self._reading, self._writing):
            if part.file is not None:
                self._files.close_later(part.file)
        self._budget.give_back(self._reserved, self._tenant)

    def _is_on_disk(self) -> bool:
        return self._reading.read < self._reading.written or self._writing.written > 0

    async def _reserve(self, size: int) -> None:
        """Wait for room on disk, as long as the client takes answers."""
        while not self._budget.take(size, self._tenant):
            self._taken.clear()
            try:
                async with asyncio.timeout(UNTAKEN_SECONDS_MAX):
                    await self._taken.wait()
            except TimeoutError:
                if self._budget.take(size, self._tenant):  # what other streams have given back
                    break
                limit = f"at most {self._budget.bytes_max} bytes of unread responses may be buffered for all streams"
                share = ", half of them for one tenant" if self._tenant else ""
                raise _untaken(f"{limit} (`stream_answers_bytes_max`){share}") from None
        self._reserved += size

    async def _write(self, answers: bytes) -> None:
        async with self._files_in_use:
            part = self._writing
            if part.file is None:
                part.file = await self._files.run(self._files.make_file)
            await self._files.run(_write_all, part.file, answers, part.written)
            part.written += len(answers)

    async def _read(self) -> bytes:
        async with self._files_in_use:
            if self._reading.read == self._reading.written:
                self._reading, self._writing = self._writing, self._reading
            part = self._reading
            assert part.file is not None
            answers = await self._files.run(os.pread, part.file.fileno(), READ_BYTES_MAX, part.read)
            part.read += len(answers)
            if part.read == part.written:
                await self._files.run(part.file.truncate, 0)
                self._budget.give_back(part.written, self._tenant)
                self._reserved -= part.written
                part.read = part.written = 0
            return answers


def _write_all(file: FileIO, data: bytes, at: int) -> None:
    rest = memoryview(data)
    while rest:
        written = os.pwrite(file.fileno(), rest, at)
        rest, at = rest[written:], at + written


def _untaken(why: str) -> HttpError:
    return HttpError("answers-untaken", f"{why}; read responses while you send, or ask for answers=summary")
