"""Clients and operators that ask the real engine, as the API and an app in process do."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, replace

from rota.core.errors import InvalidRequest
from rota.core.ids import JobId
from rota.core.job import Job
from rota.core.schedule import Draft, Schedule
from rota.core.submission import NewJob
from rota.engine import Engine
from rota.ports.client import Control
from rota.ports.store import Inserted
from simulation.loops.api import client_on
from simulation.models.client import OPERATOR, Act, ClientModel, Graph, Notebook, Submission, Wish
from simulation.models.stage import Stage

Share = tuple[Notebook, tuple[Submission, ...], tuple[Act, ...], tuple[Graph, ...], tuple[Schedule, ...]]


class EngineClient(ClientModel):
    """What it wants is the model's; how it is asked for is the engine's."""

    def __init__(self, stage: Stage, share: Share, engine: Engine) -> None:
        super().__init__(stage, *share)
        self._engine = engine

    def _control(self) -> Control:
        return self._engine

    async def _put(self, schedule: Schedule) -> None:
        draft = Draft(**{field.name: getattr(schedule, field.name) for field in fields(Draft)})
        await self._engine.schedules.put(draft, OPERATOR)

    async def _insert(self, job: NewJob) -> Sequence[Inserted]:
        return await self._engine.submit([job])

    async def _cancel(self, job_id: JobId) -> None:
        await self._engine.cancel([job_id], OPERATOR)

    async def _decree(self, wish: Wish, job: Job) -> None:
        act = self._engine.jobs.retry if wish is Wish.RETRY else self._engine.jobs.run_now
        await act([job.id], OPERATOR)

    async def _edit(self) -> None:
        found = await self._engine.schedules.all()
        if not found:
            return
        schedule = self._stage.rng.choice(found)
        template = replace(schedule.template, priority=self._stage.rng.randint(1, 10))
        try:
            await self._engine.schedules.edit(replace(schedule, template=template), OPERATOR)
        except InvalidRequest:
            return  # it was changed meanwhile; this operator leaves it at that


class HttpClient(EngineClient):
    """What the client over HTTP can do is done through it; the rest, which only operators want, beside it."""

    def __init__(self, stage: Stage, share: Share, engine: Engine) -> None:
        super().__init__(stage, share, engine)
        self._client = client_on(stage)

    def _control(self) -> Control:
        return self._client

    async def _insert(self, job: NewJob) -> Sequence[Inserted]:
        return await self._client.submit([job])

    async def _cancel(self, job_id: JobId) -> None:
        await self._client.cancel([job_id], OPERATOR)

    async def _decree(self, wish: Wish, job: Job) -> None:
        if wish is Wish.RETRY:
            await self._client.retry([job.id], OPERATOR)
        else:
            await super()._decree(wish, job)
