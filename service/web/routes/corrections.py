"""PUT /feedback/{prediction_id}, DELETE /predictions/{prediction_id}, POST /models/{model}/forget.

What was wrong is put right, and what should not be there goes.
"""

from typing import Annotated

from fastapi import APIRouter, Path, Response
from pydantic import BaseModel, ConfigDict, Field, StrictBool, StrictFloat, StrictInt, StrictStr

from novikoff.schemas import NAME_CHARS_MAX, PREDICTION_ID_PATTERN, TAG_CHARS_MAX, Correction, Forgotten
from service.engine.models.checks import plain_label
from service.engine.rounds.corrections import REASON_CHARS_MAX, Corrected
from service.engine.rounds.forgetting import Forgetting
from service.web.access.declarations import Body, access
from service.web.access.keys import Role
from service.web.access.tenants import TenantCorrections
from service.web.http.responses import Json
from service.web.routes.models import ModelName
from service.web.routes.openapi import answers, problems

PredictionId = Annotated[
    str,
    Path(
        pattern=PREDICTION_ID_PATTERN,
        max_length=NAME_CHARS_MAX,
        description="from the response of /predict, or the `id` that was sent",
    ),
]


class RightLabel(BaseModel):
    model_config = ConfigDict(extra="forbid")

    label: StrictBool | StrictInt | StrictFloat | StrictStr = Field(description="the right label")
    reason: StrictStr | None = Field(
        None, min_length=1, max_length=REASON_CHARS_MAX, description="the reason, for the audit trail"
    )


class Tagged(BaseModel):
    model_config = ConfigDict(extra="forbid")

    tag: StrictStr = Field(min_length=1, max_length=TAG_CHARS_MAX, description="as rounds carry it")


def router(corrections: TenantCorrections, forgetting: Forgetting) -> APIRouter:
    routes = APIRouter(
        tags=["rounds"],
        responses=problems(404, 410, 422, 503),
    )
    either = answers(Correction) | answers(Correction, 202)

    @routes.put("/feedback/{prediction_id}", responses=either | problems(400, 409, 413, 415))
    @access(Role.WRITE, tenants=True, body=Body.JSON)
    async def correct(prediction_id: PredictionId, sent: RightLabel) -> Response:
        """Correct the label of a finished round.

        The model becomes what it would be had this label come first, to the bit. It is rebuilt in the background, goes
        on as it is until then, and `/stats/{model}` tells when it is done: 202 while it is not. The audit trail keeps
        both labels. The same correction again changes nothing.
        """
        return _answer(await corrections.correct(prediction_id, plain_label(sent.label), sent.reason))

    @routes.post(
        "/models/{model}/forget",
        status_code=202,
        responses=answers(Forgotten, 202) | problems(400, 413, 415, 501),
    )
    @access(Role.ADMIN, tenants=True, body=Body.JSON)
    async def forget(model: ModelName, sent: Tagged) -> Response:
        """Forget all that carries a tag: the model becomes as if it had never been.

        With the embedded journal, its bytes are in no file of the data directory any more. On a NATS cluster it cannot
        be read through the servers any more and is overwritten in the files of the streams; the servers' replication
        logs may keep bytes until they are compacted. That is done in the background; `/stats/{model}` says
        `rebuilding` until it is.
        """
        done = await forgetting.forget(model, sent.tag)
        told = {
            "model": done.model,
            "rounds": done.rounds,
            "predictions": done.predictions,
            "rebuilding": True,
        }
        return Json(told, 202)

    @routes.delete("/predictions/{prediction_id}", responses=either)
    @access(Role.WRITE, tenants=True)
    async def void(prediction_id: PredictionId) -> Response:
        """Void a prediction that was never shown. It cannot be revealed any more.

        If its label has come already, the model is rebuilt as if the round had never been: 202 until that is done.
        """
        return _answer(await corrections.void(prediction_id))

    return routes


def _answer(done: Corrected) -> Response:
    told = {
        "prediction_id": done.prediction_id,
        "model": done.model,
        "label": done.label,
        "former": done.former,
        "reason": done.reason,
        "rebuilding": done.is_rebuilding,
    }
    headers = {} if done.is_new else {"idempotent-replay": "true"}
    return Json(told, 202 if done.is_rebuilding else 200, headers)
