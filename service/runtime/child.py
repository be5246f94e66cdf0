"""A child process's own end: how it runs and ends, and the messages that it exchanges with the service.

The service writes messages to the process's standard input and reads messages from its standard output. A message is
its length in four bytes and then MessagePack. The service's end is `service.runtime.processes`, a file of its own: the
child does without asyncio.
"""

import logging
import os
import resource
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, NoReturn, TypeVar

import msgspec

from service.runtime import logs

log = logging.getLogger(__name__)

Message = TypeVar("Message")


def frame(message: Any) -> bytes:
    body = msgspec.msgpack.encode(message)
    return len(body).to_bytes(4, "big") + body


def read_message(expected: type[Message]) -> Message:
    """The next message; EOFError if the service has ended."""
    return msgspec.msgpack.decode(_read(int.from_bytes(_read(4), "big")), type=expected)


def _read(size: int) -> bytes:
    data = sys.stdin.buffer.read(size)
    if len(data) < size:
        raise EOFError
    return data


def write_message(message: msgspec.Struct) -> None:
    sys.stdout.buffer.write(frame(message))
    sys.stdout.buffer.flush()


def run_child(run: Callable[[], None]) -> None:
    """Do what the service has started this process for, then end it.

    EOFError and BrokenPipeError mean that the service has ended. What else goes wrong is a line of the log, like one of
    the service's own.
    """
    log_format, level, features = sys.argv[1:4]  # `processes.command_of`
    logs.configure("json" if log_format == "json" else "console", level, features=bool(features))
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the service gets the signal too, and ends this process
    try:
        run()
    except (EOFError, BrokenPipeError):
        log.info("a child process stops, because the service has ended")
        os._exit(0)  # what is left in the buffer of a broken pipe would be a complaint
    except Exception as error:
        log.error("a child process failed", exc_info=error)
        os._exit(1)


def run_limited_child(run: Callable[[], None], failed: Callable[[str], msgspec.Struct]) -> None:
    """`run_child` within the service's limits; `failed` makes the message that they are too low."""
    memory_bytes_max, seconds_max = map(int, sys.argv[-2:])

    def run_limited() -> None:
        set_limits(memory_bytes_max, seconds_max)
        try:
            run()
        except MemoryError:
            why = f"it needs more than {memory_bytes_max} bytes of memory (`fit_memory_bytes_max`)"
            write_message(failed(why))
        except TimeoutError:
            write_message(failed(f"it needs more than {seconds_max} seconds (`fit_seconds_max`)"))

    run_child(run_limited)


def set_limits(memory_bytes_max: int, seconds_max: int) -> None:
    """Raise MemoryError beyond so much memory on top of what the interpreter has mapped by now; TimeoutError beyond so
    much CPU time: the service watches the clock, but this process may outlive it."""

    def give_up(*_: object) -> NoReturn:
        raise TimeoutError

    signal.signal(signal.SIGXCPU, give_up)
    resource.setrlimit(resource.RLIMIT_CPU, (seconds_max, seconds_max + 10))
    with suppress(OSError, ValueError):  # not every system counts it
        mapped = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (mapped + memory_bytes_max,) * 2)
