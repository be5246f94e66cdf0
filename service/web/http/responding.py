"""Answers of plain ASGI endpoints: JSON that is encoded already, and every error as a problem document."""

from typing import Any

import msgspec

from service.errors import NovikoffError, OutcomeUnknown
from service.web.http.bodies import Header, Send
from service.web.http.security_headers import NOSNIFF
from service.web.problems import MEDIA_TYPE, HttpError, headers_of, internal_error, problem_document

JSON: Header = (b"content-type", b"application/json")
PROBLEM: Header = (b"content-type", MEDIA_TYPE.encode())
NO_HEADERS: tuple[Header, ...] = ()


async def respond(send: Send, status: int, headers: tuple[Header, ...], content: bytes) -> None:
    length = (b"content-length", b"%d" % len(content))
    headers = (*headers, NOSNIFF, length)
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": content})


async def respond_with(send: Send, error: Exception) -> int:
    """Tell a client of an error; the status."""
    status, headers, content = as_problem(error)
    await respond(send, status, headers, content)
    return status


def stopped() -> OutcomeUnknown:
    """What a request is told that was cancelled: uvicorn stops, and has waited for it for `shutdown_seconds`."""
    return OutcomeUnknown("the service stops, and this was not finished: whether it was done is not known")


def as_problem(error: Exception, sent: bytes = b"") -> tuple[int, tuple[Header, ...], bytes]:
    """The status, the headers and the content that tell a client of an error."""
    document = document_of(error, sent)
    status = document["status"]
    more = ((name.encode(), value.encode()) for name, value in headers_of(status).items())
    own = error.headers if isinstance(error, HttpError) else NO_HEADERS
    return status, (PROBLEM, *more, *own), msgspec.json.encode(document)


def document_of(error: Exception, sent: bytes = b"") -> dict[str, Any]:
    """The problem document of any error; what was `sent` is for the log, if the log may have it."""
    if isinstance(error, NovikoffError):
        return problem_document(error.code, error.detail, error.fields)
    return problem_document(*internal_error(error, sent))
