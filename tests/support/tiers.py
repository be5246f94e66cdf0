"""Which tests are in `make quick`, in `make test` and in `make test-all`: `pytest --tier quick`, `test` or `all`.

A test that starts a process beside the journal's own is not quick. A test that needs a browser or NATS is in `all`
only, unless it is marked `smoke`; so is one that is marked `thorough`.
"""

import random
import re
import sys
from collections.abc import Sequence
from enum import IntEnum
from functools import cache, partial
from pathlib import Path
from typing import Any

import pytest

TESTS = Path(__file__).parents[1]


class Tier(IntEnum):
    quick = 0
    test = 1
    all = 2


FIXTURES = {
    "start": Tier.test,
    "service_process": Tier.test,
    "nats_server": Tier.all,
    "nats_cluster": Tier.all,
    "browser": Tier.all,
}
"""The first tier that has tests with these fixtures."""

FOLDERS = {
    **dict.fromkeys(("commands", "e2e", "examples", "fuzz", "golden", "torture"), Tier.test),
    "jetstream": Tier.all,
}
"""The first tier that has tests of these folders."""

_MARKED = re.compile(r"^pytestmark = .*pytest\.mark\.(thorough|slow)\b", re.MULTILINE)


def tier_of(item: pytest.Item) -> Tier:
    """The first tier that has this test."""
    if item.get_closest_marker("thorough"):
        return Tier.all
    found = tier_of_file(item.path)
    if item.get_closest_marker("slow"):
        found = max(found, Tier.test)
    fixtures = set(getattr(item, "fixturenames", ()))
    callspec = getattr(item, "callspec", None)
    if callspec is not None and "jetstream" in map(str, callspec.params.values()):
        fixtures.add("nats_server")
    found = max([found, *(FIXTURES[name] for name in fixtures & FIXTURES.keys())])
    return Tier.test if found is Tier.all and item.get_closest_marker("smoke") else found


@cache
def tier_of_file(path: Path) -> Tier:
    """The first tier that has any test of a file: one that is in a later one need not even be imported."""
    if not path.is_relative_to(TESTS):
        return Tier.quick
    found = max([Tier.quick, *(FOLDERS.get(part, Tier.quick) for part in path.relative_to(TESTS).parts)])
    marked = _MARKED.search(path.read_text()) if path.suffix == ".py" else None
    return found if marked is None else max(found, Tier.all if marked[1] == "thorough" else Tier.test)


def forbid_processes() -> None:
    """From now on, in this process, no test may start another; but the journal's writer may be."""

    def forbid(event: str, arguments: tuple[Any, ...]) -> None:
        if event == "subprocess.Popen" and "writer_process" not in str(arguments[1]):
            raise AssertionError(f"a test of make quick starts a process, mark it slow: {arguments[1]}")

    sys.addaudithook(forbid)


slow = partial(pytest.param, marks=pytest.mark.slow)
"""A case that is not in `make quick`, because others like it are."""


def covering(
    cases: Sequence[tuple[Any, ...]], rest: pytest.MarkDecorator = pytest.mark.thorough
) -> list[Any]:
    """The cases of a product: some in which every value occurs, and the others, marked `thorough` or with another mark.

    >>> [case for case in covering([("a", 1), ("a", 2), ("b", 1), ("b", 2)]) if type(case) is tuple]
    [('a', 2), ('b', 1)]
    """
    chance = random.Random(1)
    seen: set[tuple[int, str]] = set()
    chosen = set()
    for at in chance.sample(range(len(cases)), len(cases)):
        values = {(column, repr(value)) for column, value in enumerate(cases[at])}
        if not values <= seen:
            seen |= values
            chosen.add(at)
    return [case if at in chosen else pytest.param(*case, marks=rest) for at, case in enumerate(cases)]
