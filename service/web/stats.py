"""/stats: what has come of the rounds."""

from typing import Any

from fastapi import APIRouter, Response
from pydantic import BaseModel

from service.engine.live import Live
from service.engine.models import Models
from service.web.answers import Json, timestamp
from service.web.models import After, Limit, ModelName, Prefix
from service.web.openapi import problems


class RoundCounts(BaseModel):
    predicted: int
    revealed: int
    pending: int
    expired: int


class StatsAnswer(BaseModel):
    model: str
    algorithm: str
    version: int
    rounds: RoundCounts
    mistakes: int
    updates: int
    error_rate: float | None
    created_at: str
    updated_at: str


class StatsPage(BaseModel):
    models: list[StatsAnswer]
    next: str | None


def report(live: Live) -> dict[str, Any]:
    model = live.model
    pending, expired = len(live.pending), live.expired
    return {
        "model": model.name,
        "algorithm": model.settings["learner"]["algorithm"],
        "version": model.version,
        "rounds": {
            "predicted": model.revealed + pending + expired,
            "revealed": model.revealed,
            "pending": pending,
            "expired": expired,
        },
        "mistakes": model.mistakes,
        "updates": model.updates,
        "error_rate": model.mistakes / model.revealed if model.revealed else None,
        "created_at": timestamp(model.created_at),
        "updated_at": timestamp(model.updated_at),
    }


def router(models: Models) -> APIRouter:
    routes = APIRouter(tags=["statistics"], responses=problems(422, 503))

    @routes.get("/stats", response_model=StatsPage)
    async def page(prefix: Prefix = "", after: After = "", limit: Limit = 100) -> Response:
        """The statistics of all models by name, page by page."""
        listed = await models.list(prefix=prefix, after=after, limit=limit + 1)
        reports = [report(await models.get(line.model)) for line in listed[:limit]]
        more = len(listed) > limit
        return Json({"models": reports, "next": listed[limit - 1].model if more else None})

    @routes.get("/stats/{model}", response_model=StatsAnswer, responses=problems(404))
    async def one(model: ModelName) -> Response:
        """The statistics of one model."""
        return Json(report(await models.get(model)))

    return routes
