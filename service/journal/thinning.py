"""Which snapshots of a model are kept so that its older versions can be made again: many of late, few of long ago."""

from collections.abc import Sequence

NEWEST_KEPT = 2
"""A load needs the newest, and the one before it if that is damaged."""

KEPT_MAX = 32

SHARE = 0.25
"""The gap between two neighbours may be this share of how far the younger one is behind the newest."""


def room_for(state_bytes: int, bytes_max: int) -> int:
    """How many snapshots of such a size are kept.

    >>> room_for(10_000, 1_000_000), room_for(100_000, 1_000_000), room_for(9_000_000, 1_000_000)
    (32, 10, 2)
    """
    return max(NEWEST_KEPT, min(KEPT_MAX, bytes_max // max(1, state_bytes)))


def needed_for(
    version: int, events_kept_max: int, due: int | None, replaced: Sequence[tuple[int, int]]
) -> int | None:
    """The version from which a rebuild that is due, or versions that are kept and were replaced, are made again.

    >>> needed_for(100, 30, None, [(10, 20)]), needed_for(100, 30, 90, [(60, 80), (50, 62), (10, 20)])
    (None, 49)
    """
    needed = [] if due is None else [due]
    needed += [first - 1 for first, end in replaced if end > version - events_kept_max]
    if not needed:
        return None
    found = min(needed)
    while (
        before := min((first - 1 for first, end in replaced if first <= found < end), default=found)
    ) < found:
        found = before
    return found


def goes_through(version: int, events_kept_max: int, needed: int | None) -> int:
    """The version up to which events may go when a snapshot of a version is saved, which may need older ones.

    >>> goes_through(100, 30, None), goes_through(100, 30, 90), goes_through(100, 30, 65), goes_through(100, 30, 5)
    (70, 70, 65, 40)
    """
    usual = version - events_kept_max
    return usual if needed is None else max(min(usual, needed), usual - events_kept_max)


def kept(versions: Sequence[int], most: int, needed: int | None = None) -> list[int]:
    """The places of the snapshots to keep, of those with these versions, which rise.

    They are the two newest, the oldest, and of those between them so many that the way from any version back to the
    next snapshot before it is at most a quarter of the way to the newest one, or the gap that was there. If those are
    more than `most`, half of the way, and so on; if `most` is 2, only the two newest. And the newest at or before the
    version that is needed.

    >>> kept([0, 10, 20, 30, 40, 50, 60, 70, 80, 90, 100], 32)
    [0, 2, 3, 4, 5, 6, 7, 8, 9, 10]
    >>> kept([0, 10, 20, 30, 40, 50, 60, 70, 80, 90, 100], 5)
    [0, 1, 7, 9, 10]
    >>> kept([0, 10, 20, 30, 40, 50], 2, needed=25)
    [2, 4, 5]
    """
    if most <= NEWEST_KEPT:
        places = list(range(len(versions)))[-NEWEST_KEPT:]
    else:
        share = SHARE
        while len(places := _spread(versions, share)) > most:
            share *= 2
    before = [] if needed is None else [at for at, version in enumerate(versions) if version <= needed]
    return sorted({*places, *before[-1:]})


def _spread(versions: Sequence[int], share: float) -> list[int]:
    newest = len(versions) - 1
    places = list(range(newest, max(-1, newest - NEWEST_KEPT), -1))
    for at in range(newest - NEWEST_KEPT, -1, -1):
        younger = versions[places[-1]]
        if at == 0 or younger - versions[at - 1] > share * max(1, versions[newest] - younger):
            places.append(at)
    return places[::-1]
