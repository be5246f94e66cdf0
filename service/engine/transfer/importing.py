"""Reading the body of an import: a small one here, a large one in a process of its own.

An export of 64 MB takes seconds to read and check, and a body that only looks like one may take many times its size.
In a process it takes neither the loop's time nor this one's memory, and its memory is limited.
"""

import asyncio

import msgspec

from service.engine.clock import Clock
from service.engine.decoding import UNDECODABLE, check_names, raise_problem
from service.engine.models.settings import ModelLimits
from service.engine.transfer.json_export import Imported, import_model
from service.errors import FieldError, InvalidExport, InvalidRequest, MalformedJson, RequestError
from service.runtime.child import frame, read_message, run_limited_child, write_message
from service.runtime.processes import JobLimits, Worker

READ_HERE_BYTES_MAX = 65_536
"""Larger bodies are read by a process. Reading so much takes a few milliseconds."""

PROCESSES_MAX = 1
"""How many bodies are read at the same time; others wait for their turn."""

TOO_MUCH = "it needs more memory than an export of its size should, or than `fit_memory_bytes_max`"

MEMORY_BASE_BYTES = 134_217_728
MEMORY_TIMES_BODY = 12
"""What a process may take beside the interpreter. As Python objects, numbers take eight times their text, or less."""


class Task(msgspec.Struct):
    body: bytes
    limits: ModelLimits
    now: int


class Report(msgspec.Struct):
    """The model, or why there is none."""

    settings: dict[str, object] | None = None
    state: bytes = b""
    code: str = ""
    detail: str = ""
    fields: tuple[FieldError, ...] = ()


class Importing:
    """Turns the bodies of imports into models."""

    def __init__(self, limits: ModelLimits, clock: Clock, *, memory_bytes_max: int) -> None:
        self._limits = limits
        self._clock = clock
        self._memory_bytes_max = memory_bytes_max
        self._turns = asyncio.Semaphore(PROCESSES_MAX)

    async def read(self, body: bytes) -> Imported:
        """The model of an export; InvalidExport or MalformedJson if there is something wrong with it."""
        task = Task(body, self._limits, self._clock.now())
        if len(body) <= READ_HERE_BYTES_MAX:
            report = read(task)
        else:
            async with self._turns:
                report = await _read_elsewhere(task, self._memory_bytes_max)
        if report.settings is None:
            error = MalformedJson if report.code == MalformedJson.code else InvalidExport
            raise error(report.detail, report.fields)
        return Imported(report.settings, report.state)


def read(task: Task) -> Report:
    try:
        check_names(task.body)
        try:
            export = msgspec.json.decode(task.body)
        except UNDECODABLE as error:
            raise_problem(error)
        imported = import_model(export, task.limits, task.now)
    except RequestError as error:
        return Report(code=error.code, detail=error.detail, fields=error.fields)
    except MemoryError:
        return _refused(TOO_MUCH)
    return Report(imported.settings, imported.state)


def _refused(why: str) -> Report:
    return Report(code=InvalidExport.code, detail=why)


async def _read_elsewhere(task: Task, memory_bytes_max: int) -> Report:
    expected = MEMORY_BASE_BYTES + MEMORY_TIMES_BODY * len(task.body)
    limits = JobLimits(fit_memory_bytes_max=min(expected, memory_bytes_max))
    worker = await Worker.start("service.engine.transfer.importing", limits)
    try:
        await worker.send(frame(task))
        return await worker.receive(Report)
    except InvalidRequest:  # it ended without a word: killed, by the system perhaps
        return _refused(TOO_MUCH)
    finally:
        await worker.end()


if __name__ == "__main__":
    run_limited_child(lambda: write_message(read(read_message(Task))), lambda _: _refused(TOO_MUCH))
