"""python -m service, and `novikoff`: the command line, in a process that is set up for it."""

import os
import signal
import sys


def _end(number: int, _: object) -> None:
    """End at once: nothing has begun yet, or it may be broken off at any time."""
    os._exit(0 if sys.argv[1:2] == ["serve"] else 128 + number)


# Before anything else is imported, which takes a while: to the first process of a container, a signal without a
# handler is ignored. The server takes over once it runs.
signal.signal(signal.SIGTERM, _end)

# Before numpy is imported. The products here are short; for longer ones BLAS would keep a thread busy on every
# core, and take from the loop and from the writing process what it is supposed to save them.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

from service.cli import main  # noqa: E402

if __name__ == "__main__":
    main()
