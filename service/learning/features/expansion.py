"""From `{"name": value}` to one number for each feature: the form that named and hashed features share."""

import re
from collections.abc import Mapping
from typing import Any

from service.learning.features.contract import BadFeatures
from service.learning.vectors import LARGEST

NAME_CHARS_MAX = 256
"""Of a name, a category, a word in a list. A longer word of a text is cut."""

EXPANDED_CHARS_MAX = 2 * NAME_CHARS_MAX + 1
"""Of a name with its category or word, as in `city=Bonn`."""

TEXT_CHARS_MAX = 65_536

FEATURES_MAX = 65_536
"""Of one example, after expansion."""

_WORD = re.compile(r"\w+")


def words(text: str) -> list[str]:
    """The words of a text in lower case: runs of letters, digits and underscores of any script.

    >>> words("Größe: 7 cm, it's BIG")
    ['größe', '7', 'cm', 'it', 's', 'big']
    """
    return [word[:NAME_CHARS_MAX] for word in _WORD.findall(text.lower())]


def expand(sent: Any, text: frozenset[str]) -> dict[str, float]:
    """Every feature of an example with its value, in the order of their names.

    Numbers stay, booleans are 0 and 1, a string is the feature `name=value` with the value 1, a list of
    strings or a text counts its words; what falls on the same name is added up.

    >>> expand({"age": 7, "new": True, "city": "Bonn", "tags": ["a", "b", "a"], "subject": "Buy!"},
    ...        frozenset(["subject"]))
    {'age': 7.0, 'city=Bonn': 1.0, 'new': 1.0, 'subject=buy': 1.0, 'tags=a': 2.0, 'tags=b': 1.0}
    """
    if not isinstance(sent, Mapping):
        raise BadFeatures("features", "this model expects names with values, not a list")
    if not sent:
        raise BadFeatures("features", "needs at least one feature")
    found: dict[str, float] = {}
    for name, value in sent.items():
        _expand_one(found, name, value, name in text)
    if len(found) > FEATURES_MAX:
        raise BadFeatures("features", f"has {len(found)} features; at most {FEATURES_MAX} are taken")
    try:
        "".join(found).encode()
    except UnicodeEncodeError:
        raise BadFeatures("features", "has half a surrogate pair, which is not a character") from None
    return dict(sorted(found.items()))


def _expand_one(found: dict[str, float], name: str, value: Any, is_text: bool) -> None:
    if not 0 < len(name) <= NAME_CHARS_MAX:
        raise BadFeatures("features", f"a name must have 1 to {NAME_CHARS_MAX} characters, not {len(name)}")
    field = f"features.{name}"
    if is_text:
        if not isinstance(value, str):
            raise BadFeatures(field, "is a text and must be a string")
        if len(value) > TEXT_CHARS_MAX:
            raise BadFeatures(field, f"has {len(value)} characters; a text has at most {TEXT_CHARS_MAX}")
        _count(found, name, words(value))
    elif isinstance(value, int | float):
        if not abs(value) <= LARGEST:
            raise BadFeatures(field, f"must be a number of at most {LARGEST:g} in magnitude")
        found[name] = found.get(name, 0.0) + float(value)
    elif isinstance(value, str):
        _check_word(field, value)
        _count(found, name, [value])
    elif isinstance(value, list | tuple):
        if len(value) > FEATURES_MAX:
            raise BadFeatures(field, f"has {len(value)} entries; at most {FEATURES_MAX} are taken")
        for word in value:
            _check_word(field, word)
        _count(found, name, value)
    else:
        raise BadFeatures(field, "must be a finite number, a boolean, a string or a list of strings")


def _check_word(field: str, word: Any) -> None:
    if not isinstance(word, str):
        raise BadFeatures(field, "must be a finite number, a boolean, a string or a list of strings")
    if len(word) > NAME_CHARS_MAX:
        raise BadFeatures(
            field,
            f"has {len(word)} characters; a category has at most {NAME_CHARS_MAX}. "
            "A field named in `features.text` is split into words instead",
        )


def _count(found: dict[str, float], name: str, bag: list[str] | tuple[str, ...]) -> None:
    for word in bag:
        feature = f"{name}={word}"
        found[feature] = found.get(feature, 0.0) + 1.0
