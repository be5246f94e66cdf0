"""Frames of the feed, out of Server-Sent Events that come in parts."""

from typing import Any

import msgspec

from service.client.lines import Lines


class Frame(msgspec.Struct, frozen=True):
    """`kind` is `snapshot` or `changes`; with its `id`, the feed can be gone on with after a break.

    `data` are the statistics of the one model, or `totals`, `models` and `deleted` of the fleet.
    """

    kind: str
    id: str
    data: dict[str, Any]


class Frames:
    """Whole frames out of parts that end anywhere.

    >>> frames = Frames()
    >>> frames.complete(b'retry: 2000\\n\\nid: a-1\\nevent: snap')
    []
    >>> frames.complete(b'shot\\ndata: {"deleted":[]}\\n\\n: still here\\n\\n')
    [Frame(kind='snapshot', id='a-1', data={'deleted': []})]
    """

    def __init__(self) -> None:
        self._lines = Lines()
        self._fields: dict[bytes, bytes] = {}

    def complete(self, part: bytes) -> list[Frame]:
        found = []
        for line in self._lines.complete(part):
            name, _, value = line.rstrip(b"\r").partition(b":")
            if name:
                self._fields[name] = value.removeprefix(b" ")
            elif not line.strip():
                fields, self._fields = self._fields, {}
                if b"data" in fields:
                    found.append(_frame(fields))
        return found


def _frame(fields: dict[bytes, bytes]) -> Frame:
    data = msgspec.json.decode(fields[b"data"], type=dict[str, Any])
    return Frame(fields.get(b"event", b"").decode(), fields.get(b"id", b"").decode(), data)
