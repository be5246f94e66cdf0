"""The process that writes the SQLite file: it commits groups of records, and answers for those that failed.

It has an interpreter of its own because the statements of a commit let go of the interpreter lock and have to
win it back each time: beside a busy event loop that took longer than the disk. It reads groups from its
standard input and answers each on its standard output, in order. It ends when its input does, so it never
outlives the service by more than one commit; the directory's lock, which it inherits, is free after that.

When a sync has failed, what was to be synced may be on disk or not, and the next sync may succeed though it never got
there. What SQLite's log has of such a commit stands behind all commits before it, which were synced by themselves. No
connection sees it, and the next commit overwrites it, but a start after a crash takes it for good if it is whole. So

- nothing more is written through a connection that has failed: it is closed, and the next commit opens the file anew;
- what it has left is cut off, and that is synced before anything else is written;
- the group is written again, at once: if that succeeds, it is there, and once;
- if that fails, too, the group is in doubt until another commit has succeeded, and its clients get that error.
"""

import os
import signal
import sqlite3
import sys
from io import FileIO
from pathlib import Path
from select import select
from time import monotonic, perf_counter

from service.errors import StartError
from service.journal.sqlite.acknowledged import Note, has_log
from service.journal.sqlite.erasing import write_anew
from service.journal.sqlite.ownership import FilesInPlace, check_in_place, opened_file
from service.journal.sqlite.records import (
    NEW,
    REPEATED,
    EraseRecord,
    Group,
    Opening,
    Record,
    Written,
    decode_group,
    decode_opening,
    message,
)
from service.journal.sqlite.schema import LOG_BYTES_USUAL, open_writer
from service.journal.sqlite.writing import InDoubt, Result, Writing
from service.runtime.child import run_child

LOG_BYTES_MAX = 2 * LOG_BYTES_USUAL
"""From here on it is asked for that the log is folded into the file: SQLite does so by itself and does not tell when it
fails. A reader that takes its time lets the log grow, too."""

FOLD_SECONDS = 1.0
"""How often at most that is asked for."""


