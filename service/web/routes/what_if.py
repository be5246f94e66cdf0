"""/models/{model}/replay: the history of a model through other settings."""

from typing import Annotated, Any

from fastapi import APIRouter, Response
from pydantic import BaseModel, ConfigDict, Field

from novikoff.schemas import NAME_CHARS_MAX, NAME_PATTERN, NAME_RULE, Job
from service.engine.clock import Clock
from service.engine.jobs.what_ifs import WhatIf
from service.engine.models.settings import ModelLimits
from service.errors import InvalidRequest
from service.web.access.declarations import Body, access
from service.web.access.keys import Role
from service.web.access.tenant_jobs import TenantJobs
from service.web.http.answers import Json
from service.web.routes.jobs import describe
from service.web.routes.model_settings import GIVEN, ModelSettings
from service.web.routes.models import ModelName
from service.web.routes.openapi import answers, problems

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


def router(jobs: TenantJobs, limits: ModelLimits, clock: Clock) -> APIRouter:
    routes = APIRouter(tags=["jobs"], responses=problems(404, 422, 503))

    @routes.post("/models/{model}/replay", status_code=202,
                 responses=answers(Job, 202) | problems(400, 409, 413, 415))  # fmt: skip
    @access(Role.ADMIN, tenants=True, body=Body.JSON)
    async def replay(model: ModelName, wanted: Replay) -> Response:
        """Play the retained history through other settings, as a job: what would they have served?

        The result has each of them beside the live model, which is not touched: rounds, mistakes, intervals, the
        difference and the evidence for it; the best first. With `as` that one becomes a model.
        """
        job = await jobs.what_if(model, wanted.what_if(), limits)
        return Json(describe(job, clock.now()), 202, {"location": f"/jobs/{job.id}"})

    return routes
