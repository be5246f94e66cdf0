"""What the OpenAPI document promises, tried with whatever fits it and with what does not: schemathesis."""

import json
from collections.abc import Iterator

import pytest
import schemathesis
from hypothesis import given
from hypothesis.errors import Unsatisfiable
from schemathesis import GenerationMode
from schemathesis.core.failures import Failure, FailureGroup
from schemathesis.specs.openapi.checks import negative_data_rejection, positive_data_acceptance

from tests.fuzz.effort import effort
from tests.running import Service

HEADERS: dict[str, str] = {}
"""What every request carries."""


@schemathesis.serializer("application/x-ndjson")
def as_lines(_: schemathesis.SerializationContext, value: object) -> bytes:
    return value.encode(errors="replace") if isinstance(value, str) else json.dumps(value).encode()


@schemathesis.serializer("application/vnd.apache.arrow.stream")
def as_columns(_: schemathesis.SerializationContext, value: object) -> bytes:
    return repr(value).encode(errors="replace")  # the document does not say what is in there


def operations(service: Service) -> Iterator[schemathesis.APIOperation]:
    described = schemathesis.openapi.from_url(f"{service.url}/openapi.json", headers=HEADERS)
    for found in described.exclude(path="/feed").get_all_operations():  # the feed never ends
        yield found.ok()


@pytest.mark.parametrize("mode", list(GenerationMode))
def test_every_route_keeps_its_promises(fuzzed: Service, mode: GenerationMode) -> None:
    broken: list[str] = []
    for operation in operations(fuzzed):
        try:
            attack(operation, mode)
        except Unsatisfiable:  # without parameters and a body there is nothing to get wrong
            assert mode is GenerationMode.NEGATIVE, operation.label
        except (FailureGroup, Failure) as failure:
            broken.append(f"{operation.label}: {failure}")
    assert not broken, "\n\n".join(broken)


def attack(operation: schemathesis.APIOperation, mode: GenerationMode) -> None:
    """Send examples to one route; every check of schemathesis looks at every answer.

    But what fits the document may not fit the model: other features than its first example had, say. And a
    bad line of a stream is told in its place.
    """
    excluded: list[schemathesis.CheckFunction] = [positive_data_acceptance]
    if operation.path == "/stream":
        excluded.append(negative_data_rejection)

    @given(case=operation.as_strategy(generation_mode=mode))
    @effort(30)
    def send(case: schemathesis.Case) -> None:
        case.call_and_validate(headers=HEADERS, timeout=30, excluded_checks=excluded)

    send()
