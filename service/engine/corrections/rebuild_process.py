"""The process that plays a model's history with the right labels.

It reads one `Task`, then `Piece`s. It answers each piece that ends with a `play` by a `Report`, and ends when there is
no more to read.
"""

import sys
from io import BufferedReader
from typing import cast

import msgspec

from service.engine.history.right_world import Outdated, RightWorld
from service.engine.jobs.messages import read_message, work, write_message
from service.events import AnyEvent, Prediction


class Task(msgspec.Struct):
    """Where to begin, and where to end."""

    start: memoryview | None
    until: int | None = None
    """A version to end at; None to go on to the newest."""


class Piece(msgspec.Struct):
    """Some events, and whether to play them and all that came since the last `play`."""

    events: list[AnyEvent]
    gone: list[int] = []
    """Which of them, by their places here, are to be as if they had never been."""
    play: bool = False
    waiting: list[Prediction] = []
    """Predictions that wait after these events and were not told of before."""
    wanted: list[str] | None = None
    """If the state is wanted: the predictions that wait."""


class Report(msgspec.Struct):
    """That the events were played, or why they could not be."""

    state: bytes | None = None
    is_outdated: bool = False
    failed: str | None = None


def run() -> None:
    task = read_message(Task)
    world = RightWorld(task.start)
    events: list[AnyEvent] = []
    gone: set[int] = set()
    while cast(BufferedReader, sys.stdin.buffer).peek(1):
        piece = read_message(Piece)
        gone |= {len(events) + place for place in piece.gone}
        events += piece.events
        if piece.play:
            world.play(events, piece.waiting, task.until, gone)
            events, gone = [], set()
            write_message(Report(None if piece.wanted is None else world.state(piece.wanted)))


def main() -> None:
    try:
        run()
    except Outdated:
        write_message(Report(is_outdated=True))


if __name__ == "__main__":
    work(main, lambda why: Report(failed=why))
