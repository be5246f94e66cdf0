"""`docker compose up --detach`, and what an operator does with it."""

from collections.abc import Iterator

import pytest

from tests.image.engine import Container, Project
from tests.support.api_keys import Holder
from tests.support.ports import free_ports
from tests.support.waiting import eventually


@pytest.fixture(scope="module")
def ports() -> list[int]:
    return free_ports(2)


@pytest.fixture(scope="module")
def service(project: Project, ports: list[int]) -> Iterator[Container]:
    project.compose("up", "--detach", PUBLISH=f"127.0.0.1:{ports[0]}")
    yield project.container("novikoff", ports[0]).until_ready()


def test_it_runs_confined_by_the_compose_file(service: Container) -> None:
    status = dict(line.split(":\t", 1) for line in service.execute("cat", "/proc/1/status").splitlines())
    assert (
        status["CapEff"] == "0" * 16 and status["NoNewPrivs"] == "1" and status["Uid"].split()[0] == "10001"
    )
    assert 'access="this machine"' in service.log
    hosts = ("localhost", "novikoff:8000", "evil.example")
    answers = [service.client.get("/stats", headers={"host": host}).status_code for host in hosts]
    assert answers == [200, 200, 403]


def test_it_stops_with_0_keeps_its_data_and_is_made_anew(
    project: Project, service: Container, ports: list[int]
) -> None:
    body = {"model": "kept", "features": [1.0], "label": 1}
    assert service.client.post("/learn", json=body).status_code == 200
    project.compose("stop")
    assert service.state["ExitCode"] == 0 and "stopped" in service.log
    project.compose("up", "--detach", "--force-recreate", PUBLISH=f"127.0.0.1:{ports[0]}")
    assert service.until_ready().client.get("/stats/kept").json()["rounds"]["revealed"] == 1


def test_prometheus_finds_it(project: Project, service: Container, ports: list[int]) -> None:
    compose_file = project.directory / "docker-compose.yml"
    compose_file.write_text(
        compose_file.read_text().replace("127.0.0.1:9090:9090", f"127.0.0.1:{ports[1]}:9090")
    )
    # Grafana cannot be had without a registry: prometheus alone is asked for.
    published = f"127.0.0.1:{ports[0]}"
    project.compose("--profile", "monitoring", "up", "--detach", "prometheus", PUBLISH=published)
    prometheus = project.container("prometheus", ports[1])
    assert healthy_targets(prometheus) == {"novikoff:8000"}
    rules = prometheus.client.get("/api/v1/rules").json()["data"]["groups"]
    assert {rule["health"] for group in rules for rule in group["rules"]} <= {"ok", "unknown"}


def healthy_targets(prometheus: Container) -> set[str]:
    found: set[str] = set()

    def scraped() -> bool:
        told = prometheus.client.get("/api/v1/targets").json()["data"]["activeTargets"]
        found.update(one["labels"]["instance"] for one in told if one["health"] == "up")
        return bool(told) and len(found) == len(told)

    eventually(scraped, 60, otherwise=prometheus.log, not_yet=Exception, every=0.5)
    return found


def test_published_to_others_it_needs_keys(project: Project, service: Container, ports: list[int]) -> None:
    everywhere = f"0.0.0.0:{ports[0]}"
    project.compose("up", "--detach", PUBLISH=everywhere)
    eventually(lambda: "Create keys with" in service.log, 60, every=0.5)
    key = Holder("operator", "read")
    (project.directory / "novikoff.env").write_text(f"NOVIKOFF_API_KEYS={key.line}\n")
    project.compose("up", "--detach", "--force-recreate", PUBLISH=everywhere)
    # Asked from inside: what podman publishes to everybody, this machine itself does not always reach.
    eventually(lambda: "access=keys" in service.log, 60, every=0.5)
    asked = (
        f"import httpx; print(httpx.get('http://127.0.0.1:8000/stats', headers={key.headers}).status_code)"
    )
    assert service.execute("python", "-c", asked).strip() == "200"
    assert service.execute("python", "-c", asked.replace(key.secret, "none")).strip() == "401"