class Committer:
    """The journal's file as the writing process has it open, from the first message to the last."""

    def __init__(self, opening: Opening) -> None:
        self._opening = opening
        self._log = f"{opening.path}-wal"
        self._failures = 0
        self._log_failure: str | None = None
        self._is_cut_in_doubt = False
        """Whether the log was cut off, and not synced since."""
        self._fold_at = 0.0
        self._connection: sqlite3.Connection | None = None
        self._note: Note | None = None
        self._open()

    def _open(self) -> None:
        self._connection = open_writer(Path(self._opening.path), self._opening.durability)
        self._writing = Writing(
            self._connection,
            events_kept_max=self._opening.events_kept_max,
            expired_remembered_max=self._opening.expired_remembered_max,
            history_bytes_max=self._opening.history_bytes_max,
        )
        self._files = FilesInPlace([*self._opening.files, opened_file(Path(self._log))])
        self._note = Note(Path(self._opening.path), self._opening.durability)
        self._truncate_log()

    def _truncate_log(self) -> None:
        """Cut off what is in the log behind the last commit that counts.

        Commits whose sync has failed leave it there. The next one overwrites it, but only as far as it is long itself,
        and what remains would look at a start like commits that were acknowledged, with damage before them. So it would
        after a power cut, if both were there in parts: nothing is written before it is durable that this one is gone.
        """
        connection, note = self._connection, self._note
        assert connection is not None and note is not None
        connection.execute("BEGIN IMMEDIATE")  # after which SQLite knows where the last commit ends
        try:
            size = os.stat(self._log).st_size  # noqa: PTH116
            if self._is_cut_in_doubt or size > note.log_bytes:
                self._is_cut_in_doubt = True
                cut_off_durably(self._log, min(size, note.log_bytes))
                self._is_cut_in_doubt = False
        except OSError as error:
            raise sqlite3.OperationalError(f"{self._log} cannot be cut off: {error.strerror}") from error
        finally:
            connection.execute("ROLLBACK")

    def stop(self) -> None:
        """Close the file for good. The note goes last, and only if the log has: else nobody would miss the log."""
        note = self._note
        self.close()
        if note is not None and not has_log(Path(self._opening.path)):
            note.remove()

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None
        if self._note is not None:
            self._note.close()
            self._note = None

    def commit(self, group: Group) -> Written:
        """Never raises: what became of the group is in the answer."""
        began = perf_counter()
        results: list[Result] = []
        failure: Exception | None = None
        try:
            if group.failures_known < self._failures:
                raise sqlite3.OperationalError("an earlier write failed")
            results = self._commit(group.records)
        except sqlite3.IntegrityError as error:  # a number, or a model's name, that was free in our view
            return Written([], perf_counter() - began, str(error), is_final=True)
        except (sqlite3.Error, StartError) as error:
            self._failures += 1
            failure = error
        seconds = perf_counter() - began
        if failure is None:
            self._fold()
        why = str(failure) if failure is not None else None
        return Written(results, seconds, why, False, isinstance(failure, InDoubt), self._log_failure)

    @property
    def has_deferred(self) -> bool:
        """Whether deleted models have left something in the file that can be written now."""
        return self._connection is not None and bool(self._writing.deferred)

    def delete_deferred(self) -> None:
        """Remove some of it. If that fails, the next commit opens the file anew and sees what is left."""
        try:
            self._files.check()
            self._writing.delete_deferred()
        except sqlite3.Error:
            self.close()

    def _commit(self, records: list[Record]) -> list[Result]:
        try:
            return self._attempt(records)
        except InDoubt as doubt:
            try:
                return self._attempt(records)
            except sqlite3.IntegrityError:
                raise
            except (sqlite3.Error, StartError):
                raise doubt from None

    def _attempt(self, records: list[Record]) -> list[Result]:
        if self._connection is None:
            check_in_place(self._opening.files)
        else:
            self._files.check()
        try:
            if self._connection is None:
                self._open()
                self._files.check()  # a file that was not there has been made
            results = self._writing.commit(records)
            assert self._note is not None
            self._note.write(max([seq for status, seq in results if status == NEW], default=0))
        except BaseException:
            self.close()
            raise
        for place, record in enumerate(records):
            if isinstance(record, EraseRecord) and record.is_whole:
                results[place] = self._write_anew()
        return results

    def _write_anew(self) -> Result:
        """Whether nothing is left of what was erased: NEW, or REPEATED if it has to be tried again."""
        try:
            if self._connection is None:
                self._open()
            assert self._connection is not None
            write_anew(self._connection, Path(self._opening.path).parent)
        except (sqlite3.Error, StartError):  # the group is written all the same
            self.close()
            return REPEATED, 0
        return NEW, 0

    def _fold(self) -> None:
        """See to it that a log which has grown too long is folded into the file; remember it if that fails."""
        if self._connection is None or self._note is None:  # what was erased could not be written anew
            return
        if self._note.log_bytes <= LOG_BYTES_MAX:
            self._log_failure = None
            return
        if monotonic() < self._fold_at:
            return
        self._fold_at = monotonic() + FOLD_SECONDS
        try:
            self._connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
            self._log_failure = None
        except sqlite3.Error as error:
            self._log_failure = str(error)
            self.close()


def cut_off_durably(log: str, size: int) -> None:
    """Cut a file off. Of one that was cut off before, what a sync that failed was for is done again."""
    os.truncate(log, size + 1)
    os.truncate(log, size)
    file = os.open(log, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(file)
    finally:
        os.close(file)


def read_message(source: FileIO) -> bytearray | None:
    """The next message; None at the end, also when it comes in the middle of one."""
    size = _read(source, 4)
    return _read(source, int.from_bytes(size, "big")) if size is not None else None


def _read(source: FileIO, size: int) -> bytearray | None:
    data = bytearray(size)
    room = memoryview(data)
    while room:
        count = source.readinto(room)
        if not count:
            return None
        room = room[count:]
    return data


def main() -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # the service gets the signal too, and ends this process
    # Without a buffer, so that it is known whether a message is pending.
    source, answers = FileIO(sys.stdin.fileno(), closefd=False), sys.stdout.buffer
    first = read_message(source)
    if first is None:
        return
    committer = Committer(decode_opening(first))
    while True:
        while committer.has_deferred and not select([source], [], [], 0)[0]:
            committer.delete_deferred()
        if (body := read_message(source)) is None:
            break
        answers.write(message(committer.commit(decode_group(body))))
        answers.flush()  # BrokenPipeError if the service has not waited for the answer: no other reader exists
    committer.stop()


if __name__ == "__main__":
    run_child(main)
