"""How models with other settings have done on the same history, beside the model itself."""

from typing import Any

import numpy as np

from service.engine.replay.counterfactual import World
from service.learning.certainty.duel import Duel, Record

CURVE_POINTS = 100


def compare(own: World, others: list[World], confidence: float) -> list[dict[str, Any]]:
    """What is to be told of each of the others, in their order."""
    return [
        figures(world, confidence)
        | _duel(world.mistakes, own.mistakes).report(confidence, factor=len(others))
        for world in others
    ]


def figures(world: World, confidence: float) -> dict[str, Any]:
    record = Record()
    for mistake in world.mistakes:
        record.observe(bool(mistake))
    return record.report(confidence) | {"updates": world.model.updates, "curve": curve(world.mistakes)}


def curve(mistakes: bytearray) -> list[dict[str, float]]:
    """The error up to some of the rounds, at most CURVE_POINTS of them, the last one included.

    >>> curve(bytearray([1, 0, 0, 1]))
    [{'round': 1, 'error_rate': 1.0}, {'round': 2, 'error_rate': 0.5}, {'round': 3, 'error_rate': 0.3333333333333333}, \
{'round': 4, 'error_rate': 0.5}]
    """
    rounds = len(mistakes)
    points = min(rounds, CURVE_POINTS)
    places = np.linspace(1, rounds, points).round().astype(int) if points else np.empty(0, int)
    sums = np.cumsum(np.frombuffer(mistakes, np.uint8), dtype=np.int64)
    return [{"round": int(at), "error_rate": float(sums[at - 1] / at)} for at in places]


def _duel(mistakes: bytearray, of_live: bytearray) -> Duel:
    duel = Duel()
    for mistaken, live_mistaken in zip(mistakes, of_live, strict=True):
        duel.observe(bool(mistaken), bool(live_mistaken))
    return duel
