"""The example requests of the OpenAPI document, sent to a real service in an order in which all of them succeed.

`python -m tests.web.routes.recorded_examples` (`make examples`) keeps the answers as the document's examples.
"""

import json
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx

from service.web.routes.openapi import ANSWERS_FILE
from tests.support.service_process import Service
from tests.support.waiting import eventually

JSON = "application/json"

Recorded = dict[str, dict[str, Any]]
"""What was answered, by route, then by status and media type: `200 application/json`."""

WARM_CHALLENGER = "POST /models/{model}/challengers, warm"
"""With a body of its own, for the other way in which that route answers."""

ONE_ROUND = ["POST /models", "POST /predict", "GET /models/{model}/pending", "POST /feedback"]
READING = [
    "GET /models", "GET /models/{model}", "GET /models/{model}/weights", "GET /models/{model}/export",
    "GET /models/{model}/events", "GET /models/{model}/history", "GET /stats", "GET /stats/{model}", "GET /feed",
    "GET /attention", "GET /whoami", "GET /metrics", "GET /livez", "GET /readyz",
]  # fmt: skip
MORE_ROUNDS = [
    "POST /learn", "POST /models/{model}/predict", "POST /models/{model}/feedback", "POST /models/{model}/learn",
    "POST /stream", "POST /models/{model}/stream", "POST /stream?answers=summary",
    "POST /models/{model}/stream?answers=summary",
]  # fmt: skip
CORRECTING = [  # twice each: the first time the model has to be rebuilt, the second time nothing is left to do
    "PUT /feedback/{prediction_id}", "PUT /feedback/{prediction_id}", "DELETE /predictions/{prediction_id}",
    "DELETE /predictions/{prediction_id}", "POST /models/{model}/forget",
]  # fmt: skip
TRYING = [
    "POST /models/{model}/fork", "POST /models/{model}/replay", "POST /models/{model}/fit", "GET /jobs/{job_id}",
    "DELETE /jobs/{job_id}", "POST /models/{model}/challengers", "DELETE /models/{model}/challengers/{challenger}",
    "POST /models/{model}/challengers", "PUT /models/{model}/promote", "POST /models/{model}/promote", WARM_CHALLENGER,
    "POST /models/{model}/rollback",
]  # fmt: skip
ENDING = ["POST /models/{model}/reset", "DELETE /models/{model}", "PUT /models/{model}"]
ORDER = [*ONE_ROUND, *READING, *MORE_ROUNDS, *CORRECTING, *TRYING, *ENDING]

CHANGING = frozenset({
    "at", "created_at", "updated_at", "predicted_at", "started_at", "finished_at", "times", "seconds", "seconds_left",
    "minute", "hour", "day", "id", "progress", "digest", "began_at", "statistics",
})  # fmt: skip
"""Fields that are not the same when the same is done again: times, what is counted by them, made-up ids."""


class Player:
    """Sends what the document gives as examples, with the path filled with the examples of its parameters."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._document = service.get("/openapi.json")
        self._job = ""
        self.recorded: Recorded = {}

    def play(self) -> Recorded:
        for step in ORDER:
            if step == WARM_CHALLENGER:
                self._send("POST /models/{model}/challengers", {"name": "warm", "start": "history"})
            else:
                self._send(step)
        return self.recorded

    def _send(self, step: str, body: Any = None) -> None:
        route, _, query = step.partition("?")
        method, path = route.split()
        operation = self._document["paths"][path][method.lower()]
        for name, value in path_of(operation):
            path = path.replace(f"{{{name}}}", self._job if name == "job_id" else value)
        sent = self._body(operation, body) if "requestBody" in operation else {}
        with self._service.client.stream(method, f"{path}?{query}", **sent) as answer:
            told = first_frame(answer) if path == "/feed" else answer.read().decode()
        assert answer.is_success, (step, told)
        if path == "/metrics":  # all of them would fill pages
            told = "".join(
                f"{line}\n" for line in told.splitlines() if "novikoff_model_mistakes_total" in line
            )
        if told:
            media_type = answer.headers["content-type"].partition(";")[0]
            content = json.loads(told) if media_type == JSON else told
            self.recorded.setdefault(route, {}).setdefault(f"{answer.status_code} {media_type}", content)
        self._wait(answer)

    def _body(self, operation: dict[str, Any], body: Any) -> dict[str, Any]:
        media_type, described = next(iter(operation["requestBody"]["content"].items()))
        body = described["example"] if body is None else body
        text = body if isinstance(body, str) else json.dumps(body)
        return {"content": text.encode(), "headers": {"content-type": media_type}}

    def _wait(self, answer: httpx.Response) -> None:
        """Until what goes on in the background is done."""
        if answer.status_code != 202:
            return
        location = answer.headers.get("location")
        if location is None:
            eventually(lambda: not self._service.stats("spam")["corrections"]["rebuilding"])
            return
        self._job = location.removeprefix("/jobs/")
        eventually(lambda: self._service.get(location)["state"] == "done")


def path_of(operation: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """The parameters of an operation's path, with their examples."""
    for parameter in operation.get("parameters", []):
        if parameter["in"] == "path":
            yield parameter["name"], parameter["example"]


def first_frame(answer: httpx.Response) -> str:
    """Of a stream of events that does not end, with what comes before it."""
    read = ""
    for part in answer.iter_text():
        read += part
        if "data: " in read and read.endswith("\n\n"):
            break
    return read


def steady(value: Any) -> Any:
    """An answer without what differs each time.

    >>> steady({"version": 1, "at": "2026-01-31T12:00:00Z"}), steady('{"id": "a"}\\n')
    ({'version': 1, 'at': None}, [{'id': None}])
    """
    if isinstance(value, dict):
        return {key: None if key in CHANGING else steady(each) for key, each in value.items()}
    if isinstance(value, list):
        return [steady(each) for each in value]
    if isinstance(value, str) and "\ndata: " in value:  # a frame of the feed
        return steady(json.loads(value.partition("data: ")[2]))
    if isinstance(value, str) and value.startswith("{"):  # lines of JSON
        return [steady(json.loads(line)) for line in value.splitlines()]
    return round(value, 9) if isinstance(value, float) else value


def write(recorded: Recorded, file: Path) -> None:
    """Write an answer a line, so that a difference shows which has changed."""
    routes = [
        f"{json.dumps(route)}: {{\n"
        + ",\n".join(f"  {json.dumps(status)}: {json.dumps(answer)}" for status, answer in answers.items())
        + "\n}"
        for route, answers in sorted(recorded.items())
    ]
    file.write_text("{" + ",\n".join(routes) + "}\n")


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        service = Service(Path(folder) / "data").start()
        try:
            write(Player(service).play(), ANSWERS_FILE)
        finally:
            service.close()


if __name__ == "__main__":
    main()
