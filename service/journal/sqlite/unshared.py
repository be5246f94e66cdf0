"""The part of the `Journal` protocol that is about other replicas, for a journal that has none."""

import time


class Unshared:
    """Constant answers: no other process appends, so this one never lags behind and is never out of touch."""

    is_shared = False
    is_connected = True
    why_out_of_touch = None
    lag_events = 0

    def time_us(self) -> int:
        return time.time_ns() // 1000

    async def refresh(self) -> None:
        """Does nothing: there is no other replica to hear from."""

    async def may_arrive_later(self, prediction_id: str) -> bool:
        return False
