"""/models: creating, listing, resetting, deleting, exporting and importing models; weights and audit trail."""

from functools import partial
from typing import Annotated, Any, Literal, get_args

from fastapi import APIRouter, Path, Query, Request, Response
from msgspec import structs

from novikoff.schemas import (
    NAME_CHARS_MAX,
    NAME_PATTERN,
    NAME_RULE,
    EventPage,
    LargestWeights,
    ModelInfo,
    ModelPage,
    Weights,
)
from service.engine.fleet.large_models import CopyReservation, weights_bytes
from service.engine.fleet.live import Live
from service.engine.models.contest import NO_CHALLENGERS
from service.engine.models.settings import ModelLimits
from service.engine.transfer.importing import Importing
from service.errors import InvalidRequest, ModelDamaged
from service.events import AnyEvent, RoundCorrected
from service.journal.protocol import Page
from service.runtime.byte_budget import ByteBudget
from service.web.access.callers import prefix as own_prefix
from service.web.access.declarations import Body, access
from service.web.access.keys import Role
from service.web.access.tenant_history import TenantHistory
from service.web.access.tenants import TenantModels, public_id
from service.web.http.answers import Json, timestamp
from service.web.http.bodies import JSON, media_type_of
from service.web.problems import HttpError
from service.web.routes import exports
from service.web.routes.advice import advice_table
from service.web.routes.model_settings import NewModel
from service.web.routes.openapi import answers, problems
from service.web.routes.weights import Largest, read_weights
from service.web.routes.weights import answer as weights_answer

ModelName = Annotated[str, Path(pattern=NAME_PATTERN, max_length=NAME_CHARS_MAX, description=NAME_RULE)]
Prefix = Annotated[str, Query(alias="model", max_length=128, description="only models whose names begin so")]
After = Annotated[str | None, Query(alias="cursor", max_length=128, description="`next` of the page before")]
AfterSeq = Annotated[int, Query(alias="cursor", ge=0, le=2**63 - 1, description="`next` of the page before")]
Form = Annotated[Literal["novikoff", "sklearn", "onnx"], Query(alias="format")]
Limit = Annotated[int, Query(ge=1, le=1000, description="lines on a page")]
KINDS = frozenset(event.__struct_config__.tag for event in get_args(AnyEvent))
Kinds = Annotated[
    str | None, Query(max_length=1000, description="only events of these kinds, with commas between")
]
At = Annotated[
    int | None,
    Query(ge=0, le=2**63 - 1, description="a version: as it was then; 410 if that is no longer kept"),
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
    "content": {JSON.decode(): {"schema": {"type": "object", "description": "what /export has answered"}}},
}


def router(
    models: TenantModels,
    history: TenantHistory,
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
        live = await models.create(new.model, new.complete(limits))
        return Json(describe(live), 201, {"location": f"/models/{new.model}"})

    @routes.get("/models", responses=answers(ModelPage))
    @access(Role.READ, tenants=True)
    async def page(prefix: Prefix = "", after: After = None, limit: Limit = 100) -> Response:
        """The models by name, page by page."""
        place = None if after is None else (after, after)
        listed = await models.page(Page(prefix, "name", place, limit + 1))
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
        read = await history.read(model, at, partial(read_weights, largest=largest), room.take_for)
        return weights_answer(read, room)

    @routes.get("/models/{model}/export", responses=problems(404, 410))
    @access(Role.READ, tenants=True)
    async def export(model: ModelName, form: Form = "novikoff", at: At = None) -> Response:
        """All that a model is, as JSON; or a linear model for scikit-learn (JSON) or ONNX; now or `at` a version.

        Of a damaged model it is what is left, and `damaged` says what is missing.
        """
        read = partial(history.read, model, at)
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
    @access(Role.ADMIN, tenants=True, body=Body.UPLOAD)
    async def adopt(model: ModelName, request: Request) -> Response:
        """Make a model from an export: the same predictions to the bit. An existing one is not changed.

        The export is checked as a whole, and what no model of this service can have is refused.
        """
        if media_type_of(request.scope["headers"]) != JSON:
            raise HttpError("unsupported-media-type", f"send the body with content-type: {JSON.decode()}")
        live = await models.adopt(model, await importing.read(await request.body()))
        return Json(describe(live), 201, {"location": f"/models/{model}"})

    @routes.get("/models/{model}/events", responses=answers(EventPage) | problems(404))
    @access(Role.READ, tenants=True)
    async def events(
        model: ModelName, after: AfterSeq = 0, limit: Limit = 100, kinds: Kinds = None
    ) -> Response:
        """The audit trail: what has happened to a model, oldest first, as far as it is kept.

        Of some `kinds`, a page may have few or none although there is a `next`: no call looks for ever.
        """
        if kinds is not None:
            found, following = await models.events_of(model, _known_kinds(kinds), after=after, limit=limit)
            return Json({"events": [_event_line(each.seq, each.event) for each in found], "next": following})
        recorded = await models.events(model, after=after, limit=limit + 1)
        lines = [_event_line(each.seq, each.event) for each in recorded[:limit]]
        return Json({"events": lines, "next": recorded[limit - 1].seq if len(recorded) > limit else None})

    return routes


HIDDEN = frozenset(
    {"model", "at", "features", "classifier", "state", "follows", "events", "ask_key", "asked", "answered"}
)


def _known_kinds(kinds: str) -> frozenset[str]:
    wanted = frozenset(kind.strip() for kind in kinds.split(","))
    if not wanted <= KINDS:
        raise InvalidRequest.at("kinds", f"there are {', '.join(sorted(KINDS))}")
    return wanted


def _event_line(seq: int, event: AnyEvent) -> dict[str, Any]:
    """An event for people: all but the features, which may be large and private."""
    told = {k: v for k, v in structs.asdict(event).items() if k not in HIDDEN}
    if (origin := told.get("forked_from")) and not origin.startswith(own_prefix()):
        told["forked_from"] = None  # somebody with a key for more models has made it
    if isinstance(event, RoundCorrected):
        told["prediction_id"] = told.pop("corrects")
    if told.get("prediction_id"):
        told["prediction_id"] = public_id(told["prediction_id"])
    if told.get("tag") is None:
        told.pop("tag", None)
    for name in ("predicted_at", "as_of"):
        if told.get(name) is not None:
            told[name] = timestamp(told[name])
    if told.get("warm") is not None:
        told["warm"] = structs.asdict(told["warm"])
    certainty = told.get("certainty")
    if certainty is not None and certainty.lineup is not None:
        told["served_by"] = certainty.lineup.served_by
    return {"seq": seq, "kind": event.__struct_config__.tag, "at": timestamp(event.at), **told}
