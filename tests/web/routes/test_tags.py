"""Tags: whose a round is, told in the audit trail."""

import pytest

from novikoff import Client
from tests.support.service_process import Service, problem_of
from tests.support.waiting import PATIENCE_SECONDS

OVER_EVERY_JOURNAL = True


def test_a_tag_is_kept_with_its_round_and_told_in_the_trail(service: Service, name: str) -> None:
    with Client(service.url, timeout_seconds=PATIENCE_SECONDS) as client:
        client.predict(name, [1.0, 2.0], id=f"{name}-1", tag="user 17 é")
        client.learn(name, [2.0, 1.0], -1, id=f"{name}-2", tag="x" * 128)
        client.feedback(f"{name}-1", 1)
    lines = [{"features": [float(at), 1.0], "label": 1} for at in range(12)]
    lines[5]["tag"] = "line"
    answers = service.stream(lines, name)
    assert sum("mistake" in answer for answer in answers) == 12
    service.learn(name, [1.0, 1.0], 1)
    trail = service.get(f"/models/{name}/events")["events"]
    assert [line["tag"] for line in trail if "tag" in line] == ["x" * 128, "user 17 é", "line"]
    service.assert_replay_equals_live(name)


@pytest.mark.parametrize("tag", ['""', '"' + "x" * 129 + '"', '"a\\u0000"', '"\\ud800"', "7", "[]"])
def test_a_tag_that_is_none_is_refused_and_changes_nothing(service: Service, name: str, tag: str) -> None:
    service.learn(name, [1.0], 1)
    for path, more in (("/predict", ""), ("/learn", ', "label": 1')):
        body = f'{{"model": "{name}", "features": [1.0], "tag": {tag}{more}}}'
        answer = service.client.post(path, content=body, headers={"content-type": "application/json"})
        assert problem_of(answer)[0] in (400, 422), answer.text
    stats = service.stats(name)
    assert stats["rounds"]["predicted"] == 1
