"""Rows of a replay that the service refuses."""

from pathlib import Path

import pytest

from tests.commands.examples import make_examples, write
from tests.commands.running import novikoff
from tests.support.service_process import Service

ROUNDS = 40
EXAMPLES = make_examples(ROUNDS)


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
