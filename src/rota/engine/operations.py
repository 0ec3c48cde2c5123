"""Operations: create, show and cancel them, and do the batches that are due.

Any number of schedulers may call `tick` at the same time: the version of the stored operation lets one of them go on. A
batch is planned (stored), done, and counted (stored). If the process dies in between, the planned batch is repeated by
the scheduler that finds it after `BATCH_TIME`, under the fences of the plan, so that no job is retried twice.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from typing import Final

from rota.core.decision import cancel, retry, run_now
from rota.core.errors import IllegalTransition, InvalidRequest, JobNotFound
from rota.core.ids import JobId, to_text
from rota.core.job import Job
from rota.core.ledger import LedgerEntry
from rota.core.lifecycle import FINISHED, State
from rota.core.operation import (
    BATCH_TIME,
    CANARY_INTERVAL,
    ENDED,
    MOST_REFUSALS,
    Operation,
    OperationAction,
    OperationId,
    OperationState,
    PlannedJob,
    Refusal,
    check_operation,
)
from rota.core.settlement import Settlement
from rota.core.time import MICROSECOND
from rota.engine.deps import EngineDeps
from rota.engine.jobs import Jobs
from rota.engine.search import JobSearch, MatchCount
from rota.ports.client import ActionResult, Actor, Deed
from rota.ports.store import JobQuery, Position
from rota.ports.wakeup import TIMETABLE
from rota.telemetry.events import Acted

#: How often a change is repeated when the operation changes meanwhile.
MOST_TRIES: Final = 10
#: How many operations are worked on in one pass.
_MOST_DUE: Final = 10
_DEEDS: Final = {
    OperationAction.RETRY: Deed.RETRIED,
    OperationAction.RUN_NOW: Deed.STARTED,
    OperationAction.CANCEL: Deed.CANCELLED,
}


class Operations:
    """Create, show, cancel, and do what is due."""

    def __init__(self, deps: EngineDeps, jobs: Jobs, search: JobSearch) -> None:
        self._deps = deps
        self._jobs = jobs
        self._search = search

    async def count(self, operation: Operation) -> MatchCount:
        """Count the jobs that an operation would act on; it is not stored."""
        check_operation(operation)
        return await self._search.count(await self._query(operation))

    async def create(self, operation: Operation, *, surface: str = "") -> Operation:
        """Store an operation; schedulers do it from its `due_at` on. One entry in the ledger."""
        counted = await self.count(operation)
        operation = replace(operation, matched=counted.count, is_exact=counted.is_exact)
        entry = _entry(operation, "create", Actor(operation.by, operation.origin, surface))
        if not await self._deps.store.put_operation(operation, entry=entry):
            raise IllegalTransition(f"operation {to_text(operation.id)}: exists already; try again")
        self._deps.telemetry.emit(Acted(entry))
        await self._deps.broker.announce({TIMETABLE})
        return replace(operation, version=1)

    async def one(self, operation_id: OperationId) -> Operation:
        """Return an operation; raise `JobNotFound` if there is none of this id."""
        operation = await self._deps.store.operation(operation_id)
        if operation is None:
            problem = f"operation {to_text(operation_id)}: unknown; it never existed, or it was pruned"
            raise JobNotFound(problem, field="id")
        return operation

    async def cancel(self, operation_id: OperationId, by: Actor) -> Operation:
        """End an operation; what it has done stays done, and a batch under way may still be finished."""
        for _ in range(MOST_TRIES):
            operation = await self.one(operation_id)
            if operation.state in ENDED:
                problem = f"operation {to_text(operation_id)}: has ended already (state: {operation.state})"
                raise IllegalTransition(f"{problem}; nothing is left to cancel")
            ended = operation.ended(OperationState.CANCELLED, await self._deps.store.time(), f"cancelled by {by.name}")
            entry = _entry(operation, "cancel", by)
            if await self._deps.store.put_operation(ended, entry=entry):
                self._deps.telemetry.emit(Acted(entry))
                return ended
        raise IllegalTransition(f"operation {to_text(operation_id)}: keeps changing; try again")

    async def tick(self) -> int:
        """Do one batch of every operation that is due; return how many were worked on."""
        due = await self._deps.store.due_operations(_MOST_DUE)
        failure: Exception | None = None
        for operation in due:
            try:
                await self._step(operation)
            except Exception as error:  # noqa: BLE001 - one operation that cannot go on must not hold up the others
                failure = failure or error
        if failure is not None:
            raise failure
        return len(due)

    async def _step(self, operation: Operation) -> None:
        now = await self._deps.store.time()
        if operation.batch:
            await self._do_batch(operation, is_repeated=True)
        elif operation.awaits_canaries:
            await self._judge_canaries(operation, now)
        elif operation.is_list_read:
            await self._deps.store.put_operation(operation.ended(OperationState.COMPLETED, now))
        else:
            await self._plan(operation, now)

    async def _plan(self, operation: Operation, now: datetime) -> None:
        """Store the next batch before anything is done, then do it."""
        try:
            query = await self._query(operation)
        except InvalidRequest as error:
            # A schedule that the search names may have been deleted meanwhile.
            await self._deps.store.put_operation(operation.ended(OperationState.STOPPED, now, str(error)))
            return
        if operation.after_id is not None:
            query = query.behind(Position(operation.after_id, operation.after_finished_at))
        page = await self._deps.store.find_some(replace(query, limit=operation.batch_size, is_light=True))
        resume = page.resume
        planned = replace(
            operation,
            state=OperationState.RUNNING,
            started_at=operation.started_at or now,
            batch=tuple(PlannedJob(job.id, job.fence, job.state) for job in page.jobs),
            after_id=operation.after_id if resume is None else resume.job_id,
            after_finished_at=operation.after_finished_at if resume is None else resume.finished_at,
            is_list_read=resume is None,
            due_at=now + BATCH_TIME if page.jobs else now,
        )
        if await self._deps.store.put_operation(planned) and planned.batch:
            await self._do_batch(replace(planned, version=planned.version + 1), is_repeated=False)

    async def _do_batch(self, operation: Operation, *, is_repeated: bool) -> None:
        if is_repeated:
            taken = replace(operation, due_at=await self._deps.store.time() + BATCH_TIME)
            if not await self._deps.store.put_operation(taken):
                return
            operation = replace(taken, version=taken.version + 1)
        planned = {one.id: one for one in operation.batch}
        moved: set[int] = set()
        results = await self._act(operation, planned, moved)
        done, refusals = list[JobId](), list[Refusal]()
        for result in results:
            if result.refusal is None or (is_repeated and _was_done_before(operation, result, moved)):
                done.append(result.job_id)
            else:
                refusals.append(Refusal(result.job_id, str(result.refusal)[:300]))
        await self._add_results(operation, tuple(done), refusals)

    async def _act(
        self, operation: Operation, planned: dict[JobId, PlannedJob], moved: set[int]
    ) -> Sequence[ActionResult]:
        """Act on the jobs of a batch; those that were claimed since it was planned are left alone."""
        ids = [one.id for one in operation.batch]
        if operation.action is OperationAction.DELETE:
            return await self._jobs.delete(ids)
        now = await self._deps.store.time()

        def decide(job: Job) -> Settlement | None:
            before = planned[job.id]
            if (job.fence, job.state) != (before.fence, before.state):
                moved.add(job.id)
            if operation.action is OperationAction.CANCEL:
                return cancel(job)
            if job.fence != before.fence:
                raise IllegalTransition(f"{job.name}: it was claimed meanwhile")
            return retry(job, now) if operation.action is OperationAction.RETRY else run_now(job, now)

        return await self._jobs.act_once_each(ids, decide, _DEEDS[operation.action])

    async def _add_results(self, operation: Operation, done: tuple[JobId, ...], refusals: list[Refusal]) -> None:
        """Store the results of a batch, also if the operation was cancelled meanwhile."""
        batch = operation.batch
        for _ in range(MOST_TRIES):
            now = await self._deps.store.time()
            kept = tuple(refusals[:MOST_REFUSALS])
            counted = operation.with_results(done, kept, len(refusals), now)
            if await self._deps.store.put_operation(counted):
                return
            operation = await self.one(operation.id)
            if operation.batch != batch:
                # Another scheduler has repeated and counted this batch.
                return

    async def _judge_canaries(self, operation: Operation, now: datetime) -> None:
        """Go on when the first jobs have succeeded; stop when one has not."""
        jobs = await self._deps.store.get(operation.canary_ids)
        failed = [job for job in jobs if job.state in FINISHED and job.state is not State.COMPLETED]
        if failed:
            reason = f"canary {failed[0].name} is {failed[0].state}; the rest was left alone"
            judged = operation.ended(OperationState.STOPPED, now, reason)
        elif any(job.state not in FINISHED for job in jobs):
            judged = replace(operation, due_at=now + CANARY_INTERVAL)
        else:
            judged = replace(operation, canary=0, canary_ids=(), due_at=now)
        await self._deps.store.put_operation(judged)

    async def _query(self, operation: Operation) -> JobQuery:
        """Make the query of an operation: jobs that existed when it was created; ages count back from then."""
        if operation.q is None:
            return JobQuery(ids=operation.ids)
        query = await self._search.query(operation.q, operation.created_at)
        latest = operation.created_at + MICROSECOND
        until = latest if query.created_until is None else min(query.created_until, latest)
        return replace(query, created_until=until)


def _was_done_before(operation: Operation, result: ActionResult, moved: set[int]) -> bool:
    """Whether a repeated batch found a job as the first try must have left it."""
    if operation.action is OperationAction.DELETE:
        return isinstance(result.refusal, JobNotFound)
    return result.job_id in moved


def _entry(operation: Operation, verb: str, by: Actor) -> LedgerEntry:
    chosen = operation.q if operation.q is not None else f"{len(operation.ids)} ids"
    detail = f"{operation.action} {operation.matched}{'' if operation.is_exact else '+'} jobs: {chosen}"[:500]
    target = to_text(operation.id)
    action = f"operations.{verb}"
    return LedgerEntry(by.name, action, target, by.origin, detail, surface=by.surface)
