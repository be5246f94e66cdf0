"""Whether an export that somebody has changed, and that was accepted, changes behaviour silently.

It does unless one of these holds:

(a) It makes the very model that the original makes: the same settings and the same state to the bit. What is predicted,
    with which scores and probabilities, what is learned and what `/stats` tells is a function of these two alone.
(b) Its difference is told. Exported again, the model is field by field what was sent in: what is in the document is
    what is served, and nothing was dropped, clamped or read as something else. And it is one that a stream can lead to:
    every number is finite, shares are shares, and counts that are about the same rounds agree.

Of the document, `format`, `digest` and `damaged` are about it and not part of the model; `bound` is never taken over by
an import, and `/stats` says so. In arrays 1 is the same number as 1.0; nowhere else.

An export whose digest is not that of its content is refused, unless (a) holds: `1` in the place of `1.0` in an array.
"""

import math
from typing import Any

from service.engine.fleet.live import model_from
from service.engine.models.model import Model
from service.engine.transfer.json_export import AROUND, FUTURE_MAX_US, Imported
from service.events import ModelImported
from tests.support.exporting import export_model

OF_THE_IMPORT = ("name", "created_at", "updated_at", "origin")
"""What the event of an import says instead of the export."""

SHARES = ("rate", "coverage", "precision", "recall", "f1", "brier", "low", "high", "probability")


def silent_change(sent: dict[str, Any], imported: Imported, original: Imported, now: int) -> str | None:
    """What changes without being told, by the words above; None if nothing does. `sent` is of the current format."""
    if imported == original:
        return None
    model = Model.from_bytes(imported.state)
    again = export_model(model)
    if (place := difference(_told(sent), _told(again))) is not None:
        return f"{place} is not what was sent"
    if (place := difference(sent["settings"], imported.settings)) is not None:
        return f"the settings of the event: {place} is not what was sent"
    live = export_model(model_from(ModelImported(model.name, now, imported.settings, imported.state)))
    for name in OF_THE_IMPORT:
        again.pop(name), live.pop(name)
    for told in (again, live):
        if told["asking"] is not None:  # what was asked for is counted again from an import on
            told["asking"] = {part: told["asking"][part] for part in ("b", "b_given", "eta", "key")}
    if (place := difference(_told(again), _told(live))) is not None:
        return f"{place} is not served as it was imported"
    return disagreement(model, now)


def _told(export: dict[str, Any]) -> dict[str, Any]:
    return {name: part for name, part in export.items() if name not in (*AROUND, "bound")}


def difference(one: Any, other: Any, place: str = "") -> str | None:
    """The place of the first difference of two documents; types count, and the signs of zeros.

    >>> difference({"a": [1, 2.0]}, {"a": [1, 2]})
    '.a[1]'
    """
    if type(one) is not type(other):
        return place
    if isinstance(one, dict):
        if one.keys() != other.keys():
            return f"{place}.{min(map(str, one.keys() ^ other.keys()))}"
        numbers = "$array" in one
        pairs = [(f"{place}.{key}", one[key], other[key]) for key in one if not (numbers and key == "$array")]
        if numbers and (one["$array"] != other["$array"] or _signs(one) != _signs(other)):
            return f"{place}.$array"
    elif isinstance(one, list):
        if len(one) != len(other):
            return place
        pairs = [(f"{place}[{at}]", *both) for at, both in enumerate(zip(one, other, strict=True))]
    else:
        return None if one == other and (one != 0 or str(one) == str(other)) else place
    return next((found for at, *both in pairs if (found := difference(*both, at)) is not None), None)


def _signs(array: dict[str, Any]) -> list[float]:
    return [math.copysign(1.0, number) for number in array["$array"]]


def disagreement(model: Model, now: int) -> str | None:
    """Which words of the statistics no stream can have led to; None if all agree."""
    report, times = model.report(now), (model.created_at, model.began_at, model.updated_at)
    revealed, mistakes = model.revealed, report["mistakes"]
    windows = report["windows"].values()
    curve, delay = report["curve"], report["delay"]["seconds"]
    quantiles = [delay[name] for name in ("p50", "p90", "p99", "max") if delay[name] is not None]
    laws = {
        "mistakes": 0 <= mistakes <= revealed,
        "version": model.version >= revealed,
        "updates": 0 <= report["updates"] <= revealed,
        # In any order: an import is made later than it began, and clocks are set back.
        "times": all(0 <= at <= now + FUTURE_MAX_US for at in times),
        "supports": sum(each["support"] for each in report["classes"]) == revealed,
        "windows": all(0 <= each["mistakes"] <= each["rounds"] <= revealed for each in windows),
        "mistakes in windows": all(each["mistakes"] <= mistakes for each in windows),
        "the end of the curve": (curve["rounds"][-1], curve["mistakes"][-1]) == (revealed, mistakes),
        "the curve": all(list(curve[name]) == sorted(curve[name]) for name in ("rounds", "mistakes")),
        "delays": quantiles == sorted(quantiles) and all(each >= 0 for each in quantiles),
        "calibration": sum(bin["rounds"] for bin in report["calibration"]["bins"]) <= revealed,
        "shares": (share := _no_share(report)) is None,
    }
    broken = [name if name != "shares" else f"{name}: {share}" for name, holds in laws.items() if not holds]
    return f"no stream leads to these {', '.join(broken)}" if broken else None


def _no_share(part: Any, place: str = "") -> str | None:
    """The place of a number that is called a share and is none, or of one that is not finite."""
    if isinstance(part, dict):
        inner = [(f"{place}.{key}", value) for key, value in part.items()]
    elif isinstance(part, list):
        inner = [(f"{place}[{at}]", value) for at, value in enumerate(part)]
    elif isinstance(part, float):
        is_share = place.rsplit(".", 1)[-1].endswith(SHARES) and ".challengers" not in place
        return place if not math.isfinite(part) or (is_share and not -1e-9 <= part <= 1 + 1e-9) else None
    else:
        return None
    return next((found for at, value in inner if (found := _no_share(value, at)) is not None), None)
