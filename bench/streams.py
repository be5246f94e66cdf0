"""The streams that accuracy is compared on: what river and scikit-learn bring along, so that nothing is downloaded."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from river import datasets as river_datasets
from river.datasets import synth
from sklearn import datasets as sklearn_datasets

Rounds = list[tuple[list[float], int]]

GENERATED_ROUNDS = 5_000
SHUTTLE_ROUNDS = 10_000
"""Of 49,097, which nearly all learners get right."""


def data_sets() -> Iterator[tuple[str, Rounds]]:
    """Six of the data sets, small enough to go through many times."""
    for name in ("breast_cancer", "wine", "digits"):
        yield name, _shuffled(name)
    for dataset in (river_datasets.Phishing(), river_datasets.Bananas(), river_datasets.ImageSegments()):
        yield type(dataset).__name__, _rounds(dataset)


def shipped() -> dict[str, Callable[[], Rounds]]:
    """Every data set for classification that river and scikit-learn bring along, then every generator of river.

    Left out are what is not classification (a label out of a few for each row): regression, several labels a row
    (Yeast, SolarFlare), texts, and what would be downloaded first.
    """
    sets: dict[str, Callable[[], Rounds]] = {}
    for name in ("iris", "wine", "breast_cancer", "digits"):
        sets[name] = lambda name=name: _shuffled(name)  # type: ignore[misc]
    for real in (river_datasets.Phishing(), river_datasets.Bananas(), river_datasets.ImageSegments()):
        sets[type(real).__name__] = lambda real=real: _rounds(real)  # type: ignore[misc]
    sets["Shuttle"] = lambda: _rounds(river_datasets.Shuttle().take(SHUTTLE_ROUNDS))
    for name, generator in _generators().items():
        sets[name] = lambda generator=generator: _rounds(generator.take(GENERATED_ROUNDS))  # type: ignore[misc]
    return sets


def _generators() -> dict[str, Any]:
    """With parameters that make a task of each: noise, drift and several classes where there can be any."""
    blobs = {"seed_model": 1, "seed_sample": 1, "n_classes": 4, "n_features": 10, "n_centroids": 20}
    return {
        "Agrawal": synth.Agrawal(classification_function=0, seed=1),
        "Agrawal, function 2": synth.Agrawal(classification_function=2, seed=1),
        "Agrawal, function 6": synth.Agrawal(classification_function=6, seed=1),
        "AnomalySine": synth.AnomalySine(seed=1),
        "ConceptDriftStream": synth.ConceptDriftStream(seed=1, position=GENERATED_ROUNDS // 2, width=500),
        "Hyperplane": synth.Hyperplane(seed=1, n_features=10, mag_change=0.001, n_drift_features=10),
        "LED": synth.LED(seed=1, noise_percentage=0.1),
        "LEDDrift": synth.LEDDrift(
            seed=1, noise_percentage=0.1, irrelevant_features=True, n_drift_features=3
        ),
        "Mixed": synth.Mixed(seed=1),
        "RandomRBF": synth.RandomRBF(**blobs),
        "RandomRBFDrift": synth.RandomRBFDrift(**blobs, change_speed=0.001, n_drift_centroids=20),
        "RandomTree": synth.RandomTree(seed_tree=1, seed_sample=1),
        "SEA": synth.SEA(seed=1, noise=0.1),
        "Sine": synth.Sine(seed=1),
        "STAGGER": synth.STAGGER(seed=1),
        "Waveform": synth.Waveform(seed=1),
    }


def _shuffled(name: str) -> Rounds:
    """One of scikit-learn's, in an order of chance: some of them come sorted by class."""
    x, y = getattr(sklearn_datasets, f"load_{name}")(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(y))
    return list(zip(x[order].tolist(), y[order].tolist(), strict=True))


def _rounds(dataset: Any) -> Rounds:
    """One of river's, as it comes; words count as numbers, in the order in which they appear."""
    classes: dict[Any, int] = {}
    words: dict[str, int] = {}
    return [
        (
            [float(words.setdefault(v, len(words)) if isinstance(v, str) else v) for v in x.values()],
            classes.setdefault(label, len(classes)),
        )
        for x, label in dataset
    ]
