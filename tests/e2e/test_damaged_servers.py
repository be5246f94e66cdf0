"""Damage to the files of one NATS server of three: every round is there, to the bit, or what lacks one is named.

The cases are made up from a seed. DAMAGE_CASES in the environment says how many (`make torture` tries 200).
"""

import asyncio
import os
import random
import signal
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from service.errors import ClusterUnusable, NovikoffError
from service.journal.jetstream.link.api import Api
from service.journal.jetstream.link.connecting import Access, Link
from tests.support.nats_servers import NatsCluster, NatsServer
from tests.support.service_thread import ServiceThread
from tests.support.waiting import eventually

PREFIX = "harm"
MODELS = ("m", "n")
ROUNDS = 30
MORE_ROUNDS = 5
READERS = 3
CACHE_SECONDS = 12.0
HEALTHY_SECONDS = 15.0

TEST_CASES, ALL_CASES = 10, 30
CASES = int(os.environ.get("DAMAGE_CASES", ALL_CASES))
SEED = os.environ.get("DAMAGE_SEED", "31")

REFUSALS = {"model-damaged", "journal-unavailable", "outcome-unknown", "prediction-under-way"}

FILES = {
    "messages of the log": f"streams/{PREFIX}-log/msgs/*.blk",
    "messages of the ids": f"streams/{PREFIX}-ids/msgs/*.blk",
    "snapshots": f"streams/{PREFIX}-state/msgs/*.blk",
    "index": f"streams/{PREFIX}-*/msgs/index.db",
    "settings of a stream": f"streams/{PREFIX}-*/meta.*",
    "raft log": "_js_/S-R3F-*/msgs/*",
    "raft state": "_js_/*/*.idx",
    "raft snapshot": "_js_/*/snapshots/*",
}
STATES = ("running", "stopped", "killed")
DAMAGES = ("a flipped bit", "cut off")


@dataclass(frozen=True)
class Case:
    kind: str
    damage: str
    state: str
    leads: bool
    """Whether the damaged server leads the log."""
    snapshots: bool
    seed: int

    def __str__(self) -> str:
        who = "leader" if self.leads else "follower"
        kept = "with" if self.snapshots else "without"
        return f"{self.seed}: {self.damage}, {self.kind}, {who} {self.state}, {kept} snapshots"


def made_up(count: int) -> Iterator[Any]:
    """The first cases have each kind of file, damage and state once or more."""
    chance = random.Random(SEED)
    kinds, states = [*FILES], [*STATES]
    for number in range(count):
        case = Case(
            kinds[number % len(kinds)] if number >= len(STATES) else kinds[0],
            chance.choice(DAMAGES) if number >= len(STATES) else DAMAGES[0],
            states[number % len(states)],
            number % 4 != 3,
            bool(number % 2),
            number,
        )
        marks = [pytest.mark.smoke] if number < TEST_CASES else [pytest.mark.thorough]
        yield pytest.param(case, marks=marks, id=str(case))


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[NatsCluster]:
    cluster = NatsCluster(tmp_path / "nats").start()
    yield cluster
    cluster.close()


@pytest.fixture
def replica(cluster: NatsCluster, tmp_path: Path) -> Iterator[Callable[..., ServiceThread]]:
    replicas: list[ServiceThread] = []

    def start(**settings: Any) -> ServiceThread:
        service = ServiceThread(tmp_path / f"r{len(replicas)}", **cluster.settings(PREFIX), **settings)
        replicas.append(service)
        return service.start()

    yield start
    for service in replicas:
        service.close()


