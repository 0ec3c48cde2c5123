"""The reference model: the whole port over plain dictionaries.

It shares the core's decisions (`judge`, `turn`, `first_state`) with the product, because the core decides; it shares
nothing with any store. The conformance suite runs on it like on an adapter, so that the model cannot drift from what
the port says.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from conformance.model.no_limits import NoLimits
from conformance.model.workflows import Workflows
from rota.core.access import Token
from rota.core.cluster import ClusterView, Leadership, Lock, Member, MemberHeartbeat, Role
from rota.core.configuration import Configuration
from rota.core.history import TOTAL, Bucket, BucketLength, HistoryFlush, HistoryQuery, add_to_bucket, by_bucket
from rota.core.ids import JobId, to_text
from rota.core.job import Job
from rota.core.lease import Claim
from rota.core.ledger import LedgerEntry
from rota.core.lifecycle import State
from rota.core.namespace import Namespace
from rota.core.operation import Operation, OperationId
from rota.core.payload_schema import PayloadSchema
from rota.core.queue import Queue
from rota.core.saved_view import SavedView
from rota.core.step import MOST_STEPS, Resolution, Step, StepKind, too_many_steps
from rota.core.submission import NewJob
from rota.core.time import from_micros, to_micros
from rota.core.waiting import Emission, Emitted, EmittedEvent, Wait
from rota.core.webhook import Webhook
from rota.core.worker_orders import NO_ORDERS, OrderChange, WorkerOrders
from rota.ports.store import DeadNote, Retention, StoreCondition, TableSize

_LONG_AGO = datetime.min.replace(tzinfo=UTC)


class Steps(Workflows):
    async def intend(
        self, job_id: JobId, fence: int, key: str, *, now: datetime | None = None
    ) -> tuple[Step, bool] | None:
        if not self.holds(job_id, fence):
            return None
        is_new = (job_id, key) not in self.guarded
        self._require_room(job_id, is_new=is_new)
        step = self.guarded.setdefault((job_id, key), Step(job_id, key, fence, self.at(now)))
        return step, is_new

    async def conclude(
        self, job_id: JobId, fence: int, key: str, outcome: str, *, now: datetime | None = None
    ) -> Step | None:
        step = self.guarded.get((job_id, key))
        if step is None or not self.holds(job_id, fence):
            return None
        if not step.is_done:
            step = self.guarded[job_id, key] = replace(step, ended_at=self.at(now), outcome=outcome)
        return step

    async def withdraw(self, job_id: JobId, fence: int, key: str) -> bool:
        step = self.guarded.get((job_id, key))
        if step is None or step.is_done or step.kind is not StepKind.EFFECT or not self.holds(job_id, fence):
            return False
        del self.guarded[job_id, key]
        return True

    def _require_room(self, job_id: JobId, *, is_new: bool) -> None:
        if is_new and sum(one == job_id for one, _ in self.guarded) >= MOST_STEPS:
            raise too_many_steps(job_id)

    async def begin_wait(
        self, job_id: JobId, fence: int, wait: Wait, *, child: NewJob | None = None, now: datetime | None = None
    ) -> Step | None:
        if not self.holds(job_id, fence):
            return None
        moment, place = self.at(now), (job_id, wait.key)
        if place not in self.guarded:
            self._require_room(job_id, is_new=True)
            subject = wait.event
            if child is not None:
                made = self.make(child, moment)
                self.parents.setdefault(job_id, set()).add(made)
                subject = to_text(made)
            until = None if wait.span is None else moment + wait.span
            self.guarded[place] = Step(job_id, wait.key, fence, moment, kind=wait.kind, until=until, subject=subject)
        step = self.guarded[place]
        if not step.is_done and step.kind is wait.kind:
            self._end_if_over(step, moment)
        return self.guarded[place]

    def _end_if_over(self, step: Step, now: datetime) -> bool:
        emitted = self._live(step.subject or "", now) if step.kind is StepKind.EVENT else None
        if emitted is None and (step.until is None or step.until > now):
            return False
        outcome = "null" if emitted is None else emitted.payload
        self.guarded[step.job_id, step.key] = replace(step, ended_at=now, outcome=outcome)
        return True

    def _live(self, name: str, now: datetime) -> EmittedEvent | None:
        found = self.events.get(name)
        return found if found is not None and found.expires_at > now else None

    async def step(self, job_id: JobId, key: str) -> Step | None:
        return self.guarded.get((job_id, key))

    async def emit(
        self, emission: Emission, *, entry: LedgerEntry | None = None, now: datetime | None = None
    ) -> Emitted:
        moment = self.at(now)
        known = self._live(emission.name, moment)
        if known is not None:
            return Emitted(known, is_new=False)
        event = EmittedEvent(emission.name, emission.payload, moment, moment + emission.keep)
        self.events[emission.name] = event
        self.write(entry, moment)
        waits = [step for step in self.open_waits() if step.subject == emission.name]
        return Emitted(event, is_new=True, queues=self._wake(waits, moment))

    async def event(self, name: str, *, now: datetime | None = None) -> EmittedEvent | None:
        return self._live(name, self.at(now))

    async def end_waits(self, limit: int, *, now: datetime | None = None) -> Mapping[str, int]:
        moment = self.at(now)
        due = [step for step in self.open_waits() if step.until is not None and step.until <= moment]
        return self._wake(sorted(due, key=lambda step: step.until or moment)[:limit], moment)

    def _wake(self, waits: Sequence[Step], now: datetime) -> Mapping[str, int]:
        woken = [self.wake(step.job_id, now) for step in waits if self._end_if_over(step, now)]
        return dict(Counter(queue for queue in woken if queue is not None))

    async def resolve(
        self, resolution: Resolution, *, entry: LedgerEntry | None = None, now: datetime | None = None
    ) -> bool:
        place = (resolution.job_id, resolution.key)
        step = self.guarded.get(place)
        job = self.jobs.get(resolution.job_id)
        if step is None or step.is_done or step.kind is not StepKind.EFFECT:
            return False
        if job is None or job.state is State.RUNNING:
            return False
        if resolution.outcome is None:
            del self.guarded[place]
        else:
            self.guarded[place] = replace(step, ended_at=self.at(now), outcome=resolution.outcome)
        self.write(entry, self.at(now))
        return True

    async def steps(self, job_id: JobId) -> Sequence[Step]:
        return [step for step in self.guarded.values() if step.job_id == job_id]


class Fleet(Steps):
    async def beat(self, members: Sequence[Member], *, now: datetime | None = None) -> Mapping[str, WorkerOrders]:
        for member in members:
            known = self.fleet.get(member.boot)
            first_seen = known.started_at if known is not None else self.at(now)
            self.fleet[member.boot] = replace(
                member,
                started_at=member.started_at or first_seen,
                seen_at=self.at(now),
                orders=NO_ORDERS if known is None else known.orders,
            )
        orders = {member.boot: self.fleet[member.boot].orders for member in members}
        return {boot: one for boot, one in orders.items() if one != NO_ORDERS}

    async def order(
        self, change: OrderChange, *, entry: LedgerEntry | None = None, now: datetime | None = None
    ) -> bool:
        known = self.fleet.get(change.boot)
        if known is None or known.orders != change.was:
            return False
        self.fleet[change.boot] = replace(known, orders=change.orders)
        self.write(entry, self.at(now))
        return True

    async def members(self, *, role: Role | None = None, since: datetime | None = None) -> Sequence[Member]:
        return sorted(
            (
                member
                for member in self.fleet.values()
                if role in {None, member.role} and (since is None or (member.seen_at or _LONG_AGO) >= since)
            ),
            key=lambda member: (member.name, member.started_at or _LONG_AGO, member.boot),
        )

    async def leave(self, boots: Iterable[str]) -> None:
        for boot in boots:
            self.fleet.pop(boot, None)

    async def lead(self, name: str, holder: str, lasting: timedelta, *, now: datetime | None = None) -> Leadership:
        moment = self.at(now)
        old = self.leads.get(name, Leadership(name, "", 0, _LONG_AGO))
        if old.holder == holder or old.until <= moment:
            term = old.term + (old.holder != holder)
            self.leads[name] = Leadership(name, holder, term, moment + lasting)
        return self.leads[name]

    async def leader(self, name: str, *, now: datetime | None = None) -> Leadership | None:
        found = self.leads.get(name)
        return found if found is not None and found.until > self.at(now) else None

    async def resign(self, name: str, holder: str) -> None:
        if name in self.leads and self.leads[name].holder == holder:
            self.leads[name] = replace(self.leads[name], until=_LONG_AGO)

    async def lock(self, name: str, holder: str, lasting: timedelta, *, now: datetime | None = None) -> Lock | None:
        moment = self.at(now)
        old = self.held_locks.get(name)
        if old is not None and old.holder == holder:
            lock = replace(old, until=moment + lasting)
        elif old is not None and old.until > moment:
            return None
        else:
            self.last_fence += 1
            lock = Lock(name, holder, self.last_fence, moment, moment + lasting)
            self.held_locks = {key: one for key, one in self.held_locks.items() if one.until > moment}
        self.held_locks[name] = lock
        return lock

    async def unlock(self, name: str, holder: str | None, *, now: datetime | None = None) -> Lock | None:
        old = self.held_locks.get(name)
        if old is None or holder not in (None, old.holder):
            return None
        del self.held_locks[name]
        return old if old.until > self.at(now) else None

    async def locks(self, *, now: datetime | None = None) -> Sequence[Lock]:
        return [lock for _, lock in sorted(self.held_locks.items()) if lock.until > self.at(now)]

    async def configuration(self) -> Configuration:
        values = {key: value for key, (value, _) in self.configured.items() if value is not None}
        return Configuration(values, sum(version for _, version in self.configured.values()))

    async def configure(self, key: str, value: str | None) -> None:
        self.configured[key] = (value, self.configured.get(key, (None, 0))[1] + 1)

    async def check_in(self, told: MemberHeartbeat, *, now: datetime | None = None) -> ClusterView:
        orders = await self.beat(told.members, now=now)
        if told.holder is not None:
            await self.lead(told.lead, told.holder, told.lasting, now=now)
        return ClusterView(await self.leader(told.lead, now=now), await self.configuration(), orders=orders)

    async def put_queue(self, queue: Queue, *, entry: LedgerEntry | None = None, now: datetime | None = None) -> bool:
        old = self.settings.get(queue.name)
        if queue.version != (old.version if old is not None else 0):
            return False
        self.settings[queue.name] = replace(queue, version=queue.version + 1)
        self.write(entry, self.at(now))
        return True

    async def queues(self) -> Sequence[Queue]:
        return sorted(self.settings.values(), key=lambda queue: queue.name)

    async def put_operation(
        self, operation: Operation, *, entry: LedgerEntry | None = None, now: datetime | None = None
    ) -> bool:
        old = self.acts.get(operation.id)
        if operation.version != (old.version if old is not None else 0):
            return False
        self.acts[operation.id] = replace(operation, version=operation.version + 1)
        self.write(entry, self.at(now))
        return True

    async def operation(self, operation_id: OperationId) -> Operation | None:
        return self.acts.get(operation_id)

    async def operations(self, *, before: OperationId | None = None, limit: int = 100) -> Sequence[Operation]:
        known = [one for one in self.acts.values() if before is None or one.id < before]
        return sorted(known, key=lambda one: -one.id)[:limit]

    async def due_operations(self, limit: int, *, now: datetime | None = None) -> Sequence[Operation]:
        due = [(one.due_at, one) for one in self.acts.values() if one.due_at and one.due_at <= self.at(now)]
        return [one for _, one in sorted(due, key=lambda pair: pair[0])][:limit]


class Reference(NoLimits, Fleet):
    blocking: None = None
    keeps_waiting_claims = False

    def leased_meanwhile(self, _wanted: Claim) -> Sequence[Job]:
        return ()

    async def record(self, entries: Sequence[LedgerEntry], *, now: datetime | None = None) -> None:
        for entry in entries:
            self.write(entry, self.at(now))

    async def ledger(self, *, before: int | None = None, limit: int = 100) -> Sequence[LedgerEntry]:
        return [entry for entry in reversed(self.book) if before is None or entry.number < before][:limit]

    async def put_webhook(self, webhook: Webhook, *, entry: LedgerEntry | None = None) -> bool:
        old = self.hooks.get(webhook.id)
        if webhook.version != (old.version if old is not None else 0):
            return False
        self.hooks[webhook.id] = replace(webhook, version=webhook.version + 1)
        self.write(entry, self.clock())
        return True

    async def webhooks(self) -> Sequence[Webhook]:
        return [self.hooks[name] for name in sorted(self.hooks)]

    async def put_dead_note(
        self, note: DeadNote, *, entry: LedgerEntry | None = None, now: datetime | None = None
    ) -> bool:
        cause = (note.type, note.fingerprint)
        if note.text is None and self.dead_texts.pop(cause, None) is None:
            return False
        if note.text is not None:
            self.dead_texts[cause] = replace(note, set_at=self.at(now))
        self.write(entry, self.at(now))
        return True

    async def dead_notes(self) -> Sequence[DeadNote]:
        return [self.dead_texts[cause] for cause in sorted(self.dead_texts)]

    async def put_view(self, view: SavedView, *, entry: LedgerEntry | None = None, now: datetime | None = None) -> bool:
        key = (view.owner, view.name)
        if view.query is None and self.saved.pop(key, None) is None:
            return False
        if view.query is not None:
            self.saved[key] = replace(view, saved_at=self.at(now))
        self.write(entry, self.at(now))
        return True

    async def views(self, owners: Sequence[str]) -> Sequence[SavedView]:
        return [self.saved[key] for key in sorted(self.saved) if key[0] in owners]

    async def put_namespace(self, namespace: Namespace, *, entry: LedgerEntry | None = None) -> bool:
        old = self.spaces.get(namespace.name)
        if namespace.version != (old.version if old is not None else 0):
            return False
        self.spaces[namespace.name] = replace(namespace, version=namespace.version + 1)
        self.write(entry, self.clock())
        return True

    async def namespaces(self) -> Sequence[Namespace]:
        return [self.spaces[name] for name in sorted(self.spaces)]

    async def put_tokens(self, tokens: Sequence[Token], *, entry: LedgerEntry | None = None) -> None:
        for token in tokens:
            known = self.access.get(token.id)
            revoked_at = token.revoked_at if known is None else known.revoked_at or token.revoked_at
            self.access[token.id] = replace(token, revoked_at=revoked_at)
        self.write(entry, self.clock())

    async def tokens(self, *, ids: Sequence[str] = ()) -> Sequence[Token]:
        return [token for token in self.access.values() if not ids or token.id in ids]

    async def add_history(self, flush: HistoryFlush, *, now: datetime | None = None) -> bool:
        if self.flushed.get(flush.writer, -1) >= flush.number:
            return False
        self.flushed[flush.writer] = flush.number
        for place, added in by_bucket(flush.counted, to_micros(self.at(now))).items():
            stored = self.buckets.setdefault(place, {})
            stored.update(add_to_bucket(stored, added))
        return True

    async def history(self, query: HistoryQuery, *, limit: int = 50_000) -> Sequence[Bucket]:
        return [
            Bucket(from_micros(at), lane, tally)
            for (step, at), lanes in sorted(self.buckets.items())
            if step is query.step and query.since <= from_micros(at) < query.until
            for lane, tally in sorted(lanes.items(), key=lambda one: one[0])
            if (lane != TOTAL) == query.by_lane
        ][:limit]

    async def prune_history(self, limit: int, *, now: datetime | None = None) -> int:
        oldest = self.at(now) - BucketLength.HOUR.kept
        self.schemas = {type_: one for type_, one in self.schemas.items() if one.at >= oldest}
        old = [place for place in self.buckets if from_micros(place[1]) < self.at(now) - place[0].kept]
        return sum(len(self.buckets.pop(place)) for place in old[:limit])

    async def register_schemas(self, schemas: Mapping[str, str], *, now: datetime | None = None) -> None:
        self.schemas |= {type_: PayloadSchema(body, self.at(now)) for type_, body in schemas.items()}

    async def payload_schema(self, type_: str) -> PayloadSchema | None:
        return self.schemas.get(type_)

    async def close(self) -> None:
        return None

    async def time(self) -> datetime:
        return self.clock()

    def watch_for_work(self) -> None:
        return None

    async def watch(self, at_most: timedelta, _heed: object = None) -> Collection[str]:
        await asyncio.sleep(at_most.total_seconds())
        return ()

    async def condition(self, retention: Retention, *, now: datetime | None = None) -> StoreCondition:
        ends = [self.jobs[job_id].finished_at for job_id in self.prunable(retention, self.at(now))]
        return StoreCondition(oldest_prunable=min((end for end in ends if end is not None), default=None))

    async def sizes(self) -> Sequence[TableSize]:
        return [TableSize("memory", 1)]

    async def check(self) -> Sequence[str]:
        return []
