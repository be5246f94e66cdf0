"""Where the columns of an event are in the file, for damage that goes past SQLite: no index follows it."""

from pathlib import Path
from typing import NamedTuple

PAGE_BYTES = 8192
TABLE_LEAF = 0x0D
INTEGER_BYTES = {0: 0, 1: 1, 2: 2, 3: 3, 4: 4, 5: 6, 6: 8, 8: 0, 9: 0}
EVENT_COLUMNS = ("rowid alias", "model", "prediction_id", "body", "previous")


class Cell(NamedTuple):
    """The offsets in the file at which the number of an event, its columns and the types of these begin."""

    number: int
    columns: dict[str, int]
    types: dict[str, int]


def event_cells(file: Path) -> dict[int, Cell]:
    """The events of a file, by number, as its leaves have them."""
    content = file.read_bytes()
    cells = {}
    for page in range(PAGE_BYTES, len(content), PAGE_BYTES):
        if content[page] == TABLE_LEAF:
            for i in range(int.from_bytes(content[page + 3 : page + 5], "big")):
                at = page + 8 + 2 * i
                found = _cell(content, page + int.from_bytes(content[at : at + 2], "big"))
                if found is not None:
                    cells[found[0]] = found[1]
    return cells


def _cell(content: bytes, at: int) -> tuple[int, Cell] | None:
    _, at = _varint(content, at)
    number_at = at
    number, at = _varint(content, at)
    begins = at
    header_bytes, at = _varint(content, at)
    types, places = [], {}
    while at < begins + header_bytes and len(types) < len(EVENT_COLUMNS):
        places[EVENT_COLUMNS[len(types)]] = at
        kind, at = _varint(content, at)
        types.append(kind)
    if (
        at != begins + header_bytes
        or len(types) != len(EVENT_COLUMNS)
        or types[0]
        or types[3] % 2
        or types[3] < 40
    ):
        return None
    columns = {}
    for name, kind in zip(EVENT_COLUMNS, types, strict=True):
        columns[name] = at
        at += INTEGER_BYTES[kind] if kind < 12 else (kind - 12) // 2
    return number, Cell(number_at, columns, places)


def _varint(content: bytes, at: int) -> tuple[int, int]:
    value = 0
    while content[at] & 0x80:
        value = value << 7 | content[at] & 0x7F
        at += 1
    return value << 7 | content[at], at + 1
