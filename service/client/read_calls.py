"""Requests whose answers are read as they come: rounds of the past, and the feed."""

from datetime import datetime
from typing import Any

import httpx
import msgspec

from service.client.answers import PastRound
from service.client.calls import Bytes, model_path, params_of
from service.client.lines import Lines
from service.client.problems import CutOff, Unreachable

Time = datetime | str
"""With its zone; as text, as in answers: 2026-01-31T12:00:00Z."""

FEED_SILENCE_SECONDS_MAX = 60.0
"""A feed in which nothing changes says every 15 seconds that it is still there."""


class Read(Bytes):
    """A call whose answer is read as it comes."""

    def cut_off(self, cause: httpx.RequestError) -> Unreachable:
        return Unreachable(
            f"no whole answer to {self.method} {self.path}: {str(cause) or type(cause).__name__}"
        )


class History(Read):
    """The rounds of a model."""

    def read_part(self, lines: Lines, part: bytes) -> list[PastRound]:
        return [msgspec.json.decode(line, type=PastRound) for line in lines.complete(part)]

    def check_end(self, lines: Lines) -> None:
        """CutOff if the answer ended amid a line, which some proxies pass on as a whole one."""
        if not lines.is_whole:
            raise CutOff(f"the answer to {self.method} {self.path} was cut off amid a line")


def history(
    model: str,
    format: str,
    from_version: int | None,
    to_version: int | None,
    since: Time | None,
    until: Time | None,
) -> History:
    params = params_of(
        format=format,
        from_version=from_version,
        to_version=to_version,
        since=_text_of(since),
        until=_text_of(until),
    )
    return History("GET", f"{model_path(model)}/history", bytes, params=params)


def _text_of(time: Time | None) -> str | None:
    return time.isoformat() if isinstance(time, datetime) else time


class Feed(Read):
    """Frames, until somebody has enough of them."""

    def asked(self, last_event_id: str | None) -> dict[str, Any]:
        """The request as httpx takes it, with patience for times in which nothing happens."""
        headers = {} if last_event_id is None else {"last-event-id": last_event_id}
        return {**self.request, "timeout": httpx.Timeout(FEED_SILENCE_SECONDS_MAX), "headers": headers}


def feed(model: str | None) -> Feed:
    return Feed("GET", "/feed", bytes, params=params_of(model=model))
