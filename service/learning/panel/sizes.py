"""How many numbers a panel keeps: for limits on memory."""

from service.learning.features.fourier_grid import features_for
from service.learning.learners import algorithms
from service.learning.panel.panels import FOURIER_FEATURES, PANELS


def numbers_kept(panel: int, kind: str, size: int, learners: int) -> int:
    """Of all experts together, for `size` features, the bias apart, and so many learners under each expert.

    Means and variances are kept once, and Fourier's projection counts in full, though models of one size share it.

    >>> numbers_kept(1, "named", 100, learners=1), numbers_kept(1, "named", 100, learners=3)
    (900, 2100)
    """
    experts = PANELS[panel].experts_for(kind)
    total = 0
    for expert in experts:
        seen = features_for(FOURIER_FEATURES, size) if expert.form == "fourier" else size
        total += learners * algorithms.numbers_kept(expert.learner, seen)
    if any(expert.form != "plain" for expert in experts):
        total += (2 if kind == "dense" else 3) * size
    if any(expert.form == "fourier" for expert in experts):
        total += features_for(FOURIER_FEATURES, size) * size
    return total
