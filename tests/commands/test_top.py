"""`novikoff top --once`."""

import io
from datetime import UTC, datetime, timedelta

import pytest
from rich.console import Console

from novikoff.schemas import Drift, Fleet, RoundCounts, StatsLine, Totals
from service.commands.top import paces_between, table_of
from tests.commands.running import failed, worked
from tests.support.service_process import Service


def test_one_look_shows_every_model_with_its_figures(service: Service, name: str) -> None:
    service.create(f"{name}.b", learner={"algorithm": "pa1"})
    for label in (1, -1, -1, 1):
        service.learn(f"{name}.a", [1.0], label)
    service.predict(f"{name}.b", [1.0])
    said = worked("top", "--once", "--url", service.url, "--prefix", f"{name}.", "--sort", "name")
    stats = service.stats(f"{name}.a")
    lines = [line.replace("│", " ").split() for line in said.splitlines() if name in line]
    assert lines[0][:6] == [f"{name}.a", "perceptron", "4", str(stats["mistakes"]),
                            f"{stats['error_rate']:.2%}", f"{stats['ewma_error_rate']:.2%}"]  # fmt: skip
    assert lines[1][:6] == [f"{name}.b", "pa1", "0", "0", "-", "-"]
    error = f"{stats['error_rate']:.2%}"
    assert f"2 models, 4 rounds, error {error}, 1 prediction pending" in said


def test_a_long_list_says_what_it_leaves_out(service: Service, name: str) -> None:
    for i in range(3):
        service.create(f"{name}.{i}")
    said = worked("top", "--once", "--url", service.url, "--prefix", f"{name}.", "--limit", 2)
    assert "the first 2 of 3" in said


def test_without_a_service_it_says_so() -> None:
    assert "no response to GET /stats at http://127.0.0.1:9: " in failed(
        "top", "--once", "--url", "http://127.0.0.1:9"
    )


@pytest.mark.parametrize(("before", "after", "pace"), [(10, 30, 10.0), (30, 0, 0.0)])
def test_the_pace_is_that_between_two_looks(before: int, after: int, pace: float) -> None:
    def fleet(revealed: int) -> Fleet:
        counts = RoundCounts(revealed, revealed, 0, 0)
        line = dict.fromkeys(StatsLine.__struct_fields__) | {"model": "m", "rounds": counts}
        return Fleet(Totals(1, counts, 0, 0, None), [StatsLine(**line)], None)  # type: ignore[arg-type]

    assert paces_between(fleet(before), fleet(after), 2.0) == {"m": pace}


@pytest.mark.parametrize("width", [40, 60, 80, 120])
def test_a_narrow_terminal_gets_short_names_and_whole_numbers(width: int) -> None:
    fleet = fleet_of(f"tenant-{'x' * 40}-0017", rounds=1_234_567, mistakes=654_321)
    said = io.StringIO()
    Console(width=width, file=said, markup=False).print(table_of(fleet, {}, width))
    (row,) = (line for line in said.getvalue().splitlines() if "tenant" in line)
    cells = [cell.strip() for cell in row.strip("│").split("│")]
    assert len(row) <= width and cells[0].startswith("tenant") and cells[0].endswith("17")
    assert {"1,234,567", "53.00%", "654,321"} >= set(cells[1:]) - {
        "perceptron",
        "stable",
        "",
        "7",
        "-",
        "now",
    }
    assert "1,234,567" in cells and all("…" not in cell for cell in cells[1:])
    assert ("654,321" in cells) == (width >= 60) and ("perceptron" in cells) == (width == 120)


def fleet_of(model: str, *, rounds: int, mistakes: int) -> Fleet:
    counts = RoundCounts(rounds, rounds, 7, 0)
    # Changed in an hour from now: the table says `now`, however late it is made.
    fields = dict.fromkeys(StatsLine.__struct_fields__) | {
        "model": model, "algorithm": "perceptron", "rounds": counts, "mistakes": mistakes,
        "error_rate": 0.53, "ewma_error_rate": 0.53, "updated_at": datetime.now(UTC) + timedelta(hours=1),
        "drift": Drift("stable", 0, None, 0.001),
    }  # fmt: skip
    return Fleet(Totals(1, counts, mistakes, 0, 0.53), [StatsLine(**fields)], None)  # type: ignore[arg-type]
