"""Every request of the API as data: what both clients send, and how they read the answers."""

import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar
from urllib.parse import quote

import httpx
import msgspec

from service.answers import AttentionPage, Caller, Label, ModelInfo, PendingPage, Stats, StatsLine
from service.client.answers import (
    DryRun,
    EventPage,
    Fleet,
    LargestWeights,
    Learned,
    ModelPage,
    Outcome,
    Prediction,
    Weights,
)
from service.client.problems import Refused

Answer = TypeVar("Answer")

Features = Sequence[float] | Mapping[str, Any]
"""A list for models with dense features, a dictionary for those with named or hashed ones."""


Line = Mapping[str, Any]
"""`features` (predict), `prediction_id` and `label` (reveal), or `features` and `label` (a whole round)."""

Streamed = Prediction | Outcome | Refused
"""The answer to a line."""

CHUNK_LINES = 250
"""Lines in one request: few enough that the first answers come soon, since httpx reads none before all is sent."""


def _plain(value: Any) -> Any:
    """Arrays and scalars of numpy as JSON has them."""
    if hasattr(value, "tolist"):
        return value.tolist()
    raise TypeError(f"a {type(value).__name__} cannot be sent")


encode = msgspec.json.Encoder(enc_hook=_plain).encode
"""TypeError if there is something that JSON has not."""


@dataclass(frozen=True, slots=True)
class Call(Generic[Answer]):
    """A request. `repeatable` if sending it twice does no more than sending it once."""

    method: str
    path: str
    answer: type[Answer]
    body: bytes | None = None
    params: dict[str, str] | None = None
    repeatable: bool = True
    media_type: str = "application/json"

    @property
    def request(self) -> dict[str, Any]:
        """The request as httpx takes it."""
        return {
            "method": self.method,
            "url": self.path,
            "content": self.body,
            "params": self.params,
            "headers": {"content-type": self.media_type} if self.body is not None else None,
        }

    def read(self, response: httpx.Response) -> Answer:
        answer = msgspec.json.decode(response.content or b"null", type=self.answer)
        if isinstance(answer, Outcome) and response.headers.get("idempotent-replay") == "true":
            return msgspec.structs.replace(answer, replayed=True)
        return answer


def make_id() -> str:
    """An id for a round: unique, and sorted by time, which keeps the index of a journal compact.

    >>> len(make_id()), make_id() != make_id()
    (33, True)
    """
    return f"c{time.time_ns() // 1_000_000:012x}{os.urandom(10).hex()}"


def predict(
    model: str, features: Features, id: str | None, explain: int, min_version: int, tag: str | None
) -> Call[Prediction]:
    body: dict[str, Any] = {"model": model, "features": features, "id": id or make_id()}
    return post("/predict", _tagged(_looking(body, explain, min_version), tag), Prediction)


def dry_run(model: str, features: Features, explain: int, min_version: int) -> Call[DryRun]:
    body: dict[str, Any] = {"model": model, "features": features, "dry": True}
    return post("/predict", _looking(body, explain, min_version), DryRun)


def feedback(prediction_id: str, label: Label, weight: float) -> Call[Outcome]:
    body: dict[str, Any] = {"prediction_id": prediction_id, "label": label}
    return post("/feedback", _weighing(body, weight), Outcome)


def learn(
    model: str, features: Features, label: Label, id: str | None, weight: float, tag: str | None
) -> Call[Learned]:
    body: dict[str, Any] = {"model": model, "features": features, "label": label, "id": id or make_id()}
    return post("/learn", _tagged(_weighing(body, weight), tag), Learned)


def _looking(body: dict[str, Any], explain: int, min_version: int) -> dict[str, Any]:
    more = {"explain": explain, "min_version": min_version}
    return body | {name: value for name, value in more.items() if value}


def _tagged(body: dict[str, Any], tag: str | None) -> dict[str, Any]:
    return body if tag is None else body | {"tag": tag}


def _weighing(body: dict[str, Any], weight: float) -> dict[str, Any]:
    """A service of version 0.1.0 knows of no weights: it is sent one only if it matters."""
    return body if weight == 1.0 else body | {"weight": weight}


