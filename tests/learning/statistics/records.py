"""The records that statistics are given, with what does not matter left out."""

import numpy as np

from service.learning.statistics.statistic import Asked, RevealedBlock


def asked(*, now_us=0, classes=2, revealed=0, mistakes=0):
    return Asked(now_us, classes, revealed, mistakes)


def block(mistaken, revealed_before):
    """Rounds of class 1, some of which were mistaken for class 0."""
    mistaken = np.array(mistaken)
    truths = np.ones(len(mistaken), dtype=np.int64)
    gaps = np.zeros(len(mistaken))
    return RevealedBlock(
        truths, truths - mistaken, mistaken, np.cumsum(mistaken), revealed_before, at_us=0, gaps=gaps
    )
