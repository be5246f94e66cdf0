"""Exports that somebody has changed: refused, or taken as they are and used like any other model."""

import math
import random
import warnings
from typing import Any

import msgspec

from service.engine.fleet.live import model_from
from service.engine.model.model import Model
from service.engine.transfer.transfer import import_model
from service.errors import InvalidExport
from service.events import ModelImported
from service.journal.codec import decode_state
from tests.doctoring import KINDS, LIMITS, NOW, contested, doctored, exported, teach, with_digest
from tests.fuzz.effort import TIMES

MUTATIONS = 600
"""In `make test`; `make fuzz` tries 20 times as many."""


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
