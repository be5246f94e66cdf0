"""Data directories, streams and exports of commit 8f0831c are opened to the same answers, with every kind of event."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.golden.archives import LATER, unpack
from tests.golden.later import KEPT, Answers, go_on, record
from tests.golden.make import PREFIX
from tests.golden.test_directories import assert_is_well
from tests.golden.transcripts import load
from tests.support.nats_servers import NatsServer
from tests.support.service_process import Service

OPENED_WITH: dict[str, object] = KEPT | {"pending_ttl_seconds": 3e9}

OF_THE_MOMENT = {"minute", "hour", "day"}
"""Windows of time: they depend on when one asks."""

OF_THE_CLOCK = {"at", "predicted_at", "updated_at", "seconds", "times", "since", "seq", "as_of", "job_id"}
"""In rounds that a test sends, these are those of the test."""

NOT_EXPORTED = {"model", "created_at", "updated_at", "rounds", "ask", "unlabelled", "corrections", "bound"}
"""Pending predictions, corrections, times and the conditions of the bound do not travel."""


FORGOTTEN = {"/models/auto-names/history"}
AFTER_A_FORGETTING = {"served", "score", "probability", "mistake"}
"""Of whole rounds, after a forgetting: 8f0831c told what would have been served without the rounds that were forgotten.
Now it is what was answered."""

VERDICT = {"verdict", "why", "gamma", "gamma_source", "margin_ceiling", "mistake_bound", "used"}
"""Of the mistake bound: versions before 0.2.0 told it also where it does not hold (`named` features with `normalize` or
`crosses`), and did not say that a margin is one of transformed examples. Now `why` says so."""

EXPECTED = {"verdict", "why", "expected_mistakes", "since_round"}
"""Of the bound on expected mistakes: with `ask: "auto"` it was told from the round on when b last changed, which proves
nothing. Now it is `not_applicable`, and `why` says so."""


TIGHTER = "error_rate_interval"
"""Versions before 0.2.0 told a wider one; `ask` has another of this name, which is what it was."""


LOWER = {"regret_bound", "mistake_bound"}
"""Of a panel: versions before 0.2.0 did not cap them by the rounds in which experts erred."""


def comparable(answer: Any, left_out: set[str]) -> Any:
    if isinstance(answer, dict):
        return {name: comparable(part, left_out) for name, part in answer.items() if name not in left_out}
    return [comparable(part, left_out) for part in answer] if isinstance(answer, list) else answer


def assert_as_recorded(now: Answers, then: Answers, left_out: set[str]) -> None:
    """Everything that was said then is said now; later versions may say more."""
    assert now.keys() == then.keys()
    for path, answer in then.items():
        without = (
            left_out | AFTER_A_FORGETTING if left_out >= OF_THE_CLOCK and path in FORGOTTEN else left_out
        )
        said, was = comparable(now[path], without), comparable(answer, without)
        assert _common(said, was) == was, path


def _common(now: Any, then: Any) -> Any:
    """What is said now, without the fields that were not there then."""
    if isinstance(now, dict) and isinstance(then, dict):
        if "margin_ceiling" in then and now["why"] != then["why"]:
            now = now | {name: then[name] for name in VERDICT & then.keys()}
        if "expected_mistakes" in then and then["since_round"]:
            now = now | {name: then[name] for name in EXPECTED & then.keys()}
        if TIGHTER in then and "predictions" not in then:
            now = now | {TIGHTER: _tighter(now[TIGHTER], then[TIGHTER])}
        if "regret_bound" in then:
            assert all(now[name] <= then[name] for name in LOWER)
            now = now | {name: then[name] for name in LOWER}
        # The fields of how sure it was are told by their places, and later ones have theirs behind them.
        if isinstance(then.get("certainty"), list):
            now = now | {"certainty": _as_long(now["certainty"], then["certainty"])}
        return {name: _common(part, then[name]) for name, part in now.items() if name in then}
    if isinstance(now, list) and isinstance(then, list) and len(now) == len(then):
        return [_common(*both) for both in zip(now, then, strict=True)]
    return now


def _as_long(now: Any, then: Any) -> Any:
    """The first fields of structs that are arrays, and of those in them, as many as there were then."""
    if isinstance(now, list) and isinstance(then, list):
        return [_as_long(*both) for both in zip(now, then, strict=False)]
    return now


def _tighter(now: Any, then: Any) -> Any:
    """What was said then, if what is said now lies within."""
    if now is None or then is None:
        return now
    assert now["low"] >= then["low"] and now["high"] <= then["high"]
    return now | {"low": then["low"], "high": then["high"]}


def assert_gives_its_own_answers(service: Service, recorded: dict[str, Any]) -> None:
    models = recorded["models"]
    assert_as_recorded(record(service, models), recorded["found"], OF_THE_MOMENT)
    go_on(service, models)
    assert_as_recorded(record(service, models), recorded["left"], OF_THE_MOMENT | OF_THE_CLOCK)
    service.restart()
    assert_as_recorded(record(service, models), recorded["left"], OF_THE_MOMENT | OF_THE_CLOCK)


@pytest.mark.slow
def test_a_directory_of_8f0831c_gives_the_same_answers(start: Callable[..., Service], tmp_path: Path) -> None:
    data = unpack(LATER / "directory.tar.xz", tmp_path / "data")
    service = start(data, **OPENED_WITH)
    assert_gives_its_own_answers(service, load(LATER / "directory.json.xz"))
    assert service.stop() == 0
    assert_is_well(data)


@pytest.mark.thorough
def test_streams_of_8f0831c_give_the_same_answers(start: Callable[..., Service], tmp_path: Path) -> None:
    unpack(LATER / "streams.tar.xz", tmp_path / "nats" / "store")
    server = NatsServer(tmp_path / "nats").start()
    try:
        server.wait_until_healthy()
        service = start(**OPENED_WITH, **server.settings(PREFIX))
        assert_gives_its_own_answers(service, load(LATER / "streams.json.xz"))
    finally:
        server.kill()


@pytest.mark.slow
def test_exports_of_8f0831c_become_the_same_models(service: Service) -> None:
    found = load(LATER / "directory.json.xz")["found"]
    for export in load(LATER / "exports.json.xz"):
        of, name = export["name"], f"golden-{export['name']}"
        answer = service.client.put(f"/models/{name}", json=export)
        assert answer.status_code == 201, answer.text
        assert service.get(f"/models/{name}/weights") == found[f"/models/{of}/weights"] | {"model": name}
        then = comparable(found[f"/stats/{of}"], OF_THE_MOMENT | NOT_EXPORTED)
        assert _common(comparable(service.stats(name), OF_THE_MOMENT | NOT_EXPORTED), then) == then, of
