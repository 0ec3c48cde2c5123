"""Step verbs: what workers record about guarded steps and waits, and how operators resolve a step in doubt."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace

from rota.core.envelope import is_encrypted
from rota.core.errors import IllegalTransition, InvalidRequest
from rota.core.ids import JobId, to_number, to_text
from rota.core.job import Job
from rota.core.ledger import LedgerEntry
from rota.core.lifecycle import FINISHED, State
from rota.core.step import LARGEST_OUTCOME, LARGEST_STORED, Resolution, Step, StepKind, require_kind
from rota.core.submission import NewJob, Template
from rota.core.time import to_micros
from rota.core.waiting import Wait, check_wait
from rota.engine.deps import EngineDeps
from rota.ports.client import Actor
from rota.ports.wakeup import TIMETABLE
from rota.telemetry.events import Acted, JobsSubmitted


class JobSteps:
    """Intend, conclude, withdraw, wait, resolve."""

    def __init__(self, deps: EngineDeps) -> None:
        self._deps = deps

    async def all(self, job_id: JobId) -> Sequence[Step]:
        return await self._deps.store.steps(job_id)

    async def intend(self, job_id: JobId, fence: int, key: str) -> tuple[Step, bool] | None:
        answer = await self._deps.store.intend(job_id, fence, key)
        if answer is not None:
            require_kind(answer[0], StepKind.EFFECT)
        return answer

    async def conclude(self, job_id: JobId, fence: int, key: str, outcome: str) -> Step | None:
        return await self._deps.store.conclude(job_id, fence, key, outcome)

    async def withdraw(self, job_id: JobId, fence: int, key: str) -> bool:
        return await self._deps.store.withdraw(job_id, fence, key)

    async def begin_wait(self, job_id: JobId, fence: int, wait: Wait) -> Step | None:
        """Begin a wait of a running job, or come back to it; None if the lease is lost.

        The step is done if the wait is over. If it is not, the worker reports the job as suspended.
        """
        check_wait(wait)
        child = None if wait.child is None else await self._child_of(job_id, wait.child)
        step = await self._deps.store.begin_wait(job_id, fence, wait, child=child)
        if step is None:
            return None
        require_kind(step, wait.kind)
        if not step.is_done and wait.event is not None and step.subject != wait.event:
            message = f"step {step.key!r} waits for the event {step.subject!r}, not for {wait.event!r}; use another key"
            raise InvalidRequest(message, field="event")
        if child is not None and step.subject == to_text(child.id):
            self._deps.telemetry.emit(JobsSubmitted([child], 0.0))
            await self._deps.broker.announce((child.queue, TIMETABLE))
        return step if step.is_done or step.kind is not StepKind.CALL else await self._with_end(step, fence)

    async def _child_of(self, job_id: JobId, template: Template) -> NewJob:
        return template.make(self._deps.fresh_id(), await self._deps.store.time(), parent_id=job_id)

    async def _with_end(self, step: Step, fence: int) -> Step:
        """Return the step of a call with the end of its child. Only a success is recorded: failures can be retried."""
        child_id = JobId(to_number(step.subject or ""))
        jobs = await self._deps.store.get([child_id])
        if not jobs:
            message = (
                f"step {step.key!r}: its job {step.subject} was deleted before its result was read; use another key"
            )
            raise InvalidRequest(message, field="key")
        child = jobs[0]
        if child.state not in FINISHED:
            return step
        if child.state is not State.COMPLETED:
            return replace(step, ended_at=child.finished_at, outcome=_failure(child))
        outcome = f'{{"result":{child.result or "null"}}}'
        if len(outcome) > (LARGEST_STORED if is_encrypted(child.result or "") else LARGEST_OUTCOME):
            raise InvalidRequest(
                f"step {step.key!r}: the result of job {step.subject} is {len(outcome):,} characters of JSON, and a"
                f" call passes on at most {LARGEST_OUTCOME:,}; store it elsewhere and return where",
                field="key",
            )
        return await self._deps.store.conclude(step.job_id, fence, step.key, outcome) or step

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
        if steps[resolution.key].kind is not StepKind.EFFECT:
            waiting = steps[resolution.key]
            remedy = f"emit the event {waiting.subject!r}" if waiting.kind is StepKind.EVENT else "wait for its end"
            raise IllegalTransition(f"{name}: it is a wait, and nothing is in doubt; {remedy}, or cancel the job")
        if steps[resolution.key].is_done:
            raise IllegalTransition(f"{name}: it is done, nothing is in doubt")
        raise IllegalTransition(f"{name}: the job runs; wait for its end, or cancel it first")


def _failure(child: Job) -> str:
    """Describe a child that did not succeed, for the worker that waits for it."""
    error = None if child.error is None else [child.error.kind, child.error.message, child.error.traceback]
    times = [to_micros(moment) for moment in (child.created_at, child.finished_at or child.updated_at)]
    failed = {"id": child.id, "type": child.type, "queue": child.queue, "priority": child.priority}
    ended = {"state": child.state, "reason": child.reason, "error": error, "attempts": child.attempts, "times": times}
    return json.dumps({"failed": {**failed, **ended}})
