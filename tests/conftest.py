import os
import sys
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path

import hypothesis
import pytest

from tests.support.nats_servers import NatsServer
from tests.support.service_process import Service
from tests.support.service_thread import ServiceThread
from tests.support.tiers import Tier, forbid_processes, tier_of, tier_of_file
from tests.support.waiting import PATIENCE_SECONDS

# No example is too slow, and none is too hard to draw, on a machine that has other things to do.
hypothesis.settings.register_profile(
    "any machine", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow]
)
hypothesis.settings.load_profile("any machine")

_numbers = count()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--tier", choices=[tier.name for tier in Tier], default="all", help="which tests to run")
    parser.addoption("--rest-of", choices=[tier.name for tier in Tier], help="without the tests of this tier")


def pytest_collection_finish(session: pytest.Session) -> None:
    if session.config.option.tier == "quick":
        forbid_processes()


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    return True if tier_of_file(collection_path) > Tier[config.option.tier] else None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    last, before = Tier[config.option.tier], config.option.rest_of
    first = Tier[before] + 1 if before else Tier.quick
    left_out = [item for item in items if not first <= tier_of(item) <= last]
    if left_out:
        items[:] = [item for item in items if first <= tier_of(item) <= last]
        config.hook.pytest_deselected(items=left_out)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """The scenarios of modules that say `OVER_EVERY_JOURNAL = True` run over each, unless they choose themselves."""
    chosen = any("journal" in mark.args[0] for mark in metafunc.definition.iter_markers("parametrize"))
    over_every = getattr(metafunc.module, "OVER_EVERY_JOURNAL", False) and not chosen
    if "journal" in metafunc.fixturenames and over_every:
        metafunc.parametrize("journal", ["sqlite", "jetstream"], indirect=True)


@pytest.fixture
def journal(request: pytest.FixtureRequest) -> str:
    return getattr(request, "param", "sqlite")


@pytest.fixture
def start(tmp_path: Path, journal: str, request: pytest.FixtureRequest) -> Iterator[Callable[..., Service]]:
    """Starts services that the test has to itself."""
    services: list[Service] = []
    on_cluster: dict[str, object] = {}
    if journal == "jetstream":
        on_cluster = request.getfixturevalue("nats_server").settings(f"t{os.urandom(6).hex()}")

    def start_one(data: Path | None = None, **settings: object) -> Service:
        service = Service(data or tmp_path / "data", **on_cluster, **settings)
        services.append(service)
        return service.start()

    yield start_one
    for service in services:
        service.close()


@pytest.fixture(scope="session")
def shared_service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServiceThread]:
    service = ServiceThread(tmp_path_factory.mktemp("shared") / "data").start()
    yield service
    service.close()


@pytest.fixture(scope="session")
def shared_service_on_cluster(
    tmp_path_factory: pytest.TempPathFactory, nats_server: NatsServer
) -> Iterator[ServiceThread]:
    data = tmp_path_factory.mktemp("shared") / "data"
    service = ServiceThread(data, **nats_server.settings("shared")).start()
    yield service
    service.close()


@pytest.fixture
def service(journal: str, request: pytest.FixtureRequest) -> Service:
    """A running service with the default settings, shared with other tests: use models of your own."""
    fixture = "shared_service" if journal == "sqlite" else "shared_service_on_cluster"
    shared_service: ServiceThread = request.getfixturevalue(fixture)
    assert shared_service.is_running, "".join(shared_service.log)
    return shared_service


@pytest.fixture(scope="session")
def service_process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """The same in a process of its own, for tests that measure it."""
    service = Service(tmp_path_factory.mktemp("process") / "data").start()
    yield service
    service.close()


@pytest.fixture(scope="session")
def nats_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NatsServer]:
    """A server that many tests share: use a prefix of your own."""
    server = NatsServer(tmp_path_factory.mktemp("nats")).start()
    server.wait_until_healthy()
    yield server
    server.kill()


@pytest.fixture
def only_this_thread() -> Iterator[None]:
    """No other thread of this process, such as that of a shared service, allocates memory while a test measures it."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(PATIENCE_SECONDS)
    yield
    sys.setswitchinterval(before)


@pytest.fixture
def name() -> str:
    """A model's name that no other test has."""
    return f"model-{next(_numbers)}"
