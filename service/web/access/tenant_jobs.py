"""Jobs for a caller whose key is restricted to a prefix: those of other models are absent; see `tenants.py`."""

from typing import Any

from service.engine.jobs.fit_process import UnreadFit
from service.engine.jobs.fits import Fits
from service.engine.jobs.jobs import Job, Jobs
from service.engine.jobs.what_ifs import WarmChallengers, WhatIf, WhatIfs
from service.engine.models.settings import ModelLimits
from service.web.access.callers import check_known, check_known_job, check_own


class TenantJobs:
    """Jobs of the caller's models."""

    def __init__(self, jobs: Jobs, fits: Fits, what_ifs: WhatIfs, warm_challengers: WarmChallengers) -> None:
        self._jobs = jobs
        self._fits = fits
        self._what_ifs = what_ifs
        self._warm_challengers = warm_challengers

    async def fit(self, name: str, sent: UnreadFit) -> Job:
        check_known(name)
        return await self._fits.fit(name, sent)

    async def what_if(self, name: str, wanted: WhatIf, limits: ModelLimits) -> Job:
        check_known(name)
        if wanted.keep_as is not None:
            check_own(wanted.keep_as)
        return await self._what_ifs.start(name, wanted, limits)

    async def warm_challenger(
        self, name: str, challenger: str, given: dict[str, Any], limits: ModelLimits
    ) -> Job:
        check_known(name)
        return await self._warm_challengers.start(name, challenger, given, limits)

    async def find(self, job_id: str) -> Job:
        job = await self._jobs.find(job_id)
        check_known_job(job_id, job.model)
        return job

    async def cancel(self, job_id: str) -> Job:
        await self.find(job_id)
        return await self._jobs.cancel(job_id)
