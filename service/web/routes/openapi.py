"""The OpenAPI document: FastAPI's own routes, the plain ASGI endpoints beside them, names of operations and examples.

Generated clients call their functions by the names, so they stay as they are. What is sent is declared here. What is
answered to it was recorded from a service (`make examples`), and a test sends the same again to see that it is so.
"""

import re
from collections.abc import Mapping
from copy import deepcopy
from pathlib import Path
from types import UnionType
from typing import Any, NamedTuple, get_args

import msgspec
from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

from novikoff.schemas import ANSWERS, NAME_CHARS_MAX, NAME_PATTERN, NAME_RULE
from service.web.access.declarations import Access
from service.web.access.keys import Role
from service.web.problems import MEDIA_TYPE, PROBLEMS
from service.web.routes.endpoint import Endpoint
from service.web.routes.rounds import PREFIX

_REF = "#/components/schemas/{name}"

PROBLEM_SCHEMA = {
    "title": "Problem",
    "description": "RFC 9457: what went wrong, with a stable code.",
    "type": "object",
    "required": ["type", "title", "status", "detail", "code"],
    "properties": {
        "type": {"type": "string", "format": "uri"},
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "detail": {"type": "string"},
        "code": {"enum": sorted(PROBLEMS)},
        "oldest_version": {"type": "integer", "description": "of `version-gone`"},
        "errors": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["field", "message"],
                "properties": {"field": {"type": "string"}, "message": {"type": "string"}},
            },
        },
    },
}


_LINES = {"schema": {"type": "string", "description": "one JSON object per line"}}


