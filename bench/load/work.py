"""What clients are to send, and what came of it."""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Work:
    """Bodies to POST to a path, over and over.

    With `reveals`, each prediction that is answered is followed by its feedback on the same connection; one
    in ten is told to be a mistake.
    """

    path: str
    bodies: Sequence[bytes]
    reveals: bool = False


@dataclass(frozen=True, slots=True)
class Load:
    """`not_ok` counts the answers that were not 200, which are no part of the rate, and broken connections."""

    requests: int
    not_ok: int
    seconds: float

    @property
    def rate(self) -> float:
        return (self.requests - self.not_ok) / self.seconds
