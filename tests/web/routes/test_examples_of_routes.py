"""Examples in the OpenAPI document: there is one of everything, it fits, and the service answers so."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from referencing import Registry, Resource
from referencing.jsonschema import DRAFT202012

from tests.support.service_process import Service
from tests.support.service_thread import ServiceThread
from tests.web.routes.recorded_examples import ORDER, Player, first_frame, path_of, steady

COLUMNS = {"application/vnd.apache.arrow.stream", "application/vnd.apache.parquet"}
"""Binary: there is nothing to show."""


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """With nobody else's models in its lists."""
    service = ServiceThread(tmp_path_factory.mktemp("examples") / "data").start()
    yield service
    service.close()


@pytest.fixture(scope="module")
def document(own: Service) -> dict[str, Any]:
    return own.get("/openapi.json")


def operations(document: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    for path, item in document["paths"].items():
        for method, operation in item.items():
            yield f"{method.upper()} {path}", operation


def contents(operation: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """What is sent and what is answered if all goes well, by media type."""
    good = [answer for status, answer in operation["responses"].items() if status.startswith("2")]
    for each in (operation.get("requestBody", {}), *good):
        yield from each.get("content", {}).items()


def test_every_body_and_every_answer_has_an_example(document: dict[str, Any]) -> None:
    missing = [
        (route, media_type)
        for route, operation in operations(document)
        for media_type, content in contents(operation)
        if "example" not in content and media_type not in COLUMNS
    ]
    # Of a fit, the examples as lines are told in its text; what is sent as JSON has its example.
    assert missing == [("POST /models/{model}/fit", "application/x-ndjson")]


def test_every_parameter_has_an_example_unless_its_default_or_the_page_before_tells_enough(
    document: dict[str, Any],
) -> None:
    for route, operation in operations(document):
        for parameter in operation.get("parameters", []):
            name, schema = parameter["name"], parameter["schema"]
            if parameter["in"] == "path":
                assert "example" in parameter, (route, name)
            elif parameter["in"] == "query" and name not in (
                "cursor",
                "fields",
            ):  # whole answers are described
                assert "default" in schema or "examples" in schema, (route, name)


def test_every_example_fits_the_schema_beside_it(document: dict[str, Any]) -> None:
    whole = Resource.from_contents(document, default_specification=DRAFT202012)
    registry = Registry().with_resource("urn:document", whole)

    def check(route: str, schema: dict[str, Any], example: Any) -> None:
        absolute = json.loads(json.dumps(schema).replace('"#/', '"urn:document#/'))
        errors = Draft202012Validator(absolute, registry=registry).iter_errors(example)
        assert not (unmet := [error.message for error in errors]), (route, unmet)

    for route, operation in operations(document):
        for _, content in contents(operation):
            if "example" in content:
                check(route, content.get("schema", {}), content["example"])
        for parameter in operation.get("parameters", []):
            for example in (*parameter["schema"].get("examples", []), parameter.get("example")):
                if example is not None:
                    check(route, parameter["schema"], example)


def test_examples_in_queries_are_taken(tmp_path: Path, document: dict[str, Any]) -> None:
    service = ServiceThread(tmp_path / "data").start()
    try:
        service.learn("spam", [1.0, 0.5], -1)
        for route, operation in operations(document):
            method, path = route.split()
            examples = {
                each["name"]: each["schema"]["examples"][0]
                for each in operation.get("parameters", [])
                if "examples" in each["schema"]
            }
            for name, value in path_of(operation):
                path = path.replace(f"{{{name}}}", value)
            for query in examples.items() if method == "GET" else ():
                with service.client.stream("GET", path, params=[query]) as answer:
                    told = first_frame(answer) if path == "/feed" else answer.read()
                assert answer.status_code == 200, (route, query, told)
    finally:
        service.close()


@pytest.mark.slow
def test_the_service_answers_the_example_requests_with_the_example_answers(
    own: Service, document: dict[str, Any]
) -> None:
    assert {step.partition("?")[0].partition(",")[0] for step in ORDER} == {
        r for r, _ in operations(document)
    }
    told = {
        (route, f"{status} {media_type}"): content["example"]
        for route, operation in operations(document)
        for status, answer in operation["responses"].items()
        for media_type, content in answer.get("content", {}).items()
        if "example" in content
    }
    played = {
        (route, of): answer for route, all_of in Player(own).play().items() for of, answer in all_of.items()
    }
    assert played.keys() == told.keys()
    for which, answer in played.items():
        assert steady(answer) == steady(told[which]), f"{which}: `make examples` records what is answered now"
