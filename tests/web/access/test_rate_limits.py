"""Rate limits: a bucket of tokens for each key, and for each address where there are no keys."""

import json
import re
import time
from collections.abc import Callable
from contextvars import copy_context

import httpx
import pytest

from service.web.access.rate_limits import BUCKETS_MAX, RateLimits
from service.web.problems import HttpError
from tests.support.api_keys import Holder, good, lines_of, refusal
from tests.support.concurrent_requests import at_once
from tests.support.service_process import Service, problem_of
from tests.support.waiting import eventually

Start = Callable[..., Service]

SLOW = {"requests_per_second": 0.001, "requests_burst": 3}
"""A token in a quarter of an hour: what is left does not change while a test runs."""


def left(answer: httpx.Response) -> int:
    found = re.fullmatch(r'"requests";r=(\d+);t=(\d+)', answer.headers["ratelimit"])
    assert found and answer.headers["ratelimit-policy"] == '"requests";q=3;w=3000'
    return int(found[1])


def test_without_a_limit_nobody_is_told_of_one(service: Service) -> None:
    for path in ("/stats", "/livez"):
        assert "ratelimit" not in service.client.get(path).headers


@pytest.mark.parametrize("path", ["/stats", "/predict", "/models/m/predict", "/nothing"])
def test_after_the_burst_there_is_429_with_when_to_come_again(start: Start, path: str) -> None:
    service = start(**SLOW)

    def ask() -> httpx.Response:
        if path.endswith("/predict"):
            return service.client.post(path, json={"model": "m", "features": [1.0]})
        return service.client.get(path)

    answers = [ask() for _ in range(3)]
    assert [left(answer) for answer in answers] == [2, 1, 0]
    assert {answer.status_code for answer in answers} == {404 if path == "/nothing" else 200}
    refused = ask()
    assert problem_of(refused) == (429, "rate-limited")
    assert 900 < int(refused.headers["retry-after"]) <= 1000 and left(refused) == 0
    for probe in ("/livez", "/readyz", "/"):
        assert service.client.get(probe).status_code == 200


def test_a_key_has_a_bucket_of_its_own(start: Start) -> None:
    busy, quiet = Holder("busy", "write"), Holder("quiet", "read")
    service = start(api_keys=lines_of(busy, quiet), **SLOW)
    busy.at(service)
    quiet.at(service)
    for _ in range(3):
        good(busy.learn("m", [1.0], 1))
    assert refusal(busy.learn("m", [1.0], 1)) == (429, "rate-limited")
    assert refusal(busy.get("/stats")) == (429, "rate-limited")
    assert left(quiet.get("/stats")) == 2
    assert refusal(quiet.learn("m", [1.0], 1)) == (403, "forbidden")  # that cost a token, too
    assert good(quiet.get("/stats/m"))["rounds"]["revealed"] == 3
    assert refusal(quiet.get("/stats")) == (429, "rate-limited")


def test_an_item_is_a_token(start: Start) -> None:
    service = start(**SLOW)
    item = {"model": "m", "features": [1.0], "label": 1}
    answer = service.client.post("/learn", json={"items": [item] * 3})
    assert answer.status_code == 200 and left(answer) == 0
    assert service.refused("/learn", item) == (429, "rate-limited")


def test_tokens_come_back_with_time(start: Start) -> None:
    service = start(requests_per_second=1, requests_burst=1)
    asked = [(service, "/predict", {"model": "m", "features": [1.0]})] * 10
    taken = 0

    def is_refused() -> bool:
        """Of ten at once; of those that a slow machine sends one by one none would have to be."""
        nonlocal taken
        statuses = [answer.status_code for answer in at_once(asked)]
        taken += statuses.count(200)
        assert {*statuses} <= {200, 429}
        return 429 in statuses

    began = time.monotonic()
    for _ in range(3):
        eventually(is_refused)
        eventually(lambda: service.client.get("/models").status_code == 200)
        taken += 1
    assert taken <= 1 + (time.monotonic() - began), "one of the burst, then one a second"


def test_however_many_callers_there_are_so_many_are_remembered() -> None:
    limits = RateLimits(per_second=0.001, burst=1)

    def take(who: str) -> None:
        copy_context().run(
            limits.take, who
        )  # the bucket of the last caller would slow the streams of other tests

    for i in range(BUCKETS_MAX + 10):
        take(f"caller {i}")
    assert len(limits) == BUCKETS_MAX
    with pytest.raises(HttpError, match="more than"):
        take(f"caller {BUCKETS_MAX}")
    take("caller 0")  # forgotten, so it begins anew


def test_a_stream_is_slowed_and_loses_nothing(start: Start) -> None:
    service = start(requests_per_second=100, requests_burst=10)
    lines = b"\n".join([b'{"features": [1.0], "label": 1}'] * 60)
    began = time.monotonic()
    headers = {"content-type": "application/x-ndjson"}
    answer = service.client.post("/stream?model=m", content=lines, headers=headers)
    assert time.monotonic() - began >= (61 - 10) / 100
    told = [json.loads(line) for line in answer.text.splitlines()]
    assert [line["rounds"] for line in told] == list(range(1, 61))
