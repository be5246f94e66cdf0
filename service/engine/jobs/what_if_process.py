"""The process that plays a model's history through other settings.

It reads one `Task` and then the events, page by page up to an empty one; it writes `Report`s: how far it is, and in the
last one the result.
"""

import time
from typing import Any

import msgspec

from service.engine.history.right_world import corrected, labels_in
from service.engine.jobs.what_if import OtherWorld, Past, compare, figures
from service.engine.jobs.worker import limits_given, read_message, set_limits, write_message
from service.events import AnyEvent

REPORT_SECONDS = 0.1

EventPage = list[AnyEvent]


class Task(msgspec.Struct):
    """Which settings to try, from where."""

    start: bytes | None
    settings: list[dict[str, Any]]
    confidence: float
    keep: bool
    """Whether the state of the best is wanted."""


class Report(msgspec.Struct):
    """A message to the service: one of `progress`, `result` or `failed` is set."""

    progress: dict[str, Any] | None = None
    result: dict[str, Any] | None = None
    """What the job's `result` shows."""
    settings: dict[str, Any] | None = None
    state: bytes | None = None
    """Of the best, if it is wanted."""
    failed: str | None = None


def run(task: Task) -> Report:
    events: list[AnyEvent] = []
    while page := read_message(EventPage):
        events += page
    labels = labels_in(events)
    past = Past(task.start, [corrected(event, labels) for event in events] if labels else events)
    worlds: list[OtherWorld] = []
    told = 0.0

    def report(share: float) -> None:
        nonlocal told
        if time.monotonic() - told >= REPORT_SECONDS:
            told = time.monotonic()
            done = (len(worlds) - 1 + share) / len(task.settings)
            write_message(Report(progress={"settings": len(worlds), "share": round(done, 4)}))

    for settings in task.settings:
        worlds.append(OtherWorld(past, settings))
        worlds[-1].play(report)
    found = compare(past, worlds, task.confidence)
    ranking = sorted(range(len(worlds)), key=lambda place: found[place]["mistakes"])
    result = {
        "from_version": past.first.version,
        "to_version": past.live.version,
        "is_whole": past.is_whole,
        "live": figures(past.live, past.mistakes, task.confidence),
        "settings": [{"place": place, **found[place]} for place in ranking],
    }
    best = worlds[ranking[0]].model
    if task.keep:
        return Report(result=result, settings=best.settings, state=best.to_bytes())
    return Report(result=result)


def main() -> None:
    memory_bytes_max, seconds_max = limits_given()
    set_limits(memory_bytes_max, seconds_max)
    try:
        write_message(run(read_message(Task)))
        return
    except MemoryError:
        failed = f"it needs more than {memory_bytes_max} bytes of memory, which is fit_memory_bytes_max"
    except TimeoutError:
        failed = f"it needs more than {seconds_max} seconds, which is fit_seconds_max"
    write_message(Report(failed=failed))


if __name__ == "__main__":
    main()
