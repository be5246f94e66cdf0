"""Bits that turn over anywhere in the journal or its log: all answers are right, or the damage is told."""

import random
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest

from service.errors import StartError
from service.events import AnyEvent, ModelCreated, Prediction, RoundLearned, RoundRevealed
from service.journal.codec import encode
from service.journal.protocol import Page, StoredModel
from service.journal.seals import Damaged
from service.journal.sqlite import reading
from service.journal.sqlite.acknowledged import Note
from service.journal.sqlite.directory import open_directory
from service.journal.sqlite.records import PendingRecord, Record, SnapshotRecord, record_of
from service.journal.sqlite.schema import open_reader, open_writer
from service.journal.sqlite.sealing import seal_outcomes, seal_snapshot
from service.journal.sqlite.writing import Writing
from tests.fuzz.effort import TIMES

pytestmark = pytest.mark.thorough

FLIPS = 40 * TIMES
PAGE_BYTES = 8192
ROUNDS = 200
MODELS = ("first", "second", "third")


def prediction(model: str, i: int) -> Prediction:
    return Prediction(f"{model}-{i * 7919 % 1000:03}-{i}", model, 10 * i + 1, [float(i), 1.0], 1, 0.5, i, i)


def revealed(p: Prediction) -> RoundRevealed:
    seen = (p.at, p.features, p.served, p.score, p.version, p.updates)
    return RoundRevealed(p.model, p.at + 1, p.prediction_id, 1, *seen)


def groups() -> Iterator[list[tuple[AnyEvent | Prediction | int, int]]]:
    """What is committed together: an event or a waiting prediction with the life of its model; a number: a snapshot."""
    for life, model in enumerate(MODELS, 1):
        yield [(ModelCreated(model, life, {"labels": [-1, 1]}), life)]
    for i in range(ROUNDS):
        for life, model in enumerate(MODELS, 1):
            predicted = prediction(model, i)
            if i % 10 == 9:
                yield [(predicted, life)]
            elif i % 2:
                yield [(predicted, life)]
                yield [(revealed(predicted), life)]
            else:
                round_id, features = predicted.prediction_id, predicted.features
                yield [(RoundLearned(model, predicted.at, round_id, 1, features), life)]
        if i == ROUNDS // 2:
            yield [(i, life) for life in range(1, len(MODELS) + 1)]


@pytest.fixture(scope="module")
def journal(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory as a kill leaves it: most of the journal is in its file, the newest part in its log."""
    made = tmp_path_factory.mktemp("made")
    path = made / "journal.sqlite"
    open_directory(path, "power")
    kept = tmp_path_factory.mktemp("kept")
    with closing(open_writer(path, "process")) as connection:  # nobody cuts the power here
        writing = Writing(connection, events_kept_max=10**6, expired_remembered_max=10)
        note = Note(path, "power")
        newest: dict[int, int] = {}
        for group in groups():
            records: list[Record] = []
            for what, life in group:
                match what:
                    case int():
                        seq, version = newest[life], 1
                        state, outcomes = b"s" * 9_000, b"o" * 64
                        records.append(
                            SnapshotRecord(
                                life, seq, version, seal_snapshot(state, life, seq),
                                seal_outcomes(outcomes, life, seq, version),
                            )
                        )  # fmt: skip
                    case Prediction():
                        records.append(PendingRecord(what.prediction_id, life, what.at, encode(what)))
                    case _:
                        records.append(record_of(what, life))
            results = writing.commit(records)
            newest |= {life: seq for (_, life), (_, seq) in zip(group, results, strict=True) if seq}
            note.write(max(seq for _, seq in results))
        for file in made.iterdir():
            if not file.name.endswith("-shm"):
                shutil.copy(file, kept)
    assert (kept / "journal.sqlite-wal").stat().st_size > 100 * PAGE_BYTES
    return kept


Answers = dict[str, Any]


def ask(path: Path) -> Answers:
    """All that can be asked; what is damaged is left out. StartError if the journal is refused."""
    open_directory(path, "power")
    ids = [prediction(model, i).prediction_id for model in MODELS for i in range(ROUNDS)]
    unknown = [f"{model}-{i:03}-x" for model in MODELS for i in range(0, 1000, 50)]
    questions: list[tuple[str, Callable[..., Any], tuple[Any, ...]]] = [
        *((f"find {one}", reading.find, (one,)) for one in (*ids, *unknown)),
        *((f"load {model}", reading.load, (model,)) for model in (*MODELS, "none", "fir", "thirds")),
        *((f"events {model}", reading.events, (model, 0, -1)) for model in MODELS),
        *((f"outcomes {model}", reading.outcomes, (model, 5)) for model in MODELS),
        ("overdue", reading.overdue, (0, 10**9, 10**6)),
        ("models", reading.models, (Page(),)),
        ("newest", reading.newest_time, ()),
    ]
    answers: Answers = {}
    with closing(open_reader(path)) as connection:
        for name, question, args in questions:
            try:
                answers[name] = question(connection, *args)
            except (sqlite3.Error, msgspec.MsgspecError, Damaged):
                answers[name] = "damaged"
    return answers


@pytest.fixture(scope="module")
def expected(journal: Path, tmp_path_factory: pytest.TempPathFactory) -> Answers:
    copy = tmp_path_factory.mktemp("sound") / "data"
    shutil.copytree(journal, copy)
    answers = ask(copy / "journal.sqlite")
    assert "damaged" not in answers.values() and answers["load first"] is not None
    return answers


def is_same(answer: Any, expected: Any) -> bool:
    """A model may be loaded from its events instead of from a damaged snapshot."""
    if isinstance(answer, StoredModel) and answer.state is None and expected.state is not None:
        after = [recorded for recorded in answer.tail if recorded.seq > expected.seq]
        answer = replace(answer, state=expected.state, seq=expected.seq, tail=after)
    return bool(answer == expected)


@pytest.mark.parametrize("name", ["journal.sqlite", "journal.sqlite-wal"])
def test_one_bit_that_turns_over_anywhere_is_told_or_does_no_harm(
    journal: Path, expected: Answers, tmp_path: Path, name: str
) -> None:
    chance = random.Random(15)
    content = (journal / name).read_bytes()
    told = 0
    for n in range(FLIPS):
        data = tmp_path / f"{n}"
        shutil.copytree(journal, data)
        at = chance.randrange(len(content))
        if n % 3 == 0:  # where a page begins is what holds it together
            at = min(at // PAGE_BYTES * PAGE_BYTES + chance.randrange(200), len(content) - 1)
        bit = 1 << chance.randrange(8)
        with (data / name).open("rb+") as file:
            file.seek(at)
            file.write(bytes([content[at] ^ bit]))
        try:
            answers = ask(data / "journal.sqlite")
        except StartError as error:
            told += 1
            assert "damaged" in error.detail or "journal" in error.detail, error.detail
        else:
            told += "damaged" in answers.values()
            wrong = {
                question: (answer, expected[question])
                for question, answer in answers.items()
                if answer != "damaged" and not is_same(answer, expected[question])
            }
            assert not wrong, f"byte {at}, bit {bit}: {str(wrong)[:2000]}"
        shutil.rmtree(data)
    assert told
