"""The OpenAPI document serves programs: names, summaries, and a client that a generator makes of it."""

import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from service.web.routes.openapi import OPERATIONS
from tests.support.api_keys import Holder
from tests.support.markdown import ROOT
from tests.support.missing_programs import missing
from tests.support.service_process import Service
from tests.support.service_thread import ServiceThread
from tests.support.waiting import PATIENCE_SECONDS

GENERATOR = ROOT / ".venv" / "generator" / "bin"

PROGRAM = """
import sys

from made import AuthenticatedClient
from made.api.models import create_model, get_model
from made.api.rounds import learn, predict, reveal
from made.api.statistics import get_stats
from made.models import FeedbackBody, LearnBody, NewModel, PredictBody, Problem

client = AuthenticatedClient(base_url=sys.argv[1], token=sys.argv[2])
create_model.sync(client=client, body=NewModel(model="made"))
served = predict.sync(client=client, body=PredictBody(model="made", features=[1.0, 2.0]))
outcome = reveal.sync(client=client, body=FeedbackBody(prediction_id=served.prediction_id, label=-1))
learned = learn.sync(client=client, body=LearnBody(model="made", features=[1.0, 2.0], label=-1))
told = get_stats.sync("made", client=client)
unknown = get_model.sync("none", client=client)
assert isinstance(unknown, Problem) and unknown.status == 404, unknown
stranger = AuthenticatedClient(base_url=sys.argv[1], token="nvk_wrong")
refused = get_model.sync_detailed("made", client=stranger)
print(outcome.mistake, learned.rounds, told.error_rate, refused.status_code.value)
"""


@pytest.fixture(scope="module")
def holder() -> Holder:
    return Holder("owner", "admin")


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory, holder: Holder) -> Iterator[Service]:
    service = ServiceThread(tmp_path_factory.mktemp("guarded") / "data", api_keys=holder.line).start()
    yield service
    service.close()


@pytest.fixture(scope="module")
def document(guarded: Service) -> dict[str, Any]:
    return guarded.get("/openapi.json")


def operations(document: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    for path, item in document["paths"].items():
        for method, operation in item.items():
            yield f"{method.upper()} {path}", operation


def test_every_operation_has_a_name_that_a_person_would_choose(document: dict[str, Any]) -> None:
    found = dict(operations(document))
    assert found.keys() == OPERATIONS.keys()
    names = [operation["operationId"] for operation in found.values()]
    assert names == [OPERATIONS[route].id for route in found] and len(set(names)) == len(names)


def test_every_operation_has_a_sentence_of_its_own_as_its_summary(document: dict[str, Any]) -> None:
    summaries = {route: operation["summary"] for route, operation in operations(document)}
    assert [
        route for route, summary in summaries.items() if not re.fullmatch(r"[A-Z].* .*[.?]", summary)
    ] == []
    assert len(set(summaries.values())) == len(summaries)
    for route, operation in operations(document):  # pages show one below the other
        assert not operation.get("description", "").startswith(summaries[route]), route


def test_the_body_of_a_promotion_is_not_taken_for_the_promotions_that_statistics_tell_of(
    document: dict[str, Any],
) -> None:
    body = dict(operations(document))["POST /models/{model}/promote"]["requestBody"]["content"][
        "application/json"
    ]
    schemas = document["components"]["schemas"]
    assert schemas[body["schema"]["$ref"].rpartition("/")[2]]["required"] == ["challenger"]
    assert "by_evidence" in schemas["Promotion"]["required"]


@pytest.mark.thorough
def test_a_generated_client_does_a_round_with_a_key(
    guarded: Service, holder: Holder, document: dict[str, Any], tmp_path: Path
) -> None:
    if not (GENERATOR / "openapi-python-client").exists():
        missing("no generator of clients: make test installs it")
    (tmp_path / "openapi.json").write_text(json.dumps(document))
    command = [GENERATOR / "openapi-python-client", "generate", "--path", "openapi.json", "--meta", "none"]
    made = subprocess.run(
        [*command, "--output-path", "made"], cwd=tmp_path, capture_output=True, text=True, timeout=PATIENCE_SECONDS,
        env={"PATH": f"{GENERATOR}:/usr/bin:/bin"},
    )  # fmt: skip
    assert made.returncode == 0, made.stdout + made.stderr
    (tmp_path / "program.py").write_text(PROGRAM)
    ran = subprocess.run(
        [GENERATOR / "python", "program.py", guarded.url, holder.secret], cwd=tmp_path, capture_output=True,
        text=True, timeout=PATIENCE_SECONDS,
    )  # fmt: skip
    assert ran.stdout.split() == ["True", "2", "0.5", "401"], ran.stderr
