"""Errors as RFC 9457 problem documents: the one place that knows statuses."""

import logging
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

import msgspec
from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.routing import compile_path

from novikoff.schemas import NAME_PATTERN, NAME_RULE
from service.errors import FieldError, NovikoffError, unknown
from service.runtime import logs

log = logging.getLogger(__name__)

MEDIA_TYPE = "application/problem+json"
RETRY_AFTER_SECONDS = 1

PROBLEMS: dict[str, tuple[int, str]] = {
    "malformed-json": (400, "Malformed JSON"),
    "malformed-http": (400, "Malformed HTTP request"),
    "unauthorized": (401, "Missing or invalid API key"),
    "forbidden": (403, "Permission denied"),
    "not-found": (404, "Not found"),
    "unknown-model": (404, "Model not found"),
    "unknown-prediction": (404, "Prediction not found"),
    "unknown-job": (404, "Job not found"),
    "unknown-challenger": (404, "Challenger not found"),
    "method-not-allowed": (405, "Method not allowed"),
    "request-timeout": (408, "Request timeout"),
    "model-exists": (409, "Model already exists"),
    "too-many-models": (409, "Model limit reached"),
    "challenger-exists": (409, "Challenger already exists"),
    "job-running": (409, "A job of this model is already running"),
    "feedback-conflict": (409, "Already revealed with another label"),
    "prediction-id-taken": (409, "Prediction id already used"),
    "reveal-first": (409, "An earlier prediction is pending"),
    "not-revealed": (409, "The prediction is still pending"),
    "prediction-expired": (410, "Prediction expired"),
    "prediction-void": (410, "Prediction voided"),
    "version-gone": (410, "Version no longer kept"),
    "body-too-large": (413, "Body too large"),
    "answers-untaken": (413, "Too many unread responses"),
    "unsupported-media-type": (415, "Unsupported media type"),
    "invalid-request": (422, "Invalid request"),
    "invalid-export": (422, "Invalid export"),
    "unknown-label": (422, "Unknown label"),
    "rate-limited": (429, "Too many requests"),
    "head-too-large": (431, "Request head too large"),
    "not-implemented": (501, "Unsupported transfer encoding"),
    "forget-unsupported": (501, "Journal cannot forget"),
    "internal-error": (500, "Internal error"),
    "journal-unavailable": (503, "Journal unavailable"),
    "journal-full": (503, "Journal full"),
    "model-damaged": (503, "Model damaged"),
    "outcome-unknown": (503, "Outcome unknown"),
    "prediction-under-way": (503, "Prediction not on this replica yet"),
    "not-ready": (503, "Not ready"),
    "version-not-reached": (503, "Version not reached on this replica"),
    "overloaded": (503, "Overloaded"),
}
"""Every code with its status and its title."""

NO_MEMBERS: Mapping[str, Any] = {}

_overloads = logs.LogLimiter()

_CODE_OF_STATUS = {404: "not-found", 405: "method-not-allowed", 400: "malformed-json"}


class HttpError(NovikoffError):
    """An error that only HTTP knows, and what else its answer's head has to say."""

    def __init__(self, code: str, detail: str, headers: tuple[tuple[bytes, bytes], ...] = ()) -> None:
        super().__init__(detail)
        self.code = code
        self.headers = headers


def problem(
    code: str, detail: str, fields: tuple[FieldError, ...] = (), members: Mapping[str, Any] = NO_MEMBERS
) -> tuple[int, bytes]:
    """The status and the body of a problem document, with further members."""
    document = {**problem_document(code, detail, fields), **members}
    return document["status"], msgspec.json.encode(document)


def problem_document(code: str, detail: str, fields: tuple[FieldError, ...] = ()) -> dict[str, Any]:
    status, title = PROBLEMS[code]
    if code == "overloaded" and (held_back := _overloads.turn()) is not None:
        log.warning("overloaded: %s", detail, extra={"others": held_back})
    document: dict[str, Any] = {
        "type": f"urn:novikoff:problem:{code}",
        "title": title,
        "status": status,
        "detail": detail,
        "code": code,
    }
    if fields:
        document["errors"] = [{"field": f.field, "message": f.message} for f in fields]
    return document


def headers_of(status: int) -> dict[str, str]:
    """What goes with a problem of this status."""
    if status == 503:
        return {"retry-after": str(RETRY_AFTER_SECONDS)}
    if status == 401:
        return {"www-authenticate": "Bearer"}
    return {"connection": "close"} if status == 413 else {}


