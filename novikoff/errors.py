"""The exceptions of the clients, and what those of the service derive from.

NovikoffError
├── Refused         the service refused a request: `code`, `status`, `detail`, `fields`
│   └── Ended       the service ended a stream: no line from there on was learned
├── Unreachable     there was no answer within the time for retries
│   └── CutOff      fewer lines of a stream were answered than were sent
├── NotUnderstood   the answer cannot be decoded: it is of another program, or of a much newer service
└── BadOption       the client was made with a URL or a key that cannot be used; a ValueError, too
"""

import copyreg
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgspec


@dataclass(frozen=True, slots=True)
class FieldError:
    """What is wrong with one field of a request."""

    field: str
    message: str


class NovikoffError(Exception):
    code = "error"
    members: Mapping[str, Any] = {}
    """What the problem document has beside what all have."""

    def __init__(self, detail: str, fields: tuple[FieldError, ...] = ()) -> None:
        super().__init__(detail)
        self.detail = detail
        self.fields = fields

    def __reduce__(self) -> tuple[Any, ...]:
        """For pickle and copy: all attributes as they are, whatever the constructor of a subclass asks for."""
        return copyreg.__newobj__, (type(self), *self.args), self.__dict__  # type: ignore[attr-defined]


class Problem(msgspec.Struct):
    """A problem document of the service (RFC 9457)."""

    code: str
    status: int = 0
    detail: str = ""
    errors: tuple[FieldError, ...] = ()


class Refused(NovikoffError):
    """A problem document of the service. `code` is stable; the words of `detail` are not."""

    retry_after_seconds = 0.0
    """When the service asks to try again, if it does."""

    def __init__(self, code: str, status: int, detail: str, fields: tuple[FieldError, ...] = ()) -> None:
        super().__init__(detail, fields)
        self.code = code
        self.status = status

    def __str__(self) -> str:
        return f"{self.detail} ({self.code}, {self.status})"


class Ended(Refused):
    """The last answer of a stream that the service ended, in the place of the first line that was not learned."""


class Unreachable(NovikoffError):
    code = "unreachable"


class CutOff(Unreachable):
    """An answer that ended too early though HTTP says that it is whole, as some proxies do."""

    code = "cut-off"


class NotUnderstood(NovikoffError):
    code = "not-understood"


class BadOption(NovikoffError, ValueError):
    code = "bad-option"
