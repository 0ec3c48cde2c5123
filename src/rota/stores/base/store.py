"""The part of the store port that is the same on every database: how a caller's arguments reach the shared verbs.

A store says how verbs run: in which transaction, on which connection, by which clock. It adds the verbs of its own
(insert, claim, settle, limits, upkeep), and what has to be notified of after a commit.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Final, Generic, TypeVar, TypeVarTuple

from rota.core.access import Token
from rota.core.cluster import Leadership, Lock, Member, Role
from rota.core.configuration import Configuration
from rota.core.graph import Node, StoredWorkflow, WorkflowId
from rota.core.history import Bucket, HistoryFlush, HistoryQuery
from rota.core.ids import LARGEST, JobId, ScheduleId
from rota.core.job import Attempt, Job
from rota.core.lease import Claim
from rota.core.ledger import LedgerEntry
from rota.core.namespace import Namespace
from rota.core.operation import Operation, OperationId
from rota.core.payload_schema import PayloadSchema
from rota.core.queue import Queue
from rota.core.saved_view import SavedView
from rota.core.schedule import Occurrence, Schedule
from rota.core.step import Resolution, Step
from rota.core.time import to_micros
from rota.core.webhook import Webhook
from rota.core.worker_orders import OrderChange, WorkerOrders
from rota.ports.rates import RateCounter
from rota.ports.store import (
    Ahead,
    Census,
    CompletedCount,
    DeadGroup,
    DeadNote,
    DeathCount,
    Edge,
    JobQuery,
    JobSlice,
)
from rota.stores import listing
from rota.stores.base import (
    cluster,
    history,
    ledger,
    namespaces,
    operations,
    queries,
    queues,
    saved_views,
    steps,
    webhooks,
    workflows,
)
from rota.stores.base import schedules as schedule_verbs
from rota.stores.base.session import Running, StoreSession
from rota.stores.limit_memory import LimitMemory

#: The range of a datetime in microseconds.
_LATEST: Final = to_micros(datetime.max.replace(tzinfo=UTC))
_EARLIEST: Final = to_micros(datetime.min.replace(tzinfo=UTC))

T = TypeVar("T")
S = TypeVar("S")
Ts = TypeVarTuple("Ts")
C = TypeVar("C", bound=StoreSession)


class BaseStore(ABC, Generic[C]):
    """The shared verbs of `rota.ports.store.Store`, over sessions of type C."""

    _memory: LimitMemory

    @abstractmethod
    async def _read(self, verb: Callable[[C, *Ts], Running[T]], *arguments: *Ts) -> T:
        """Run a verb that changes nothing."""

    @abstractmethod
    async def _read_at(self, verb: Callable[[C, *Ts, int], Running[T]], *arguments: *Ts, now: datetime | None) -> T:
        """Run a verb that changes nothing, with the time as its last argument."""

    @abstractmethod
    async def _read_snapshot(self, verb: Callable[[C, *Ts], Running[T]], *arguments: *Ts) -> T:
        """Run a verb of several reads on one snapshot."""

    @abstractmethod
    async def _count(self, verb: Callable[[C, *Ts], Running[T]], *arguments: *Ts) -> T:
        """Run a verb that reads many rows, on one snapshot, such that it delays no other."""

    @abstractmethod
    async def _write(self, verb: Callable[[C, *Ts, int], Running[T]], *arguments: *Ts, now: datetime | None) -> T:
        """Run a verb in a transaction, with the time as its last argument."""

    @abstractmethod
    async def _write_untimed(self, verb: Callable[[C, *Ts], Running[T]], *arguments: *Ts) -> T:
        """Run a verb in a transaction that needs no time."""

    @abstractmethod
    async def _find(self, query: JobQuery, size: int) -> JobSlice:
        """Return the jobs that match a query among the next `size` candidates of each index."""

    async def _write_recorded(
        self, verb: Callable[[C, S, int], Running[T]], subject: S, entry: LedgerEntry | None, now: datetime | None
    ) -> T:
        """Run a verb and, if it changed anything, append an audit entry in the same transaction."""

        async def run(session: C, moment: int) -> T:
            return await ledger.recorded(session, verb, subject, entry, moment)

        return await self._write(run, now=now)

    # Jobs

    async def find(self, query: JobQuery) -> Sequence[Job]:
        return await listing.find(self._find, query)

    async def find_some(self, query: JobQuery) -> JobSlice:
        return await listing.find_some(self._find, query)

    async def get(self, ids: Sequence[JobId]) -> Sequence[Job]:
        return await self._read(queries.get, ids)

    async def attempts(self, job_id: JobId) -> Sequence[Attempt]:
        return await self._read_snapshot(queries.attempts, job_id)

    async def census(self, known: CompletedCount | None = None) -> Census:
        return await self._count(queries.census, known)

    async def blockers(self, job_id: JobId, limit: int) -> Sequence[JobId]:
        return await self._read(queries.blockers, job_id, limit)

    async def ahead(self, job_id: JobId, types: Sequence[str], limit: int) -> Ahead:
        return await self._read(queries.ahead, job_id, types, limit)

    async def edges(self, *, children: Sequence[JobId] = (), parents: Sequence[JobId] = ()) -> Sequence[Edge]:
        if children:
            return await self._read(queries.parents_of, children)
        return await self._read(queries.children_of, parents)

    async def dead_groups(self, limit: int) -> Sequence[DeadGroup]:
        return await self._count(queries.dead_groups, limit)

    async def dead_trend(self, since: datetime, step: timedelta) -> Sequence[DeathCount]:
        return await self._count(queries.dead_trend, to_micros(since), step // timedelta(microseconds=1))

    async def put_dead_note(
        self, note: DeadNote, *, entry: LedgerEntry | None = None, now: datetime | None = None
    ) -> bool:
        return await self._write_recorded(queries.put_dead_note, note, entry, now)

    async def dead_notes(self) -> Sequence[DeadNote]:
        return await self._read(queries.dead_notes)

    def limit_pause(self, claim: Claim) -> timedelta | None:
        return self._memory.pause(claim)

    def count_rates_with(self, counter: RateCounter) -> None:
        self._memory.rate_counter = counter

    def frees_permit(self, ids: Collection[JobId]) -> bool:
        return self._memory.note_settled(ids)

    # Steps

    async def intend(
        self, job_id: JobId, fence: int, key: str, *, now: datetime | None = None
    ) -> tuple[Step, bool] | None:
        return await self._write(steps.intend, job_id, fence, key, now=now)

    async def conclude(
        self, job_id: JobId, fence: int, key: str, outcome: str, *, now: datetime | None = None
    ) -> Step | None:
        return await self._write(steps.conclude, job_id, fence, key, outcome, now=now)

    async def withdraw(self, job_id: JobId, fence: int, key: str) -> bool:
        return await self._write_untimed(steps.withdraw, job_id, fence, key)

    async def step(self, job_id: JobId, key: str) -> Step | None:
        return await self._read(steps.step, job_id, key)

    async def resolve(
        self, resolution: Resolution, *, entry: LedgerEntry | None = None, now: datetime | None = None
    ) -> bool:
        return await self._write_recorded(steps.resolve, resolution, entry, now)

    async def steps(self, job_id: JobId) -> Sequence[Step]:
        return await self._read(steps.steps, job_id)

    # Schedules

    async def put_schedules(
        self, schedules: Sequence[Schedule], *, entry: LedgerEntry | None = None, now: datetime | None = None
    ) -> Sequence[ScheduleId]:
        return await self._write_recorded(schedule_verbs.put_schedules, schedules, entry, now)

    async def schedules(
        self, ids: Sequence[ScheduleId] = (), *, names: Sequence[str] = (), after: str = "", limit: int = 1000
    ) -> Sequence[Schedule]:
        return await self._read(schedule_verbs.schedules, ids, names, after, limit)

    async def due_schedules(self, limit: int, *, now: datetime | None = None) -> Sequence[Schedule]:
        return await self._read_at(schedule_verbs.due_schedules, limit, now=now)

    async def drop_schedules(
        self, ids: Sequence[ScheduleId], *, entry: LedgerEntry | None = None, now: datetime | None = None
    ) -> Sequence[ScheduleId]:
        return await self._write_recorded(schedule_verbs.drop_schedules, ids, entry, now)

    async def occurrences(
        self, schedule_id: ScheduleId, *, before: datetime | None = None, limit: int = 100
    ) -> Sequence[Occurrence]:
        end = _LATEST if before is None else to_micros(before)
        return await self._read(schedule_verbs.occurrences, schedule_id, end, limit)

    # Members, leadership, locks, queues

    async def beat(self, members: Sequence[Member], *, now: datetime | None = None) -> Mapping[str, WorkerOrders]:
        return await self._write(cluster.beat, members, now=now)

    async def order(
        self, change: OrderChange, *, entry: LedgerEntry | None = None, now: datetime | None = None
    ) -> bool:
        return await self._write_recorded(cluster.order, change, entry, now)

    async def members(self, *, role: Role | None = None, since: datetime | None = None) -> Sequence[Member]:
        return await self._read(cluster.members, role, _EARLIEST if since is None else to_micros(since))

    async def leave(self, boots: Iterable[str]) -> None:
        await self._write_untimed(cluster.leave, list(boots))

    async def lead(self, name: str, holder: str, lasting: timedelta, *, now: datetime | None = None) -> Leadership:
        return await self._write(cluster.lead, name, holder, lasting, now=now)

    async def leader(self, name: str, *, now: datetime | None = None) -> Leadership | None:
        return await self._read_at(cluster.leader, name, now=now)

    async def resign(self, name: str, holder: str) -> None:
        await self._write_untimed(cluster.resign, name, holder)

    async def lock(self, name: str, holder: str, lasting: timedelta, *, now: datetime | None = None) -> Lock | None:
        return await self._write(cluster.lock, name, holder, lasting, now=now)

    async def unlock(self, name: str, holder: str | None, *, now: datetime | None = None) -> Lock | None:
        return await self._write(cluster.unlock, name, holder, now=now)

    async def locks(self, *, now: datetime | None = None) -> Sequence[Lock]:
        return await self._read_at(cluster.locks, now=now)

    async def configuration(self) -> Configuration:
        return await self._read(cluster.configuration)

    async def configure(self, key: str, value: str | None) -> None:
        await self._write_untimed(cluster.configure, key, value)

    async def put_queue(self, queue: Queue, *, entry: LedgerEntry | None = None, now: datetime | None = None) -> bool:
        return await self._write_recorded(queues.put_queue, queue, entry, now)

    async def queues(self) -> Sequence[Queue]:
        return await self._read(queues.queues)

    # Audit log and tokens

    async def record(self, entries: Sequence[LedgerEntry], *, now: datetime | None = None) -> None:
        await self._write(ledger.record, entries, now=now)

    async def ledger(self, *, before: int | None = None, limit: int = 100) -> Sequence[LedgerEntry]:
        return await self._read(ledger.ledger, LARGEST if before is None else before, limit)

    async def put_tokens(self, tokens: Sequence[Token], *, entry: LedgerEntry | None = None) -> None:
        await self._write_recorded(ledger.put_tokens, tokens, entry, None)

    async def tokens(self, *, ids: Sequence[str] = ()) -> Sequence[Token]:
        return await self._read(ledger.tokens, ids)

    # Webhooks and operations

    async def put_webhook(self, webhook: Webhook, *, entry: LedgerEntry | None = None) -> bool:
        return await self._write_recorded(webhooks.put_webhook, webhook, entry, None)

    async def webhooks(self) -> Sequence[Webhook]:
        return await self._read(webhooks.webhooks)

    async def put_namespace(self, namespace: Namespace, *, entry: LedgerEntry | None = None) -> bool:
        return await self._write_recorded(namespaces.put_namespace, namespace, entry, None)

    async def namespaces(self) -> Sequence[Namespace]:
        return await self._read(namespaces.namespaces)

    async def put_view(self, view: SavedView, *, entry: LedgerEntry | None = None, now: datetime | None = None) -> bool:
        return await self._write_recorded(saved_views.put_view, view, entry, now)

    async def views(self, owners: Sequence[str]) -> Sequence[SavedView]:
        return await self._read(saved_views.views, owners)

    async def put_operation(
        self, operation: Operation, *, entry: LedgerEntry | None = None, now: datetime | None = None
    ) -> bool:
        return await self._write_recorded(operations.put_operation, operation, entry, now)

    async def operation(self, operation_id: OperationId) -> Operation | None:
        return await self._read(operations.operation, operation_id)

    async def operations(self, *, before: OperationId | None = None, limit: int = 100) -> Sequence[Operation]:
        return await self._read(operations.operations, LARGEST if before is None else before, limit)

    async def due_operations(self, limit: int, *, now: datetime | None = None) -> Sequence[Operation]:
        return await self._read_at(operations.due_operations, limit, now=now)

    # History

    async def add_history(self, flush: HistoryFlush, *, now: datetime | None = None) -> bool:
        return await self._write(history.add_history, flush, now=now)

    async def history(self, query: HistoryQuery, *, limit: int = 50_000) -> Sequence[Bucket]:
        return await self._read(history.history, query, limit)

    async def prune_history(self, limit: int, *, now: datetime | None = None) -> int:
        return await self._write(history.prune_history, limit, now=now)

    async def register_schemas(self, schemas: Mapping[str, str], *, now: datetime | None = None) -> None:
        if schemas:
            await self._write(history.register_schemas, schemas, now=now)

    async def payload_schema(self, type_: str) -> PayloadSchema | None:
        return await self._read(history.payload_schema, type_)

    # Workflows

    async def workflows(
        self, ids: Sequence[WorkflowId] | None = None, *, before: WorkflowId | None = None, limit: int = 100
    ) -> Sequence[StoredWorkflow]:
        return await self._read_snapshot(workflows.workflows, ids, LARGEST if before is None else before, limit)

    async def nodes(self, workflow_id: WorkflowId) -> Sequence[Node]:
        return await self._read(workflows.nodes, workflow_id)

    async def nodes_of_jobs(self, ids: Sequence[JobId]) -> Sequence[Node]:
        return await self._read(workflows.nodes_of_jobs, ids)
