from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.service_process import Service

SETTINGS: dict[str, object] = {"body_bytes_max": 65_536, "names_max": 1_000, "weights_max": 100_000}
"""Small enough that no example takes long."""


@contextmanager
def fuzzed_service(data: Path, headers: dict[str, str], **more: object) -> Iterator[Service]:
    """A service that in the end must have had no error that nobody foresaw."""
    service = Service(data, **SETTINGS, **more).start()
    service.client.headers.update(headers)
    for model in ("0", "a"):  # names that are tried first: some requests shall meet a model
        service.learn(model, [1.0], 1)
    yield service
    assert service.stop() == 0, "".join(service.log)
    assert not [line for line in service.log if "unexpected error" in line or "ASGI" in line], "".join(
        service.log
    )
    service.close()


@pytest.fixture(scope="module")
def fuzzed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with fuzzed_service(tmp_path_factory.mktemp("fuzz") / "data", {}) as service:
        yield service
