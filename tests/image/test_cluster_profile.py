"""The compose profile `cluster`: replicas, NATS servers and the balancer, under load, with replicas that fail."""

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from novikoff import Client
from tests.image.account import Load
from tests.image.engine import Container, Project, podman
from tests.image.test_default_profile import healthy_targets
from tests.support.ports import free_ports
from tests.support.waiting import eventually

REPLICAS = ("replica-1", "replica-2")
STREAM_BYTES = 10_000_000


@pytest.fixture(scope="module")
def ports() -> list[int]:
    return free_ports(2)


@pytest.fixture(scope="module")
def variables(ports: list[int]) -> dict[str, str]:
    return {
        "PUBLISH_CLUSTER": f"127.0.0.1:{ports[0]}",
        "TARGETS": "./monitoring/targets-cluster.yml",
        "NATS_PASSWORD": "0f3e9",
    }


@pytest.fixture(scope="module")
def balancer(project: Project, ports: list[int], variables: dict[str, str]) -> Iterator[Container]:
    """By the command that the compose file names."""
    project.up("--profile", "cluster", "up", "--detach", "balancer", **variables)
    yield project.container("balancer", ports[0]).until_ready()


def assert_counted(project: Project, model: str, rounds: int) -> None:
    """Every replica counts so many rounds, and no more, before long: one that did not answer them may be behind."""
    url = f"http://127.0.0.1:8000/stats/{model}"
    ask = f"import httpx; print(httpx.get('{url}').json()['rounds']['revealed'])"

    def counts() -> list[int]:
        return [int(project.container(name).execute("python", "-c", ask)) for name in REPLICAS]

    eventually(lambda: min(counts()) >= rounds, 60, otherwise=f"one counts less than {rounds}", every=0.5)
    assert counts() == [rounds, rounds]


def both_ready(project: Project) -> bool:
    """Whether each replica runs and says that it is ready."""
    told = [project.container(name).execute("healthy", "/readyz", check=False) for name in REPLICAS]
    return told == ["", ""]


def requests_of(project: Project) -> list[int]:
    """How many rounds each replica has taken from clients, by its own count."""
    ask = "import urllib.request as u; print(u.urlopen('http://127.0.0.1:8000/metrics').read().decode())"
    counts = []
    for name in REPLICAS:
        lines = project.container(name).execute("python", "-c", ask).splitlines()
        told = [
            line for line in lines if line.startswith("novikoff_request_seconds_count") and '"/learn"' in line
        ]
        counts.append(round(sum(float(line.split()[-1]) for line in told)))
    return counts


def test_ten_megabytes_flow_through_the_balancer_while_they_are_answered(
    balancer: Container, project: Project
) -> None:
    example = {"features": [0.123456789] * 64, "label": 1}
    line = json.dumps({"model": "streamed", **example}).encode() + b"\n"
    lines = STREAM_BYTES // len(line) + 1
    began = time.monotonic()
    with Client(str(balancer.client.base_url)) as client:
        rounds = ((example["features"], 1) for _ in range(lines))
        answers = len(client.learn_many("streamed", rounds, safe=False))
    seconds = time.monotonic() - began
    print(f"{lines * len(line) / 1e6:.0f} MB, {lines} lines in {seconds:.1f} s")
    assert answers == lines
    assert_counted(project, "streamed", lines)


def test_a_fast_replay_goes_through_the_balancer(
    balancer: Container, project: Project, tmp_path: Path
) -> None:
    rows = [{"features": [float(i % 7), 1.0], "label": 1 if i % 7 > 3 else -1} for i in range(20_000)]
    file = tmp_path / "examples.jsonl"
    file.write_text("\n".join(map(json.dumps, rows)))
    url = str(balancer.client.base_url)
    command = [sys.executable, "-m", "service", "replay", file, "--model", "replayed", "--fast", "--url", url]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert_counted(project, "replayed", len(rows))


