"""Sums that are kept up to date are those of adding everything up, and that is done once a prefix."""

from dataclasses import astuple

from hypothesis import given
from hypothesis import strategies as st

from service.journal.jetstream.catalogue import PREFIXES_MAX, Sums
from service.journal.protocol import Summary, Totals

NAMES = st.text("ab", min_size=1, max_size=3)
COUNTS = st.integers(0, 10**6)
SUMMARIES = st.builds(Summary, NAMES, *[COUNTS] * 7)


def added_up(summaries: list[Summary]) -> Totals:
    columns = [astuple(summary)[3:8] for summary in summaries]  # its counts
    return (
        Totals(len(columns), *map(sum, zip(*columns, strict=True))) if columns else Totals(0, 0, 0, 0, 0, 0)
    )


@given(st.lists(st.tuples(SUMMARIES, st.text("ab", max_size=2))))
def test_sums_follow_every_change(steps: list[tuple[Summary, str]]) -> None:
    known: dict[str, Summary] = {}
    asked: list[str] = []

    def all_of_them() -> list[Summary]:
        asked.append("all")
        return list(known.values())

    sums = Sums(all_of_them)
    prefixes = set()
    for summary, prefix in steps:
        before = known.pop(summary.model, None)
        if before is not None:
            sums.remove(before)
        if before is None or summary.revealed % 2:
            known[summary.model] = summary
            sums.add(summary)
        prefixes.add(prefix)
        wanted = [each for each in known.values() if each.model.startswith(prefix)]
        assert sums.of(prefix) == added_up(wanted)
    assert len(asked) == len(prefixes), "each is summed over all models once"


def test_only_the_prefixes_asked_for_last_are_kept() -> None:
    looks: list[int] = []
    sums = Sums(lambda: looks.append(1) or [])
    for number in range(PREFIXES_MAX):
        sums.of(f"tenant-{number}")
    sums.of("tenant-0")
    sums.of("one more")  # in the place of tenant-1
    assert len(looks) == PREFIXES_MAX + 1
    sums.of("tenant-0")
    assert len(looks) == PREFIXES_MAX + 1
    sums.of("tenant-1")
    assert len(looks) == PREFIXES_MAX + 2
