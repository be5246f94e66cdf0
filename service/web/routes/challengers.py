"""/models/{model}/challengers and /models/{model}/promote: who else learns from a model's reveals, and who serves."""

from typing import Literal

from fastapi import APIRouter, Response
from pydantic import BaseModel, ConfigDict, Field

from novikoff.schemas import NAME_CHARS_MAX, NAME_PATTERN, NAME_RULE, Job, ModelInfo
from service.engine.clock import Clock
from service.engine.fleet.models import Models
from service.engine.jobs.what_ifs import WarmChallengers
from service.engine.models.settings import ModelLimits
from service.web.access.declarations import Body, access
from service.web.access.keys import Role
from service.web.http.responses import Json
from service.web.routes.jobs import describe as describe_job
from service.web.routes.model_settings import ChallengerSettings, PromoteField
from service.web.routes.models import ModelName, describe
from service.web.routes.openapi import answers, problems


class NewChallenger(ChallengerSettings):
    name: str = Field(pattern=NAME_PATTERN, max_length=NAME_CHARS_MAX, description=NAME_RULE)
    start: Literal["cold", "history"] = Field(
        "cold", description="without training, or trained on the model's retained history, by a job"
    )


class NewChampion(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    challenger: str = Field(pattern=NAME_PATTERN, max_length=NAME_CHARS_MAX, description="its name")


class PromotionRule(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    promote: PromoteField


STARTED = answers(Job, 202)[202] | {"description": "a job that trains it first has started"}


def router(models: Models, warm_challengers: WarmChallengers, limits: ModelLimits, clock: Clock) -> APIRouter:
    routes = APIRouter(tags=["challengers"], responses=problems(422, 503))

    @routes.post(
        "/models/{model}/challengers",
        status_code=201,
        responses=answers(ModelInfo, 201) | {202: STARTED} | problems(400, 404, 409, 413, 415),
    )
    @access(Role.ADMIN, tenants=True, body=Body.JSON)
    async def add(model: ModelName, new: NewChallenger) -> Response:
        """Add a challenger, which predicts in shadow and learns from the same reveals.

        What is not said of it is as the champion has it. It starts cold; with `"start": "history"` a job lets it learn
        the history that is kept first, and at the end of that it enters.
        """
        given = new.model_dump(exclude={"name", "start"}, exclude_unset=True)
        if new.start == "history":
            job = await warm_challengers.start(model, new.name, given, limits)
            return Json(describe_job(job, clock.now()), 202, {"location": f"/jobs/{job.id}"})
        return Json(describe(await models.add_challenger(model, new.name, given, limits)), 201)

    @routes.delete("/models/{model}/challengers/{challenger}", status_code=204, responses=problems(404))
    @access(Role.ADMIN, tenants=True)
    async def remove(model: ModelName, challenger: ModelName) -> Response:
        """Remove a challenger with all that it has learned."""
        await models.remove_challenger(model, challenger)
        return Response(status_code=204)

    @routes.post("/models/{model}/promote", responses=answers(ModelInfo) | problems(400, 404, 413, 415))
    @access(Role.ADMIN, tenants=True, body=Body.JSON)
    async def promote(model: ModelName, promotion: NewChampion) -> Response:
        """Let a challenger serve from now on: it and the champion change places, so promoting back undoes it.

        If it is the champion already, nothing changes.
        """
        return Json(describe(await models.promote(model, promotion.challenger)))

    @routes.put("/models/{model}/promote", responses=answers(ModelInfo) | problems(400, 404, 413, 415))
    @access(Role.ADMIN, tenants=True, body=Body.JSON)
    async def rule(model: ModelName, sent: PromotionRule) -> Response:
        """Say when a challenger is promoted by itself, or with null that none is."""
        return Json(describe(await models.rule_promotion(model, sent.promote)))

    return routes
