"""Every text that a person reads is in plain technical English: these phrases do not appear, nor synonyms of one term.

`python -m tests.support.user_strings` lists the texts.
"""

import re

import pytest

from tests.support.user_strings import PLACES, Text, files, texts

RIDDLES = (
    *(
        "does not count for",
        "it does not count",
        "is told",
        "are told",
        "be told",
        "told apart",
        "tells apart",
    ),
    *(
        "whoever",
        "so-manieth",
        "just now",
        "what waits",
        "those that wait",
        "gives way",
        "give way",
        "giving way",
    ),
    *("mended", "lately", "siege", "at a stretch", "leavings", "as there may be", "by its name"),
    *(
        "no longer there",
        "nobody may",
        "nobody can",
        "nobody is",
        "nobody was",
        "nobody answers",
        "nobody has",
    ),
    *(
        "called so",
        "made anew",
        "loaded anew",
        "counts anew",
        "as it came",
        "not known here",
        "more than may be",
    ),
)
"""Say what happened with the standard term instead."""

SYNONYMS = {
    r"with commas between|separated by commas": "comma-separated",
    r"waiting predictions?|predictions? that waits?\b": "pending prediction",
    r"good for this": "allowed",
    r"does not answer\b": "does not respond",
}
"""One word for one thing."""


def of_kind(*kinds: str) -> list[Text]:
    return [text for path in files(PLACES) for text in texts(path) if text.kind in kinds]


@pytest.mark.parametrize("kind", ["message", "docstring", "comment", "document"])
def test_no_text_has_words_that_a_reader_would_not_search_for(kind: str) -> None:
    riddle = re.compile("|".join(rf"\b{re.escape(phrase)}\b" for phrase in RIDDLES), re.IGNORECASE)
    found = [str(text) for text in of_kind(kind) if riddle.search(text.words)]
    assert not found, "\n".join(found)


@pytest.mark.parametrize(("pattern", "word"), SYNONYMS.items())
def test_one_thing_has_one_word(pattern: str, word: str) -> None:
    found = [
        str(text) for text in of_kind("message", "document") if re.search(pattern, text.words, re.IGNORECASE)
    ]
    assert not found, f"say {word!r}:\n" + "\n".join(found)
