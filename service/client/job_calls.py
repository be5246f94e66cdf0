"""Requests that start jobs of the service, and that ask about them."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any
from urllib.parse import quote

from service.answers import Label
from service.client.answers import Job
from service.client.calls import Call, Features, model_path, post


def fit(
    model: str, examples: Iterable[tuple[Features, Label]] | None, options: Mapping[str, Any]
) -> Call[Job]:
    body: dict[str, Any] = {"source": "history"}
    if examples is not None:
        body = {"examples": [{"features": features, "label": label} for features, label in examples]}
    return post(f"{model_path(model)}/fit", {**body, **options}, Job, repeatable=False)


def what_if(
    model: str,
    settings: Mapping[str, Any] | None,
    grid: Sequence[Mapping[str, Any]] | None,
    keep_as: str | None,
) -> Call[Job]:
    wanted = {"settings": settings, "grid": grid, "as": keep_as}
    body = {name: value for name, value in wanted.items() if value is not None}
    return post(f"{model_path(model)}/replay", body, Job, repeatable=False)


def add_warm_challenger(model: str, name: str, settings: Mapping[str, Any]) -> Call[Job]:
    body = {"name": name, **settings, "start": "history"}
    return post(f"{model_path(model)}/challengers", body, Job, repeatable=False)


def get_job(id: str) -> Call[Job]:
    return Call("GET", _path(id), Job)


def cancel_job(id: str) -> Call[Job]:
    return Call("DELETE", _path(id), Job)


def _path(id: str) -> str:
    return f"/jobs/{quote(id, safe='')}"