def test_many_streams_at_once_end(balancer: Container, project: Project) -> None:
    body = json.dumps({"model": "many", "features": [1.0, 2.0], "label": 1}).encode() + b"\n"

    def stream(number: int) -> int:
        headers = {"content-type": "application/x-ndjson"}
        answer = balancer.client.post("/stream", content=body * 500, headers=headers)
        return answer.text.count('"rounds"')

    with ThreadPoolExecutor(8) as threads:
        assert list(threads.map(stream, range(16))) == [500] * 16
    assert_counted(project, "many", 16 * 500)


def test_a_job_is_known_whichever_replica_is_asked(balancer: Container) -> None:
    balancer.client.post("/models", json={"model": "fitted"})
    examples = [{"features": [float(i), 1.0], "label": 1 if i > 5 else -1} for i in range(10)]
    job = balancer.client.post("/models/fitted/fit", json={"examples": examples}).json()["id"]
    assert [balancer.client.get(f"/jobs/{job}").status_code for _ in range(10)] == [200] * 10
    eventually(lambda: balancer.client.get(f"/jobs/{job}").json()["state"] == "done")


def test_a_killed_replica_loses_nothing_and_comes_back(balancer: Container, project: Project) -> None:
    killed = project.container("replica-1")
    with Load(str(balancer.client.base_url), "killed", clients=8) as load:
        load.until_more(100)
        killed.signal("KILL")
        load.until_more(200)
        podman(
            "start", killed.name, check=False
        )  # it has the policy unless-stopped, which podman may have kept
        eventually(lambda: both_ready(project), 120, otherwise=killed.log, every=0.5)
        load.until_more(100)
    print(f"killed: {load.account}")
    assert_counted(project, "killed", load.account.acknowledged)


def test_a_paused_replica_does_not_hang_the_others_requests(balancer: Container, project: Project) -> None:
    paused = project.container("replica-2")
    with Load(str(balancer.client.base_url), "paused", clients=8) as load:
        load.until_more(100)
        podman("pause", paused.name)
        load.until_more(400)
        podman("unpause", paused.name)
        eventually(lambda: both_ready(project), 120, otherwise=paused.log, every=0.5)
        load.until_more(100)
    print(f"paused: {load.account}")
    assert_counted(project, "paused", load.account.acknowledged)


def test_replicas_that_come_back_under_new_addresses_get_traffic(
    balancer: Container, project: Project, variables: dict[str, str]
) -> None:
    with Load(str(balancer.client.base_url), "moved", clients=4) as load:
        load.until_more(50)
        for name in REPLICAS:  # an upgrade: one after the other
            recreate = ("up", "--detach", "--force-recreate", "--no-deps", name)
            project.compose("--profile", "cluster", *recreate, **variables)
            eventually(lambda: both_ready(project), 120, otherwise=project.container(name).log, every=0.5)
        before = requests_of(project)

        def both_get_traffic() -> bool:
            return all(now > then + 20 for now, then in zip(requests_of(project), before, strict=True))

        eventually(both_get_traffic, 60, otherwise="one gets no traffic", every=0.5)
    print(f"moved: {load.account}")
    assert_counted(project, "moved", load.account.acknowledged)
    both = ("up", "--detach", "--force-recreate", "--no-deps", *REPLICAS)
    project.compose("--profile", "cluster", *both, **variables)
    eventually(lambda: both_ready(project), 120, otherwise="they are not ready again", every=0.5)
    balancer.until_ready()
    assert_counted(project, "moved", load.account.acknowledged)


def test_prometheus_asks_each_replica(
    balancer: Container, project: Project, ports: list[int], variables: dict[str, str]
) -> None:
    compose_file = project.directory / "docker-compose.yml"
    compose_file.write_text(
        compose_file.read_text().replace("127.0.0.1:9090:9090", f"127.0.0.1:{ports[1]}:9090")
    )
    profiles = ("--profile", "cluster", "--profile", "monitoring")
    project.compose(*profiles, "up", "--detach", "--no-deps", "prometheus", **variables)
    assert healthy_targets(project.container("prometheus", ports[1])) == {f"{name}:8000" for name in REPLICAS}
