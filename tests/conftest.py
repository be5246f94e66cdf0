from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path

import pytest

from tests.running import Service

_numbers = count()


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., Service]]:
    """Starts services that the test has to itself."""
    services: list[Service] = []

    def start_one(data: Path | None = None, **settings: object) -> Service:
        service = Service(data or tmp_path / "data", **settings)
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


@pytest.fixture
def service(shared_service: Service) -> Service:
    """A running service with the default settings, shared with other tests: use models of your own."""
    assert shared_service.process.poll() is None, "".join(shared_service.log)
    return shared_service


@pytest.fixture
def name() -> str:
    """A model's name that no other test has."""
    return f"model-{next(_numbers)}"
