"""GET /models/{model}/pending: the predictions that wait for their labels, for people who label them."""

from typing import Annotated, Any

from fastapi import APIRouter, Query, Response

from novikoff.schemas import PendingPage
from service.engine.models.model import Model
from service.engine.rounds.pending_list import Order, Place, WaitingList
from service.events import Prediction
from service.web.access.declarations import access
from service.web.access.keys import Role
from service.web.access.tenants import public_id
from service.web.http.responses import Json, timestamp
from service.web.routes.models import Limit, ModelName
from service.web.routes.openapi import answers, problems
from service.web.routes.stats import cursor_at, place_at

Cursor = Annotated[str | None, Query(max_length=1000, description="`next` of the page before")]
Ordered = Annotated[Order, Query(description="newest first, or least certain first")]


def router(waiting_list: WaitingList) -> APIRouter:
    routes = APIRouter(tags=["models"], responses=problems(404, 422, 503))

    @routes.get("/models/{model}/pending", responses=answers(PendingPage))
    @access(Role.READ, tenants=True)
    async def pending(
        model: ModelName, order: Ordered = "newest", cursor: Cursor = None, limit: Limit = 100
    ) -> Response:
        """The predictions that wait for their labels, page by page, with their features and what was served.

        A page is shorter than its limit where features are large. On a cluster, replicas that do not answer within
        a moment are left out.
        """
        page = await waiting_list.page(model, order, place_at(cursor, Place), limit)
        lines = [_line(page.live.model, each) for each in page.predictions]
        return Json({"pending": lines, "next": None if page.next is None else cursor_at(page.next)})

    return routes


def _line(model: Model, prediction: Prediction) -> dict[str, Any]:
    features, certainty = model.features.decode(prediction.features), prediction.certainty
    line = {
        "prediction_id": public_id(prediction.prediction_id),
        "at": timestamp(prediction.at),
        "features": features if isinstance(features, dict) else features.tolist(),
        "served": prediction.served,
        "score": prediction.score,
        "probability": None if certainty is None else certainty.probability,
        "version_seen": prediction.version,
    }
    if certainty is not None and certainty.ask_probability is not None:
        line["ask"] = model.is_asked(prediction.prediction_id, certainty.ask_probability)
    return line
