"""Predictions that another replica has answered and the cluster has not got yet."""

from service.errors import JournalUnavailable, PredictionUnderWay
from service.journal.protocol import Journal

UNDER_WAY_US = 600_000_000
"""How long that may be so. A replica that is cut off soon makes no more predictions, and within ten minutes it has
found the cluster again or was replaced: an id that is older and unknown stays unknown."""


async def check_in_touch(journal: Journal) -> None:
    """JournalUnavailable if a prediction that is made now could not be found by anybody else."""
    if journal.why_out_of_touch is None:
        return
    await journal.refresh()
    if (why := journal.why_out_of_touch) is not None:
        raise JournalUnavailable(f"{why}, so nobody else would find this prediction")


async def check_not_under_way(journal: Journal, prediction_id: str, age: int) -> None:
    """PredictionUnderWay if an id of the service's own, made `age` microseconds ago, may still become known."""
    if abs(age) < UNDER_WAY_US and await journal.may_arrive_later(prediction_id):
        raise PredictionUnderWay(
            f"there is no prediction {prediction_id!r} here yet: another replica may have yet to hand it over"
        )
