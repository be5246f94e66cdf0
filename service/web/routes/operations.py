"""The name of each operation in the OpenAPI document, and an example of it.

Generated clients call their functions by these names, so they stay as they are. An example of a route with a body is
such a body, and of any other what it answers.
"""

from typing import Any, NamedTuple

from service.web.problems import MEDIA_TYPE


class Operation(NamedTuple):
    id: str
    example: Any


JOB = {"id": "j1f0c", "kind": "fit", "model": "spam", "state": "done", "options": {}, "examples": 250,
       "progress": None, "seconds_left": 0.0, "result": {"mistakes": 0}, "error": None, "version": 251,
       "started_at": "2026-01-31T12:00:00Z", "finished_at": "2026-01-31T12:00:02Z"}  # fmt: skip
COUNTS = {"predicted": 1, "revealed": 1, "pending": 0, "expired": 0}
STATS = {"model": "spam", "algorithm": "perceptron", "version": 1, "rounds": COUNTS, "mistakes": 1, "updates": 1,
         "error_rate": 1.0}  # fmt: skip
MODEL = {"model": "spam", "version": 1, "dimension": 2, "created_at": "2026-01-31T12:00:00Z",
         "updated_at": "2026-01-31T12:00:05Z", "settings": {"learner": {"algorithm": "perceptron"}}}  # fmt: skip

OPERATIONS = {
    "POST /predict": Operation("predict", {"model": "spam", "features": [1.0, 0.5]}),
    "POST /feedback": Operation("reveal", {"prediction_id": "mail-17", "label": -1}),
    "POST /learn": Operation("learn", {"model": "spam", "features": [1.0, 0.5], "label": -1}),
    "POST /stream": Operation(
        "stream", '{"features": [1.0, 0.5], "label": -1}\n{"features": [0.0, 2.0], "label": 1}\n'
    ),
    "POST /models/{model}/predict": Operation("predict_in_model", {"features": [1.0, 0.5]}),
    "POST /models/{model}/feedback": Operation("reveal_in_model", {"prediction_id": "mail-17", "label": -1}),
    "POST /models/{model}/learn": Operation("learn_in_model", {"features": [1.0, 0.5], "label": -1}),
    "POST /models/{model}/stream": Operation(
        "stream_in_model", '{"features": [1.0, 0.5], "label": -1}\n{"features": [0.0, 2.0], "label": 1}\n'
    ),
    "PUT /feedback/{prediction_id}": Operation("correct", {"label": 1, "reason": "the customer wrote again"}),
    "DELETE /predictions/{prediction_id}": Operation(
        "void",
        {
            "prediction_id": "mail-17",
            "model": "spam",
            "label": None,
            "former": -1,
            "reason": None,
            "rebuilding": True,
        },
    ),
    "POST /models/{model}/forget": Operation("forget", {"tag": "customer-4711"}),
    "GET /models/{model}/pending": Operation("list_pending", {"pending": [], "next": None}),
    "GET /attention": Operation("get_attention", {"count": 0, "models": []}),
    "GET /whoami": Operation("whoami", {"role": "admin", "prefix": ""}),
    "POST /models": Operation("create_model", {"model": "spam", "learner": {"algorithm": "pa1"}}),
    "GET /models": Operation(
        "list_models",
        {
            "models": [
                {"model": "spam", "created_at": "2026-01-31T12:00:00Z", "algorithm": "perceptron"},
            ],
            "unreadable": [],
            "next": None,
        },
    ),
    "GET /models/{model}": Operation("get_model", MODEL),
    "DELETE /models/{model}": Operation("delete_model", None),
    "PUT /models/{model}": Operation("import_model", {"name": "spam"}),
    "POST /models/{model}/reset": Operation("reset_model", MODEL | {"version": 2}),
    "GET /models/{model}/weights": Operation(
        "get_weights",
        {
            "model": "spam",
            "version": 1,
            "labels": [-1, 1],
            "names": None,
            "classes": [{"label": 1, "weights": [-1.0, -0.5], "bias": -1.0}],
        },
    ),
    "GET /models/{model}/export": Operation("export_model", {"name": "spam"}),
    "GET /models/{model}/events": Operation(
        "list_events",
        {"events": [{"seq": 1, "kind": "created", "at": "2026-01-31T12:00:00Z"}], "next": None},
    ),
    "GET /models/{model}/history": Operation(
        "get_history", '{"version": 1, "features": [1.0, 0.5], "label": -1, "served": 1}\n'
    ),
    "POST /models/{model}/rollback": Operation("rollback_model", {"to": 100}),
    "POST /models/{model}/fork": Operation("fork_model", {"as": "spam.trial", "at": 100}),
    "POST /models/{model}/challengers": Operation(
        "add_challenger", {"name": "careful", "learner": {"algorithm": "arow"}}
    ),
    "DELETE /models/{model}/challengers/{challenger}": Operation("remove_challenger", None),
    "POST /models/{model}/promote": Operation("promote_challenger", {"challenger": "careful"}),
    "PUT /models/{model}/promote": Operation(
        "rule_promotion", {"promote": {"confidence": 0.95, "rounds_min": 500}}
    ),
    "POST /models/{model}/fit": Operation("fit_model", {"source": "history", "passes_max": 10}),
    "POST /models/{model}/replay": Operation("what_if", {"settings": {"learner": {"algorithm": "arow"}}}),
    "GET /jobs/{job_id}": Operation("get_job", JOB),
    "DELETE /jobs/{job_id}": Operation("cancel_job", JOB | {"state": "cancelled", "result": None}),
    "GET /stats": Operation(
        "list_stats",
        {
            "totals": {"models": 1, "rounds": COUNTS, "mistakes": 1, "updates": 1, "error_rate": 1.0},
            "models": [STATS],
            "unreadable": [],
            "next": None,
        },
    ),
    "GET /stats/{model}": Operation("get_stats", STATS),
    "GET /feed": Operation("follow_feed", 'id: 5f-7\nevent: changes\ndata: {"models": []}\n\n'),
    "GET /metrics": Operation("get_metrics", 'novikoff_model_mistakes_total{model="spam"} 1\n'),
    "GET /livez": Operation("get_liveness", {"status": "ok"}),
    "GET /readyz": Operation("get_readiness", {"status": "ok"}),
}
"""By method and path. A route that is not here keeps the name that FastAPI makes up, until a test finds it."""


def name(made: dict[str, Any]) -> None:
    """Give the operations of a document their names and examples."""
    for path, item in made["paths"].items():
        for method, operation in item.items():
            known = OPERATIONS.get(f"{method.upper()} {path}")
            if known is not None:
                operation["operationId"] = known.id
                _exemplify(operation, known.example)


def _exemplify(operation: dict[str, Any], example: Any) -> None:
    if example is None:
        return
    where = operation.get("requestBody") or next(
        response for status, response in operation["responses"].items() if status.startswith("2")
    )
    for media_type, content in where.get("content", {}).items():
        is_text = media_type != "application/json"
        if media_type != MEDIA_TYPE and is_text == isinstance(example, str):
            content["example"] = example
            return
