"""The errors of the clients.

NovikoffError
├── Refused         the service refused a request: `code`, `status`, `detail`, `fields`
│   └── Ended       the service ended a stream: no line from there on was learned
├── Unreachable     there was no answer within the time for retries
│   └── CutOff      fewer lines of a stream were answered than were sent
├── NotUnderstood   the answer cannot be decoded: it is of another program, or of a much newer service
└── BadOption       the client was made with a URL or a key that cannot be used; a ValueError, too
"""

from typing import Any

import httpx
import msgspec

from service.errors import FieldError, NovikoffError


class _Document(msgspec.Struct):
    code: str
    status: int = 0
    detail: str = ""
    errors: tuple[FieldError, ...] = ()


class Refused(NovikoffError):
    """A problem document of the service. `code` is stable; the words of `detail` are not."""

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


def refusal_of(document: dict[str, Any], *, is_last: bool = False) -> Refused:
    """The error that a problem document stands for; `is_last` if it has ended a stream."""
    known = msgspec.convert(document, _Document)
    kind = Ended if is_last else Refused
    return kind(known.code, known.status, known.detail, known.errors)


def refusal(response: httpx.Response) -> Refused:
    """The error of an answer, even if a proxy made it and it is no problem document.

    >>> str(refusal(httpx.Response(410, json={"code": "prediction-expired", "detail": "too late"})))
    'too late (prediction-expired, 410)'
    >>> str(refusal(httpx.Response(502, text="<h1>Bad gateway</h1>")))
    'Bad Gateway (http-502, 502)'
    """
    status = response.status_code
    try:
        document = msgspec.json.decode(response.content, type=_Document)
    except msgspec.MsgspecError:
        return Refused(f"http-{status}", status, response.reason_phrase or "an unknown status")
    return Refused(document.code, status, document.detail, document.errors)
