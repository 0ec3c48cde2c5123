"""The reference model's jobs: the obligations of the port as simple code."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields, replace
from datetime import datetime, timedelta

from conformance.model.memory import KeptKey, Memory
from rota.core.dependencies import CANCELLING, DependencyStatus, dependency_status
from rota.core.ids import JobId, compose, to_number
from rota.core.job import Attempt, Job, first_state, turn
from rota.core.job_edit import JobChange
from rota.core.lease import Claim, Renewal, Renewed, WorkerId
from rota.core.ledger import LedgerEntry
from rota.core.lifecycle import FINISHED, TIMED, WAITING, State
from rota.core.queue import Lane, LaneCount, Queue
from rota.core.settlement import Reason, Settlement
from rota.core.step import Step, StepKind
from rota.core.submission import Delivery, Need, NewJob
from rota.core.time import to_micros
from rota.core.trace import TRACEPARENT
from rota.core.unique_keys import UNIQUE, UniqueKind
from rota.ports.store import (
    Ahead,
    Census,
    CompletedCount,
    DeadGroup,
    DeathCount,
    Dispatched,
    Edge,
    Inserted,
    JobQuery,
    JobSlice,
    Receipt,
    Retention,
    Timetable,
)

#: What a job takes over from its submission as it stands.
WANTING = WAITING | {State.RUNNING}
TAKEN_OVER = {field.name for field in fields(NewJob)} & {field.name for field in fields(Job)} - {"run_at"}


def _meta(new: NewJob) -> Mapping[str, str]:
    if new.unique is None:
        return new.meta
    return {**new.meta, UNIQUE: " ".join(new.unique.name_for(new.type, new.queue))}


class Jobs(Memory):
    async def insert(
        self,
        jobs: Sequence[NewJob],
        *,
        bound: int | None = None,
        entry: LedgerEntry | None = None,
        now: datetime | None = None,
    ) -> Sequence[Inserted]:
        moment = self.at(now)
        answers = [self._insert(new, bound, moment) for new in jobs]
        made = [new for new, answer in zip(jobs, answers, strict=True) if answer.receipt is Receipt.CREATED]
        self._link(made, moment)
        self.write(entry if made else None, moment)
        return [
            answer if answer.receipt is Receipt.QUEUE_FULL else replace(answer, state=self.jobs[answer.job_id].state)
            for answer in answers
        ]

    def make(self, new: NewJob, now: datetime) -> JobId:
        """Store a job that the system itself makes; if its id is taken, under the next one that is free."""
        while new.id in self.jobs:
            new = replace(new, id=JobId(new.id + 1))
        self._create(new, now)
        self._link([new], now)
        return new.id

    def _insert(self, new: NewJob, bound: int | None, now: datetime) -> Inserted:
        key = new.idempotency
        kept = self.keys.get((key.scope, key.key)) if key is not None else None
        if key is not None and kept is not None and not self._is_free(kept, now):
            receipt = Receipt.REPLAYED if kept.request == key.request else Receipt.KEY_REUSED
            return Inserted(kept.job_id, receipt, self.jobs[kept.job_id].state)
        repeated = self._repeated(new, now)
        if repeated is not None:
            if key is not None:
                self.keys[key.scope, key.key] = KeptKey(key.request, repeated.job_id, now + key.keep)
            return repeated
        if self._is_full(new.queue, bound) and not new.after and (new.run_at is None or new.run_at <= now):
            return Inserted(new.id, Receipt.QUEUE_FULL, State.PENDING)
        if new.id in self.jobs:
            return Inserted(new.id, Receipt.ID_TAKEN, self.jobs[new.id].state)
        if key is not None:
            self.keys[key.scope, key.key] = KeptKey(key.request, new.id, now + key.keep)
        if new.unique is not None:
            self.keys[new.unique.name_for(new.type, new.queue)] = KeptKey(b"", new.id, now + new.unique.keep)
        return Inserted(new.id, Receipt.CREATED, self._create(new, now).state, now)

    def _repeated(self, new: NewJob, now: datetime) -> Inserted | None:
        """Answer a unique, throttled or debounced submission with the earlier job of its key, if that counts."""
        key = new.unique
        kept = None if key is None else self.keys.get(key.name_for(new.type, new.queue))
        job = None if kept is None else self.jobs.get(kept.job_id)
        if key is None or job is None:
            return None
        if key.kind is UniqueKind.DEBOUNCE:
            if job.fence or job.state not in {State.SCHEDULED, State.PENDING, State.QUEUED}:
                return None
            changes: dict[str, object] = {"payload": new.payload, "updated_at": now}
            if job.state is State.SCHEDULED:
                assert new.run_at is not None
                at = new.run_at if key.max_wait is None else min(new.run_at, job.created_at + key.max_wait)
                lasts = None if new.expires_at is None else new.expires_at - new.run_at
                changes |= {"run_at": at, "expires_at": None if lasts is None else at + lasts}
                self.due_since[job.id] = at
            self.jobs[job.id] = replace(job, **changes)  # type: ignore[arg-type]  # fields of a job
            receipt = Receipt.DEBOUNCED
        else:
            is_throttle = key.kind is UniqueKind.THROTTLE
            is_old = key.period is not None and now >= job.created_at + key.period
            if is_old or not (is_throttle or job.state in key.states):
                return None
            receipt = Receipt.THROTTLED if is_throttle else Receipt.UNIQUE_CONFLICT
        return Inserted(job.id, Receipt.REPLAYED if job.id == new.id else receipt, job.state)

    def _is_full(self, queue: str, bound: int | None) -> bool:
        own = self.settings[queue].max_depth if queue in self.settings else None
        limit = bound if own is None else own
        if limit is None:
            return False
        waiting = sum(job.queue == queue and job.state in {State.PENDING, State.QUEUED} for job in self.jobs.values())
        return waiting >= limit

    def _is_free(self, kept: KeptKey, now: datetime) -> bool:
        job = self.jobs.get(kept.job_id)
        return kept.until <= now and (job is None or job.state in FINISHED)

    def _create(self, new: NewJob, now: datetime) -> Job:
        run_at = new.run_at if new.run_at is not None else now
        parents = {wait.on for wait in new.after}
        job = Job(
            **{name: getattr(new, name) for name in TAKEN_OVER - {"meta"}},
            meta=new.meta
            if new.unique is None
            else {**new.meta, UNIQUE: " ".join(new.unique.name_for(new.type, new.queue))},
            state=first_state(run_at, now, blocked=bool(parents)),
            run_at=run_at,
            created_at=now,
            updated_at=now,
            idempotency_key=new.idempotency.key if new.idempotency is not None else None,
            blockers=len(parents),
        )
        self.jobs[job.id] = job
        self.due_since[job.id] = max(run_at, now)
        self.parents[job.id] = parents
        return job

    def _link(self, made: Sequence[NewJob], now: datetime) -> None:
        """Let jobs wait for others, those of their own batch included, in whatever order they came."""
        for new in made:
            for wait in new.after:
                waits = self.waits.setdefault(new.id, {})
                if waits.get(wait.on, Need.END) is Need.END:
                    # If a job is named twice, the stricter need counts.
                    waits[wait.on] = wait.need
            self.named[new.id] = new.after
        self.follow_failures((), self._tell_children([wait.on for new in made for wait in new.after], now), now)

    async def claim(self, claim: Claim, *, now: datetime | None = None) -> Sequence[Job]:
        if claim.claim_id is not None and claim.claim_id in self.claims:
            return [self.jobs[held] for held, fence in self.claims[claim.claim_id] if self.holds(held, fence)]
        moment = self.at(now)
        ready = [job for job in self.jobs.values() if self._suits(job, claim, moment)]
        ready.sort(key=lambda job: (turn(self.due_since[job.id], job.priority), job.id))
        if not ready and claim.ahead and claim.ids is None:
            ready = [job for job in self.jobs.values() if self._comes_soon(job, claim, moment)]
            ready.sort(key=lambda job: (job.run_at, -job.priority, job.id))
        given = [self._start(job, claim, moment) for job in ready[: claim.limit]]
        if claim.claim_id is not None and given:
            self.claims[claim.claim_id] = [(job.id, job.fence) for job in given]
        return given

    def _suits(self, job: Job, claim: Claim, now: datetime) -> bool:
        return (
            (job.state is State.PENDING or (job.state is State.QUEUED and job.id in (claim.ids or ())))
            and (claim.ids is None or job.id in claim.ids)
            and self._is_wanted(job, claim, now)
            and job.run_at <= now
            and (job.expires_at is None or now < job.expires_at)
        )

    def _comes_soon(self, job: Job, claim: Claim, now: datetime) -> bool:
        return (
            job.state in TIMED
            # Who dies while it holds it would leave it dead, although it never began.
            and job.delivery is not Delivery.AT_MOST_ONCE
            and self._is_wanted(job, claim, now)
            and now < job.run_at <= now + claim.ahead
            and (job.expires_at is None or job.run_at < job.expires_at)
        )

    def _is_wanted(self, job: Job, claim: Claim, now: datetime) -> bool:
        queue = self.settings.get(job.queue)
        return (
            job.queue in claim.queues
            and (claim.types is None or job.type in claim.types)
            and not (queue is not None and _is_paused(queue, now))
        )

    def _start(self, job: Job, claim: Claim, now: datetime) -> Job:
        started = replace(
            job,
            state=State.RUNNING,
            fence=job.fence + 1,
            attempts=job.attempts + 1,
            worker=claim.worker.name,
            boot=claim.worker.boot,
            lease_until=now + claim.lease,
            started_at=max(now, job.run_at),
            updated_at=now,
        )
        self.jobs[job.id] = started
        attempt = Attempt(job.id, started.fence, claim.worker.name, claim.worker.boot, max(now, job.run_at))
        self.runs.setdefault(job.id, []).append(attempt)
        return started

    async def renew(self, renewals: Sequence[Renewal], *, now: datetime | None = None) -> Sequence[Renewed]:
        moment = self.at(now)
        return [self._renew(each, moment) for each in renewals if self.holds(each.job_id, each.fence)]

    def _renew(self, renewal: Renewal, now: datetime) -> Renewed:
        job = self.jobs[renewal.job_id]
        until = now + renewal.lease
        self.jobs[job.id] = replace(job, lease_until=until)
        attempt = self.runs[job.id][-1]
        self.runs[job.id][-1] = replace(
            attempt,
            progress=attempt.progress if renewal.progress is None else renewal.progress,
            log_tail=attempt.log_tail if renewal.log_tail is None else renewal.log_tail,
        )
        return Renewed(job.id, job.fence, until, cancel=job.cancel_requested_at is not None)

    async def settle(
        self, settlements: Sequence[Settlement], *, entry: LedgerEntry | None = None, now: datetime | None = None
    ) -> Sequence[JobId]:
        moment = self.at(now)
        applied = [each.job_id for each in settlements if self._settle(each, moment)]
        cancelled = self._tell_children([job_id for job_id in applied if self.jobs[job_id].state in FINISHED], moment)
        # A child that was called may have ended before its caller was suspended.
        called = {parent for job_id in applied for parent in self.waits.get(job_id, ())}
        self._tell_children([one for one in called if one not in self.jobs or self.jobs[one].state in FINISHED], moment)
        dead = [each.job_id for each in settlements if each.job_id in applied and each.is_failure]
        self.follow_failures(dead, cancelled, moment)
        self.write(entry if applied else None, moment)
        return applied

    def _settle(self, settlement: Settlement, now: datetime) -> bool:
        job = self.jobs.get(settlement.job_id)
        if job is None or (job.state, job.fence) != (settlement.source, settlement.fence):
            return False
        if job.state is State.RUNNING and job.cancel_requested_at is not None and not settlement.is_final:
            return False
        if settlement.lapsed_at is not None and (job.lease_until != settlement.lapsed_at or settlement.lapsed_at > now):
            return False
        if settlement.wait is not None and self._is_over(settlement.wait):
            settlement = settlement.without_wait()
        if job.state is State.RUNNING:
            self._end_attempt(job, settlement, now)
        if settlement.run_at is not None:
            self.due_since[job.id] = settlement.run_at
        self.waits.pop(job.id, None)
        attempts = 0 if settlement.renew else job.attempts - settlement.refund
        self.jobs[job.id] = replace(
            job,
            state=settlement.target,
            run_at=settlement.run_at or job.run_at,
            updated_at=now,
            attempts=attempts,
            crashes=0 if settlement.renew else job.crashes + settlement.crash,
            lease_until=None,
            finished_at=now if settlement.is_final else None,
            cancel_requested_at=None if settlement.renew else job.cancel_requested_at,
            expires_at=None if settlement.renew else job.expires_at,
            result=settlement.result,
            error=settlement.error,
            reason=settlement.reason,
            blockers=int(settlement.target is State.BLOCKED),
        )
        if settlement.follow_up is not None:
            self.make(settlement.follow_up, now)
        if settlement.wait is not None and settlement.wait.kind is StepKind.CALL:
            child = JobId(to_number(settlement.wait.subject or ""))
            self.waits[job.id] = {child: Need.END}
            self.parents.setdefault(job.id, set()).add(child)
        for made in settlement.events:
            self.make(made, now)
        return True

    def _is_over(self, wait: Step) -> bool:
        stored = self.guarded.get((wait.job_id, wait.key))
        return stored is None or stored.is_done

    def _end_attempt(self, job: Job, settlement: Settlement, now: datetime) -> None:
        attempt = self.runs[job.id][-1]
        self.runs[job.id][-1] = replace(
            attempt,
            ended_at=now,
            event=settlement.event,
            error=settlement.error,
            log_tail=attempt.log_tail if settlement.log_tail is None else settlement.log_tail,
            progress=attempt.progress if settlement.progress is None else settlement.progress,
        )

    def _tell_children(self, parents: Iterable[JobId], now: datetime) -> list[JobId]:
        """Let go, or cancel, those that waited for jobs that have ended; and those that waited for them in turn.

        Give those whose dependencies failed.
        """
        answer = deque(sorted(parents))
        failed: list[JobId] = []
        while answer:
            parent = answer.popleft()
            job = self.jobs.get(parent)
            state, reason = (None, None) if job is None else (job.state, job.reason)
            for child in [child for child, waits in self.waits.items() if parent in waits]:
                verdict = dependency_status(self.waits[child][parent], state, reason=reason)
                if verdict in CANCELLING:
                    self._cancel(child, CANCELLING[verdict], now)
                    answer.append(child)
                    if verdict is DependencyStatus.FAILED:
                        failed.append(child)
                elif verdict is not DependencyStatus.WAIT:
                    del self.waits[child][parent]
                    self._let_go(child, now)
        return failed

    def follow_failures(self, dead: Iterable[JobId], cancelled: Sequence[JobId], now: datetime) -> None:
        """Make the follow-ups of jobs whose dependencies failed, and cancel the rest of workflows that fail fast."""
        failed = [*dead, *cancelled]
        while failed:
            for job in [self.jobs[one] for one in sorted(cancelled)]:
                if job.on_failure is not None:
                    number = JobId(compose(to_micros(now) // 1000, job.id))
                    trace = job.meta.get(TRACEPARENT)
                    self.make(job.on_failure.make(number, now, parent_id=job.id, traceparent=trace), now)
            cancelled = failed = self.fail_fast(failed, now)

    def fail_fast(self, failed: Iterable[JobId], now: datetime) -> list[JobId]:
        """Cancel the rest of workflows that fail fast; see the model's workflows."""
        raise NotImplementedError

    def _let_go(self, child: JobId, now: datetime) -> None:
        job = self.jobs[child]
        left = len(self.waits[child])
        if left:
            self.jobs[child] = replace(job, blockers=left, updated_at=now)
            return
        del self.waits[child]
        # It becomes due when it is let go, not before: it takes its place behind those that were due already.
        run_at = max(job.run_at, now)
        state = first_state(run_at, now, blocked=False)
        self.jobs[child] = replace(job, state=state, run_at=run_at, blockers=0, updated_at=now)
        self.due_since[child] = run_at

    def _cancel(self, job_id: JobId, reason: Reason, now: datetime) -> None:
        self.waits.pop(job_id, None)
        job = self.jobs[job_id]
        self.jobs[job_id] = replace(
            job, state=State.CANCELLED, reason=reason, finished_at=now, updated_at=now, blockers=0
        )

    def replace_jobs(self, ids: Sequence[JobId], now: datetime) -> None:
        """Cancel jobs that were replaced, or request them to stop if they run; then resolve the jobs that wait for
        them.
        """
        cancelled = []
        for job_id in ids:
            job = self.jobs.get(job_id)
            if job is not None and job.state is State.RUNNING:
                self._mark(job_id, now)
            elif job is not None and job.state in WAITING:
                self._cancel(job_id, Reason.REPLACED, now)
                cancelled.append(job_id)
        if cancelled:
            self.follow_failures((), self._tell_children(cancelled, now), now)

    async def edit(self, change: JobChange, *, entry: LedgerEntry | None = None, now: datetime | None = None) -> bool:
        moment, job = self.at(now), self.jobs.get(change.job_id)
        read = (change.source, change.fence, change.updated_at)
        if job is None or (job.state, job.fence, job.updated_at) != read:
            return False
        if change.run_at != job.run_at:
            self.due_since[job.id] = max(change.run_at, moment)
        self.jobs[job.id] = replace(
            job,
            state=change.target,
            updated_at=moment,
            **{
                name: getattr(change, name)
                for name in ("queue", "priority", "run_at", "max_attempts", "tags", "payload")
            },
        )
        self.write(entry, moment)
        return True

    async def ask_cancel(
        self, leases: Sequence[tuple[JobId, int]], *, entry: LedgerEntry | None = None, now: datetime | None = None
    ) -> Sequence[JobId]:
        moment = self.at(now)
        asked = [job_id for job_id, fence in leases if self.holds(job_id, fence)]
        for job_id in asked:
            self._mark(job_id, moment)
        self.write(entry if asked else None, moment)
        return asked

    def _mark(self, job_id: JobId, now: datetime) -> None:
        job = self.jobs[job_id]
        self.jobs[job_id] = replace(job, cancel_requested_at=job.cancel_requested_at or now, updated_at=now)

    async def promote(self, limit: int, *, now: datetime | None = None) -> Mapping[str, int]:
        moment = self.at(now)
        ready = [job for job in self.jobs.values() if job.state in TIMED and job.run_at <= moment]
        ready.sort(key=lambda job: (job.run_at, job.id))
        for job in ready[:limit]:
            self.jobs[job.id] = replace(job, state=State.PENDING, updated_at=moment)
        return Counter(job.queue for job in ready[:limit])

    async def dispatch(self, room: Mapping[Lane, int], *, now: datetime | None = None) -> Sequence[Dispatched]:
        moment = self.at(now)
        made: list[Dispatched] = []
        for lane, limit in room.items():
            wanted = Claim(WorkerId("", ""), limit, queues=(lane.queue,), types=(lane.type,))
            ready = [job for job in self.jobs.values() if self._suits(job, wanted, moment)]
            ready.sort(key=lambda job: (turn(self.due_since[job.id], job.priority), job.id))
            for job in ready[: max(limit, 0)]:
                self.jobs[job.id] = replace(job, state=State.QUEUED, updated_at=moment)
                made.append(Dispatched(job.id, lane, job.priority))
        return made

    async def recall(self, ids: Sequence[JobId], *, now: datetime | None = None) -> Sequence[JobId]:
        recalled = [one for one in dict.fromkeys(ids) if one in self.jobs and self.jobs[one].state is State.QUEUED]
        for job_id in recalled:
            self.jobs[job_id] = replace(self.jobs[job_id], state=State.PENDING, updated_at=self.at(now))
        return recalled

    async def queued(
        self, limit: int, *, since: timedelta = timedelta(0), after: JobId | None = None, now: datetime | None = None
    ) -> Sequence[Dispatched]:
        line = [
            job
            for job in sorted(self.jobs.values(), key=lambda job: job.id)
            if job.state is State.QUEUED
            and job.updated_at <= self.at(now) - since
            and (after is None or job.id > after)
        ]
        return [Dispatched(job.id, Lane(job.queue, job.type), job.priority) for job in line[:limit]]

    async def lost(self, limit: int, *, now: datetime | None = None) -> Sequence[Job]:
        moment = self.at(now)
        late = [
            (job.lease_until, job.id) for job in self.jobs.values() if job.lease_until and job.lease_until <= moment
        ]
        return [self.jobs[job_id] for _, job_id in sorted(late)[:limit]]

    async def expired(self, limit: int, *, now: datetime | None = None) -> Sequence[Job]:
        moment = self.at(now)
        late = [
            (job.expires_at, job.id)
            for job in self.jobs.values()
            if job.state in WAITING and job.expires_at is not None and job.expires_at <= moment
        ]
        return [self.jobs[job_id] for _, job_id in sorted(late)[:limit]]

    async def get(self, ids: Sequence[JobId]) -> Sequence[Job]:
        return [self.jobs[job_id] for job_id in ids if job_id in self.jobs]

    async def find(self, query: JobQuery) -> Sequence[Job]:
        chosen = [job for job in self.jobs.values() if _matches(job, query)]
        chosen.sort(key=lambda job: (job.finished_at if query.is_by_finish else 0, job.id), reverse=True)
        found = chosen[: query.limit]
        return [replace(job, payload="null", result=None) for job in found] if query.is_light else found

    async def find_some(self, query: JobQuery) -> JobSlice:
        if query.is_count:
            return JobSlice((), None, sum(_matches(job, query) for job in self.jobs.values()))
        jobs = await self.find(query)
        return JobSlice(jobs, query.position_of(jobs[-1]) if jobs and len(jobs) == query.limit else None)

    async def attempts(self, job_id: JobId) -> Sequence[Attempt]:
        return list(self.runs.get(job_id, ()))

    async def census(self, known: CompletedCount | None = None) -> Census:  # noqa: ARG002 - all are counted
        living = Counter(
            (Lane(job.queue, job.type), job.state) for job in self.jobs.values() if job.state not in FINISHED
        )
        lanes = tuple(
            LaneCount(lane, state, count, self._due_since(lane, state)) for (lane, state), count in living.items()
        )
        finished = Counter(job.state for job in self.jobs.values() if job.state in FINISHED)
        return Census(lanes, dict(finished), dict(self.pruned))

    def _due_since(self, lane: Lane, state: State) -> datetime | None:
        jobs = [job for job in self.jobs.values() if (job.queue, job.type, job.state) == (*lane, state)]
        if state is State.QUEUED:
            return min(self.due_since[job.id] for job in jobs)
        if state is not State.PENDING:
            return None
        return self.due_since[min(jobs, key=lambda job: (turn(self.due_since[job.id], job.priority), job.id)).id]

    async def timetable(self) -> Timetable:
        jobs = self.jobs.values()
        plans = [plan for plan in self.plans.values() if plan.next_fire_at is not None and plan.paused_at is None]
        return Timetable(
            self.at(None),
            job=min((job.run_at for job in jobs if job.state in TIMED), default=None),
            lease=min((job.lease_until for job in jobs if job.lease_until is not None), default=None),
            expiry=min(
                (job.expires_at for job in jobs if job.state in WAITING and job.expires_at is not None), default=None
            ),
            schedule=min((plan.next_fire_at for plan in plans if plan.next_fire_at is not None), default=None),
            wait=min((step.until for step in self.open_waits() if step.until is not None), default=None),
        )

    def open_waits(self) -> list[Step]:
        """Return the steps that wait for events."""
        return [step for step in self.guarded.values() if step.kind is StepKind.EVENT and not step.is_done]

    def wake(self, job_id: JobId, now: datetime) -> str | None:
        """Make a blocked job pending, and give its queue."""
        job = self.jobs.get(job_id)
        if job is None or job.state is not State.BLOCKED:
            return None
        self.waits.pop(job_id, None)
        self.jobs[job_id] = replace(job, state=State.PENDING, run_at=now, blockers=0, updated_at=now)
        self.due_since[job_id] = now
        return job.queue

    async def discard(
        self, ids: Sequence[JobId], *, entry: LedgerEntry | None = None, now: datetime | None = None
    ) -> Sequence[JobId]:
        moment = self.at(now)
        may_go = {State.DEAD, State.CANCELLED}
        needed = self._needed(moment)
        gone = [job.id for job in await self.get(ids) if job.state in may_go and job.id not in needed]
        self.forget(gone)
        self.write(entry if gone else None, moment)
        return gone

    async def edges(self, *, children: Sequence[JobId] = (), parents: Sequence[JobId] = ()) -> Sequence[Edge]:
        return [
            Edge(wait.on, child, wait.need, wait.on not in self.waits.get(child, ()))
            for child, named in sorted(self.named.items())
            for wait in named
            if child in children or (not children and wait.on in parents)
        ]

    async def ahead(self, job_id: JobId, types: Sequence[str], limit: int) -> Ahead:
        own = self.jobs[job_id]
        if own.state is not State.PENDING or own.concurrency_key is not None:
            return Ahead(0, 0)

        def place(job: Job) -> tuple[int, JobId]:
            return turn(self.due_since[job.id], job.priority), job.id

        before = [
            job
            for job in self.jobs.values()
            if job.state is State.PENDING
            and job.concurrency_key is None
            and job.queue == own.queue
            and job.type in types
            and place(job) < place(own)
        ]
        before.sort(key=place)
        return Ahead(len(before[:limit]), sum(job.priority > own.priority for job in before[:limit]))

    async def blockers(self, job_id: JobId, limit: int) -> Sequence[JobId]:
        return sorted(self.waits.get(job_id, ()))[:limit]

    async def dead_groups(self, limit: int) -> Sequence[DeadGroup]:
        groups: dict[tuple[str, str | None], list[Job]] = {}
        for job in self.jobs.values():
            if job.state is State.DEAD:
                cause = job.error.fingerprint(job.type) if job.error is not None else None
                groups.setdefault((job.type, cause), []).append(job)
        largest_first = sorted(groups.items(), key=lambda group: -len(group[1]))
        return [_dead_group(*group) for group in largest_first[:limit]]

    async def dead_trend(self, since: datetime, step: timedelta) -> Sequence[DeathCount]:
        counts: Counter[tuple[str, str | None, int]] = Counter()
        for job in self.jobs.values():
            if job.state is State.DEAD and job.finished_at is not None and job.finished_at >= since:
                cause = job.error.fingerprint(job.type) if job.error is not None else None
                counts[job.type, cause, (job.finished_at - since) // step] += 1
        return [DeathCount(*place, count) for place, count in counts.items()]

    def _needed(self, now: datetime) -> set[JobId]:
        """Return the jobs that must stay: an unfinished one waited for them, or their key is still kept."""
        wanted = {
            parent for child, parents in self.parents.items() if self.jobs[child].state in WANTING for parent in parents
        }
        return wanted | {kept.job_id for kept in self.keys.values() if kept.until > now}

    def prunable(self, retention: Retention, now: datetime) -> set[JobId]:
        """Return which jobs may be deleted: they ended long enough ago and no job needs them any more."""
        needed = self._needed(now)
        return {
            job.id
            for job in self.jobs.values()
            if (kept := _kept_for(retention, job.state)) is not None
            and job.finished_at is not None
            and job.finished_at + kept <= now
            and job.id not in needed
        }

    async def prune(self, retention: Retention, limit: int, *, now: datetime | None = None) -> int:
        moment = self.at(now)
        chosen = sorted(self.prunable(retention, moment))[:limit]
        self.forget(chosen)
        if retention.history is not None:
            self._forget_history(moment - retention.history)
        return len(chosen)

    def forget(self, jobs: Iterable[JobId]) -> None:
        for job_id in jobs:
            self.pruned[self.jobs.pop(job_id).state] += 1
            self.runs.pop(job_id, None)
            self.parents.pop(job_id, None)
            for name in [name for name, kept in self.keys.items() if kept.job_id == job_id]:
                del self.keys[name]
            for step in [step for step in self.guarded if step[0] == job_id]:
                del self.guarded[step]

    def _forget_history(self, horizon: datetime) -> None:
        for name in [name for name, at in self.fired_at.items() if max(at, name[1]) <= horizon]:
            del self.fired[name], self.fired_at[name]
        for boot in [boot for boot, member in self.fleet.items() if member.seen_at and member.seen_at <= horizon]:
            del self.fleet[boot]
        below = compose(int(horizon.timestamp() * 1000), 0)
        self.acts = {one.id: one for one in self.acts.values() if one.id >= below or one.due_at is not None}
        while len(self.book) > 1 and self.book[0].at is not None and self.book[0].at <= horizon:
            del self.book[0]


def _dead_group(cause: tuple[str, str | None], jobs: Sequence[Job]) -> DeadGroup:
    ends = [job.finished_at for job in jobs if job.finished_at is not None]
    return DeadGroup(*cause, len(jobs), min(ends), max(ends), max(job.id for job in jobs))


def _is_paused(queue: Queue, now: datetime) -> bool:
    return queue.paused_at is not None and (queue.resume_at is None or queue.resume_at > now)


def _kept_for(retention: Retention, state: State) -> timedelta | None:
    match state:
        case State.COMPLETED:
            return retention.completed
        case State.CANCELLED:
            return retention.cancelled
        case State.DEAD:
            return retention.dead
        case _:
            return None


def _follows(job: Job, query: JobQuery) -> bool:
    if query.before is None:
        return True
    if query.finished_before is None or job.finished_at is None:
        return job.id < query.before
    return (job.finished_at, job.id) < (query.finished_before, query.before)


def _matches(job: Job, query: JobQuery) -> bool:
    is_dead_of = job.error.fingerprint(job.type) if job.error is not None and job.state is State.DEAD else None
    return (
        (not query.states or job.state in query.states)
        and (not query.types or job.type in query.types)
        and (not query.queues or job.queue in query.queues)
        and (query.tag is None or query.tag in job.tags)
        and (query.worker is None or query.worker == job.worker)
        and (query.schedule_id is None or query.schedule_id == job.schedule_id)
        and (query.fingerprint is None or query.fingerprint == is_dead_of)
        and (query.created_from is None or query.created_from <= job.created_at)
        and (query.created_until is None or job.created_at < query.created_until)
        and (not query.ids or job.id in query.ids)
        and query.keeps(job)
        and _follows(job, query)
    )
