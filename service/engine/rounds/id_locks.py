"""One request at a time for each prediction id, however many come at once."""

from asyncio import CancelledError, Future, get_running_loop
from collections import deque


class IdLocks:
    """Locks by id, acquired in the order in which they were asked for.

    What a request has found out about an id stays true until it lets go of it, however often it waits for the
    disk or for a model to be loaded in between.
    """

    def __init__(self) -> None:
        # For each locked id, the requests that wait for it; None while there are none.
        self._waiting: dict[str, deque[Future[None]] | None] = {}

    def __contains__(self, prediction_id: object) -> bool:
        """Whether a request is under way with this id."""
        return prediction_id in self._waiting

    def try_acquire(self, prediction_id: str) -> bool:
        """Take the lock if it is free; else `acquire` waits for it."""
        if prediction_id in self._waiting:
            return False
        self._waiting[prediction_id] = None
        return True

    async def acquire(self, prediction_id: str) -> None:
        if self.try_acquire(prediction_id):
            return
        waiting = self._waiting[prediction_id]
        if waiting is None:
            waiting = self._waiting[prediction_id] = deque()
        turn: Future[None] = get_running_loop().create_future()
        waiting.append(turn)
        try:
            await turn
        except CancelledError:
            if not turn.cancelled():  # cancelled after it was given the lock: give it on
                self.release(prediction_id)
            raise

    def release(self, prediction_id: str) -> None:
        waiting = self._waiting[prediction_id]
        while waiting:
            turn = waiting.popleft()
            if not turn.done():  # else that request was cancelled
                turn.set_result(None)
                return
        del self._waiting[prediction_id]
