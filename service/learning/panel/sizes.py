"""How many numbers a panel keeps: for limits on memory."""

from service.learning.features.fourier_grid import SHARED_MAX, features_for
from service.learning.learners import algorithms
from service.learning.panel.forms import size_of
from service.learning.panel.panels import FOURIER, PANELS


def numbers_kept(panel: int, kind: str, size: int, learners: int) -> int:
    """Of all experts together, for `size` features, the bias apart, and so many learners under each expert.

    Means and variances are kept once. A projection of Fourier's counts in full, but for those that all models share.

    >>> [numbers_kept(1, "dense", 64, learners) for learners in (1, 2)], numbers_kept(1, "named", 100, learners=1)
    ([5760, 11392], 900)
    """
    experts = PANELS[panel].experts_for(kind)
    total = (2 if kind == "dense" else 3) * size
    for expert in experts:
        total += learners * algorithms.numbers_kept(expert.learner, size_of(expert.form, size))
    if size <= SHARED_MAX + 1:  # some who ask count the bias
        return total
    drawn = FOURIER.keys() & {expert.form for expert in experts}
    return total + sum(features_for(FOURIER[form].features, size) * size for form in drawn)
