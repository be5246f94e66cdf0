"""Exports that somebody has changed: refused, or taken as they are and used like any other model.

`python -m tests.fuzz.doctored --mutations 10000` tries more of them, and tells what became of them.
"""

import copy
import random
from typing import Any

import msgspec
import pytest

from service.engine.transfer.json_export import FORMAT, Imported, import_model
from service.errors import InvalidExport
from service.journal.codec import STATE_VERSION
from tests.fuzz.doctored import CONTESTS, SURE, Tally, broken, kinds, tried
from tests.fuzz.effort import TIMES
from tests.support.doctored_exports import (
    JUNK,
    KINDS,
    LIMITS,
    NOW,
    contested,
    doctored,
    exported,
    with_digest,
)

MUTATIONS = 600
"""In `make test`; `make fuzz` tries 20 times as many, which is over 10,000."""


STEPPED = ["settings", "statistics", "stepped_from"]
"""The parts that the steps from older versions look into."""


def test_no_doctored_export_changes_behaviour_silently_or_breaks_the_service() -> None:
    """Of every learner and kind of features, with sets, asking and challengers too;
    `tests/support/changed_behaviour.py` says what a silent change is."""
    tally = tried(MUTATIONS * TIMES, seed=7 if TIMES == 1 else random.randrange(10**6))
    assert not tally.wrong, tally.told()
    assert tally.count["refused"] > tally.count["accepted"] > tally.count["accepted as the original"] > 0


def test_every_learner_and_kind_of_features_is_among_those_that_are_tried() -> None:
    few = kinds(seed=7)[:MUTATIONS]
    for part in range(3):
        assert {kind[part] for kind in KINDS} <= {kind[part] for kind in few}
    assert {*SURE, *CONTESTS} & {*few}


@pytest.mark.parametrize("features", ["dense", "named"])
def test_no_doctored_contest_changes_behaviour_silently(features: str) -> None:
    chance, tally = random.Random(8 if TIMES == 1 else None), Tally()
    export = contested(features)
    for _ in range(MUTATIONS // 4 * TIMES):
        changed, changes = doctored({name: export[name] for name in ("contest", "settings")}, chance)
        tally.try_out(("contest", "binary", features), with_digest({**export, **changed}), changes)
    assert not tally.wrong, tally.told()
    assert tally.count["refused"] > tally.count["accepted"] > 0


def test_a_doctored_export_of_an_older_version_is_refused_by_its_place() -> None:
    """Whatever the steps from older versions look into may be missing, or anything."""
    chance = random.Random(10 if TIMES == 1 else None)
    refused = 0
    for number in range(MUTATIONS // 2 * TIMES):
        version = 1 + number % (STATE_VERSION - 1)
        features = ("dense", "named")[number // 4 % 2]
        export = contested(features) if number % 3 == 0 else exported("arow", "binary", features)
        export = {**export, "format": f"{FORMAT}{version}"}
        # What the steps look into is a small part of it, so that is what is changed in most.
        if number % 2:
            export |= {name: chance.choice(JUNK) for name in chance.sample(STEPPED, 1)}
        elif number % 4:
            del export[chance.choice(STEPPED)]
        changed, changes = doctored(export, chance, version)
        kind = (f"version {version}", "binary", features)
        imported = taken(changed, kind, changes)
        refused += imported is None
        assert imported is None or broken(imported, kind) is None, (kind, changes)
    assert refused


def test_settings_that_are_no_plain_json_are_refused_by_their_place() -> None:
    export = copy.deepcopy(contested("dense"))
    export["settings"]["challengers"]["full"]["multiclass"] = {
        "$array": [1.0, 2.0],
        "kind": "f",
        "shape": [2],
    }
    with pytest.raises(InvalidExport, match=r"settings\.challengers\.full\.multiclass: must be plain JSON"):
        import_model(with_digest(export), LIMITS, NOW + 10**9)


@pytest.mark.parametrize("version", range(1, STATE_VERSION))
@pytest.mark.parametrize("junk", [None, 7, [], {"$array": [1.0, 2.0], "kind": "f", "shape": [2]}])
@pytest.mark.parametrize("part", ["settings", "statistics"])
def test_a_part_that_a_step_looks_into_is_refused_by_its_place(part: str, junk: Any, version: int) -> None:
    export = {**exported("arow", "binary", "dense"), "format": f"{FORMAT}{version}", part: junk}
    with pytest.raises(InvalidExport, match=f"^{part}: must be"):
        import_model(with_digest(export, version), LIMITS, NOW + 10**9)
    del export[part]
    with pytest.raises(InvalidExport) as refusal:
        import_model(with_digest(export, version), LIMITS, NOW + 10**9)
    assert refusal.value.fields[0].field == part


def taken(export: dict[str, Any], kind: tuple[str, str, str], changes: str) -> Imported | None:
    """What is imported, or None if it was refused by its place."""
    try:
        return import_model(msgspec.json.decode(msgspec.json.encode(export)), LIMITS, NOW + 10**9)
    except InvalidExport as error:
        assert "is inconsistent" not in error.detail, (kind, changes, error.detail)
        return None
