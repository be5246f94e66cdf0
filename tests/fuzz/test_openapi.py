"""What the OpenAPI document promises, tried with whatever fits it and with what does not: schemathesis."""

import json
from collections.abc import Iterator

import pytest
import schemathesis
from hypothesis import given
from hypothesis.errors import Unsatisfiable
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.core.failures import Failure, FailureGroup
from schemathesis.specs.openapi.checks import ignored_auth, negative_data_rejection, positive_data_acceptance

from service.web.access.keys import make_key
from tests.fuzz.conftest import fuzzed_service
from tests.fuzz.effort import TIMES, effort
from tests.support.service_process import Service
from tests.support.waiting import PATIENCE_SECONDS

pytestmark = pytest.mark.thorough

Target = tuple[Service, dict[str, str]]
"""A service, and what every request to it carries."""


WITHOUT, WITH = "without keys", "with a key"
ATTACKS = [
    (WITHOUT, GenerationMode.POSITIVE),
    (WITH, GenerationMode.POSITIVE),
    (WITH, GenerationMode.NEGATIVE),
]
if TIMES > 1:  # what does not fit is refused behind the door, as it is with a key
    ATTACKS.append((WITHOUT, GenerationMode.NEGATIVE))


@pytest.fixture(scope="module")
def target(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Target]:
    secret, key = make_key("fuzz", "admin")
    headers, keys = {}, {}
    if request.param == WITH:
        headers, keys = {"x-api-key": secret}, {"api_keys": key.line}
    with fuzzed_service(tmp_path_factory.mktemp("openapi") / "data", headers, **keys) as service:
        yield service, headers


@schemathesis.serializer("application/x-ndjson")
def as_lines(_: schemathesis.SerializationContext, value: object) -> bytes:
    return value.encode(errors="replace") if isinstance(value, str) else json.dumps(value).encode()


@schemathesis.serializer("application/vnd.apache.arrow.stream")
def as_columns(_: schemathesis.SerializationContext, value: object) -> bytes:
    return repr(value).encode(errors="replace")  # the document does not say what is in there


def operations(service: Service) -> Iterator[schemathesis.APIOperation]:
    described = schemathesis.openapi.from_url(f"{service.url}/openapi.json")
    for found in described.exclude(path="/feed").get_all_operations():  # the feed never ends
        yield found.ok()


@pytest.mark.parametrize(("target", "mode"), ATTACKS, indirect=["target"], scope="module")
def test_every_route_keeps_its_promises(target: Target, mode: GenerationMode) -> None:
    service, headers = target
    broken: list[str] = []
    for operation in operations(service):
        try:
            attack(operation, mode, headers)
        except Unsatisfiable:  # without parameters and a body there is nothing to get wrong
            assert mode is GenerationMode.NEGATIVE, operation.label
        except (FailureGroup, Failure) as failure:
            broken.append(f"{operation.label}: {failure}")
    assert not broken, "\n\n".join(broken)


def attack(operation: schemathesis.APIOperation, mode: GenerationMode, headers: dict[str, str]) -> None:
    """Send examples to one route; every check of schemathesis looks at every answer.

    But what fits the document may not fit the model: other features than its first example had, say. And a
    bad line of a stream is told in its place. That no route lets anybody in without a key is for
    `tests/web/access/test_keys.py`: here the key goes with every request, also when schemathesis means to leave it out.
    """
    excluded: list[schemathesis.CheckFunction] = [positive_data_acceptance, not_a_server_error, ignored_auth]
    if operation.path.endswith("/stream"):
        excluded.append(negative_data_rejection)

    @given(case=operation.as_strategy(generation_mode=mode))
    @effort(10 if TIMES == 1 else 15)
    def send(case: schemathesis.Case) -> None:
        answer = case.call_and_validate(headers=headers, timeout=PATIENCE_SECONDS, excluded_checks=excluded)
        if answer.status_code >= 500:  # whoever asks for a version that nobody has reached is told to wait
            assert (answer.status_code, answer.json()["code"]) == (503, "version-not-reached"), answer.text

    send()