def problems(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """The `responses` of a route that can fail with these statuses."""
    return {
        status: {
            "description": "; ".join(f"`{code}`" for code, (of, _) in PROBLEMS.items() if of == status),
            "content": {MEDIA_TYPE: {"schema": {"$ref": _REF.format(name="Problem")}}},
        }
        for status in statuses
    }


def answers(shape: type | UnionType, status: int = 200) -> dict[int | str, dict[str, Any]]:
    """The `responses` of a route that answers with one of `ANSWERS`, or with one of several."""
    refs = [{"$ref": _REF.format(name=each.__name__)} for each in get_args(shape) or (shape,)]
    schema = refs[0] if len(refs) == 1 else {"anyOf": refs}
    return {status: {"content": {"application/json": {"schema": schema}}}}


def document(
    app: FastAPI, endpoints: Mapping[str, Endpoint[Any]], declared: Mapping[str, Access], *, with_keys: bool
) -> dict[str, Any]:
    """The whole document; the endpoints' schemas come from the types that decode and encode them."""
    made = get_openapi(title=app.title, version=app.version, description=app.description, routes=app.routes)
    for item in made["paths"].values():
        for operation in item.values():
            operation |= _in_words(
                operation["description"]
            )  # FastAPI makes its summary of the function's name
    types = [t for endpoint in endpoints.values() for t in (endpoint.body, endpoint.answer)]
    schemas, components = msgspec.json.schema_components([*types, *ANSWERS], ref_template=_REF)
    for path, endpoint in endpoints.items():
        body, answer = schemas[types.index(endpoint.body)], schemas[types.index(endpoint.answer)]
        made["paths"][path] = {"post": _operation(path, endpoint, body, answer)}
    made["paths"]["/stream"] = {"post": deepcopy(STREAM)}
    made["paths"][f"{PREFIX}/stream"] = {"post": deepcopy(STREAM_OF_MODEL)}
    _name(made)
    _guard(made, declared, with_keys=with_keys)
    known = made["components"]["schemas"]
    if twice := known.keys() & components.keys():  # one would be described as the other
        raise ValueError(f"two shapes are called {', '.join(sorted(twice))}")
    known.update(components, Problem=PROBLEM_SCHEMA)
    for unused in ("HTTPValidationError", "ValidationError"):
        known.pop(unused, None)
    return made


def _guard(made: dict[str, Any], declared: Mapping[str, Access], *, with_keys: bool) -> None:
    """Say of each route which role it needs, and how it refuses who has none."""
    refusals = {str(status): response for status, response in problems(401, 403, 429).items()}
    for path, item in made["paths"].items():
        for method, operation in item.items():
            role = declared[f"{method.upper()} {path}"].role
            if role is not Role.OPEN:
                operation["x-role"] = role.name.lower()
                operation["responses"] |= refusals
                if with_keys:
                    operation["security"] = [{name: []} for name in KEY_SCHEMES]
    # Always, so that a client made from a local service can send a key to one that asks for it.
    made["components"]["securitySchemes"] = KEY_SCHEMES


KEY_SCHEMES = {
    "bearer": {"type": "http", "scheme": "bearer"},
    "header": {"type": "apiKey", "in": "header", "name": "X-API-Key"},
}

MODEL_IN_PATH = {
    "name": "model",
    "in": "path",
    "required": True,
    "schema": {"type": "string", "pattern": NAME_PATTERN, "maxLength": NAME_CHARS_MAX},
    "description": NAME_RULE,
}

STREAM: dict[str, Any] = {
    "tags": ["rounds"],
    "summary": "Rounds as lines of JSON, answered line by line.",
    "description": "Each line is `features` (predict), `prediction_id` and `label` (reveal), or `features` and "
    "`label` (a whole round), with `model` unless the query has it, and an `id` if a retry must not count "
    'twice. Answers come in the order of the lines, while they come. A bad line gets `{"error": …}` and '
    'stops nothing; one with `"ended": true` beside its error is the last, and the lines from there on were not '
    "learned. The body may be gzip.",
    "operationId": "stream",
    "parameters": [
        {
            "name": "model",
            "in": "query",
            "schema": {"type": "string"},
            "description": "for lines without a model",
        },
        {
            "name": "label",
            "in": "query",
            "schema": {"type": "string", "default": "label"},
            "description": "the column of the label in an Arrow stream",
        },
        {"name": "answers", "in": "query", "schema": {"enum": ["all", "summary"], "default": "all"}},
    ],
    "requestBody": {
        "required": True,
        "content": {
            "application/x-ndjson": dict(_LINES),
            "application/vnd.apache.arrow.stream": {
                "schema": {
                    "type": "string",
                    "format": "binary",
                    "description": "an Arrow IPC stream: a column a feature, or one of lists, and one of labels",
                }
            },
        },
    },
    "responses": {
        "200": {
            "description": "Responses, or with `answers=summary` and for Arrow their summary",
            "content": {"application/x-ndjson": _LINES, "application/json": {"schema": {"type": "object"}}},
        },
        **{str(status): response for status, response in problems(400, 404, 413, 415, 422, 503).items()},
    },
}

STREAM_OF_MODEL = deepcopy(STREAM) | {
    "summary": "Rounds as lines of JSON, with their model in the path.",
    "description": "For proxies that route by it. A line of another model gets an error, and a prediction of another "
    "model is unknown here; all else is as with /stream.",
    "parameters": [MODEL_IN_PATH, *(each for each in STREAM["parameters"] if each["name"] != "model")],
}


def _operation(path: str, endpoint: Endpoint[Any], body: Any, answer: Any) -> dict[str, Any]:
    success: dict[str, Any] = {
        "description": "Done",
        "content": {"application/json": {"schema": _or_many(answer)}},
    }
    if endpoint.replays:
        success["headers"] = {
            "Idempotent-Replay": {
                "description": "`true` for a retry: nothing was learned again",
                "schema": {"type": "string"},
            }
        }
    return {
        "tags": ["rounds"],
        **_in_words(endpoint.help or ""),
        "operationId": path.strip("/"),
        **({"parameters": [dict(MODEL_IN_PATH)]} if path.startswith(PREFIX) else {}),
        "requestBody": {"required": True, "content": {"application/json": {"schema": _or_many(body)}}},
        "responses": {
            "200": success,
            **{str(k): v for k, v in problems(400, 404, 409, *endpoint.statuses, 413, 415, 422, 503).items()},
        },
    }


def _in_words(docstring: str) -> dict[str, str]:
    """A handler's docstring as the text of its operation: the first sentence is its title.

    >>> _in_words("Cancel a job; nothing of it enters the model. A finished one stays as it is.")["summary"]
    'Cancel a job; nothing of it enters the model.'
    """
    first, *rest = re.split(r"(?<=[.?])\s+", docstring.strip(), maxsplit=1)
    return {"summary": " ".join(first.split()), "description": "".join(rest)}


def _or_many(schema: Any) -> dict[str, Any]:
    """One of these, or an object with many as its items."""
    many = {
        "type": "object",
        "required": ["items"],
        "properties": {
            "items": {
                "type": "array",
                "items": {},
                "description": "several in one request, each an object of this form",
            }
        },
        "additionalProperties": False,
    }
    return {"anyOf": [schema, many]}


ANSWERS_FILE = Path(__file__).with_name("example_answers.json")
"""By route, then by status and media type."""

JSON = "application/json"


class Operation(NamedTuple):
    id: str
    body: Any = None
    """An example of it, if there is one to send."""


LINES = """{"model": "spam", "features": [1.0, 0.5], "label": -1}
{"model": "spam", "features": [0.0, 2.0], "label": 1}
"""

TAGS = [
    {"name": "rounds", "description": "Predict, reveal the label, learn; corrections, voids and forgetting."},
    {
        "name": "statistics",
        "description": "Errors, drift and the mistake bound, of one model or of all, and a live feed.",
    },
    {"name": "models", "description": "Create, inspect, export, import, roll back, fork and delete models."},
    {"name": "challengers", "description": "Learners beside a model's own, compared on the same rounds."},
    {"name": "jobs", "description": "Fits and what-if replays, which run in processes of their own."},
    {"name": "service", "description": "The caller and its permissions."},
    {"name": "health", "description": "Probes and Prometheus metrics."},
]
"""The groups of routes, in the order of /docs."""

OPERATIONS = {
    "POST /predict": Operation("predict", {"model": "spam", "features": [1.0, 0.5], "id": "mail-17"}),
    "POST /feedback": Operation("reveal", {"prediction_id": "mail-17", "label": -1}),
    "POST /learn": Operation(
        "learn", {"model": "spam", "features": [0.0, 2.0], "label": 1, "tag": "customer-4711"}
    ),
    "POST /stream": Operation("stream", LINES),
    "POST /models/{model}/predict": Operation("predict_in_model", {"features": [1.0, 0.5], "id": "mail-18"}),
    "POST /models/{model}/feedback": Operation("reveal_in_model", {"prediction_id": "mail-18", "label": -1}),
    "POST /models/{model}/learn": Operation("learn_in_model", {"features": [1.0, 0.5], "label": -1}),
    "POST /models/{model}/stream": Operation("stream_in_model", LINES),
    "PUT /feedback/{prediction_id}": Operation("correct", {"label": 1, "reason": "the customer wrote again"}),
    "DELETE /predictions/{prediction_id}": Operation("void"),
    "POST /models/{model}/forget": Operation("forget", {"tag": "customer-4711"}),
    "GET /models/{model}/pending": Operation("list_pending"),
    "GET /attention": Operation("get_attention"),
    "GET /whoami": Operation("whoami"),
    "POST /models": Operation("create_model", {"model": "spam", "learner": {"algorithm": "pa1"}}),
    "GET /models": Operation("list_models"),
    "GET /models/{model}": Operation("get_model"),
    "DELETE /models/{model}": Operation("delete_model"),
    "PUT /models/{model}": Operation("import_model"),
    "POST /models/{model}/reset": Operation("reset_model"),
    "GET /models/{model}/weights": Operation("get_weights"),
    "GET /models/{model}/export": Operation("export_model"),
    "GET /models/{model}/events": Operation("list_events"),
    "GET /models/{model}/history": Operation("get_history"),
    "POST /models/{model}/rollback": Operation("rollback_model", {"to": 1}),
    "POST /models/{model}/fork": Operation("fork_model", {"as": "spam.trial", "at": 1}),
    "POST /models/{model}/challengers": Operation(
        "add_challenger", {"name": "careful", "learner": {"algorithm": "arow"}}
    ),
    "DELETE /models/{model}/challengers/{challenger}": Operation("remove_challenger"),
    "POST /models/{model}/promote": Operation("promote_challenger", {"challenger": "careful"}),
    "PUT /models/{model}/promote": Operation(
        "rule_promotion", {"promote": {"confidence": 0.95, "rounds_min": 500}}
    ),
    "POST /models/{model}/fit": Operation("fit_model", {"source": "history", "passes_max": 10}),
    "POST /models/{model}/replay": Operation("what_if", {"settings": {"learner": {"algorithm": "arow"}}}),
    "GET /jobs/{job_id}": Operation("get_job"),
    "DELETE /jobs/{job_id}": Operation("cancel_job"),
    "GET /stats": Operation("list_stats"),
    "GET /stats/{model}": Operation("get_stats"),
    "GET /feed": Operation("follow_feed"),
    "GET /metrics": Operation("get_metrics"),
    "GET /livez": Operation("get_liveness"),
    "GET /readyz": Operation("get_readiness"),
}
"""By method and path, in the order of /docs. A test fails for a route that is not here."""

PARAMETERS: dict[str, Any] = {
    "model": "spam",
    "models": "spam,spam.trial",
    "prediction_id": "mail-17",
    "challenger": "careful",
    "largest": 10,
    "at": 1,
    "from_version": 1,
    "to_version": 100,
    "since": "2026-01-31T12:00:00Z",
    "until": "2026-02-28T12:00:00Z",
    "kinds": "created,revealed",
}
"""Examples of what is in a path or a query, by name; none of `fields`, since the document describes whole answers."""


def _name(made: dict[str, Any]) -> None:
    """Give the operations of a document their names and examples."""
    recorded = msgspec.json.decode(ANSWERS_FILE.read_bytes())
    # An export is too long to be declared, and the id of a job is made up by the service.
    bodies = {route: known.body for route, known in OPERATIONS.items()}
    bodies["PUT /models/{model}"] = recorded["GET /models/{model}/export"][f"200 {JSON}"]
    parameters = PARAMETERS | {"job_id": recorded["POST /models/{model}/fit"][f"202 {JSON}"]["id"]}
    order = [route.partition(" ")[2] for route in OPERATIONS]
    made["paths"] = dict(
        sorted(
            made["paths"].items(), key=lambda item: order.index(item[0]) if item[0] in order else len(order)
        )
    )
    for path, item in made["paths"].items():
        for method, operation in item.items():
            route = f"{method.upper()} {path}"
            if route in OPERATIONS:
                operation["operationId"] = OPERATIONS[route].id
                _exemplify(operation, bodies[route], recorded.get(route, {}), parameters)


def _exemplify(
    operation: dict[str, Any], body: Any, answers: dict[str, Any], parameters: dict[str, Any]
) -> None:
    if body is not None:
        next(iter(operation["requestBody"]["content"].values()))["example"] = body
    for of, answer in answers.items():
        status, media_type = of.split()
        operation["responses"][status]["content"][media_type]["example"] = answer
    for parameter in operation.get("parameters", []):
        if parameter["name"] not in parameters or "default" in parameter["schema"]:
            continue
        example = parameters[parameter["name"]]
        if parameter["in"] == "path":
            parameter["example"] = example
        elif parameter["in"] == "query":
            # Swagger UI fills in an `example` by itself, and would ask for a part where all is wanted.
            parameter["schema"]["examples"] = [example]
