"""The requests about the learners of a model that challenge its champion; one that starts warm is a job."""

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

import msgspec

from service.answers import ModelInfo
from service.client.calls import Call, model_path, post

_encode = msgspec.json.Encoder().encode


def add_challenger(model: str, name: str, settings: Mapping[str, Any]) -> Call[ModelInfo]:
    return post(f"{model_path(model)}/challengers", {"name": name, **settings}, ModelInfo, repeatable=False)


def remove_challenger(model: str, name: str) -> Call[None]:
    return Call(
        "DELETE", f"{model_path(model)}/challengers/{quote(name, safe='')}", type(None), repeatable=False
    )


def promote(model: str, challenger: str) -> Call[ModelInfo]:
    return post(f"{model_path(model)}/promote", {"challenger": challenger}, ModelInfo, repeatable=False)


def rule_promotion(model: str, promote: Mapping[str, Any] | None) -> Call[ModelInfo]:
    return Call("PUT", f"{model_path(model)}/promote", ModelInfo, _encode({"promote": promote}))
