"""The process that writes the SQLite file.

It has an interpreter of its own because the statements of a commit let go of the interpreter lock and have to
win it back each time: beside a busy event loop that took longer than the disk. It reads groups from its
standard input and answers each on its standard output, in order. It ends when its input does, so it never
outlives the service by more than one commit; the directory's lock, which it inherits, is free after that.
"""

import signal
import sqlite3
import sys
from pathlib import Path
from time import perf_counter
from typing import BinaryIO

from service.journal.sqlite.ownership import check_in_place, opened_file
from service.journal.sqlite.records import Written, decode_group, decode_opening, message
from service.journal.sqlite.schema import open_writer
from service.journal.sqlite.writing import Writing


def read_message(source: BinaryIO) -> bytes | None:
    """The next message; None at the end, also when it comes in the middle of one."""
    size = source.read(4)
    if len(size) < 4:
        return None
    body = source.read(int.from_bytes(size, "big"))
    return body if len(body) == int.from_bytes(size, "big") else None


def main() -> None:
    for stop in (signal.SIGINT, signal.SIGTERM):  # the service is told, and ends this process in good time
        signal.signal(stop, signal.SIG_IGN)
    source, answers = sys.stdin.buffer, sys.stdout.buffer
    first = read_message(source)
    if first is None:
        return
    opening = decode_opening(first)
    connection = open_writer(Path(opening.path), opening.durability)
    writing = Writing(
        connection,
        events_kept_max=opening.events_kept_max,
        expired_remembered_max=opening.expired_remembered_max,
    )
    files = [*opening.files, opened_file(Path(f"{opening.path}-wal"))]
    failures = 0
    while (body := read_message(source)) is not None:
        began = perf_counter()
        group = decode_group(body)
        try:
            if group.failures_known < failures:
                raise sqlite3.OperationalError("what came before could not be written")
            check_in_place(files)
            written = Written(writing.commit(group.records), perf_counter() - began)
        except sqlite3.IntegrityError as error:  # a number, or a model's name, that was free in our view
            written = Written([], perf_counter() - began, str(error), is_final=True)
        except sqlite3.Error as error:
            failures += 1
            written = Written([], perf_counter() - began, str(error))
        answers.write(message(written))
        answers.flush()
    connection.close()


if __name__ == "__main__":
    main()
