"""Exports that somebody has changed: refused, or taken as they are and used like any other model."""

import copy
import math
import random
import warnings
from typing import Any

import msgspec
import pytest

from service.engine.fleet.live import model_from
from service.engine.model.model import Model
from service.engine.transfer.transfer import FORMAT, Imported, import_model
from service.errors import InvalidExport
from service.events import ModelImported
from service.journal.codec import STATE_VERSION, decode_state
from tests.doctoring import JUNK, KINDS, LIMITS, NOW, contested, doctored, exported, teach, with_digest
from tests.fuzz.effort import TIMES

MUTATIONS = 600
"""In `make test`; `make fuzz` tries 20 times as many."""


STEPPED = ["settings", "statistics", "stepped_from"]
"""The parts that the steps from older versions look into."""


def test_a_doctored_export_is_refused_or_is_a_model_like_any_other() -> None:
    chance = random.Random(7 if TIMES == 1 else None)
    refused = accepted = 0
    for number in range(MUTATIONS * TIMES):
        kind = KINDS[number % len(KINDS)]
        export, changes = doctored(exported(*kind), chance)
        try:
            imported = import_model(msgspec.json.decode(msgspec.json.encode(export)), LIMITS, NOW + 10**9)
        except InvalidExport as error:
            assert "does not hold together" not in error.detail, (kind, changes, error.detail)
            refused += 1
            continue
        accepted += 1
        check_used(imported.settings, imported.state, kind, changes)
    assert refused > accepted > 0


def test_a_doctored_contest_is_refused_or_is_one_like_any_other() -> None:
    chance = random.Random(8 if TIMES == 1 else None)
    refused = accepted = 0
    for number in range(MUTATIONS // 2 * TIMES):
        features = ("dense", "named")[number % 2]
        export = contested(features)
        parts = {name: export[name] for name in ("contest", "settings")}
        changed, changes = doctored(parts, chance)
        whole = with_digest({**export, **changed})
        try:
            imported = import_model(msgspec.json.decode(msgspec.json.encode(whole)), LIMITS, NOW + 10**9)
        except InvalidExport as error:
            assert "does not hold together" not in error.detail, (features, changes, error.detail)
            refused += 1
            continue
        accepted += 1
        check_used(imported.settings, imported.state, ("contest", "binary", features), changes)
    assert refused > accepted > 0


def test_a_doctored_export_with_sets_and_asking_is_refused_or_is_a_model_like_any_other() -> None:
    chance = random.Random(9 if TIMES == 1 else None)
    for number in range(MUTATIONS // 4 * TIMES):
        kind = ("arow", ("binary", "one_vs_all")[number % 2], ("dense", "named")[number // 2 % 2])
        export = exported(*kind, sure=("auto", 1.5)[number // 4 % 2])
        changed, changes = doctored(export, chance)
        if (imported := taken(changed, kind, changes)) is not None:
            check_used(imported.settings, imported.state, kind, changes)


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
        refused += taken(changed, (f"version {version}", "binary", features), changes) is None
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
        assert "does not hold together" not in error.detail, (kind, changes, error.detail)
        return None


def check_used(settings: dict[str, Any], state: bytes, kind: tuple[str, str, str], changes: str) -> None:
    """What was accepted works: it learns, counts, reports and is saved without an error, and counts agree."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            model = model_from(ModelImported("m", NOW + 10**9, settings, state))
            _, kept = decode_state(state)
            before = model.revealed
            assert kept["statistics"] == decode_state(model.to_bytes())[1]["statistics"]
            teach(model, kind[1], kind[2], 40, seed=2, at=NOW + 10**9)
            assert model.revealed == before + 40
            again = Model.from_bytes(model.to_bytes())
            assert again.to_bytes() == model.to_bytes()
            report = model.report(NOW + 2 * 10**9)
            assert sum(each["support"] for each in report["classes"]) == model.revealed
            assert all(math.isfinite(number) for number in _numbers(report)), report
            for _, weights in model.weights():
                assert all(map(math.isfinite, weights.tolist()))
    except Exception as error:
        raise AssertionError(f"{kind}: {changes}") from error


def _numbers(value: Any) -> list[float]:
    if isinstance(value, dict):
        return [number for part in value.values() for number in _numbers(part)]
    if isinstance(value, list):
        return [number for part in value for number in _numbers(part)]
    return [value] if isinstance(value, int | float) else []
