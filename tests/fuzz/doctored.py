"""Exports that somebody has changed, of every learner and kind of features: what became of them.

python -m tests.fuzz.doctored --mutations 10000 changes so many, and tells how many were refused and accepted, and which
of them change behaviour silently (`tests/support/changed_behaviour.py` says what that is), or break the service.
"""

import argparse
import math
import random
import sys
import warnings
from collections import Counter
from functools import cache
from typing import Any

import msgspec

from service.engine.fleet.live import model_from
from service.engine.models.model import Model
from service.engine.transfer.json_export import Imported, import_model
from service.errors import InvalidExport
from service.events import ModelImported
from service.journal.codec import decode_state
from tests.support.changed_behaviour import silent_change
from tests.support.doctored_exports import KINDS, LIMITS, NOW, contested, doctored, exported, teach

LATER = NOW + 10**9
Kind = tuple[Any, ...]

SURE: list[Kind] = [
    ("arow", way, features, sure)
    for way in ("binary", "one_vs_all")
    for features in ("dense", "named")
    for sure in ("auto", 1.5)
]
CONTESTS: list[Kind] = [("contest", "binary", features) for features in ("dense", "named")]


def kinds(seed: int) -> list[Kind]:
    """Every learner, way to tell classes apart and kind of features; then those with sets, asking and challengers.

    In another order for each seed, so that few of them are of all sorts.
    """
    mixed = [*KINDS, *SURE, *CONTESTS * 8]
    random.Random(seed).shuffle(mixed)
    return mixed


def original_of(kind: Kind) -> dict[str, Any]:
    if kind[0] == "contest":
        return contested(kind[2])
    return exported(*kind[:3], sure=kind[3] if len(kind) > 3 else None)


@cache
def _original(kind: Kind) -> Imported:
    return import_model(as_sent(original_of(kind)), LIMITS, LATER)


def as_sent(export: dict[str, Any]) -> dict[str, Any]:
    """As the service gets it: through JSON."""
    sent: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(export))
    return sent


class Tally:
    """What became of the exports, and what must not have."""

    def __init__(self) -> None:
        self.count: Counter[str] = Counter()
        self.wrong: list[str] = []

    def try_out(self, kind: Kind, changed: dict[str, Any], changes: str) -> None:
        """An export with a digest that fits."""
        sent = as_sent(changed)
        try:
            imported = import_model(sent, LIMITS, LATER)
        except InvalidExport as error:
            self.count["refused"] += 1
            if not error.fields:
                self.wrong.append(f"{kind}: {changes}: refused without a place: {error.detail}")
            if "is inconsistent" in error.detail:
                self.wrong.append(f"{kind}: {changes}: refused by chance: {error.detail}: {error.__cause__}")
            return
        except Exception as error:
            self.wrong.append(f"{kind}: {changes}: the import broke: {error!r}")
            return
        self.count["accepted"] += 1
        self.count["accepted as the original"] += imported == _original(kind)
        if (why := silent_change(sent, imported, _original(kind), LATER)) is not None:
            self.wrong.append(f"{kind}: {changes}: changes silently: {why}")
        if (why := broken(imported, kind)) is not None:
            self.wrong.append(f"{kind}: {changes}: accepted, and then {why}")

    def try_without_digest(self, kind: Kind, changed: dict[str, Any], changes: str) -> None:
        """The same export with the digest of the original."""
        try:
            imported = import_model(
                as_sent({**changed, "digest": original_of(kind)["digest"]}), LIMITS, LATER
            )
        except InvalidExport:
            self.count["refused with the digest of the original"] += 1
            return
        if imported != _original(kind):
            self.wrong.append(f"{kind}: {changes}: accepted with a digest that does not fit")

    def told(self) -> str:
        lines = [f"{count:8} {what}" for what, count in self.count.most_common()]
        return "\n".join([*lines, f"{len(self.wrong):8} wrong", *self.wrong[:20]])


def broken(imported: Imported, kind: Kind) -> str | None:
    """What fails when the model is used: it predicts, learns, counts, reports and is saved; None if nothing does."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            model = model_from(ModelImported("m", LATER, *imported))
            before = model.revealed
            kept = decode_state(imported.state)[1]["statistics"]
            assert kept == decode_state(model.to_bytes())[1]["statistics"], "the statistics differ"
            teach(model, kind[1], kind[2], 40, seed=2, at=LATER)
            assert model.revealed == before + 40, "it does not count"
            again = Model.from_bytes(model.to_bytes())
            assert again.to_bytes() == model.to_bytes(), "it is not saved as it is"
            report = model.report(2 * LATER - NOW)
            assert sum(each["support"] for each in report["classes"]) == model.revealed, "supports differ"
            assert all(math.isfinite(number) for number in _numbers(report)), "a figure is not finite"
            for _, weights in model.weights():
                assert all(map(math.isfinite, weights.tolist())), "a weight is not finite"
    except Exception as error:
        return repr(error)
    return None


def _numbers(value: Any) -> list[float]:
    if isinstance(value, dict):
        return [number for part in value.values() for number in _numbers(part)]
    if isinstance(value, list):
        return [number for part in value for number in _numbers(part)]
    return [value] if isinstance(value, int | float) else []


def tried(mutations: int, seed: int) -> Tally:
    """So many changed exports, of each kind in turn."""
    chance, tally, mixed = random.Random(seed), Tally(), kinds(seed)
    for number in range(mutations):
        kind = mixed[number % len(mixed)]
        changed, changes = doctored(original_of(kind), chance)
        tally.try_out(kind, changed, changes)
        tally.try_without_digest(kind, changed, changes)
    return tally


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mutations", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=random.randrange(10**6))
    arguments = parser.parse_args()
    tally = tried(arguments.mutations, arguments.seed)
    print(f"seed {arguments.seed}\n{tally.told()}")
    sys.exit(bool(tally.wrong))


if __name__ == "__main__":
    main()
