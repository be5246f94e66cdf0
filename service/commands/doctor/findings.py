"""What the doctor finds."""

import sqlite3
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

Repair = Callable[[sqlite3.Connection], object]


class Weight(StrEnum):
    problem = "problem"
    note = "note"


@dataclass(frozen=True, slots=True)
class Finding:
    """What is wrong, where, and what would mend it; a note is nothing to worry about."""

    where: str
    words: str
    remedy: str = ""
    repair: Repair | None = None
    weight: Weight = Weight.problem


def statement(sql: str, *values: object) -> Repair:
    """A repair that is one statement."""
    return lambda connection: connection.execute(sql, values)