@pytest.mark.usefixtures("nats_server")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # nats-py leaves sockets open
@pytest.mark.timeout(600)
@pytest.mark.parametrize("case", [*made_up(CASES)])
def test_after_damage_to_a_server_every_round_is_there_or_what_lacks_one_is_named(
    case: Case, cluster: NatsCluster, replica: Callable[..., ServiceThread]
) -> None:
    first = when_servers_are_ready(lambda: replica(snapshot_every_events=8 if case.snapshots else 10_000))
    for i in range(ROUNDS):
        for model in MODELS:
            teach(first, model, i)
    first.predict("m", [1.0, 2.0, 3.0], id="waits")
    told = {model: (ROUNDS, first.weights(model)) for model in MODELS}
    leader = leader_of(cluster)
    server = leader if case.leads else next(each for each in cluster.servers if each is not leader)
    damage(case, cluster, server)
    wait_until_it_counts(case, cluster, server)
    named: set[str] = set()
    for _ in range(READERS):  # any server answers what one asks for
        try:
            second = replica(snapshot_every_events=10_000)
        except NovikoffError as error:
            assert PREFIX in error.detail, error.detail
            return
        named |= {model for model in MODELS if not has(second, model, told[model])}
    for model in MODELS:
        for i in (ROUNDS // 2, ROUNDS - 1):  # a retry is answered as at first, or refused
            answer = post(second, "/learn", round_of(model, i))
            assert answer.status_code == 503 or answer.json()["rounds"] == i + 1, answer.text
    eventually(lambda: is_revealed(case, second))
    for i in range(ROUNDS, ROUNDS + MORE_ROUNDS):
        if "n" not in named:
            assert teach(second, "n", i) is None or teach(second, "n", i) == i + 1
    eventually(lambda: agree(first, second, "n"), otherwise=lambda: f"{stats(first)}, {stats(second)}")


def when_servers_are_ready(start: Callable[[], ServiceThread]) -> ServiceThread:
    """The servers place no stream until each has heard of the others."""
    started: list[ServiceThread] = []
    eventually(lambda: started.append(start()) is None, not_yet=ClusterUnusable)
    return started[0]


def damage(case: Case, cluster: NatsCluster, server: NatsServer) -> None:
    if case.state == "stopped":
        for each in cluster.servers:
            each.process.send_signal(signal.SIGTERM)
        for each in cluster.servers:
            each.process.wait()
    elif case.state == "killed":
        server.kill()
    chance = random.Random(case.seed)
    files = [*server.directory.glob(f"store/jetstream/**/{FILES[case.kind]}")]
    files = sorted(file for file in files if file.is_file() and file.stat().st_size)
    if files:
        harm(chance.choice(files), case, chance)
    if case.state == "stopped":
        for each in cluster.servers:
            each.start()
    elif case.state == "killed":
        server.start()


def harm(file: Path, case: Case, chance: random.Random) -> None:
    content = bytearray(file.read_bytes())
    at = chance.randrange(len(content))
    if case.kind == "messages of the log" and case.damage == DAMAGES[0]:
        name = f"{chance.choice(MODELS)}".encode()
        at = content.index(b"\xa1" + name, len(content) // 2)  # in the body of an event
    if case.damage == DAMAGES[0]:
        content[at] ^= 1 << chance.randrange(8)
    else:
        del content[at:]
    with file.open("rb+") as opened:  # in its place, as a disk does it
        opened.write(content)
        opened.truncate(len(content))


def wait_until_it_counts(case: Case, cluster: NatsCluster, server: NatsServer) -> None:
    """A server that runs has what it wrote last in memory until nobody has asked for it for ten seconds."""
    if case.state == "running" and case.leads and case.kind in ("messages of the log", "snapshots"):
        stream = f"{PREFIX}-{'log' if case.kind != 'snapshots' else 'state'}"
        with suppress(AssertionError):  # a part of the file that nothing is read from may be damaged
            eventually(
                lambda: asyncio.run(is_lacking(cluster, stream)), 3 * CACHE_SECONDS, every=CACHE_SECONDS
            )
    if case.state != "running":
        with suppress(AssertionError):  # a server whose files are damaged may not become healthy
            eventually(lambda: server.ask("healthz")["status"] == "ok", HEALTHY_SECONDS, not_yet=OSError)
    leader_of(cluster)


async def is_lacking(cluster: NatsCluster, stream: str) -> bool:
    """Whether the leader of a stream cannot read all of its messages."""
    link = Link(Access((cluster.servers[0].url,)))
    await link.open()
    try:
        api = Api(link)
        read, seq = 0, 0
        while (found := await api.next_from_leader(stream, ">", seq + 1)) is not None:
            read, seq = read + 1, found.seq
        return read < int((await api.request(f"STREAM.INFO.{stream}"))["state"]["messages"])
    finally:
        await link.close()


def leader_of(cluster: NatsCluster) -> NatsServer:
    eventually(lambda: all(cluster.leader_of(f"{PREFIX}-{one}") for one in ("log", "ids", "state")))
    leader = cluster.leader_of(f"{PREFIX}-log")
    assert leader is not None
    return leader


def round_of(model: str, i: int) -> dict[str, Any]:
    chance = random.Random(f"{model}{i}")
    features = [chance.uniform(-1, 1) for _ in range(3)]
    return {
        "model": model,
        "features": features,
        "label": 1 if sum(features) > 0 else -1,
        "id": f"{model}-{i}",
    }


def teach(service: ServiceThread, model: str, i: int) -> int | None:
    """The number of the round, None if it was refused."""
    answer = post(service, "/learn", round_of(model, i))
    return int(answer.json()["rounds"]) if answer.status_code == 200 else None


def post(service: ServiceThread, path: str, body: Any) -> httpx.Response:
    """Until it is answered, or refused for longer than an election takes."""
    answer = service.client.post(path, json=body)
    for _ in range(5):
        if answer.status_code == 200 or answer.json()["code"] == "model-damaged":
            break
        assert answer.status_code == 503 and answer.json()["code"] in REFUSALS, answer.text
        answer = service.client.post(path, json=body)
    return answer


def has(service: ServiceThread, model: str, told: tuple[int, Any]) -> bool:
    """Whether a replica has all rounds, to the bit; False if it refuses and says why."""
    answer = service.client.get(f"/models/{model}/weights")
    if answer.status_code != 200:
        assert answer.status_code == 503 and answer.json()["code"] in REFUSALS, answer.text
        assert model in answer.json()["detail"], answer.text
        return False
    assert (service.stats(model)["rounds"]["revealed"], service.weights(model)) == told
    return True


def is_revealed(case: Case, service: ServiceThread) -> bool:
    """Whether the prediction that waits is revealed or refused. A replica that has it soon sees that it is cut off."""
    answer = service.client.post("/feedback", json={"prediction_id": "waits", "label": 1})
    if answer.status_code == 200:
        assert answer.json()["rounds"] == ROUNDS + 1, answer.text
        return True
    if answer.status_code == 404:
        assert case.damage == "cut off", answer.text
        return False
    assert answer.status_code == 503 and answer.json()["code"] in REFUSALS, answer.text
    return True


def stats(service: ServiceThread) -> str:
    return service.client.get("/models/n/stats").text


def agree(first: ServiceThread, second: ServiceThread, model: str) -> bool:
    answers = [each.client.get(f"/models/{model}/weights") for each in (first, second)]
    if any(each.status_code == 503 for each in answers):
        assert all(each.json()["code"] in REFUSALS for each in answers if each.status_code == 503)
        return True
    return bool(answers[0].json() == answers[1].json())
