"""Predictions that a replica has answered and not yet sent to the cluster, so that no other replica can find them."""

from service.errors import JournalUnavailable, PredictionUnderWay
from service.journal.protocol import Journal

UNDER_WAY_US = 600_000_000
"""How long that may last. A replica that is cut off soon refuses to predict, and within ten minutes it has reached the
cluster again or was replaced. So an older id that is unknown stays unknown."""


async def check_in_touch(journal: Journal) -> None:
    """JournalUnavailable if this replica is cut off: others could not find a prediction that it makes now."""
    if journal.why_out_of_touch is None:
        return
    await journal.refresh()
    if (why := journal.why_out_of_touch) is not None:
        raise JournalUnavailable(f"{why}, so nobody else would find this prediction")


async def check_not_under_way(journal: Journal, prediction_id: str, age: int) -> None:
    """PredictionUnderWay if an unknown id, made by the service `age` microseconds ago, may still become known."""
    if abs(age) < UNDER_WAY_US and await journal.may_arrive_later(prediction_id):
        raise PredictionUnderWay(
            f"there is no prediction {prediction_id!r} here yet: another replica may have yet to hand it over"
        )
