"""`novikoff replay`."""

import asyncio
import json
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from novikoff import AsyncClient
from service.commands.replay.examples import Example, by_order
from service.commands.replay.rounds import Rounds
from tests.commands.examples import NAMES, WRITERS, make_examples, write
from tests.commands.running import failed, novikoff, worked
from tests.support.service_process import Service

ROUNDS = 40
EXAMPLES = make_examples(ROUNDS)
SentByHand = Callable[[int], dict[str, Any]]
"""By the delay of the labels."""


@pytest.fixture(scope="module")
def sent_by_hand(shared_service: Service) -> SentByHand:
    """The statistics of the same rounds, sent without the command: once for each delay."""
    return cache(lambda delay: send_by_hand(shared_service, f"by-hand-{uuid4().hex}", delay))


def send_by_hand(service: Service, model: str, delay: int) -> dict[str, Any]:
    waiting: list[tuple[str, int]] = []
    for features, label in EXAMPLES:
        waiting.append((service.predict(model, features)["prediction_id"], label))
        if len(waiting) > delay:
            service.reveal(*waiting.pop(0))
    for prediction_id, label in waiting:
        service.reveal(prediction_id, label)
    return figures(service, model)


def figures(service: Service, model: str) -> dict[str, Any]:
    stats = service.stats(model)
    (row,) = service.get(f"/models/{model}/weights")["classes"]
    del stats["curve"]["times"]  # the same rounds came at another time
    told = {field: stats[field] for field in ("rounds", "mistakes", "updates", "curve", "confusion")}
    return {**told, "weights": row["weights"], "bias": row["bias"]}


@pytest.mark.parametrize("file", WRITERS)
def test_every_format_makes_the_same_rounds(
    tmp_path: Path, service: Service, name: str, file: str, sent_by_hand: SentByHand
) -> None:
    said = worked("replay", write(tmp_path, file, EXAMPLES), "--model", name, "--url", service.url)
    expected = sent_by_hand(0)
    found = figures(service, name)
    if file.endswith(".svmlight"):  # named features, in the order in which they came
        order = service.get(f"/models/{name}/weights")["names"]
        found["weights"] = [found["weights"][order.index(each)] for each in NAMES]
    assert found == expected
    label = {"headless.csv": "3", "packed.jsonl": "label", "lists.ndjson": "label"}.get(file, "y")
    label = "label" if file.endswith(".svmlight") else label
    assert f"{ROUNDS} rows, 3 features, label `{label}` (guessed): -1, 1" in said
    assert f"│ mistakes              │ {expected['mistakes']}" in said
    interval = service.stats(name)["error_rate_interval"]
    within = f"({interval['low']:.2%} to {interval['high']:.2%} with 95% confidence)"
    assert f"│ error rate            │ {expected['mistakes'] / ROUNDS:.2%} {within}" in said
    service.assert_replay_equals_live(name)


@pytest.mark.parametrize("file", ["table.csv", "zipped.csv.gz", "columns.parquet", "packed.jsonl"])
def test_standard_input_will_do(
    tmp_path: Path, service: Service, name: str, file: str, sent_by_hand: SentByHand
) -> None:
    content = write(tmp_path, file, EXAMPLES).read_bytes()
    format = {"csv": "csv", "gz": "csv", "parquet": "parquet", "jsonl": "jsonl"}[file.rsplit(".")[-1]]
    worked("replay", "-", "--format", format, "--model", name, "--url", service.url, stdin=content)
    assert figures(service, name) == sent_by_hand(0)


def test_columns_can_be_chosen(tmp_path: Path, service: Service, name: str) -> None:
    file = tmp_path / "mails.csv"
    file.write_text("y,words,spam,links\n1,3.0,yes,7\n2,1.0,no,8\n")
    said = worked(
        "replay", file, "--model", name, "--url", service.url, "--label", "spam", "--features", "links,words"
    )
    assert "2 features, label `spam`: 'no', 'yes'" in said
    assert service.get(f"/models/{name}")["settings"]["labels"] == ["no", "yes"]
    assert service.get(f"/models/{name}/weights")["classes"][0]["weights"] == [-8.0, -1.0]
    assert "no column `colour`; the columns are y, words, spam, links" in failed(
        "replay", file, "--model", name, "--url", service.url, "--label", "colour"
    )


