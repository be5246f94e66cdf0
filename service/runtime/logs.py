"""What the service says while it runs: lines for people or for programs, on standard error.

Whatever a record has been given as `extra` becomes a field of its line. What clients have sent does not get
into a line unless the operator wants it: texts of exceptions may quote it, and so may `sent`.
"""

import json
import logging
import os
import sys
import traceback
from contextvars import ContextVar
from datetime import UTC, datetime
from textwrap import indent
from time import monotonic
from typing import Any, Literal, NamedTuple

request_id: ContextVar[str | None] = ContextVar("request_id", default=None)
"""The id of the request that is being answered, for every line that is written meanwhile."""

trace: ContextVar[tuple[str, str] | None] = ContextVar("trace", default=None)
"""The ids of the trace and of the span in which the client has sent that request, if it told them."""

FIELD_CHARS_MAX = 4_096

_STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName", "color_message"}


class Configured(NamedTuple):
    """How this process logs, as words for the command of a process that is to log like it."""

    log_format: str = "console"
    level: str = "info"
    features: str = ""


configured = Configured()


def configure(log_format: Literal["console", "json"], level: str, *, features: bool) -> None:
    """Let every logger of this process, uvicorn's too, write lines of this format."""
    global configured
    configured = Configured(log_format, level, "features" if features else "")
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter((JsonLines if log_format == "json" else ConsoleLines)(features=features))
    root = logging.getLogger()
    root.handlers = [handler]
    root.setLevel(logging.WARNING)
    logging.captureWarnings(True)
    least = logging.getLevelNamesMapping()[level.upper()]
    logging.getLogger("service").setLevel(least)
    # uvicorn tells a start in four lines; ours tells it in one.
    chatty = logging.INFO if least <= logging.DEBUG else max(least, logging.WARNING)
    logging.getLogger("uvicorn.error").setLevel(chatty)


def new_request_id() -> str:
    return os.urandom(16).hex()


class _Lines(logging.Formatter):
    def __init__(self, *, features: bool) -> None:
        super().__init__()
        self._features = features

    def fields(self, record: logging.LogRecord) -> dict[str, Any]:
        """What a record says beside its message."""
        found = {name: value for name, value in vars(record).items() if name not in _STANDARD}
        sent = found.pop("sent", None)
        if self._features and sent:
            found["sent"] = sent.decode(errors="replace")[:FIELD_CHARS_MAX]
        if "request_id" not in found and (current := request_id.get()) is not None:
            found["request_id"] = current
        if (traced := trace.get()) is not None:
            found["trace_id"], found["span_id"] = traced
        return found

    def text(self, record: logging.LogRecord) -> str:
        message = record.getMessage()
        if record.name == "asyncio" and not self._features:
            message = message.split("\n", 1)[0]  # what follows quotes exceptions
        return message.strip()

    def error(self, record: logging.LogRecord) -> str | None:
        """The exception of a record, if there is one: where it was raised and what it was."""
        error = record.exc_info[1] if record.exc_info else None
        if error is None:
            return None
        if self._features:
            return "".join(traceback.format_exception(error)).rstrip()
        return "\nraised from or while handling this:\n".join(_without_texts(error))


class JsonLines(_Lines):
    """A JSON object a line: time, level, logger, message, and the record's fields."""

    def format(self, record: logging.LogRecord) -> str:
        line = {
            "time": _time(record),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": self.text(record),
            **self.fields(record),
        }
        if (error := self.error(record)) is not None:
            line["exception"] = error
        return json.dumps(line, default=str)


class ConsoleLines(_Lines):
    """Time, level, message, and the record's fields as name=value. What follows on lines of its own is indented."""

    def format(self, record: logging.LogRecord) -> str:
        fields = "".join(f" {name}={_shown(value)}" for name, value in self.fields(record).items())
        message = self.text(record).replace("\r", "\\r").replace("\n", "\n  ")
        line = f"{_time(record)} {record.levelname.lower():8} {message}{fields}"
        error = self.error(record)
        return line if error is None else f"{line}\n{indent(error, '  ')}"


class LogLimiter:
    """Lets one line a second pass, and counts those that it holds back.

    >>> seldom = LogLimiter()
    >>> seldom.turn(), seldom.turn(), seldom.turn()
    (0, None, None)
    """

    def __init__(self, seconds: float = 1.0) -> None:
        self._seconds = seconds
        self._next = -1.0
        self._held_back = 0

    def turn(self) -> int | None:
        """How many lines were held back before this one; None if this one is held back too."""
        now = monotonic()
        if now < self._next:
            self._held_back += 1
            return None
        self._next = now + self._seconds
        held_back, self._held_back = self._held_back, 0
        return held_back


def _time(record: logging.LogRecord) -> str:
    at = datetime.fromtimestamp(record.created, UTC)
    return at.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _shown(value: object) -> str:
    """
    >>> _shown("spam"), _shown(3), _shown("two words"), _shown("a\\nb")
    ('spam', '3', '"two words"', '"a\\\\nb"')
    """
    text = str(value)
    plain = text.isascii() and text.isprintable() and not set(text) & set(' "=')
    return text if plain and text else json.dumps(text)


def _without_texts(error: BaseException | None) -> list[str]:
    """An exception and those behind it: their places and types, but not what they say."""
    found: list[str] = []
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        kind = type(error)
        places = "".join(traceback.format_tb(error.__traceback__))
        found.append(f"{places}{kind.__module__}.{kind.__qualname__}".replace("builtins.", ""))
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    return found
