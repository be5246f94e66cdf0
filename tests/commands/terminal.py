"""A command in a terminal of its own, as a person sees it."""

import codecs
import os
import pty
import re
import select
import signal
import subprocess
import sys
import time
from types import TracebackType
from typing import Self

from tests.support.waiting import PATIENCE_SECONDS

CONTROL = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
BEGUN_CONTROL = re.compile(r"\x1b(\[[0-9;?]*)?$")
"""At the end of what has come so far: the rest of it comes next."""


class Terminal:
    """`novikoff …` in a pseudo-terminal; `shows` waits until something has been on the screen."""

    def __init__(self, *arguments: object, stdin: int | None = None) -> None:
        self._screen, terminal = pty.openpty()
        environment = {k: v for k, v in os.environ.items() if k not in ("CI", "NO_COLOR")}
        self.process = subprocess.Popen(
            [sys.executable, "-m", "service", *map(str, arguments)],
            stdin=terminal if stdin is None else stdin,
            stdout=terminal,
            stderr=terminal,
            env={**environment, "COLUMNS": "160", "LINES": "40", "TERM": "xterm"},
            # Where the tests run in the background, Ctrl-C is ignored, and children would inherit that.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        )
        os.close(terminal)
        self.text = ""
        self._begun = ""
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def shows(self, pattern: str) -> re.Match[str]:
        """Read on until the pattern has appeared since the last time."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while (found := re.search(pattern, self.text)) is None:
            assert time.monotonic() < deadline and self._read(), (
                f"never saw {pattern!r} in {self.text[-2000:]!r}"
            )
        self.text = self.text[found.end() :]
        return found

    def interrupt(self) -> int:
        """Ctrl-C; the exit status."""
        self.process.send_signal(signal.SIGINT)
        deadline = time.monotonic() + PATIENCE_SECONDS
        while self._read():
            assert time.monotonic() < deadline, f"it goes on: {self.text[-2000:]!r}"
        return self.process.wait(PATIENCE_SECONDS)

    def _read(self) -> bool:
        """Take in what comes next; False at the end."""
        try:
            if select.select([self._screen], [], [], 1.0)[0]:
                more = os.read(self._screen, 65536)
                self._take(more)
                return bool(more)
        except OSError:  # how a pseudo-terminal says that the other side is closed
            return False
        return True

    def _take(self, more: bytes) -> None:
        """A part may end in the middle of a character or of a control sequence."""
        came = self._begun + self._decoder.decode(more)
        begun = BEGUN_CONTROL.search(came)
        self._begun = "" if begun is None else came[begun.start() :]
        self.text += CONTROL.sub("", came.removesuffix(self._begun))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        os.close(self._screen)
