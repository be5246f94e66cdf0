"""Which names models may have, and which ids predictions."""

import re
from unicodedata import category

from novikoff.schemas import NAME_CHARS_MAX, NAME_PATTERN, NAME_RULE
from service.engine.clock import SERVER_MARK
from service.errors import InvalidRequest

_matches = re.compile(NAME_PATTERN).fullmatch


def check_id(prediction_id: str) -> None:
    """InvalidRequest unless an id that a client chose is valid; a tenant's has a prefix and `/` before it.

    >>> check_id("order-17"), check_id("acme-/order-17")
    (None, None)
    >>> check_id("0198c0ffee00~8c2b41d0a9e1f3b57a60")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    service.errors.InvalidRequest: id: '~' is in ids that the service makes: choose 1 to 128 letters, ...
    """
    chosen = prediction_id.rpartition("/")[2]
    if SERVER_MARK in chosen:
        raise InvalidRequest.at("id", f"'{SERVER_MARK}' is in ids that the service makes: choose {NAME_RULE}")
    check_name("id", chosen)


def check_name(field: str, name: str) -> None:
    """InvalidRequest unless a name is safe in URLs and in the subjects of NATS.

    >>> check_name("model", "tenant-7:spam.v2")
    >>> check_name("model", "..")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    service.errors.InvalidRequest: model: must be 1 to 128 letters, ...
    """
    if not is_name(name):
        raise InvalidRequest.at(field, f"must be {NAME_RULE}")


def check_text(field: str, text: str, chars_max: int) -> None:
    """InvalidRequest unless a text is not empty, not too long, and can be written and shown everywhere.

    >>> check_text("reason", "typo by the annotator", 256)
    >>> check_text("tag", "a\\x00b", 128)
    Traceback (most recent call last):
    service.errors.InvalidRequest: tag: must be 1 to 128 characters, none of them a control character
    """
    if not 1 <= len(text) <= chars_max or any(category(each) in ("Cc", "Cs") for each in text):
        rule = f"must be 1 to {chars_max} characters, none of them a control character"
        raise InvalidRequest.at(field, rule)


def is_name(name: object) -> bool:
    return isinstance(name, str) and len(name) <= NAME_CHARS_MAX and _matches(name) is not None
