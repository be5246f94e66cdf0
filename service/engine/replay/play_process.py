"""The process that plays a model's history as it would have been.

It reads one `Task`, then `Piece`s. It answers each piece that is to be played with a `Report`, and others before that
say how far it is. It ends when there is no more to read."""

import sys
import time
from collections.abc import Iterator
from io import BufferedReader
from typing import Any, Literal, cast

import msgspec
import numpy as np

from service.engine.replay.counterfactual import Counterfactual, Outdated, World
from service.events import AnyEvent, Label, Prediction
from service.learning.certainty.duel import Duel, Record
from service.runtime.child import read_message, run_limited_child, write_message

CURVE_POINTS = 100


def compare(own: World, others: list[World], confidence: float) -> list[dict[str, Any]]:
    """What to report of each of the others, in their order."""
    return [
        figures(world, confidence)
        | _duel(world.mistakes, own.mistakes).report(confidence, factor=len(others))
        for world in others
    ]


def figures(world: World, confidence: float) -> dict[str, Any]:
    record = Record()
    for mistake in world.mistakes:
        record.observe(bool(mistake))
    return record.report(confidence) | {"updates": world.model.updates, "curve": curve(world.mistakes)}


def curve(mistakes: bytearray) -> list[dict[str, float]]:
    """The error up to some of the rounds, at most CURVE_POINTS of them, the last one included.

    >>> curve(bytearray([1, 0, 0, 1]))
    [{'round': 1, 'error_rate': 1.0}, {'round': 2, 'error_rate': 0.5}, {'round': 3, 'error_rate': 0.3333333333333333}, \
{'round': 4, 'error_rate': 0.5}]
    """
    rounds = len(mistakes)
    points = min(rounds, CURVE_POINTS)
    places = np.linspace(1, rounds, points).round().astype(int) if points else np.empty(0, int)
    sums = np.cumsum(np.frombuffer(mistakes, np.uint8), dtype=np.int64)
    return [{"round": int(at), "error_rate": float(sums[at - 1] / at)} for at in places]


def _duel(mistakes: bytearray, of_live: bytearray) -> Duel:
    duel = Duel()
    for mistaken, live_mistaken in zip(mistakes, of_live, strict=True):
        duel.observe(bool(mistaken), bool(live_mistaken))
    return duel


REPORT_SECONDS = 0.1


class Task(msgspec.Struct):
    """Where to begin and where to end, and what is wanted."""

    start: memoryview | None
    until: int | None = None
    """A version to end at; None to go on to the newest."""
    tried: list[dict[str, Any]] = []
    """Settings of further models that see the same."""
    confidence: float = 0.95
    keep: Literal["model", "learner"] | None = None
    """Of the best of those: its state, or what a challenger needs to go on from there."""


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
    is_compared: bool = False
    """Whether it is wanted how the settings that are tried have done."""
    is_traced: bool = False
    """Whether it is wanted what takes the places of events once others are erased."""


class Report(msgspec.Struct):
    """How far it is, in `progress`; or that the events were played, or why they could not be."""

    progress: dict[str, Any] | None = None
    state: bytes | None = None
    """What was wanted: of the model itself, or of the best of those that are compared."""
    result: dict[str, Any] | None = None
    """Of the comparison, as the job shows it."""
    settings: dict[str, Any] | None = None
    """Of the best."""
    instead: dict[int, AnyEvent] | None = None
    """By place, what takes the places of events."""
    labels_gone: list[Label] = []
    """Those that only erased events have brought."""
    is_outdated: bool = False
    failed: str | None = None


def compared(world: Counterfactual, task: Task) -> Report:
    """How the settings that were tried have done, the best first."""
    found = compare(world.own, world.others, task.confidence)
    ranking = sorted(range(len(found)), key=lambda place: found[place]["mistakes"])
    result = {
        "from_version": world.first_version,
        "to_version": world.versions[-1] if world.versions else world.first_version,
        "is_whole": world.is_whole,
        "live": figures(world.own, task.confidence),
        "settings": [{"place": place, **found[place]} for place in ranking],
    }
    best = world.others[ranking[0]]
    if task.keep is None:
        return Report(result=result)
    state = best.model.to_bytes() if task.keep == "model" else best.learner_bytes(world.model)
    return Report(result=result, settings=best.model.settings, state=state)


def pieces() -> Iterator[Piece]:
    """Those that are to be played, with all events that came before them."""
    events: list[AnyEvent] = []
    gone: list[int] = []
    while cast(BufferedReader, sys.stdin.buffer).peek(1):
        piece = read_message(Piece)
        gone += [len(events) + place for place in piece.gone]
        events += piece.events
        if piece.play:
            piece.events, piece.gone = events, gone
            yield piece
            events, gone = [], []


def run() -> None:
    task = read_message(Task)
    world = Counterfactual(task.start, task.tried)
    told = 0.0

    def report(share: float) -> None:
        nonlocal told
        if task.tried and time.monotonic() - told >= REPORT_SECONDS:
            told = time.monotonic()
            write_message(Report(progress={"settings": len(task.tried), "share": round(share, 4)}))

    for number, piece in enumerate(pieces()):
        try:
            gone = frozenset(piece.gone)
            if piece.is_traced:
                write_message(Report(None, None, None, None, *world.trace(piece.events, gone)))
                continue
            world.play(
                piece.events, piece.waiting, task.until, gone, report if not number else lambda share: None
            )
        except Outdated:
            write_message(Report(is_outdated=True))
            return
        if piece.is_compared:
            write_message(compared(world, task))
        else:
            write_message(Report(state=None if piece.wanted is None else world.state(piece.wanted)))


if __name__ == "__main__":
    run_limited_child(run, lambda why: Report(failed=why))
