"""Counters of many kinds in one flat array.

A cell is `kind << 40 | count` and the cells are sorted: 8 bytes for each kind that occurs, and equal counts
are equal arrays. A kind is below 2^24, a count below 2^40 (three years of 10,000 a second).
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from operator import lt
from typing import Any

from service.learning import saved

KIND_BITS = 24
COUNT_BITS = 40
COUNT_MASK = (1 << COUNT_BITS) - 1


def no_cells() -> array[int]:
    """An empty array of cells."""
    return array("Q")


def add(cells: array[int], kind: int, cells_max: int = 1 << KIND_BITS, count: int = 1) -> int:
    """Count more of `kind` and return its count; 0 if it is new and there is no room for a new one.

    >>> cells = no_cells()
    >>> [add(cells, kind, cells_max=2) for kind in (7, 3, 7, 5)]
    [1, 1, 2, 0]
    >>> [(cell >> COUNT_BITS, cell & COUNT_MASK) for cell in cells]
    [(3, 1), (7, 2)]
    """
    least = kind << COUNT_BITS
    at = bisect_left(cells, least)
    size = len(cells)
    if at < size:
        cell = cells[at] + count
        if cell >> COUNT_BITS == kind:
            cells[at] = cell
            return cell & COUNT_MASK
    if size >= cells_max:
        return 0
    cells.insert(at, least + count)
    return count


def add_counts(cells: array[int], counts: list[int]) -> None:
    """Count more of each kind, by their numbers from 0 on; there has to be room for those that are new.

    >>> cells = no_cells()
    >>> add_counts(cells, [0, 2, 3])
    >>> add_counts(cells, [5, 0, 1])
    >>> [(cell >> COUNT_BITS, cell & COUNT_MASK) for cell in cells]
    [(0, 5), (1, 2), (2, 4)]
    """
    new = counts.copy()
    for at, cell in enumerate(cells):
        kind = cell >> COUNT_BITS
        if kind < len(new) and new[kind]:
            cells[at] = cell + new[kind]
            new[kind] = 0
    if any(new):
        for kind, count in enumerate(new):
            if count:
                add(cells, kind, count=count)


def restore_cells(kept: Any, place: str, kinds: int, cells_max: int) -> array[int]:
    """Cells of kinds below `kinds` as a state has them: each kind once, none of them empty, in their order."""
    cells = array("Q", saved.wholes(kept, place, (kinds << COUNT_BITS) - 1, cells_max))
    of_kinds = [cell >> COUNT_BITS for cell in cells]
    in_order = all(map(lt, of_kinds, of_kinds[1:]))
    saved.check(in_order, place, "must be in the order of their kinds, each once")
    saved.check(all(cell & COUNT_MASK for cell in cells), place, "must count at least one each")
    return cells
