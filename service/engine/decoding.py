"""Errors of the JSON decoder, turned into ours with the field that is wrong."""

import json
import re
from contextlib import suppress
from typing import NoReturn

import msgspec

from service.errors import FieldError, InvalidRequest, MalformedJson, unknown

UNDECODABLE = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
"""What the decoder raises; UnicodeDecodeError for a key of an object that is not UTF-8, RecursionError for lists or
objects within each other, hundreds deep."""

NOT_FINITE = "must be a finite number"

_PATH = re.compile(r"(?P<message>.*?)(?: - at `(?P<path>.*)`)?", re.DOTALL)
_FIELD = re.compile(r"Object (?:missing required|contains unknown) field `(?P<field>.*)`", re.DOTALL)


def check_json(body: bytes) -> None:
    """MalformedJson unless the body is JSON that all routes take: not too deep, and without half surrogate pairs.

    InvalidRequest if an object in it has a name more than once. For routes whose bodies FastAPI reads, with a decoder
    that lets strings pass which nothing can encode again.
    """
    try:
        msgspec.json.decode(body)
    except UNDECODABLE as error:
        raise_problem(error)
    check_names(body)


def check_names(body: bytes) -> None:
    """InvalidRequest if an object has a name more than once, of which the decoder takes the last.

    >>> check_names(b'{"a": [{"b": 1, "b": 2}]}')
    Traceback (most recent call last):
    service.errors.InvalidRequest: b: appears more than once
    """
    with suppress(ValueError, RecursionError):
        json.loads(body, object_pairs_hook=_check_names_of)


def _check_names_of(pairs: list[tuple[str, object]]) -> None:
    seen: set[str] = set()
    for name, _ in pairs:
        if name in seen:
            raise InvalidRequest.at(name[:200].encode(errors="replace").decode(), "appears more than once")
        seen.add(name)


def raise_problem(
    error: msgspec.MsgspecError | UnicodeDecodeError | RecursionError,
    shape: type[object] | None = None,
) -> NoReturn:
    """Raise MalformedJson or InvalidRequest for what the decoder of a `shape` raised."""
    if isinstance(error, RecursionError):
        raise MalformedJson("the body is nested too deeply") from None
    if not isinstance(error, msgspec.ValidationError):
        raise MalformedJson("the body is not valid JSON") from None
    found = _PATH.fullmatch(str(error))
    assert found is not None
    message, path = found["message"], (found["path"] or "").removeprefix("$").lstrip(".")
    named = _FIELD.fullmatch(message)
    if named is not None:
        field = f"{path}.{named['field']}".lstrip(".")[:200]
        known = () if shape is None or path else getattr(shape, "__struct_encode_fields__", ())
        message = "is missing" if "missing" in message else unknown(named["field"][:200], known)
    else:
        field = path or "body"
        message = message[:1].lower() + message[1:].replace("`", "")
        if (
            message == "expected float, got null"
        ):  # how programs write NaN and infinities that JSON does not have
            message = NOT_FINITE
    raise InvalidRequest(f"{field}: {message}", (FieldError(field, message),)) from None