@pytest.mark.parametrize("options", [[], ["--delay", "2"], ["--fast"], ["--one-by-one"]], ids="".join)
def test_one_bad_cell_is_told_with_its_line_and_does_not_change_the_kind_of_features(
    tmp_path: Path, service: Service, name: str, options: list[str]
) -> None:
    file = tmp_path / "cells.csv"
    file.write_text('a,b,label\n1,"2\n",1\n\n3,oops,-1\n' + "1,2,1\n" * 3)
    command = ("replay", file, "--model", name, "--url", service.url, *options)
    assert "line 5: `b` is not a number but 'oops'" in failed(*command)
    assert service.client.get(f"/models/{name}").status_code == 404  # told before anything was made
    service.create(name)
    assert "line 5: `b` is not a number but 'oops'" in failed(*command)
    assert service.stats(name)["rounds"]["predicted"] == 1  # what was before it


@pytest.mark.parametrize("cell", ["1e999", "9" * 400, "-inf"])
def test_a_number_that_is_none_is_told_in_words(tmp_path: Path, cell: str) -> None:
    file = tmp_path / "numbers.csv"
    file.write_text(f"a,label\n1,1\n{cell},-1\n")
    for options in ([], ["--settings", '{"features": "named"}']):
        assert "line 3: `a` is not a finite number" in failed("replay", file, "--model", "m", *options)


def test_rows_are_streamed_unless_they_are_wanted_one_by_one(
    tmp_path: Path, service: Service, name: str
) -> None:
    file = write(tmp_path, "table.csv", EXAMPLES)
    requests = {}
    for options in ("--run=a", "--delay=3", "--one-by-one"):
        before = requests_of(service)
        worked("replay", file, "--model", f"{name}{options[2]}", "--url", service.url, options)
        requests[options] = requests_of(service) - before
    assert requests["--run=a"] < 10 and requests["--delay=3"] < 10 and requests["--one-by-one"] >= ROUNDS
    assert "exclude each other" in failed("replay", file, "--model", "m", "--fast", "--one-by-one")


def requests_of(service: Service) -> int:
    lines = service.client.get("/metrics").text.splitlines()
    counts = [line for line in lines if line.startswith("novikoff_request_seconds_count{")]
    return sum(int(float(line.rsplit(" ", 1)[1])) for line in counts)


def test_what_no_list_can_hold_gets_named_features(tmp_path: Path, service: Service, name: str) -> None:
    file = tmp_path / "animals.csv"
    file.write_text("legs,colour,class\n4,brown,dog\n,green,fish\n2,green,bird\n")
    worked("replay", file, "--model", name, "--url", service.url)
    assert service.get(f"/models/{name}")["settings"]["features"]["kind"] == "named"
    assert service.get(f"/models/{name}/weights")["names"] == ["colour=brown", "legs", "colour=green"]
    assert service.stats(name)["confusion"]["labels"] == ["dog", "fish", "bird"]


def test_a_replay_may_be_run_twice(tmp_path: Path, service: Service, name: str) -> None:
    command = ("replay", write(tmp_path, "table.csv", EXAMPLES), "--model", name, "--url", service.url)
    worked(*command)
    once = figures(service, name)
    assert f"{ROUNDS}, not learned again" in worked(*command)
    assert figures(service, name) == once
    assert "not learned again" not in worked(*command, "--run", "second")
    assert service.stats(name)["rounds"]["revealed"] == 2 * ROUNDS


async def break_off(service: Service, model: str, delay: int, after: int) -> None:
    """Play the first rounds and leave the labels that wait unrevealed."""
    done = {"rounds": 0}
    async with AsyncClient(service.url) as client:
        rounds = Rounds(client, model, by_order([]), delay=delay, is_stopped=lambda: done["rounds"] >= after)
        examples = (Example(row, list(x), y, f"line {row}") for row, (x, y) in enumerate(EXAMPLES, 1))
        async for outcome in rounds.play_one_by_one(examples):
            done["rounds"] = outcome.rounds


