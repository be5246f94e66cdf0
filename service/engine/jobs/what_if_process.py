"""The process that plays a model's history through other settings.

It reads one `Task` and then `Batch`es of events, some of which tell it to play them all; it writes `Report`s: how far
it is, that it has played what there is, and in the last one the result.
"""

import time
from functools import partial
from typing import Any, Literal

import msgspec

from service.engine.history.right_world import corrected, labels_in
from service.engine.jobs.messages import read_message, work, write_message
from service.engine.jobs.what_if import OtherWorld, Past, WentBack, compare, figures
from service.events import AnyEvent

REPORT_SECONDS = 0.1


class Task(msgspec.Struct):
    """Which settings to try, from where."""

    start: memoryview | None
    settings: list[dict[str, Any]]
    confidence: float
    keep: Literal["model", "learner"] | None
    """What is wanted of the best: the state of a model, what a challenger needs to go on from there, or nothing."""


class Batch(msgspec.Struct):
    """Events of the history, the next ones."""

    events: list[AnyEvent]
    then: Literal["wait", "play", "finish"] = "wait"
    """Whether to wait for more, to play them first, or to play them and tell the result."""


class Report(msgspec.Struct):
    """A message to the service: one of `progress`, `is_played`, `result` or `failed` is set."""

    progress: dict[str, Any] | None = None
    is_played: bool = False
    result: dict[str, Any] | None = None
    """What the job's `result` shows."""
    settings: dict[str, Any] | None = None
    state: bytes | None = None
    """Of the best, if it is wanted."""
    failed: str | None = None


class Replay:
    """The history so far, and the worlds that it is played in."""

    def __init__(self, task: Task, events: list[AnyEvent]) -> None:
        self._task = task
        labels = labels_in(events)
        self._past = Past(task.start, [corrected(event, labels) for event in events] if labels else events)
        self._worlds = [OtherWorld(self._past, settings) for settings in task.settings]
        self._told = 0.0
        self._is_catching_up = False

    def add(self, events: list[AnyEvent]) -> None:
        if labels_in(events):  # of rounds that have been played
            raise WentBack
        self._past.add(events)
        self._is_catching_up = True

    def play(self) -> None:
        for number, world in enumerate(self._worlds):
            world.play(partial(self._report, number))

    def _report(self, before: int, share: float) -> None:
        if not self._is_catching_up and time.monotonic() - self._told >= REPORT_SECONDS:
            self._told = time.monotonic()
            done = (before + share) / len(self._worlds)
            write_message(Report(progress={"settings": before + 1, "share": round(done, 4)}))

    def result(self) -> Report:
        past, worlds, task = self._past, self._worlds, self._task
        found = compare(past, worlds, task.confidence)
        ranking = sorted(range(len(worlds)), key=lambda place: found[place]["mistakes"])
        result = {
            "from_version": past.first.version,
            "to_version": past.live.version,
            "is_whole": past.is_whole,
            "live": figures(past.live, past.mistakes, task.confidence),
            "settings": [{"place": place, **found[place]} for place in ranking],
        }
        best = worlds[ranking[0]]
        if task.keep is None:
            return Report(result=result)
        state = best.model.to_bytes() if task.keep == "model" else best.learner_bytes()
        return Report(result=result, settings=best.model.settings, state=state)


def run(task: Task) -> Report:
    replay: Replay | None = None
    events: list[AnyEvent] = []
    while True:
        batch = read_message(Batch)
        events += batch.events
        if batch.then == "wait":
            continue
        if replay is None:
            replay = Replay(task, events)
        else:
            replay.add(events)
        events = []
        replay.play()
        if batch.then == "finish":
            return replay.result()
        write_message(Report(is_played=True))


def main() -> None:
    try:
        write_message(run(read_message(Task)))
    except WentBack:
        why = "the model was rolled back or corrected while its history was replayed; try again"
        write_message(Report(failed=why))


if __name__ == "__main__":
    work(main, lambda why: Report(failed=why))
