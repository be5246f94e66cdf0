"""/models: creating, listing, resetting, rollback, fork, deleting, exporting and importing; weights."""

from collections.abc import Callable
from functools import partial
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Path, Query, Request, Response
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from novikoff.schemas import (
    NAME_CHARS_MAX,
    NAME_PATTERN,
    NAME_RULE,
    LargestWeights,
    ModelInfo,
    ModelPage,
    Weights,
)
from service.engine.fleet.large_models import CopyReservation, weights_bytes
from service.engine.fleet.live import Live
from service.engine.fleet.models import Models
from service.engine.models.champion_and_challengers import NO_CHALLENGERS
from service.engine.models.model import Model
from service.engine.models.settings import ModelLimits
from service.engine.replay.past import Past
from service.engine.replay.rollbacks import GoingBack
from service.engine.transfer.importing import Importing
from service.errors import ModelDamaged
from service.journal.protocol import Page
from service.runtime.byte_budget import ByteBudget
from service.web.access.declarations import Body, access
from service.web.access.keys import Role
from service.web.access.tenants import check_own, narrowed
from service.web.http.requests import JSON, media_type_of
from service.web.http.responses import Json, SlicedJson, timestamp
from service.web.problems import HttpError
from service.web.routes import exports
from service.web.routes.exports import Largest, read_weights
from service.web.routes.model_settings import NewModel, advice_table
from service.web.routes.openapi import answers, problems

ModelName = Annotated[str, Path(pattern=NAME_PATTERN, max_length=NAME_CHARS_MAX, description=NAME_RULE)]
Prefix = Annotated[
    str, Query(alias="model", max_length=128, description="only models whose names begin with this")
]
After = Annotated[str | None, Query(alias="cursor", max_length=128, description="`next` of the page before")]
Form = Annotated[Literal["novikoff", "sklearn", "onnx"], Query(alias="format")]
Limit = Annotated[int, Query(ge=1, le=1000, description="rows per page")]
At = Annotated[
    int | None,
    Query(ge=0, le=2**63 - 1, description="the state at this version; 410 if it is no longer kept"),
]


def describe(live: Live) -> dict[str, Any]:
    model = live.model
    return {
        "model": model.name,
        "version": model.version,
        "dimension": model.features.dimension,
        "created_at": timestamp(model.created_at),
        "updated_at": timestamp(model.updated_at),
        "settings": model.settings if model.contest is not None else model.settings | NO_CHALLENGERS,
    }


EXPORT_BODY = {
    "required": True,
    "content": {JSON.decode(): {"schema": {"type": "object", "description": "a body from /export"}}},
}


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


