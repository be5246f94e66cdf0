"""/models/{model}/fit: batch training; and /jobs, whatever they do."""

from typing import Annotated, Any

import msgspec
from fastapi import APIRouter, Path, Request, Response

from novikoff import schemas
from service.engine.clock import Clock
from service.engine.jobs.fit_process import UnreadFit
from service.engine.jobs.jobs import Job
from service.web.access.declarations import Body, access
from service.web.access.keys import Role
from service.web.access.tenant_jobs import TenantJobs
from service.web.http.answers import Json, timestamp
from service.web.http.bodies import NDJSON, media_type_of
from service.web.http.queries import checks_query, parameters
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


def router(jobs: TenantJobs, clock: Clock) -> APIRouter:
    routes = APIRouter(tags=["jobs"], responses=problems(404, 422, 503))

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
        job = await jobs.fit(model, UnreadFit(await request.body(), is_lines, options))
        return Json(describe(job, clock.now()), 202, {"location": f"/jobs/{job.id}"})

    @routes.get("/jobs/{job_id}", responses=answers(schemas.Job))
    @access(Role.READ, tenants=True)
    async def show(job_id: JobId) -> Response:
        """How far a job is, or what has come of it."""
        return Json(describe(await jobs.find(job_id), clock.now()))

    @routes.delete("/jobs/{job_id}", responses=answers(schemas.Job))
    @access(Role.ADMIN, tenants=True)
    async def cancel(job_id: JobId) -> Response:
        """Cancel a job; nothing of it enters the model. A finished one stays as it is."""
        return Json(describe(await jobs.cancel(job_id), clock.now()))

    return routes


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
