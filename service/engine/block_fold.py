"""Applying a block of whole rounds: the same as one by one, in few steps for many rounds."""

from typing import Any

import numpy as np

from service.engine.outcomes import BlockOutcome
from service.events import Label, RoundsLearned, Table
from service.learning.runs import learn_rows
from service.learning.vectors import Rows, Vectors

ALONE_MAX = 8
"""So few rounds are learned faster one by one."""


def learn_block(model: Any, event: RoundsLearned) -> BlockOutcome:
    """Let a model learn the rounds of a block, in their order."""
    outcome = BlockOutcome(model.version, model.revealed, model.mistakes)
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
    return Table(rows.names, len(rows.values), rows.values.astype("<f8", copy=False).tobytes())


def _learn_table(model: Any, rows: Rows, labels: list[Label], at: int, outcome: BlockOutcome) -> None:
    """As many rows together as can be: a name or a class that is new must be learned first."""
    while labels:
        if len(labels) > ALONE_MAX:
            truths = model.labels.indices(labels)
            vectors = model.features.vectors(rows) if -1 not in truths else None
            if vectors is not None:
                _learn_vectors(model, vectors, np.array(truths), at, outcome)
                return
        example = next(iter(model.features.examples_in(rows)))
        outcome.add(model.whole_round(example, labels[0], at))
        rows, labels = rows.after(1), labels[1:]


def _learn_vectors(model: Any, vectors: Vectors, truths: Any, at: int, outcome: BlockOutcome) -> None:
    learned = learn_rows(model.classifier, vectors, truths)
    model.version += len(truths)
    model.statistics.observe_rows(truths, learned.served, learned.updated, at_us=at)
    mistaken = learned.served != truths
    if model.bound is not None:
        x = model.without_bias(vectors)
        model.bound.observe_rows(
            x.values, 2 * truths - 1, updated=learned.updated, mistaken=mistaken, indices=x.indices
        )
    outcome.add_all(
        learned.served.tolist(), learned.scores.tolist(), mistaken.tolist(), learned.updated.tolist()
    )
