"""Guarded steps: what workers write about them, and what operators say when one is in doubt."""

from __future__ import annotations

from collections.abc import Sequence

from rota.core.errors import IllegalTransition, InvalidRequest
from rota.core.identity import JobId, to_text
from rota.core.ledger import Entry
from rota.core.step import Resolution, Step
from rota.engine.parts import Parts
from rota.ports.faces import Actor
from rota.telemetry.events import Acted


class Steps:
    """Intend, conclude, withdraw, resolve."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts

    async def all(self, job_id: JobId) -> Sequence[Step]:
        """Look at a job's steps, in the order in which they began."""
        return await self._parts.store.steps(job_id)

    async def intend(self, job_id: JobId, fence: int, key: str) -> tuple[Step, bool] | None:
        """Write down the intent to perform a step."""
        return await self._parts.store.intend(job_id, fence, key)

    async def conclude(self, job_id: JobId, fence: int, key: str, outcome: str) -> Step | None:
        """Write down that a step's effect happened."""
        return await self._parts.store.conclude(job_id, fence, key, outcome)

    async def withdraw(self, job_id: JobId, fence: int, key: str) -> bool:
        """Forget the intent to perform a step."""
        return await self._parts.store.withdraw(job_id, fence, key)

    async def resolve(self, told: Resolution, by: Actor) -> None:
        """Take an operator's word about a step in doubt; refuse it, with the reason, where nothing is in doubt."""
        happened = "happened" if told.outcome is not None else "did not happen"
        entry = Entry(by.name, "steps.resolve", to_text(told.job_id), by.origin, f"{told.key}: {happened}")
        if await self._parts.store.resolve(told, entry=entry):
            self._parts.telemetry.emit(Acted(entry))
            return
        name = f"job {to_text(told.job_id)}, step {told.key!r}"
        steps = {step.key: step for step in await self.all(told.job_id)}
        if told.key not in steps:
            known = ", ".join(sorted(steps)) or "none"
            raise InvalidRequest(f"{name}: there is no such step; known are {known}", field="key")
        if steps[told.key].is_done:
            raise IllegalTransition(f"{name}: it is done, nothing is in doubt")
        raise IllegalTransition(f"{name}: the job runs; wait for its end, or cancel it first")
