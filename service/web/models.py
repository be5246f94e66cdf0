"""/models: the life of a model, and a look inside."""

from typing import Annotated, Any

from fastapi import APIRouter, Path, Query, Response
from pydantic import BaseModel

from service.engine.live import Live
from service.engine.models import Models
from service.engine.names import NAME_CHARS_MAX, NAME_PATTERN, NAME_RULE
from service.web.answers import Json, timestamp
from service.web.model_settings import LabelField, ModelSettings, NewModel
from service.web.openapi import problems

ModelName = Annotated[str, Path(pattern=NAME_PATTERN, max_length=NAME_CHARS_MAX, description=NAME_RULE)]
Prefix = Annotated[str, Query(alias="model", max_length=128, description="only models whose names begin so")]
After = Annotated[str, Query(alias="cursor", max_length=128, description="`next` of the page before")]
Limit = Annotated[int, Query(ge=1, le=1000, description="models on a page")]


class ModelAnswer(BaseModel):
    model: str
    version: int
    dimension: int | None
    created_at: str
    updated_at: str
    settings: ModelSettings


class ModelLine(BaseModel):
    model: str
    created_at: str
    algorithm: str


class ModelPage(BaseModel):
    models: list[ModelLine]
    next: str | None


class WeightsAnswer(BaseModel):
    model: str
    version: int
    labels: list[LabelField]
    weights: list[float]
    bias: float | None


def describe(live: Live) -> dict[str, Any]:
    model = live.model
    return {
        "model": model.name,
        "version": model.version,
        "dimension": model.features.dimension,
        "created_at": timestamp(model.created_at),
        "updated_at": timestamp(model.updated_at),
        "settings": model.settings,
    }


def router(models: Models) -> APIRouter:
    routes = APIRouter(tags=["models"], responses=problems(422, 503))

    @routes.post(
        "/models", status_code=201, response_model=ModelAnswer, responses=problems(400, 409, 413, 415)
    )
    async def create(new: NewModel) -> Response:
        """Make a model with chosen settings. An existing model is never changed."""
        live = await models.create(new.model, new.settings())
        return Json(describe(live), 201, {"location": f"/models/{new.model}"})

    @routes.get("/models", response_model=ModelPage)
    async def page(prefix: Prefix = "", after: After = "", limit: Limit = 100) -> Response:
        """The models by name, page by page."""
        listed = await models.list(prefix=prefix, after=after, limit=limit + 1)
        lines = [
            {
                "model": line.model,
                "created_at": timestamp(line.created_at),
                "algorithm": line.settings["learner"]["algorithm"],
            }
            for line in listed[:limit]
        ]
        more = len(listed) > limit
        return Json({"models": lines, "next": listed[limit - 1].model if more else None})

    @routes.get("/models/{model}", response_model=ModelAnswer, responses=problems(404))
    async def show(model: ModelName) -> Response:
        """A model's settings and where it stands."""
        return Json(describe(await models.get(model)))

    @routes.delete("/models/{model}", status_code=204, responses=problems(404))
    async def delete(model: ModelName) -> Response:
        """Forget a model: its weights, its statistics, its history."""
        await models.delete(model)
        return Response(status_code=204)

    @routes.post("/models/{model}/reset", response_model=ModelAnswer, responses=problems(404))
    async def reset(model: ModelName) -> Response:
        """Back to the start. Predictions that wait for their labels expire; the dimension stays."""
        return Json(describe(await models.reset(model)))

    @routes.get("/models/{model}/weights", response_model=WeightsAnswer, responses=problems(404))
    async def weights(model: ModelName) -> Response:
        """The weights, the bias apart."""
        live = await models.get(model)
        values = live.model.classifier.weights_for(1).tolist()
        bias = values.pop() if live.model.settings["bias"] and values else None
        return Json(
            {
                "model": live.model.name,
                "version": live.model.version,
                "labels": live.model.labels.values,
                "weights": values,
                "bias": bias,
            }
        )

    return routes