def respond(
    code: str, detail: str, fields: tuple[FieldError, ...] = (), members: Mapping[str, Any] = NO_MEMBERS
) -> Response:
    status, body = problem(code, detail, fields, members)
    return Response(body, status, headers_of(status), MEDIA_TYPE)


def last_answer(code: str, detail: str) -> bytes:
    """A problem in plain bytes, for a connection that has no request to answer and is closed after it."""
    status, content = problem(code, detail)
    told = {"content-type": MEDIA_TYPE, "content-length": len(content), "connection": "close"}
    fields = "".join(f"{name}: {value}\r\n" for name, value in (told | headers_of(status)).items())
    return f"HTTP/1.1 {status} {HTTPStatus(status).phrase}\r\n{fields}\r\n".encode() + content


def internal_error(error: Exception, sent: bytes = b"") -> tuple[str, str]:
    """The code and the detail that a client gets of an error that nobody foresaw."""
    request_id = logs.request_id.get() or logs.new_request_id()
    fields = {"request_id": request_id, "sent": sent}
    log.error("unexpected error: %s", type(error).__name__, exc_info=error, extra=fields)
    return "internal-error", f"see request {request_id} in the log of the service"


def install(app: FastAPI) -> None:
    """Let every error of the app's routes become a problem document."""

    @app.exception_handler(NovikoffError)
    async def ours(_: Request, error: NovikoffError) -> Response:
        answer = respond(error.code, error.detail, error.fields, error.members)
        if isinstance(error, HttpError):
            answer.headers.update({name.decode(): value.decode() for name, value in error.headers})
        return answer

    @app.exception_handler(RequestValidationError)
    async def invalid(request: Request, error: RequestValidationError) -> Response:
        if any(e["type"] == "json_invalid" for e in error.errors()):
            return respond("malformed-json", "the body is not valid JSON")
        known = _names(app, request)
        fields = tuple(FieldError(_field(e), _message(e, known)) for e in error.errors())
        return respond("invalid-request", "; ".join(f"{f.field}: {f.message}" for f in fields), fields)

    @app.exception_handler(HTTPException)
    async def http(request: Request, error: HTTPException) -> Response:
        answer = respond(_CODE_OF_STATUS.get(error.status_code, "internal-error"), str(error.detail))
        if error.status_code == 405:
            answer.headers["allow"] = ", ".join(sorted(_methods(app, request)))
        return answer

    @app.exception_handler(Exception)
    async def unforeseen(_: Request, error: Exception) -> Response:
        return respond(*internal_error(error))


def _methods(app: FastAPI, request: Request) -> set[str]:
    """The methods that this path takes: each has a route of its own."""
    paths: dict[str, dict[str, Any]] = app.openapi()["paths"]
    matching = (path for path in paths if compile_path(path)[0].match(request.url.path))
    return {method.upper() for path in matching for method in paths[path]}


def _field(error: dict[str, Any]) -> str:
    """Where in the body, path or query it is: `learner.delta`, or that place itself."""
    path = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in error["loc"][1:])
    if error["type"] == "part":  # a check of ours that knows better where it is
        path += "." + error["ctx"]["part"]
    return path.lstrip(".")[:200] or str(error["loc"][0])


def _names(app: FastAPI, request: Request) -> list[str]:
    """The fields of the body of this route, those of objects in it too: `learner`, `learner.algorithm`."""
    document = app.openapi()
    schemas = document["components"]["schemas"]
    found: list[str] = []

    def enter(schema: dict[str, Any], prefix: str, depth: int) -> None:
        schema = schemas[schema["$ref"].rpartition("/")[2]] if "$ref" in schema else schema
        for choice in (*schema.get("anyOf", ()), *schema.get("oneOf", ())):
            enter(choice, prefix, depth)
        for name, part in schema.get("properties", {}).items() if depth else ():
            found.append(prefix + name)
            enter(part, f"{prefix}{name}.", depth - 1)

    operation = document["paths"].get(request.scope["route"].path, {}).get(request.method.lower(), {})
    for content in operation.get("requestBody", {}).get("content", {}).values():
        enter(content["schema"], "", 2)
    return found


def _message(error: dict[str, Any], known: list[str]) -> str:
    if error["type"] == "extra_forbidden":
        *inside, name = map(str, error["loc"][1:])
        prefix = ".".join([*inside, ""])
        return unknown(prefix + name[:200], [each for each in known if each.startswith(prefix)])
    if error["type"] == "missing":
        return "is missing"
    if error["type"] == "string_pattern_mismatch" and error["ctx"]["pattern"] == NAME_PATTERN:
        return f"must be {NAME_RULE}"
    return str(error["msg"]).removeprefix("Value error, ")
