"""`novikoff`, forked from a process that has imported it already.

To import what the service needs takes a second of a core, and the tests start it hundreds of times. What is
forked is a process like any other, and runs the command from its first line on. That an interpreter comes so
far is for the tests which run `python -m service`.
"""

import atexit
import gc
import json
import os
import selectors
import signal
import socket
import subprocess
import sys
import threading
import warnings
from collections.abc import Iterable
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from pkgutil import walk_packages
from tempfile import TemporaryDirectory, TemporaryFile
from typing import Any

from tests.support.waiting import PATIENCE_SECONDS

ROOT = Path(__file__).parents[2]


def environment(**settings: object) -> dict[str, str]:
    """This one's, but with no settings other than these."""
    others = {k: v for k, v in os.environ.items() if not k.startswith("NOVIKOFF_")}
    return others | {f"NOVIKOFF_{name.upper()}": str(value) for name, value in settings.items()}


class Forked:
    """What `subprocess.Popen` would be, as far as the tests need it."""

    def __init__(self, pid: int, status: int) -> None:
        self.pid = pid
        self.returncode: int | None = None
        self._status = os.fdopen(status, "rb", buffering=0)

    def poll(self) -> int | None:
        with suppress(subprocess.TimeoutExpired):
            self.wait(0)
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        if self.returncode is None:
            with selectors.DefaultSelector() as ready:
                ready.register(self._status, selectors.EVENT_READ)
                if not ready.select(timeout):
                    raise subprocess.TimeoutExpired("novikoff", timeout or 0)
            self.returncode = int(self._status.read())
            self._status.close()
        return self.returncode

    def send_signal(self, number: int) -> None:
        with suppress(ProcessLookupError):
            if self.poll() is None:
                os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


class Nursery:
    """The process that forks, from the first need of it to the end of this one.

    `through`: a command to start it with, such as one that takes rights away.
    """

    def __init__(self, *through: str) -> None:
        self._through = through
        self._lock = threading.Lock()
        self._socket: socket.socket | None = None

    def fork(self, arguments: Iterable[str], settings: dict[str, object], *, out: int, err: int) -> Forked:
        """Start `novikoff` with these arguments and settings; it writes to these files."""
        wanted = {
            "arguments": list(arguments),
            "environment": environment(**settings),
            "folder": str(Path.cwd()),
        }
        status, told = os.pipe()
        with self._lock:
            if self._socket is None:
                self._socket = self._start()
            socket.send_fds(self._socket, [b"."], [out, err, told])
            self._socket.sendall(json.dumps(wanted).encode() + b"\n")
            pid = int(self._socket.recv(64))
        os.close(told)
        return Forked(pid, status)

    def _start(self) -> socket.socket:
        here, there = socket.socketpair()
        command = [*self._through, sys.executable, "-m", "tests.support.forkserver"]
        with there:
            process = subprocess.Popen(
                command, cwd=ROOT, env=environment(), stdin=there.fileno(), stdout=subprocess.DEVNULL
            )
        atexit.register(process.wait)
        atexit.register(here.close)  # which comes first, and ends it
        return here

    def run(self, *arguments: str, **settings: object) -> subprocess.CompletedProcess[str]:
        """What `subprocess.run` gives for `novikoff` with these arguments and settings."""
        with TemporaryFile("w+") as out, TemporaryFile("w+") as err:
            process = self.fork(arguments, settings, out=out.fileno(), err=err.fileno())
            try:
                status = process.wait(PATIENCE_SECONDS)
            finally:
                process.kill()
                process.wait(PATIENCE_SECONDS)
            for file in (out, err):
                file.seek(0)
            return subprocess.CompletedProcess(arguments, status, out.read(), err.read())


_nursery = Nursery()
fork, run = _nursery.fork, _nursery.run


# In the process that forks


def fork_on_request() -> dict[str, Any]:
    """Fork for whoever asks, and tell how each child ended; in a child, what it was asked to do."""
    asked = socket.socket(fileno=os.dup(0))
    with Path(os.devnull).open() as nothing:
        os.dup2(nothing.fileno(), 0)
    ended, wakeup = os.pipe()
    os.set_blocking(wakeup, False)
    signal.set_wakeup_fd(wakeup)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # it ends with whoever asks
    children: dict[int, int] = {}
    with selectors.DefaultSelector() as ready:
        ready.register(asked, selectors.EVENT_READ)
        ready.register(ended, selectors.EVENT_READ)
        while True:
            if any(key.fileobj == ended for key, _ in ready.select()):
                os.read(ended, 1000)
                _tell_ends(children)
                continue
            mark, received, _, _ = socket.recv_fds(asked, 1, 3)
            if not mark:
                sys.exit()
            with asked.makefile() as lines:
                wanted: dict[str, Any] = json.loads(lines.readline())
            *files, told = received
            pid = os.fork()
            if pid == 0:
                break
            for file in files:
                os.close(file)
            children[pid] = told
            asked.send(str(pid).encode())
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    asked.close()
    for file, number in zip(files, (1, 2), strict=True):
        os.dup2(file, number)
    for inherited in (ended, wakeup, told, *files, *children.values()):
        os.close(inherited)
    return wanted


def _tell_ends(children: dict[int, int]) -> None:
    with suppress(ChildProcessError):
        while (ended := os.waitpid(-1, os.WNOHANG))[0]:
            told = children.pop(ended[0])
            with suppress(BrokenPipeError):
                os.write(told, b"%d" % os.waitstatus_to_exitcode(ended[1]))
            os.close(told)


class EndAtOnce:
    """The last thing at an exit that was asked for: no taking apart of hundreds of modules, which takes 40 ms.

    Threads have ended by then, and all that was to be done at the end is done before. An exit that goes wrong, by an
    error or since the last words cannot be written, is left to Python.
    """

    status: object = "none was asked for"

    def __call__(self) -> None:
        if isinstance(self.status, int | None):
            atexit.unregister(self)
            atexit._run_exitfuncs()  # those of the imported modules, which have come before this one
            with suppress(OSError):
                sys.stdout.flush()
                sys.stderr.flush()
                os._exit(self.status or 0)


end_at_once = EndAtOnce()


if __name__ == "__main__":
    import service.commands
    import service.journal.jetstream.journal
    from service.app import create_app
    from service.cli import main
    from service.settings import Settings

    for each in walk_packages(service.commands.__path__, "service.commands."):
        import_module(each.name)
    with TemporaryDirectory() as data:  # what is worked out once in a process is so before it is forked
        create_app(Settings(data=Path(data)))
    gc.freeze()  # no child looks through what all share
    warnings.simplefilter("ignore", DeprecationWarning)  # of threads: numpy has some, and knows about forks
    wanted = fork_on_request()
    os.chdir(wanted["folder"])
    os.environ.clear()
    os.environ.update(wanted["environment"])
    sys.argv = ["novikoff", *wanted["arguments"]]
    atexit.register(end_at_once)
    try:
        main()
    except SystemExit as asked:
        end_at_once.status = asked.code
        raise