@pytest.mark.parametrize("delay", [0, 5])
def test_a_replay_that_broke_off_goes_on(
    tmp_path: Path, service: Service, name: str, delay: int, sent_by_hand: SentByHand
) -> None:
    command = ("--model", name, "--url", service.url, "--delay", delay, "--resume")
    service.create(name)
    asyncio.run(break_off(service, name, delay, after=12))
    done = service.stats(name)["rounds"]["revealed"]
    said = worked("replay", write(tmp_path, "flat.jsonl", EXAMPLES), *command)
    assert done == 12 and f"continuing after row {done}" in said and f"{ROUNDS - done} rounds in" in said
    assert "not learned again" not in said
    assert figures(service, name) == sent_by_hand(delay)
    assert "0 rounds" in worked("replay", write(tmp_path, "flat.jsonl", EXAMPLES), *command)


def test_a_fast_replay_learns_the_same_and_goes_on_by_the_count(
    tmp_path: Path, service: Service, name: str, sent_by_hand: SentByHand
) -> None:
    command = ("--model", name, "--url", service.url, "--fast", "--resume")
    worked("replay", write(tmp_path, "table.csv", EXAMPLES[:15]), *command)
    said = worked("replay", write(tmp_path, "table.csv", EXAMPLES), *command)
    assert "continuing after row 15" in said and "25 rounds in" in said
    assert figures(service, name) == sent_by_hand(0)
    service.assert_replay_equals_live(name)
    file = write(tmp_path, "table.csv", [*EXAMPLES, (EXAMPLES[0][0], 7), EXAMPLES[1]])
    assert f"line {ROUNDS + 2}: " in failed("replay", file, *command)
    assert "cannot be used with --delay" in failed("replay", file, *command, "--delay", 3)


def test_going_on_is_refused_when_the_rounds_are_not_of_this_file(
    tmp_path: Path, service: Service, name: str
) -> None:
    service.create(name)
    service.learn(name, EXAMPLES[0][0], EXAMPLES[0][1])
    command = ("replay", write(tmp_path, "table.csv", EXAMPLES), "--model", name, "--url", service.url)
    assert "its last was not row 1 of this file" in failed(*command, "--resume")
    assert service.stats(name)["rounds"]["revealed"] == 1
    assert "--resume needs --url or --data" in failed(*command[:-2], "--resume")


@pytest.mark.parametrize("delay", [1, 7, 1000])
def test_labels_may_come_late(
    tmp_path: Path, service: Service, name: str, delay: int, sent_by_hand: SentByHand
) -> None:
    file = write(tmp_path, "table.csv", EXAMPLES)
    worked("replay", file, "--model", name, "--url", service.url, "--delay", delay)
    assert figures(service, name) == sent_by_hand(delay)
    service.assert_replay_equals_live(name)


def test_without_a_service_it_brings_its_own(tmp_path: Path, name: str, sent_by_hand: SentByHand) -> None:
    file = write(tmp_path, "table.csv", EXAMPLES)
    data = tmp_path / "data"
    kept = worked("replay", file, "--model", name, "--data", data)
    mistakes = sent_by_hand(0)["mistakes"]
    for said in (kept, worked("replay", file, "--model", name)):
        assert f"│ mistakes              │ {mistakes}" in said
    assert "0 rounds" in worked("replay", file, "--model", name, "--data", data, "--resume")
    assert "no problems found" in worked("doctor", "--data", data)


def test_settings_are_for_a_model_that_is_made(tmp_path: Path, service: Service, name: str) -> None:
    command = ("replay", write(tmp_path, "table.csv", EXAMPLES), "--model", name, "--url", service.url)
    settings = {"learner": {"algorithm": "pa1"}, "features": "hashed"}
    assert "new model, pa1, hashed features" in worked(*command, "--settings", json.dumps(settings))
    assert "existing model" in worked(*command, "--settings", json.dumps(settings))
    assert "not a JSON object" in failed(*command, "--settings", "[1]")
    assert "invalid-request" in failed(*command[:3], f"{name}.no", *command[4:], "--settings", '{"tie": 7}')


