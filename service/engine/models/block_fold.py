"""Applying a block of whole rounds: the same as one by one, in few steps for many rounds."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from service.engine.models.outcomes import BlockOutcome
from service.engine.models.state import ModelState
from service.events import Label, RoundsLearned, Table
from service.learning.classes.runs import Classes, learn_rows
from service.learning.panel import panel as panels
from service.learning.vectors import Rows, Vectors

ALONE_MAX = 8
"""So few rounds are learned faster one by one."""


def learn_block(model: ModelState, event: RoundsLearned) -> BlockOutcome:
    """Let a model learn the rounds of a block, in their order."""
    outcome = BlockOutcome(
        model.labels, version=model.version, rounds=model.revealed, mistakes=model.mistakes
    )
    if model.sets is not None:
        outcome.sets, outcome.labels_may_grow = [], model.settings["labels"] is None
    start = 0
    for table in event.features:
        labels = event.labels[start : start + table.rounds]
        start += table.rounds
        _learn_table(model, rows_in(table), labels, event.at, outcome)
    return outcome


def rows_in(table: Table) -> Rows:
    values = np.frombuffer(table.values, dtype="<f8")
    return Rows(values.reshape(table.rounds, -1) if len(values) else np.empty((table.rounds, 0)), table.names)


def table_of(rows: Rows) -> Table:
    """Rows as an event has them: the memory of the array itself, which is encoded for the journal and applied."""
    return Table(rows.names, len(rows.values), np.ascontiguousarray(rows.values, dtype="<f8").data)


def _learn_table(model: ModelState, rows: Rows, labels: list[Label], at: int, outcome: BlockOutcome) -> None:
    """A few rounds one by one until the rest can be learned together: what is new has to be learned first."""
    examples: Iterator[Any] | None = None
    together = model.sets is None and model.asking is None and model.settings["class_weights"] is None
    together &= model.contest is None
    for start in range(0, len(labels), ALONE_MAX):
        if (
            together
            and len(labels) - start > ALONE_MAX
            and _learn_together(model, rows.after(start), labels[start:], at, outcome)
        ):
            return
        if examples is None:
            examples = iter(model.features.examples_in(rows))
        for label in labels[start : start + ALONE_MAX]:
            drifts = model.statistics.drift_count
            outcome.add(model.whole_round(next(examples), label, at))
            if model.statistics.drift_count > drifts:
                outcome.rises.append(model.revealed)


def _learn_together(
    model: ModelState, rows: Rows, labels: list[Label], at: int, outcome: BlockOutcome
) -> bool:
    """Learn rows whose names and classes are known, if they are."""
    vectors = model.features.vectors(rows)
    truths = model.labels.indices(labels) if vectors is not None else [-1]
    if vectors is None or -1 in truths:
        return False
    _learn_vectors(model, vectors, np.array(truths), at, outcome)
    return True


def _learn_vectors(
    model: ModelState, vectors: Vectors, truths: Classes, at: int, outcome: BlockOutcome
) -> None:
    if model.panel is None:
        learned = learn_rows(model.classifier, vectors, truths)
    else:
        learned = panels.learn_rows(model.panel, vectors, truths)
    model.version += len(truths)
    block = model.statistics.observe_rows(truths, learned.served, learned.updated, learned.gaps, at_us=at)
    outcome.rises += block.rises
    if model.bound is not None:
        x = model.without_bias(vectors)
        model.bound.observe_rows(
            x.values, 2 * truths - 1, updated=learned.updated, scores=learned.scores, indices=x.indices
        )
    outcome.add_all(
        learned.served.tolist(),
        learned.scores.tolist(),
        block.mistaken.tolist(),
        learned.updated.tolist(),
        block.probabilities,
    )


def first_rounds(event: RoundsLearned, count: int) -> RoundsLearned:
    """The first so many rounds of a block."""
    return some_rounds(event, 0, count)


def some_rounds(event: RoundsLearned, start: int, end: int) -> RoundsLearned:
    """The rounds of a block from one place to another.

    >>> two, one = Table(None, 2, memoryview(b"aabb")), Table(["n"], 1, memoryview(b"c"))
    >>> some = some_rounds(RoundsLearned("m", 0, [1, 2, 3], [two, one]), 1, 3)
    >>> some.labels, [(table.names, bytes(table.values)) for table in some.features]
    ([2, 3], [(None, b'bb'), (['n'], b'c')])
    """
    if start == 0 and end >= len(event.labels):
        return event
    tables: list[Table] = []
    begins = 0
    for table in event.features:
        first, last = max(0, start - begins), min(table.rounds, end - begins)
        begins += table.rounds
        if first < last:
            size = table.values.nbytes // table.rounds
            tables.append(
                Table(table.names, last - first, table.values.cast("B")[first * size : last * size])
            )
    answered = None if event.answered is None else event.answered[start:end]
    return RoundsLearned(event.model, event.at, event.labels[start:end], tables, answered)
