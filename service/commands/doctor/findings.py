"""A finding of the doctor, and its repair."""

import sqlite3
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

Repair = Callable[[sqlite3.Connection], object]


class Severity(StrEnum):
    problem = "problem"
    note = "note"


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that is wrong, or worth a note."""

    where: str
    """The name of a model, or `file`."""
    message: str
    remedy: str = ""
    """What the user can do, in words."""
    repair: Repair | None = None
    """What --repair does, if it can do anything."""
    loses: str = ""
    """What the repair gives up, in words."""
    severity: Severity = Severity.problem
    """A problem makes the exit status 1, a note does not."""


def statement(sql: str, *values: object) -> Repair:
    """A repair that is one statement."""
    return lambda connection: connection.execute(sql, values)
