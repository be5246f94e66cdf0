"""The process that writes the SQLite file.

It has an interpreter of its own because the statements of a commit let go of the interpreter lock and have to
win it back each time: beside a busy event loop that took longer than the disk. It reads groups from its
standard input and answers each on its standard output, in order. It ends when its input does, so it never
outlives the service by more than one commit; the directory's lock, which it inherits, is free after that.
"""

import signal
import sys
from io import FileIO
from select import select

from service.journal.sqlite.committing import Committer
from service.journal.sqlite.records import decode_group, decode_opening, message
from service.runtime.child import run_child


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
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # the service is told, and ends this process in good time
    # Without a buffer, so that it can be told whether a message waits.
    source, answers = FileIO(sys.stdin.fileno(), closefd=False), sys.stdout.buffer
    first = read_message(source)
    if first is None:
        return
    committer = Committer(decode_opening(first))
    while True:
        while committer.has_leavings and not select([source], [], [], 0)[0]:
            committer.remove_leavings()
        if (body := read_message(source)) is None:
            break
        answers.write(message(committer.commit(decode_group(body))))
        answers.flush()  # BrokenPipeError if the service has not waited for the answer: nobody else would read it
    committer.stop()


if __name__ == "__main__":
    run_child(main)