# Models. What makes, changes or deletes one is not repeated: another client may do the same between two tries.


def create_model(model: str, settings: Mapping[str, Any]) -> Call[ModelInfo]:
    return post("/models", {"model": model, **settings}, ModelInfo, repeatable=False)


def get_model(model: str) -> Call[ModelInfo]:
    return Call("GET", model_path(model), ModelInfo)


def list_models(prefix: str, cursor: str | None, limit: int) -> Call[ModelPage]:
    return Call("GET", "/models", ModelPage, params=params_of(model=prefix, cursor=cursor, limit=limit))


def reset_model(model: str) -> Call[ModelInfo]:
    return Call("POST", f"{model_path(model)}/reset", ModelInfo, repeatable=False)


def delete_model(model: str) -> Call[None]:
    return Call("DELETE", model_path(model), type(None), repeatable=False)


class Bytes(Call[bytes]):
    """A call whose answer is not decoded."""

    def read(self, response: httpx.Response) -> bytes:
        return response.content


def rollback_model(model: str, to: int) -> Call[ModelInfo]:
    return post(f"{model_path(model)}/rollback", {"to": to}, ModelInfo, repeatable=False)


def fork_model(model: str, new: str, at: int | None) -> Call[ModelInfo]:
    return post(f"{model_path(model)}/fork", {"as": new, "at": at}, ModelInfo, repeatable=False)


def export_model(model: str, format: str, at: int | None) -> Bytes:
    return Bytes("GET", f"{model_path(model)}/export", bytes, params=params_of(format=format, at=at))


def import_model(model: str, export: bytes) -> Call[ModelInfo]:
    return Call("PUT", model_path(model), ModelInfo, export, repeatable=False)


def weights(model: str, at: int | None) -> Call[Weights]:
    return Call("GET", f"{model_path(model)}/weights", Weights, params=params_of(at=at))


def largest_weights(model: str, count: int, at: int | None) -> Call[LargestWeights]:
    params = params_of(largest=count, at=at)
    return Call("GET", f"{model_path(model)}/weights", LargestWeights, params=params)


def pending(model: str, order: str, cursor: str | None, limit: int) -> Call[PendingPage]:
    params = params_of(order=order, cursor=cursor, limit=limit)
    return Call("GET", f"{model_path(model)}/pending", PendingPage, params=params)


def events(model: str, cursor: int, limit: int) -> Call[EventPage]:
    return Call("GET", f"{model_path(model)}/events", EventPage, params=params_of(cursor=cursor, limit=limit))


# Statistics


def attention() -> Call[AttentionPage]:
    return Call("GET", "/attention", AttentionPage)


def whoami() -> Call[Caller]:
    return Call("GET", "/whoami", Caller)


def stats(model: str, at: int | None) -> Call[Stats]:
    return Call("GET", f"/stats/{quote(model, safe='')}", Stats, params=params_of(at=at))


def stats_fields(model: str, fields: Sequence[str], at: int | None) -> Call[dict[str, Any]]:
    params = params_of(fields=",".join(fields), at=at)
    return Call("GET", f"/stats/{quote(model, safe='')}", dict[str, Any], params=params)


def fleet(prefix: str, sort: str, limit: int, cursor: str | None) -> Call[Fleet]:
    fields = ",".join(field.name for field in msgspec.structs.fields(StatsLine))
    params = params_of(model=prefix, sort=sort, limit=limit, cursor=cursor, fields=fields)
    return Call("GET", "/stats", Fleet, params=params)


def post(path: str, body: dict[str, Any], answer: type[Answer], *, repeatable: bool = True) -> Call[Answer]:
    return Call("POST", path, answer, encode(body), repeatable=repeatable)


def model_path(model: str) -> str:
    return f"/models/{quote(model, safe='')}"


def params_of(**params: object) -> dict[str, str]:
    """
    >>> params_of(limit=5, cursor=None, model="")
    {'limit': '5'}
    """
    return {name: str(value) for name, value in params.items() if value not in (None, "")}
