"""Names of models and ids of predictions and jobs: those that clients choose, and those that the service makes."""

import os
import re
from unicodedata import category

from novikoff.schemas import NAME_CHARS_MAX, NAME_PATTERN, NAME_RULE
from service.errors import InvalidRequest

_matches = re.compile(NAME_PATTERN).fullmatch


def check_id(prediction_id: str) -> None:
    """InvalidRequest unless an id that a client chose is valid; a tenant's has a prefix and `/` before it.

    >>> check_id("order-17"), check_id("acme-/order-17")
    (None, None)
    >>> check_id("0198c0ffee00~8c2b41d0a9e1f3b57a60")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    service.errors.InvalidRequest: id: '~' is reserved for ids made by the service: choose 1 to 128 letters, ...
    """
    chosen = prediction_id.rpartition("/")[2]
    if SERVER_MARK in chosen:
        raise InvalidRequest.at(
            "id", f"'{SERVER_MARK}' is reserved for ids made by the service: choose {NAME_RULE}"
        )
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


SERVER_MARK = "~"
"""Stands between the time and the random digits of an id that the service made. Ids that clients choose cannot have
it, so none of them is taken for one of the service's."""


def make_prediction_id(at: int) -> str:
    """An id that sorts by time and cannot be guessed: 48 bits of milliseconds, 80 random bits.

    >>> len(make_prediction_id(0)), make_prediction_id(5_000)[:13]
    (33, '000000000005~')
    """
    return f"{at // 1000:012x}{SERVER_MARK}{_random_digits()}"


def make_job_id(at: int) -> str:
    """The same without SERVER_MARK, which it does not need: clients choose no ids of jobs.

    >>> len(make_job_id(0)), make_job_id(5_000)[:12]
    (32, '000000000005')
    """
    return f"{at // 1000:012x}{_random_digits()}"


TIME_DIGITS = 12
RANDOM_DIGITS = 20
HEX_DIGITS = frozenset("0123456789abcdef")
POOL_SIZE = 400
_random_pool: list[str] = []


def _random_digits() -> str:
    """Twenty hexadecimal digits from `os.urandom`, which is asked for many at a time: a call takes 4 µs."""
    if not _random_pool:
        digits = os.urandom(RANDOM_DIGITS // 2 * POOL_SIZE).hex()
        _random_pool.extend(digits[at : at + RANDOM_DIGITS] for at in range(0, len(digits), RANDOM_DIGITS))
    return _random_pool.pop()


def made_at(prediction_id: str) -> int | None:
    """When the service made an id, to the millisecond; None for an id that a client chose.

    Ids made by version 0.1.0 have no `~` and count as chosen by a client.

    >>> made_at(make_prediction_id(5_000_999)), made_at("order-17")
    (5000000, None)
    """
    millis, mark, rest = prediction_id.partition(SERVER_MARK)
    if not mark or not _has_hex_digits(millis, TIME_DIGITS) or not _has_hex_digits(rest, RANDOM_DIGITS):
        return None
    return int(millis, 16) * 1000


def _has_hex_digits(text: str, count: int) -> bool:
    """
    >>> _has_hex_digits("00ff", 4), _has_hex_digits("0_ff", 4), _has_hex_digits("00FF", 4)
    (True, False, False)
    """
    return len(text) == count and HEX_DIGITS.issuperset(text)
