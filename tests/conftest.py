import os
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path

import pytest

from tests.nats_servers import NatsServer
from tests.running import Service

_numbers = count()


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
def shared_service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    service = Service(tmp_path_factory.mktemp("shared") / "data").start()
    yield service
    service.close()


@pytest.fixture(scope="session")
def shared_service_on_cluster(
    tmp_path_factory: pytest.TempPathFactory, nats_server: NatsServer
) -> Iterator[Service]:
    service = Service(tmp_path_factory.mktemp("shared") / "data", **nats_server.settings("shared")).start()
    yield service
    service.close()


@pytest.fixture
def service(journal: str, request: pytest.FixtureRequest) -> Service:
    """A running service with the default settings, shared with other tests: use models of your own."""
    fixture = "shared_service" if journal == "sqlite" else "shared_service_on_cluster"
    shared_service: Service = request.getfixturevalue(fixture)
    assert shared_service.process.poll() is None, "".join(shared_service.log)
    return shared_service


@pytest.fixture(scope="session")
def nats_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NatsServer]:
    """A server that many tests share: use a prefix of your own."""
    server = NatsServer(tmp_path_factory.mktemp("nats")).start()
    server.wait_until_healthy()
    yield server
    server.kill()


@pytest.fixture
def name() -> str:
    """A model's name that no other test has."""
    return f"model-{next(_numbers)}"
