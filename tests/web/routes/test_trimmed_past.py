"""Versions that are no longer kept. (On a cluster events stay for ten minutes: tests/journal/test_milestones.py.)"""

import json
from collections.abc import Callable

from tests.support.service_process import Service, problem_of
from tests.support.version_records import Witness

Start = Callable[..., Service]


def test_what_is_no_longer_kept_is_gone_and_the_oldest_is_told(start: Start, name: str) -> None:
    service = start(snapshot_every_events=5, events_kept_max=40)
    witness = Witness(service, name)
    for i in range(120):
        service.learn(name, [float(i % 7), 1.0], -1 if i % 3 else 1)
        witness.look()
    service.restart()
    gone = service.client.get(f"/stats/{name}?at=0")
    assert problem_of(gone) == (410, "version-gone")
    oldest = gone.json()["oldest_version"]
    assert 60 <= oldest <= 90, oldest
    assert f"the oldest available is {oldest}" in gone.json()["detail"]
    witness.assert_all_can_be_had_again([version for version in witness.seen if version >= oldest])
    for path in witness.paths:
        assert problem_of(witness.ask(path, at=oldest - 1)) == (410, "version-gone")


def test_a_history_begins_with_the_oldest_round_that_is_kept(start: Start, name: str) -> None:
    service = start(snapshot_every_events=5, events_kept_max=40)
    told = [service.learn(name, [float(i % 7), 1.0], -1 if i % 3 else 1) for i in range(120)]
    service.restart()
    gone = service.client.get(f"/models/{name}/history?from_version=1")
    assert problem_of(gone) == (410, "version-gone")
    oldest = gone.json()["oldest_version"]
    lines = [json.loads(line) for line in service.client.get(f"/models/{name}/history").iter_lines()]
    assert [line["version"] for line in lines] == list(range(oldest, 121))
    assert [line["score"] for line in lines] == [answer["score"] for answer in told[oldest - 1 :]]
    first = service.client.get(f"/models/{name}/history?from_version={oldest}")
    assert len(first.text.splitlines()) == len(lines)