@pytest.mark.parametrize(
    ("file", "content", "complaint"),
    [
        ("a.csv", "a,b,y\n1,2,1\n1,2\n", "line 3: a row has 2 cells, the header has 3"),
        ("b.csv", "a,a,y\n1,2,1\n", "two columns of the table have the same name"),
        ("c.csv", "a,y\n1,0.5\n", "line 2: `y` is not a label"),
        ("d.csv", "a,y\n", "has no examples"),
        ("e.jsonl", '{"a": 1, "y": 1}\n[1]\n', "line 2: not a JSON object"),
        ("f.svm", "1 1:2\n1 nonsense\n", "line 2: not svmlight"),
        ("g.parquet", "PAR2", "not a Parquet file"),
        ("h.dat", "who knows", "choose one with --format"),
        ("i.jsonl", '{"features": [1, null], "label": 1}\n{"features": {"a": 1}, "label": -1}\n', "line 1"),
    ],
)
def test_a_bad_file_is_told_in_words(tmp_path: Path, file: str, content: str, complaint: str) -> None:
    (tmp_path / file).write_text(content)
    assert complaint in failed("replay", tmp_path / file, "--model", "m")


def test_the_labels_of_the_model_are_told(tmp_path: Path, service: Service, name: str) -> None:
    file = tmp_path / "answers.csv"
    file.write_text("a,label\n1,yes\n2,no\n")
    command = ("replay", file, "--model", name, "--url", service.url)
    assert "dense features, labels 'no', 'yes'" in worked(*command)
    file.write_text("a,label\n1,yes\n2,no\n3,maybe\n")
    said = worked(*command[:3], f"{name}.more", *command[4:])
    assert "dense features, classes appear as they are revealed" in said and "'maybe', 'no', 'yes'" in said


def test_a_file_that_is_not_there_and_a_service_that_is_not_there(tmp_path: Path) -> None:
    assert "cannot be read: No such file" in failed("replay", tmp_path / "none.csv", "--model", "m")


def test_parquet_without_pyarrow_says_how_to_get_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = write(tmp_path, "columns.parquet", EXAMPLES)
    for module in ("pyarrow", "pyarrow.parquet"):
        monkeypatch.setitem(sys.modules, module, None)
    assert "pip install pyarrow" in failed("replay", file, "--model", "m")


@pytest.mark.parametrize("options", [[], ["--fast"], ["--one-by-one"], ["--delay", "3"]])
def test_a_file_of_more_labels_than_a_matrix_shows_is_replayed(tmp_path: Path, options: list[str]) -> None:
    file = tmp_path / "many.csv"
    file.write_text("a,b,label\n" + "".join(f"{i % 7},{i % 11},label {i % 60}\n" for i in range(120)))
    said = worked("replay", file, "--model", "m", *options)
    assert "rounds                │ 120" in said


def test_a_row_that_the_service_refuses_ends_it_with_the_table_so_far(
    tmp_path: Path, service: Service, name: str
) -> None:
    service.create(name)
    file = write(tmp_path, "table.csv", [*EXAMPLES[:5], (EXAMPLES[5][0], 7)])
    ended = novikoff("replay", file, "--model", name, "--url", service.url)
    assert ended.status == 1 and "line 7: " in ended.err and "unknown-label" in ended.err
    assert "│ rounds                │ 5" in ended.out


@pytest.mark.parametrize("options", [[], ["--fast"], ["--delay", "3"]], ids="".join)
def test_rows_behind_one_that_is_refused_are_counted_if_they_were_learned(
    tmp_path: Path, service: Service, name: str, options: list[str]
) -> None:
    service.create(name)
    file = write(tmp_path, "table.csv", [*EXAMPLES[:5], (EXAMPLES[5][0], 7), *EXAMPLES[6:]])
    ended = novikoff("replay", file, "--model", name, "--url", service.url, *options)
    learned = service.stats(name)["rounds"]["revealed"]
    assert ended.status == 1 and learned == ROUNDS - 1
    assert "line 7: " in ended.err
    assert "34 rows behind it were in the same request and are learned" in ended.err
    assert f"{learned} rounds in" in ended.out and f"│ rounds                │ {learned}" in ended.out
