"""The name of each operation in the OpenAPI document, and examples of what is sent to it and what it answers.

Generated clients call their functions by these names, so they stay as they are. What is sent is declared here. What is
answered to it was recorded from a service (`make examples`), and a test sends the same again to see that it is so.
"""

from pathlib import Path
from typing import Any, NamedTuple

import msgspec

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
"""By method and path. A route that is not here keeps the name that FastAPI makes up, until a test finds it."""

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


def name(made: dict[str, Any]) -> None:
    """Give the operations of a document their names and examples."""
    recorded = msgspec.json.decode(ANSWERS_FILE.read_bytes())
    # An export is too long to be declared, and the id of a job is made up by the service.
    bodies = {route: known.body for route, known in OPERATIONS.items()}
    bodies["PUT /models/{model}"] = recorded["GET /models/{model}/export"][f"200 {JSON}"]
    parameters = PARAMETERS | {"job_id": recorded["POST /models/{model}/fit"][f"202 {JSON}"]["id"]}
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
