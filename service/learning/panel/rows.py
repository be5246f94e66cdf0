"""A panel over many rows: each expert learns its form of all of them, then the weights and the votes are counted.

The experts know nothing of each other or of the vote, so that each can take a whole block in its own fast way. It is
the same to the bit as deciding and learning row by row.
"""

import numpy as np

from service.learning.classes.runs import Classes, Learned
from service.learning.classes.runs import learn_rows as learn_rows_alone
from service.learning.panel.panel import Panel
from service.learning.vectors import Vectors

AT_ONCE = 512
"""Rows that are learned at once: so many limit the memory that their forms take, 5 MB for 64 features."""

SCORES_AT_ONCE = 1 << 16
"""So many scores of each expert are kept meanwhile."""


def learn_rows(panel: Panel, vectors: Vectors, truths: Classes) -> Learned:
    """Vote on each row, then learn its class, before the next. Classes are known to the panel."""
    at_once = min(AT_ONCE, 1 + SCORES_AT_ONCE // panel.shape[0])
    parts = [
        _learn_part(panel, Vectors(vectors.values[start : start + at_once], vectors.indices), part)
        for start in range(0, len(truths), at_once)
        if len(part := truths[start : start + at_once])
    ]
    served, scores, gaps, updated = (
        np.concatenate([getattr(part, name) for part in parts])
        for name in ("served", "scores", "gaps", "updated")
    )
    return Learned(served, scores, gaps, updated)


def _learn_part(panel: Panel, vectors: Vectors, truths: Classes) -> Learned:
    if not panel.can_vote_by_columns:
        return _learn_one_by_one(panel, vectors, truths)
    by_name = {}
    for form, rows in panel.forms.forms_of_rows(vectors):
        for expert, classifier in zip(panel.experts, panel.classifiers, strict=True):
            if expert.form == form:
                by_name[expert.name] = learn_rows_alone(classifier, rows, truths)
    learned = [by_name[expert.name] for expert in panel.experts]
    said = np.stack([each.served for each in learned], axis=1)
    weights = panel.hedge.observe_rows(said, truths)
    if panel.is_binary:
        gaps = np.stack([each.gaps for each in learned], axis=1)
        served, scores, sure = panel.count_two_of_rows(said, gaps / (1.0 + gaps), weights)
    else:
        served, scores, sure = panel.count_many_of_rows(said, [each.behind for each in learned], weights)
    panel.hedge.vote_mistakes += int(np.count_nonzero(served != truths))
    updated = np.logical_or.reduce([each.updated for each in learned])
    panel.updates += int(np.count_nonzero(updated))
    return Learned(served, scores, sure, updated)


def _learn_one_by_one(panel: Panel, vectors: Vectors, truths: Classes) -> Learned:
    served, scores, gaps, updated = [], [], [], []
    for at, truth in enumerate(truths.tolist()):
        z = vectors.row(at)
        vote = panel.vote(z)
        served.append(vote.chosen)
        scores.append(vote.score)
        gaps.append(vote.gap)
        updated.append(panel.reveal(z, truth, vote.chosen, vote.said, vote.erred_weight(truth), 1.0, delay=0))
    return Learned(np.array(served), np.array(scores), np.array(gaps), np.array(updated))
