"""/models/{model}/rollback and /models/{model}/fork: back to an older version, or another model from there."""

from typing import Annotated

from fastapi import APIRouter, Response
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from novikoff.schemas import NAME_CHARS_MAX, NAME_PATTERN, NAME_RULE, ModelInfo
from service.engine.replay.going_back import GoingBack
from service.web.access.declarations import Body, access
from service.web.access.keys import Role
from service.web.access.tenants import check_own
from service.web.http.answers import Json
from service.web.routes.models import ModelName, describe
from service.web.routes.openapi import answers, problems


def _whole(value: object) -> object:
    """To JSON, 1.0 is the integer 1."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


Version = Annotated[int, BeforeValidator(_whole), Field(ge=0, le=2**63 - 1)]


class Rollback(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    to: Version = Field(description="the version that the model becomes again")


class Fork(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    as_: str = Field(
        alias="as", pattern=NAME_PATTERN, max_length=NAME_CHARS_MAX, description=f"the new name: {NAME_RULE}"
    )
    at: Version | None = Field(None, description="the version that it begins with; null: the present one")


def router(going_back: GoingBack) -> APIRouter:
    routes = APIRouter(
        tags=["models"],
        responses=problems(400, 404, 410, 413, 415, 422, 503),
    )

    @routes.post("/models/{model}/rollback", responses=answers(ModelInfo))
    @access(Role.ADMIN, tenants=True, body=Body.JSON)
    async def rollback(model: ModelName, sent: Rollback) -> Response:
        """Make a model all that it was at a version: weights, statistics, names and classes.

        That is an event like any other: the version rises by one, and what was there before can be gone back to, too.
        Predictions that wait for their labels expire, as with a reset.
        """
        return Json(describe(await going_back.rollback(model, sent.to)))

    @routes.post("/models/{model}/fork", status_code=201, responses=answers(ModelInfo, 201) | problems(409))
    @access(Role.ADMIN, tenants=True, body=Body.JSON)
    async def fork(model: ModelName, sent: Fork) -> Response:
        """Make another model that begins as this one is, or was at a version: the same predictions to the bit.

        Predictions that wait stay with this one. From then on the two have nothing to do with each other.
        """
        check_own(sent.as_)
        made = await going_back.fork(model, sent.as_, sent.at)
        return Json(describe(made), 201, {"location": f"/models/{sent.as_}"})

    return routes
