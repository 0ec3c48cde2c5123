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
from simulation.models.client import OPERATOR, AcceptedIds, Action, ActionKind, ClientModel, Graph, Submission
from simulation.models.environment import Environment

Share = tuple[AcceptedIds, tuple[Submission, ...], tuple[Action, ...], tuple[Graph, ...], tuple[Schedule, ...]]


class EngineClient(ClientModel):
    """The model of a client, on the verbs of the engine."""

    def __init__(self, environment: Environment, share: Share, engine: Engine) -> None:
        super().__init__(environment, *share)
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

    async def _settle_job(self, kind: ActionKind, job: Job) -> None:
        act = self._engine.jobs.retry if kind is ActionKind.RETRY else self._engine.jobs.run_now
        await act([job.id], OPERATOR)

    async def _edit(self) -> None:
        found = await self._engine.schedules.all()
        if not found:
            return
        schedule = self._environment.rng.choice(found)
        template = replace(schedule.template, priority=self._environment.rng.randint(1, 10))
        try:
            await self._engine.schedules.edit(replace(schedule, template=template), OPERATOR)
        except InvalidRequest:
            return  # it was changed meanwhile; the edit is given up


class HttpClient(EngineClient):
    """The model of a client, on the client over HTTP where that has the verb."""

    def __init__(self, environment: Environment, share: Share, engine: Engine) -> None:
        super().__init__(environment, share, engine)
        self._client = client_on(environment)

    def _control(self) -> Control:
        return self._client

    async def _insert(self, job: NewJob) -> Sequence[Inserted]:
        return await self._client.submit([job])

    async def _cancel(self, job_id: JobId) -> None:
        await self._client.cancel([job_id], OPERATOR)

    async def _settle_job(self, kind: ActionKind, job: Job) -> None:
        if kind is ActionKind.RETRY:
            await self._client.retry([job.id], OPERATOR)
        else:
            await super()._settle_job(kind, job)
