"""What a stream counts, and how it answers bad lines."""

from dataclasses import dataclass, field
from typing import Any

from service.web.http.responding import document_of

ERRORS_TOLD_MAX = 10
"""How many errors a summary has in full."""


@dataclass(slots=True)
class Tally:
    """The counts that `?answers=summary` answers with."""

    lines: int = 0
    predicted: int = 0
    revealed: int = 0
    mistakes: int = 0
    errors: int = 0
    first_errors: list[dict[str, Any]] = field(default_factory=list)

    def add_rounds(self, rounds: int, mistakes: int) -> None:
        self.lines += rounds
        self.revealed += rounds
        self.mistakes += mistakes

    def add_error(self, document: dict[str, Any] | None) -> None:
        """`document`: what the error is, unless it is only counted."""
        self.lines += 1
        self.errors += 1
        if document is not None and len(self.first_errors) < ERRORS_TOLD_MAX:
            self.first_errors.append(document)


def with_errors(
    answers: list[object], wrong: dict[int, Exception], tally: Tally, errors_max: int
) -> list[object]:
    """The answers of a chunk with those to its bad lines, which are counted.

    Past `errors_max` bad lines of the stream, one answer stands for all that stand together.

    >>> from service.web.problems import HttpError
    >>> bad = dict.fromkeys([0, 1, 3], HttpError("malformed-json", "x"))
    >>> [each if each == "good" else each.get("lines") for each in with_errors(["good"] * 4, bad, Tally(), 0)]
    [2, 'good', 1]
    """
    summed_up: dict[str, Any] = {}
    left_out: set[int] = set()
    last = -1
    for at, error in sorted(wrong.items()):
        if tally.errors < errors_max:
            document = document_of(error)
            answers[at] = {"error": document}
            tally.add_error(document)
            continue
        if summed_up and at == last + 1:
            summed_up["lines"] += 1
            left_out.add(at)
        else:
            answers[at] = summed_up = {"error": document_of(error), "lines": 1}
        last = at
        tally.add_error(None)
    if not left_out:
        return answers
    return [answer for at, answer in enumerate(answers) if at not in left_out]
