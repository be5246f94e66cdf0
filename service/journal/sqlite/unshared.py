"""What a journal answers that nobody else appends to: there is nothing to lag behind or to be cut off from."""

import time


class Unshared:
    """The part of `Journal` that concerns others."""

    is_shared = False
    is_connected = True
    why_out_of_touch = None
    lag_events = 0

    def time_us(self) -> int:
        return time.time_ns() // 1000

    async def refresh(self) -> None:
        """There is nobody to ask."""

    async def may_arrive_later(self, prediction_id: str) -> bool:
        return False