def router(
    models: Models,
    past: Past,
    going_back: GoingBack,
    limits: ModelLimits,
    importing: Importing,
    copies: ByteBudget,
) -> APIRouter:
    routes = APIRouter(tags=["models"], responses=problems(422, 503))

    @routes.post(
        "/models",
        status_code=201,
        responses=answers(ModelInfo, 201) | problems(400, 409, 413, 415),
        description=f"Make a model with chosen settings. An existing model is never changed.\n\n{advice_table()}",
    )
    @access(Role.ADMIN, tenants=True, body=Body.JSON)
    async def create(new: NewModel) -> Response:
        """Make a model with chosen settings. An existing model is never changed."""
        check_own(new.model)
        live = await models.create(new.model, new.complete(limits))
        return Json(describe(live), 201, {"location": f"/models/{new.model}"})

    @routes.get("/models", responses=answers(ModelPage))
    @access(Role.READ, tenants=True)
    async def page(prefix: Prefix = "", after: After = None, limit: Limit = 100) -> Response:
        """The models by name, page by page."""
        place = None if after is None else (after, after)
        own = narrowed(prefix)
        listed = [] if own is None else await models.page(Page(own, "name", place, limit + 1))
        lines, unreadable = [], []
        for line in listed[:limit]:
            if (why := models.why_unreadable(line)) is not None or line.settings is None:
                unreadable.append({"model": line.model, "detail": why})
                continue
            lines.append(
                {
                    "model": line.model,
                    "created_at": timestamp(line.created_at),
                    "algorithm": line.settings["learner"]["algorithm"],
                }
            )
        more = len(listed) > limit
        following = listed[limit - 1].model if more else None
        return Json({"models": lines, "unreadable": unreadable, "next": following})

    @routes.get("/models/{model}", responses=answers(ModelInfo) | problems(404))
    @access(Role.READ, tenants=True)
    async def show(model: ModelName) -> Response:
        """A model's settings and where it stands."""
        return Json(describe(await models.get(model)))

    @routes.delete("/models/{model}", status_code=204, responses=problems(404))
    @access(Role.ADMIN, tenants=True)
    async def delete(model: ModelName) -> Response:
        """Forget a model: its weights, its statistics, its history."""
        await models.delete(model)
        return Response(status_code=204)

    @routes.post("/models/{model}/reset", responses=answers(ModelInfo) | problems(404))
    @access(Role.ADMIN, tenants=True)
    async def reset(model: ModelName) -> Response:
        """Back to the start: weights, statistics, names, means and classes that appeared are forgotten.

        Predictions that wait for their labels expire. What was declared stays, and so does the dimension.
        """
        return Json(describe(await models.reset(model)))

    @routes.get("/models/{model}/weights", responses=answers(Weights | LargestWeights) | problems(404, 410))
    @access(Role.READ, tenants=True)
    async def weights(model: ModelName, largest: Largest = None, at: At = None) -> Response:
        """The weights, the bias apart: all of them, or the `largest` by absolute value; now or `at` a version."""
        room = CopyReservation(copies, weights_bytes if largest is None else lambda _: 0)
        read = await past.read(model, at, partial(read_weights, largest=largest), first=room.take_for)
        return SlicedJson(read, room)

    @routes.get("/models/{model}/export", responses=problems(404, 410))
    @access(Role.READ, tenants=True)
    async def export(model: ModelName, form: Form = "novikoff", at: At = None) -> Response:
        """All that a model is, as JSON; or a linear model for scikit-learn (JSON) or ONNX; now or `at` a version.

        Of a damaged model it is what is left, and `damaged` says what is missing.
        """

        async def read(take: Callable[[Model], Any], first: Callable[[Model], None]) -> Any:
            return await past.read(model, at, take, first=first)

        try:
            await models.get(model)  # before anything is said of the format
            if form == "onnx":
                return await exports.for_onnx(read, copies)
            return await (exports.whole if form == "novikoff" else exports.for_sklearn)(read, copies)
        except ModelDamaged:
            if at is not None:
                raise
            left, missing = await models.salvage(model)
            return await exports.whole(exports.of_nobody_else(left), copies, damaged=missing)

    @routes.put("/models/{model}", status_code=201,
                responses=answers(ModelInfo, 201) | problems(400, 409, 413, 415),
                openapi_extra={"requestBody": EXPORT_BODY})  # fmt: skip
    @access(Role.ADMIN, tenants=True, body=Body.UPLOAD, makes_model=True)
    async def adopt(model: ModelName, request: Request) -> Response:
        """Make a model from an export: the same predictions to the bit. An existing one is not changed.

        The export is checked as a whole, and what no model of this service can have is refused.
        """
        if media_type_of(request.scope["headers"]) != JSON:
            raise HttpError("unsupported-media-type", f"send the body with content-type: {JSON.decode()}")
        imported = await importing.read(await request.body())
        live = await models.adopt(model, imported.settings, imported.state)
        return Json(describe(live), 201, {"location": f"/models/{model}"})

    @routes.post("/models/{model}/rollback", responses=answers(ModelInfo) | problems(400, 404, 410, 413, 415))
    @access(Role.ADMIN, tenants=True, body=Body.JSON)
    async def rollback(model: ModelName, sent: Rollback) -> Response:
        """Make a model all that it was at a version: weights, statistics, names and classes.

        That is an event like any other: the version rises by one, and what was there before can be gone back to, too.
        Predictions that wait for their labels expire, as with a reset.
        """
        return Json(describe(await going_back.rollback(model, sent.to)))

    @routes.post(
        "/models/{model}/fork",
        status_code=201,
        responses=answers(ModelInfo, 201) | problems(400, 404, 409, 410, 413, 415),
    )
    @access(Role.ADMIN, tenants=True, body=Body.JSON)
    async def fork(model: ModelName, sent: Fork) -> Response:
        """Make another model that begins as this one is, or was at a version: the same predictions to the bit.

        Predictions that wait stay with this one. From then on the two have nothing to do with each other.
        """
        check_own(sent.as_)
        made = await going_back.fork(model, sent.as_, sent.at)
        return Json(describe(made), 201, {"location": f"/models/{sent.as_}"})

    return routes
