"""/models/{model}/fit: batch training; /models/{model}/replay: its history through other settings; and /jobs."""

from typing import Annotated, Any

import msgspec
from fastapi import APIRouter, Path, Request, Response
from pydantic import BaseModel, ConfigDict, Field

from novikoff import schemas
from novikoff.schemas import NAME_CHARS_MAX, NAME_PATTERN, NAME_RULE
from service.engine.clock import Clock
from service.engine.jobs.fit_process import UnreadFit
from service.engine.jobs.fits import Fits
from service.engine.jobs.jobs import Job, Jobs
from service.engine.jobs.what_ifs import WhatIf, WhatIfs
from service.engine.models.settings import ModelLimits
from service.errors import InvalidRequest
from service.web.access.declarations import Body, access
from service.web.access.keys import Role
from service.web.access.tenants import check_known_job, check_own
from service.web.http.requests import NDJSON, checks_query, media_type_of, parameters
from service.web.http.responses import Json, timestamp
from service.web.routes.model_settings import GIVEN, ModelSettings
from service.web.routes.models import ModelName
from service.web.routes.openapi import answers, problems

JobId = Annotated[str, Path(max_length=128)]


def describe(job: Job, now: int) -> dict[str, Any]:
    return {
        "id": job.id,
        "kind": job.kind,
        "model": job.model,
        "state": job.state,
        "options": job.options,
        "examples": job.examples,
        "progress": job.progress,
        "seconds_left": job.seconds_left(now),
        "result": job.result,
        "error": job.error,
        "version": job.version,
        "started_at": timestamp(job.started_at),
        "finished_at": None if job.finished_at is None else timestamp(job.finished_at),
    }


REQUEST_BODY = {
    "required": True,
    "content": {
        "application/json": {"schema": {"type": "object"}},
        "application/x-ndjson": {"schema": {"type": "string"}},
    },
}


def _value(text: str) -> object:
    """An option from a query: a number if it is one, else a word."""
    try:
        return msgspec.json.decode(text, type=bool | int | float)
    except msgspec.MsgspecError:
        return text


GRID_MAX = 32


class Replay(BaseModel):
    """Either `settings` or `grid`. Of settings that are left out the model's own are taken."""

    model_config = ConfigDict(extra="forbid", strict=True)

    settings: ModelSettings | None = Field(None, description="what to try instead")
    grid: Annotated[list[ModelSettings], Field(min_length=1, max_length=GRID_MAX)] | None = Field(
        None, description="several to try, at most 32"
    )
    keep_as: str | None = Field(
        None,
        alias="as",
        pattern=NAME_PATTERN,
        max_length=NAME_CHARS_MAX,
        description=f"the name for a model that is what the best of them has become: {NAME_RULE}",
    )

    def what_if(self) -> WhatIf:
        if (self.settings is None) == (self.grid is None):
            raise InvalidRequest.at("settings", "send either settings or grid")
        tried = {"settings.": self.settings} if self.settings is not None else {}
        tried |= {f"grid[{place}].": settings for place, settings in enumerate(self.grid or ())}
        return WhatIf({field: _given(settings) for field, settings in tried.items()}, self.keep_as)


def _given(settings: ModelSettings) -> dict[str, Any]:
    return settings.model_dump(include=GIVEN, exclude_unset=True)


def router(jobs: Jobs, fits: Fits, what_ifs: WhatIfs, limits: ModelLimits, clock: Clock) -> APIRouter:
    routes = APIRouter(tags=["jobs"], responses=problems(404, 422, 503))

    async def find(job_id: str) -> Job:
        job = await jobs.find(job_id)
        check_known_job(job_id, job.model)
        return job

    @routes.post(
        "/models/{model}/fit",
        status_code=202,
        responses=answers(schemas.Job, 202) | problems(400, 409, 413, 415),
        openapi_extra={"requestBody": REQUEST_BODY},
    )
    @access(Role.ADMIN, tenants=True, body=Body.UPLOAD)
    @checks_query
    async def fit(model: ModelName, request: Request) -> Response:
        """Train a model on a set of examples, as a job.

        The body is JSON with `examples` or `"source": "history"` and the options of the fit; or NDJSON, an
        example a line, with the options in the query. The result enters the model as one event.
        """
        is_lines = media_type_of(request.scope["headers"]) == NDJSON
        known = request.query_params if is_lines else ()  # the names of options are checked with their values
        query = parameters(request.scope["query_string"], known)
        options = {name: _value(value) for name, value in query.items()}
        job = await fits.fit(model, UnreadFit(await request.body(), is_lines, options))
        return Json(describe(job, clock.now()), 202, {"location": f"/jobs/{job.id}"})

    @routes.get("/jobs/{job_id}", responses=answers(schemas.Job))
    @access(Role.READ, tenants=True)
    async def show(job_id: JobId) -> Response:
        """How far a job is, or what has come of it."""
        return Json(describe(await find(job_id), clock.now()))

    @routes.delete("/jobs/{job_id}", responses=answers(schemas.Job))
    @access(Role.ADMIN, tenants=True)
    async def cancel(job_id: JobId) -> Response:
        """Cancel a job; nothing of it enters the model. A finished one stays as it is."""
        await find(job_id)
        return Json(describe(await jobs.cancel(job_id), clock.now()))

    @routes.post(
        "/models/{model}/replay",
        status_code=202,
        responses=answers(schemas.Job, 202) | problems(400, 409, 413, 415),
    )
    @access(Role.ADMIN, tenants=True, body=Body.JSON)
    async def replay(model: ModelName, wanted: Replay) -> Response:
        """Play the retained history through other settings, as a job: what would they have served?

        The result has each of them beside the live model, which is not touched: rounds, mistakes, intervals, the
        difference and the evidence for it; the best first. With `as` that one becomes a model.
        """
        if wanted.keep_as is not None:
            check_own(wanted.keep_as)
        job = await what_ifs.start(model, wanted.what_if(), limits)
        return Json(describe(job, clock.now()), 202, {"location": f"/jobs/{job.id}"})

    return routes
