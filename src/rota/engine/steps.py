"""Step verbs: what workers record about guarded steps, and how operators resolve one in doubt."""

from __future__ import annotations

from collections.abc import Sequence

from rota.core.errors import IllegalTransition, InvalidRequest
from rota.core.ids import JobId, to_text
from rota.core.ledger import LedgerEntry
from rota.core.step import Resolution, Step
from rota.engine.deps import EngineDeps
from rota.ports.client import Actor
from rota.telemetry.events import Acted


class JobSteps:
    """Intend, conclude, withdraw, resolve."""

    def __init__(self, deps: EngineDeps) -> None:
        self._deps = deps

    async def all(self, job_id: JobId) -> Sequence[Step]:
        return await self._deps.store.steps(job_id)

    async def intend(self, job_id: JobId, fence: int, key: str) -> tuple[Step, bool] | None:
        return await self._deps.store.intend(job_id, fence, key)

    async def conclude(self, job_id: JobId, fence: int, key: str, outcome: str) -> Step | None:
        return await self._deps.store.conclude(job_id, fence, key, outcome)

    async def withdraw(self, job_id: JobId, fence: int, key: str) -> bool:
        return await self._deps.store.withdraw(job_id, fence, key)

    async def resolve(self, resolution: Resolution, by: Actor) -> None:
        """Record whether the effect of a step in doubt happened; refuse it if nothing is in doubt."""
        happened = "happened" if resolution.outcome is not None else "did not happen"
        entry = LedgerEntry(
            by.name,
            "steps.resolve",
            to_text(resolution.job_id),
            by.origin,
            f"{resolution.key}: {happened}",
            surface=by.surface,
        )
        if await self._deps.store.resolve(resolution, entry=entry):
            self._deps.telemetry.emit(Acted(entry))
            return
        name = f"job {to_text(resolution.job_id)}, step {resolution.key!r}"
        steps = {step.key: step for step in await self.all(resolution.job_id)}
        if resolution.key not in steps:
            known = ", ".join(sorted(steps)) or "none"
            raise InvalidRequest(f"{name}: there is no such step; known are {known}", field="key")
        if steps[resolution.key].is_done:
            raise IllegalTransition(f"{name}: it is done, nothing is in doubt")
        raise IllegalTransition(f"{name}: the job runs; wait for its end, or cancel it first")
