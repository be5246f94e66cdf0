"""What the OpenAPI document promises, tried with whatever fits it and with what does not: schemathesis."""

from collections.abc import Iterator

import pytest
import schemathesis
from schemathesis.schemas import BaseSchema

from tests.fuzz.effort import effort
from tests.running import Service

SETTINGS: dict[str, object] = {"body_bytes_max": 65_536, "names_max": 1_000, "weights_max": 100_000}
"""Small enough that no example takes long."""

HEADERS: dict[str, str] = {}
"""What every request carries."""


@pytest.fixture(scope="module")
def fuzzed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    service = Service(tmp_path_factory.mktemp("fuzz") / "data", **SETTINGS).start()
    for model in ("0", "a"):  # names that are tried first: some requests shall meet a model
        service.learn(model, [1.0], 1)
    yield service
    assert service.stop() == 0, "".join(service.log)
    assert not [line for line in service.log if "unforeseen" in line or "ASGI" in line], "".join(service.log)
    service.close()


@pytest.fixture(scope="module")
def described(fuzzed: Service) -> BaseSchema:
    schema = schemathesis.openapi.from_url(f"{fuzzed.url}/openapi.json", headers=HEADERS)
    return schema.exclude(path="/feed")  # it never ends


schema = schemathesis.pytest.from_fixture("described")


@schema.parametrize()
@effort(25)
def test_every_route_keeps_its_promises(case: schemathesis.Case) -> None:
    case.call_and_validate(headers=HEADERS, timeout=30)
