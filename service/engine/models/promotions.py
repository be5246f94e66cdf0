"""Promotions that have been: which challenger took whose place, and when."""

from typing import Any, NamedTuple

from service.engine.names import is_name
from service.learning import saved

PROMOTIONS_KEPT = 16
"""So many are remembered; the audit trail has them all."""


class Promotion(NamedTuple):
    """That a challenger and a champion changed places, after so many reveals."""

    round: int
    challenger: str
    former: str
    by_evidence: bool


def restored(kept: Any, promotions: int) -> list[Promotion]:
    """The last of so many promotions, from a saved state; `saved.BadState` if they cannot be."""
    most = min(promotions, PROMOTIONS_KEPT)
    is_short = type(kept) is list and len(kept) <= most
    saved.check(is_short, "last_promotions", f"must be a list of at most {most}")
    found = []
    for at, each in enumerate(kept):
        with saved.Within(f"last_promotions[{at}]"):
            number, challenger, former, by_evidence = saved.items(each, 4)
            saved.check(is_name(challenger) and is_name(former), "", "must be of names")
            found.append(
                Promotion(saved.whole(number, "[0]"), challenger, former, saved.truth(by_evidence, "[3]"))
            )
    return found
