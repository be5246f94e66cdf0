"""GET /models/{model}/events: the audit trail, what has happened to a model."""

from typing import Annotated, Any, get_args

from fastapi import APIRouter, Query, Response
from msgspec import structs

from novikoff.schemas import EventPage
from service.engine.fleet.models import Models
from service.errors import InvalidRequest
from service.events import AnyEvent, RoundCorrected
from service.web.access.declarations import access
from service.web.access.keys import Role
from service.web.access.tenants import prefix, public_id
from service.web.http.responses import Json, timestamp
from service.web.routes.models import Limit, ModelName
from service.web.routes.openapi import answers, problems

AfterSeq = Annotated[int, Query(alias="cursor", ge=0, le=2**63 - 1, description="`next` of the page before")]
KINDS = frozenset(event.__struct_config__.tag for event in get_args(AnyEvent))
Kinds = Annotated[
    str | None, Query(max_length=1000, description="only events of these kinds, comma-separated")
]

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
    if (origin := told.get("forked_from")) and not origin.startswith(prefix()):
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


def router(models: Models) -> APIRouter:
    routes = APIRouter(tags=["models"], responses=problems(422, 503))

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
