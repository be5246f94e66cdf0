"""The weights of a model, for GET /models/{model}/weights."""

from typing import Annotated, Any

import numpy as np
from fastapi import Query
from pydantic import BaseModel, Field

from service.engine.model.model import Model
from service.learning.vectors import Array
from service.web.routes.model_settings import LabelField

Largest = Annotated[
    int | None, Query(ge=1, le=1000, description="only so many, by absolute value, with names")
]


class NamedWeight(BaseModel):
    feature: int | str
    weight: float


class ClassWeights(BaseModel):
    """The weights of one class; with two classes there is one row, which speaks for the second."""

    label: LabelField | None
    weights: list[float] | list[NamedWeight]
    bias: float | None


class WeightsAnswer(BaseModel):
    model: str
    version: int
    labels: list[LabelField]
    names: list[int | str] | None = Field(description="of the features, where they are not positions")
    classes: list[ClassWeights]


def weights_of(model: Model, largest: int | None) -> dict[str, Any]:
    names = None
    if largest is None and model.settings["features"]["kind"] == "named":
        names = [model.features.name(i) for i in range(model.bias_is_first, model.features.size())]
    return {
        "model": model.name,
        "version": model.version,
        "labels": model.labels.values,
        "names": names,
        "classes": [{"label": label, **_row(model, row, largest)} for label, row in model.weights()],
    }


def _row(model: Model, row: Array, largest: int | None) -> dict[str, Any]:
    bias = None
    first = 0
    if model.bias_value is not None and len(row):
        first = 1 if model.bias_is_first else 0
        bias = float(row[0] if model.bias_is_first else row[-1])
        row = row[1:] if model.bias_is_first else row[:-1]
    if largest is None:
        return {"weights": row.tolist(), "bias": bias}
    top = np.argsort(-np.abs(row), kind="stable")[:largest]
    weights = [{"feature": model.features.name(int(i) + first), "weight": float(row[i])} for i in top]
    return {"weights": weights, "bias": bias}
