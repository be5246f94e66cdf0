"""GET /stats and /feed for a page with many models: found, sorted, paged both ways, in few bytes."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.service_process import Service, problem_of
from tests.support.service_thread import ServiceThread

BYTES_A_SECOND_MAX = 30_000
RELOAD_SECONDS = 5
"""How often the page reads its list anew, at most; a frame of the feed comes every second."""

FIELDS = "algorithm,version,rounds,mistakes,error_rate,ewma_error_rate,drift,updated_at"


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """Two thousand models with a round each."""
    service = ServiceThread(tmp_path_factory.mktemp("many") / "data", durability="process").start()
    all_learn(service)
    yield service
    service.close()


def all_learn(service: Service) -> None:
    lines = [json.dumps({"model": name(at), "features": [1.0, 0.5], "label": 1}) for at in range(2000)]
    headers = {"content-type": "application/x-ndjson"}
    answer = service.client.post("/stream?answers=summary", content="\n".join(lines), headers=headers)
    assert answer.json()["errors"] == 0


def name(at: int) -> str:
    return f"Tenant-{at % 10}:sensor-{at:04}"


def names(page: dict[str, Any]) -> list[str]:
    return [line["model"] for line in page["models"]]


@pytest.mark.slow
def test_a_page_of_two_thousand_busy_models_takes_few_bytes(many: Service) -> None:
    listed = many.client.get(f"/stats?limit=50&fields={FIELDS}")
    shown = [line["model"] for line in listed.json()["models"]]
    assert listed.headers["content-encoding"] == "gzip" and len(shown) == 50
    list_bytes = int(listed.headers["content-length"])
    with many.client.stream("GET", f"/feed?models={','.join(shown)}") as stream:
        blocks = iter_blocks(stream.iter_raw())
        first = next(blocks)
        assert b"event: snapshot" in first
        all_learn(many)
        frames = ((block, json.loads(block.partition(b"data: ")[2])) for block in blocks)
        frame, data = next(
            (frame, data) for frame, data in frames if data["models"]
        )  # others may learn first
    assert {line["model"] for line in data["models"]} <= set(shown)
    assert data["totals"]["models"] == 2000
    bytes_a_second = max(len(first), len(frame)) + list_bytes / RELOAD_SECONDS
    assert bytes_a_second <= BYTES_A_SECOND_MAX


def iter_blocks(pieces: Iterator[bytes]) -> Iterator[bytes]:
    """The frames of a feed with data, as they came."""
    rest = b""
    for piece in pieces:
        *blocks, rest = (rest + piece).split(b"\n\n")
        yield from (block for block in blocks if b"data: " in block)


def test_too_many_names_for_the_feed_are_refused(many: Service) -> None:
    answer = many.client.get(f"/feed?models={','.join(map(str, range(201)))}")
    assert problem_of(answer) == (422, "invalid-request")


def test_a_name_is_found_by_any_part_of_it_in_any_case(many: Service) -> None:
    found = many.get("/stats?contains=SENSOR-123&fields=rounds")
    assert names(found) == [name(at) for at in range(1230, 1240)]
    assert names(many.get("/stats?contains=sensor-123&model=Tenant-7&fields=rounds")) == [name(1237)]
    assert names(many.get("/stats?contains=nothing&fields=rounds")) == []


@pytest.mark.parametrize("sort", ["name", "rounds", "pending"])
def test_pages_lead_forth_and_back_again(many: Service, sort: str) -> None:
    query = f"/stats?sort={sort}&limit=7&contains=sensor-00&fields=rounds"
    first = many.get(query)
    second = many.get(f"{query}&cursor={first['next']}")
    third = many.get(f"{query}&cursor={second['next']}")
    assert first["previous"] is None and not set(names(first)) & set(names(second))
    back = many.get(f"{query}&reverse=true&cursor={third['previous']}")
    assert names(back) == names(second)[::-1]
    assert names(many.get(f"{query}&reverse=true&cursor={second['previous']}")) == names(first)[::-1]


def test_what_waits_can_be_sorted_by_both_ways(many: Service) -> None:
    for at, times in ((3, 2), (1999, 3)):
        for _ in range(times):
            many.predict(name(at), [1.0, 0.5])
    most = many.get("/stats?sort=pending&limit=2&fields=rounds")
    assert names(most) == [name(1999), name(3)]
    least = many.get("/stats?sort=pending&reverse=true&limit=1&fields=rounds")
    assert least["models"][0]["rounds"]["pending"] == 0
