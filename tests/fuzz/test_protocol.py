"""The whole service against the protocol: any requests in any order, with restarts and kills in between."""

import shutil
import tempfile
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any, ClassVar

import httpx
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from tests.fuzz.effort import TIMES, effort
from tests.fuzz.protocol import Expected, Protocol
from tests.support.service_process import Service, problem_of

PENDING_MAX = 3
MODELS = st.sampled_from(["a", "b"])
IDS = st.sampled_from([f"id-{i}" for i in range(6)])
FEATURES = st.sampled_from([[1.0, 2.0], [-1.0, 0.5]])
LABELS = st.sampled_from([-1, 1])


class Conversation(RuleBasedStateMachine):
    """Clients of one service. Each conversation has models and ids that no other has."""

    service: ClassVar[Service]
    numbers: ClassVar[Iterator[int]] = count()

    def __init__(self) -> None:
        super().__init__()
        self.prefix = f"{next(self.numbers)}."
        self.protocol = Protocol(PENDING_MAX)

    def post(self, path: str, expected: Expected, **body: Any) -> dict[str, Any] | None:
        """The answer if it is a good one; it has to be one of those expected."""
        answer = self.service.client.post(path, json=body)
        return self.checked(answer, expected)

    def checked(self, answer: httpx.Response, expected: Expected) -> dict[str, Any] | None:
        if answer.status_code < 300:
            assert (answer.status_code, "ok") in expected, (answer.status_code, expected)
            decoded: dict[str, Any] = answer.json() if answer.content else {}
            return decoded
        assert problem_of(answer) in expected, (answer.text, expected)
        return None

    def made_by_the_way(self, model: str) -> None:
        """A request that is refused because of its id may have made its model."""
        if self.service.client.get(f"/models/{model}").status_code == 200:
            self.protocol.revealed.setdefault(model, 0)

    @rule(model=MODELS)
    def create(self, model: str) -> None:
        self.post("/models", self.protocol.create(self.prefix + model), model=self.prefix + model)

    @rule(model=MODELS)
    def delete(self, model: str) -> None:
        answer = self.service.client.delete(f"/models/{self.prefix}{model}")
        self.checked(answer, self.protocol.delete(self.prefix + model))

    @rule(model=MODELS)
    def reset(self, model: str) -> None:
        self.post(f"/models/{self.prefix}{model}/reset", self.protocol.reset(self.prefix + model))

    @rule(model=MODELS, features=FEATURES, identity=IDS)
    def predict(self, model: str, features: list[float], identity: str) -> None:
        model, identity = self.prefix + model, self.prefix + identity
        expected = self.protocol.predict(model, features, identity)
        answer = self.post("/predict", expected, model=model, features=features, id=identity)
        if answer is not None:
            self.protocol.served(model, features, identity, answer)
        self.made_by_the_way(model)

    @rule(identity=IDS, label=LABELS)
    def reveal(self, identity: str, label: int) -> None:
        identity = self.prefix + identity
        answer = self.post(
            "/feedback", self.protocol.reveal(identity, label), prediction_id=identity, label=label
        )
        if answer is not None:
            self.protocol.counted("revealed", identity, label, answer)

    @rule(identity=IDS)
    def reveal_an_unknown_label(self, identity: str) -> None:
        known = self.protocol.examples.get(self.prefix + identity)
        if known is not None and known.how == "served":
            body = {"prediction_id": self.prefix + identity, "label": "neither"}
            self.post("/feedback", {(422, "unknown-label")}, **body)

    @rule(model=MODELS, features=FEATURES, label=LABELS, identity=st.none() | IDS)
    def learn(self, model: str, features: list[float], label: int, identity: str | None) -> None:
        model = self.prefix + model
        identity = None if identity is None else self.prefix + identity
        body = {"model": model, "features": features, "label": label} | ({"id": identity} if identity else {})
        answer = self.post("/learn", self.protocol.learn(model, features, label, identity), **body)
        if answer is not None:
            self.protocol.counted("learned", identity, label, answer, model, features)
        self.made_by_the_way(model)

    @rule(how=st.sampled_from(["not now"] * 6 + ["stop", "kill"]))
    def restart(self, how: str) -> None:
        if how == "stop":
            assert self.service.stop() == 0
            self.service.start()
        elif how == "kill":
            self.service.kill()
            self.service.start()

    @invariant()
    def every_round_is_counted_once(self) -> None:
        for model in ("a", "b"):
            answer = self.service.client.get(f"/stats/{self.prefix}{model}")
            if self.prefix + model in self.protocol.revealed:
                assert answer.json()["rounds"]["revealed"] == self.protocol.revealed[self.prefix + model]
            else:
                assert problem_of(answer) == (404, "unknown-model")


def test_the_service_does_what_the_protocol_says() -> None:
    directory = Path(tempfile.mkdtemp(prefix="novikoff-fuzz-"))
    Conversation.service = Service(
        directory / "data",
        pending_max=PENDING_MAX,
        durability_of_predictions="strict",
        snapshot_every_events=7,
        models_loaded_max=2,
    ).start()
    try:
        run_state_machine_as_test(
            Conversation, settings=effort(20 if TIMES == 1 else 40, stateful_step_count=30)
        )  # type: ignore[no-untyped-call]
        assert not [line for line in Conversation.service.log if "unexpected error" in line]
    finally:
        Conversation.service.close()
        shutil.rmtree(directory)
