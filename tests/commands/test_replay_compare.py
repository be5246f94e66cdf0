"""`novikoff replay --compare`: a file through several settings, side by side."""

import json
import re
from pathlib import Path

import pytest

from tests.commands.examples import make_examples, write
from tests.commands.running import failed, worked
from tests.support.service_process import Service

ROUNDS = 1_300
EXAMPLES = make_examples(ROUNDS)


def rows_of(said: str) -> dict[str, list[str]]:
    """The cells of the table by the name of their row."""
    rows = [re.split(r"\s{2,}", line.strip()) for line in said.splitlines()]
    return {row[0]: row[1:] for row in rows if len(row) > 1}


@pytest.mark.parametrize("file", ["table.csv", "flat.jsonl", "lists.ndjson", "columns.parquet"])
def test_each_setting_errs_as_often_as_a_model_of_its_own(
    tmp_path: Path, service: Service, name: str, file: str
) -> None:
    path = write(tmp_path, file, EXAMPLES)
    said = worked("replay", path, "--compare", "perceptron,arow", "--model", name, "--url", service.url)
    assert f"{ROUNDS:,} rows, the same for all" in said
    rows = rows_of(said)
    for algorithm in ("perceptron", "arow"):
        alone = f"{name}-{algorithm}"
        settings = json.dumps({"learner": {"algorithm": algorithm}})
        worked("replay", path, "--model", alone, "--url", service.url, "--fast", "--settings", settings)
        stats = service.stats(alone)
        assert service.stats(f"{name}.{algorithm}")["mistakes"] == stats["mistakes"]
        interval = stats["error_rate_interval"]
        assert rows[algorithm][:3] == [
            f"{stats['error_rate']:.1%}",
            f"{100 * interval['low']:.1f}–{interval['high']:.1%}",
            f"{stats['windows']['last_1000']['error_rate']:.1%}",
        ]
        baseline = stats["baselines"]["majority_error_rate"]
        assert rows["(the majority class)"] == [f"{baseline:.1%}"]


def test_the_table_says_who_is_surely_worse_than_the_first_and_who_may_not_be(tmp_path: Path) -> None:
    file = tmp_path / "ring.csv"
    points = [(i % 37 / 18 - 1, i % 41 / 20 - 1) for i in range(3_000)]
    file.write_text("a,b,y\n" + "".join(f"{a},{b},{int(a * a + b * b < 0.6)}\n" for a, b in points))
    same = '{"learner": {"algorithm": "arow"}, "features": {"kind": "dense", "crosses": 2}}'
    said = worked("replay", file, "--compare", "arow+crosses,perceptron", "--compare", same)
    rows = rows_of(said)
    assert re.search(r"against +\n.*arow\+crosses", said)
    mean, radius = map(float, rows["perceptron"][3].split(" ± "))
    errors = {name: float(rows[name][0].rstrip("%")) for name in ("perceptron", "arow+crosses")}
    assert mean == pytest.approx(errors["perceptron"] - errors["arow+crosses"], abs=0.11)
    assert mean > radius and rows["perceptron"][4] == "worse"
    assert rows[same][3].startswith("+0.0 ± ") and rows[same][4] == "?"
    names = [name for name in rows if name in errors or name == same]
    assert names[-1] == "perceptron"  # the best is on top


def test_the_usual_settings_are_compared_on_any_kind_of_features(tmp_path: Path) -> None:
    plain = rows_of(worked("replay", write(tmp_path, "table.csv", EXAMPLES[:60]), "--compare", "usual"))
    assert plain.keys() >= {"auto", "perceptron", "arow+standardize", "arow+standardize+fourier"}
    file = tmp_path / "animals.csv"
    file.write_text("legs,colour,class\n4,brown,dog\n,green,fish\n2,green,bird\n" * 20)
    named = rows_of(worked("replay", file, "--compare", "usual"))
    assert named.keys() >= {"auto", "perceptron", "arow+standardize"}
    assert not any("fourier" in name for name in named)


def test_standard_input_is_read_once_for_all(tmp_path: Path) -> None:
    content = write(tmp_path, "table.csv", EXAMPLES).read_bytes()
    said = worked("replay", "-", "--format", "csv", "--compare", "perceptron,pa1", stdin=content)
    assert f"{ROUNDS:,} rows, the same for all" in said


def test_what_cannot_be_compared_is_told_in_words(tmp_path: Path) -> None:
    command = ("replay", write(tmp_path, "table.csv", EXAMPLES[:5]), "--compare")
    assert "needs two settings or more" in failed(*command, "perceptron")
    assert "--compare forest: " in failed(*command, "perceptron,forest")
    assert "unknown part `boost`; available are standardize, fourier, crosses" in failed(
        *command, "pa1,arow+boost"
    )
    assert "not a JSON object" in failed(*command, "perceptron", "--compare", "{tie}")
    assert "without --delay" in failed(*command, "perceptron,pa1", "--delay", 3)
    assert "at most 20 settings" in failed(*command, "pa1", *(f'--compare={{"tie": {i}}}' for i in range(20)))
    assert "name the model that learns with --model NAME" in failed(*command[:2])


def test_no_model_is_left_behind_or_learned_into_when_one_is_refused(
    tmp_path: Path, service: Service, name: str
) -> None:
    command = ("replay", write(tmp_path, "table.csv", EXAMPLES[:5]), "--model", name, "--url", service.url)
    assert "--compare forest: " in failed(*command, "--compare", "perceptron,forest")
    worked(*command, "--compare", "perceptron,pa1")
    assert f"model {name}.pa1 already exists" in failed(*command, "--compare", "arow,pa1")
    assert service.stats(f"{name}.pa1")["rounds"]["revealed"] == 5
    assert service.client.get(f"/models/{name}.arow").status_code == 404
