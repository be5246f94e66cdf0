"""What models and predictions may be called."""

import re

from service.errors import InvalidRequest

NAME_PATTERN = r"^\.*[A-Za-z0-9_:-][A-Za-z0-9._:-]*$"
NAME_CHARS_MAX = 128
NAME_RULE = f"1 to {NAME_CHARS_MAX} letters, digits, '.', '_', '-' and ':', not dots alone"

_matches = re.compile(NAME_PATTERN).fullmatch


def check_id(prediction_id: str) -> None:
    """InvalidRequest unless the id of a prediction is a name, alone or after that of its owner.

    >>> check_id("order-17"), check_id("acme-/order-17")
    (None, None)
    """
    check_name("id", prediction_id.rpartition("/")[2])


def check_name(field: str, name: str) -> None:
    """InvalidRequest unless the name is one that paths, subjects and people can take.

    >>> check_name("model", "tenant-7:spam.v2")
    >>> check_name("model", "..")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    service.errors.InvalidRequest: model: must be 1 to 128 letters, ...
    """
    if len(name) > NAME_CHARS_MAX or not _matches(name):
        raise InvalidRequest.at(field, f"must be {NAME_RULE}")
