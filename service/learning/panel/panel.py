"""A classifier that is a panel of others: all of them learn from every reveal, and their weighted vote is served.

Of a block of rows each expert learns its form of all, then the weights and the votes are counted. The experts know
nothing of each other or of the vote, so that each can take a whole block in its own fast way. It is the same to the bit
as deciding and learning row by row.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from service.learning import saved
from service.learning.classes import strategies
from service.learning.classes.classifier import Classifier
from service.learning.classes.one_vs_all import Binary, OneVsAll
from service.learning.classes.runs import Classes, Learned
from service.learning.classes.runs import learn_rows as learn_rows_alone
from service.learning.panel.forms import FormMaker
from service.learning.panel.hedge import Hedge, in_order, votes_of_rows
from service.learning.panel.panels import PANELS, Expert
from service.learning.vectors import Array, Indices, Vector, Vectors


class Vote(NamedTuple):
    """What a panel says of an example."""

    chosen: int
    """The class that the most weight is for; -1 while no class is known."""
    score: float
    """For two declared classes the weight for the second less that for the first; else the weight for the chosen."""
    gap: float
    behind: Array | None
    """How far each class is behind the chosen one; None if there are just two."""
    said: list[int]
    """The class that each expert is for."""
    votes: list[float]
    """The weights for the classes in `said`, in the order in which they first stand there."""

    def erred_weight(self, truth: int) -> float:
        return erred_weight(self.said, self.votes, truth)


def erred_weight(said: Sequence[int], votes: Sequence[float], truth: int) -> float:
    """What the experts weighed, as they were served, that did not say the true class.

    >>> erred_weight([2, 0, 2, 1], [0.5, 0.25, 0.25], truth=2)
    0.5
    """
    total = 0.0
    for label, vote in zip(dict.fromkeys(said), votes, strict=True):
        if label != truth:
            total += vote
    return total


class Panel:
    """Experts, each a classifier that sees its own form of the examples, and the weights of their votes.

    The class with the most weight is served; among equals the `tie` of two declared classes, else the one declared or
    seen first. How sure the vote is, is more than who won it: the score of an expert that is sure counts more in the
    gap than that of one that is not. An expert whose best class is g ahead of another gives that other 1/(1 + g) of its
    weight, and its best class all of it; the gap is the difference of these sums, or 0 if they disagree with the vote.
    """

    __slots__ = (
        "_classes",
        "_forms",
        "_size",
        "_tie",
        "classifiers",
        "experts",
        "hedge",
        "is_binary",
        "updates",
    )

    def __init__(
        self,
        learner: Mapping[str, Any],
        multiclass: str | None,
        *,
        classes: int,
        tie: int,
        kind: str,
        has_bias: bool,
        rules: int = 1,
    ) -> None:
        declared = PANELS[learner["panel"]]
        self.experts = declared.experts_for(kind)
        self.classifiers: list[Classifier] = [
            strategies.build(expert.learner, multiclass, classes=classes, tie=tie) for expert in self.experts
        ]
        self.hedge = Hedge(len(self.experts), kept=declared.kept, share=declared.share, rules=rules)
        self._forms = FormMaker(
            (expert.form for expert in self.experts),
            is_dense=kind == "dense",
            has_bias=has_bias,
            robust=rules >= 3,
        )
        self.is_binary = multiclass is None
        self._tie = tie
        self._classes = classes
        self._size = 0
        self.updates = 0

    @property
    def shape(self) -> tuple[int, int]:
        return self._classes, self._size

    @property
    def forms(self) -> FormMaker:
        return self._forms

    @property
    def can_vote_by_columns(self) -> bool:
        """Whether blocks can be learned expert by expert, and their votes be counted then: see `learn_rows`."""
        return not self._forms.is_young and all(
            isinstance(classifier, Binary | OneVsAll) for classifier in self.classifiers
        )

    def vote(self, z: Vector) -> Vote:
        """What the panel says of z; changes nothing."""
        forms = self._forms.forms(z)
        if self.is_binary:
            decisions = [
                classifier.decide(forms[expert.form])
                for classifier, expert in zip(self.classifiers, self.experts, strict=True)
            ]
            return self.vote_of_two([chosen for chosen, _, _ in decisions], [gap for _, _, gap in decisions])
        if not self._classes:
            return Vote(-1, 0.0, 0.0, np.zeros(0), [-1] * len(self.experts), [1.0])
        return self.vote_of_many(
            [
                (classifier.decide(forms[expert.form])[0], classifier.behind(forms[expert.form]))
                for classifier, expert in zip(self.classifiers, self.experts, strict=True)
            ]
        )

    def vote_of_two(self, said: list[int], gaps: list[float]) -> Vote:
        """The vote between two declared classes, from the class and the gap of each expert."""
        chosen, first, second, gap = self.count_two(said, [gap / (1.0 + gap) for gap in gaps])
        votes = [vote for vote in ((second, first) if said[0] else (first, second)) if vote]
        return Vote(chosen, second - first, gap, None, said, votes)

    def count_two(self, said: list[int], surely: list[float]) -> tuple[int, float, float, float]:
        """The class that wins, the weights for the first and for the second, and the gap.

        `surely` is how sure each expert is, from 0 to 1.
        """
        first = second = sure = 0.0
        for label, is_sure, weight in zip(said, surely, self.hedge.weights, strict=True):
            if label:
                second += weight
                sure += weight * is_sure
            else:
                first += weight
                sure -= weight * is_sure
        chosen = 1 if second > first else 0 if second < first else self._tie
        gap = sure if chosen else -sure
        return chosen, first, second, max(0.0, gap)

    def count_two_of_rows(self, said: Classes, surely: Array, weights: Array) -> tuple[Classes, Array, Array]:
        """The classes, scores and gaps of many votes, as rows of what each expert says and weighs: as one by one."""
        is_second = said == 1
        scores = in_order(weights * is_second) - in_order(weights * ~is_second)
        chosen = np.where(scores > 0, 1, np.where(scores < 0, 0, self._tie))
        sure = in_order(weights * np.where(is_second, surely, -surely))
        gaps = np.where(chosen == 1, sure, -sure)
        return chosen, scores, np.where(gaps > 0, gaps, 0.0)

    def vote_of_many(self, decisions: list[tuple[int, Array]]) -> Vote:
        """The vote among several classes, from the class of each expert and how far the others are behind it."""
        said = [chosen for chosen, _ in decisions]
        by_class: dict[int, float] = {}
        sure = np.zeros(self._classes)
        for (label, behind), weight in zip(decisions, self.hedge.weights, strict=True):
            by_class[label] = by_class.get(label, 0.0) + weight
            sure += weight / (1.0 + behind)
        most = max(by_class.values())
        chosen = min(label for label, weight in by_class.items() if weight == most)
        behind = np.maximum(sure[chosen] - sure, 0.0)
        gap = float(np.delete(behind, chosen).min()) if self._classes > 1 else 0.0
        return Vote(chosen, most, gap, behind, said, list(by_class.values()))

    def count_many_of_rows(
        self, said: Classes, behinds: Sequence[Array], weights: Array
    ) -> tuple[Classes, Array, Array]:
        """The same among several classes, with how far each class is behind for each expert."""
        votes = votes_of_rows(said, weights)
        most = np.maximum.reduce(votes, axis=1)
        chosen = np.minimum.reduce(np.where(votes == most[:, np.newaxis], said, self._classes), axis=1)
        sure = np.zeros((len(said), self._classes))
        for behind, weight in zip(behinds, weights.T, strict=True):
            sure += weight[:, np.newaxis] / (1.0 + behind)
        every = np.arange(len(said))
        own = sure[every, chosen]
        sure[every, chosen] = -np.inf
        gaps = (
            np.maximum(own - np.maximum.reduce(sure, axis=1), 0.0)
            if self._classes > 1
            else np.zeros(len(own))
        )
        return chosen, most, gaps

    def decide(self, z: Vector) -> tuple[int, float, float]:
        vote = self.vote(z)
        return vote.chosen, vote.score, vote.gap

    def behind(self, z: Vector) -> Array:
        return behind_in(self.vote(z))

    def learn(self, z: Vector, truth: int, served: int, weight: float = 1.0) -> bool:
        """A reveal whose prediction is of now: the experts are judged by what they say now."""
        vote = self.vote(z)
        return self.reveal(z, truth, served, vote.said, vote.erred_weight(truth), weight)

    def reveal(
        self,
        z: Vector,
        truth: int,
        served: int,
        said: list[int],
        erred_weight: float,
        weight: float,
        delay: int = 0,
        seen: int | None = None,
    ) -> bool:
        """Learn that z belongs to class `truth`; True if any expert's weights changed.

        `said` is what each expert said when the prediction was served, `delay` reveals ago and after `seen`
        disagreements, and `erred_weight` what those weighed then that were wrong. Each expert learns by what it said
        itself. The experts' own weights count reveals: `weight` is how often the example counts for their learners
        only.
        """
        changed = self._learn(z, truth, said, weight)
        self.hedge.observe(said, truth, erred_weight, served != truth, delay, seen)
        return changed

    def learn_only(self, z: Vector, truth: int, weight: float) -> bool:
        """Learn from a reveal whose prediction was served before the panel began: nobody here has said anything."""
        return self._learn(z, truth, self.vote(z).said, weight)

    def _learn(self, z: Vector, truth: int, said: list[int], weight: float) -> bool:
        is_young = self._forms.is_young
        if is_young:
            self._forms.absorb(z)
        forms = self._forms.forms(z)
        changed = False
        for expert, classifier, label in zip(self.experts, self.classifiers, said, strict=True):
            changed |= classifier.learn(forms[expert.form], truth, label, weight)
        if not is_young:
            self._forms.absorb(z)
        self.updates += changed
        return changed

    def report(self) -> dict[str, Any]:
        return self.hedge.report([expert.name for expert in self.experts])

    @property
    def leader(self) -> Expert:
        """The expert that weighs most."""
        return self.experts[self.hedge.leader]

    def led_by(self, z: Vector) -> tuple[Classifier, Vector]:
        """The expert that weighs most, and z as it sees it."""
        return self.classifiers[self.hedge.leader], self._forms.forms(z)[self.leader.form]

    def weight_place(self, index: int) -> int | tuple[int, int] | str:
        """What a weight of the expert that weighs most stands for: a feature by its place, or two, or a word."""
        return self._forms.place(self.leader.form, index, self._size)

    def grow(self, size: int) -> None:
        self._size = size
        for expert, classifier in zip(self.experts, self.classifiers, strict=True):
            classifier.grow(self._forms.size(expert.form, size))

    def unsettle(self, places: Indices) -> None:
        """No features of a model with a panel begin a new scale: the panel brings its own."""

    def add_class(self) -> None:
        self._classes += 1
        for classifier in self.classifiers:
            classifier.add_class()

    def weights_for(self, chosen: int) -> Array:
        """Those of the expert that weighs most."""
        return self.classifiers[self.hedge.leader].weights_for(chosen)

    def state(self) -> dict[str, Any]:
        return {
            "experts": [classifier.state() for classifier in self.classifiers],
            "forms": self._forms.state(),
            "hedge": self.hedge.state(),
            "updates": self.updates,
        }

    def restore(self, state: Any, classes: int, size: int) -> None:
        experts, forms, hedge, updates = saved.fields(state, "experts", "forms", "hedge", "updates")
        self._classes, self._size = classes, size
        count = len(self.experts)
        saved.check(type(experts) is list and len(experts) == count, "experts", f"must be a list of {count}")
        for at, (expert, classifier) in enumerate(zip(self.experts, self.classifiers, strict=True)):
            own_size = self._forms.size(expert.form, size)
            saved.within(f"experts[{at}]", classifier.restore, experts[at], classes, own_size)
        saved.within("forms", self._forms.restore, forms, size)
        saved.within("hedge", self.hedge.restore, hedge)
        self.updates = saved.whole(updates, "updates")

    def check(self, revealed: int, mistakes: int) -> None:
        """`saved.BadState` unless it can be of a model with so many reveals and mistakes."""
        for name, most in (("rounds", revealed), ("vote_mistakes", mistakes)):
            saved.check(getattr(self.hedge, name) <= most, f"hedge.{name}", f"must be at most {most}")


def behind_in(vote: Vote) -> Array:
    """How far each class is behind the chosen one."""
    if vote.behind is not None:
        return vote.behind
    return np.array([vote.gap, 0.0] if vote.chosen else [0.0, vote.gap])


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
        updated.append(panel.reveal(z, truth, vote.chosen, vote.said, vote.erred_weight(truth), 1.0))
    return Learned(np.array(served), np.array(scores), np.array(gaps), np.array(updated))
