"""The store port, second part: cluster, limits, breakers, ledger, tokens, webhooks, namespaces, operations, history of
counts. The obligations of all verbs are in `rota.ports.store`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Protocol

from rota.core.access import Token
from rota.core.breaker import CallCount, CircuitBreaker
from rota.core.cluster import ClusterView, Leadership, Lock, Member, MemberHeartbeat, Role
from rota.core.configuration import Configuration
from rota.core.history import Bucket, HistoryFlush, HistoryQuery
from rota.core.ids import JobId
from rota.core.lease import Claim
from rota.core.ledger import LedgerEntry
from rota.core.limit import Limit, LimitUsage
from rota.core.namespace import Namespace
from rota.core.operation import Operation, OperationId
from rota.core.payload_schema import PayloadSchema
from rota.core.queue import Queue
from rota.core.saved_view import SavedView
from rota.core.webhook import Webhook
from rota.core.worker_orders import OrderChange, WorkerOrders
from rota.ports.rates import RateCounter


class ClusterStore(Protocol):
    """Members, leadership and the settings of queues."""

    async def beat(self, members: Sequence[Member], *, now: datetime | None = None) -> Mapping[str, WorkerOrders]:
        """Record that these processes are alive, with their description, and return the orders for them, by boot.

        `orders` of a member are not written. A process without orders is absent from the answer.
        """
        ...

    async def order(
        self, change: OrderChange, *, entry: LedgerEntry | None = None, now: datetime | None = None
    ) -> bool:
        """Set the orders for a recorded process if they are as they were, and return whether they were set.

        They are returned by its heartbeats from then on. In the same transaction `entry` is written to the ledger if
        they were set.
        """
        ...

    async def members(self, *, role: Role | None = None, since: datetime | None = None) -> Sequence[Member]:
        """Return the recorded processes of a role, seen at or after `since`; ordered by name and start."""
        ...

    async def leave(self, boots: Iterable[str]) -> None:
        """Delete the records of processes that have stopped."""
        ...

    async def lead(self, name: str, holder: str, lasting: timedelta, *, now: datetime | None = None) -> Leadership:
        """Take or keep the lead if no other holder has it, and return the current lead.

        At most one holder at a time by the store's clock; the term grows whenever the holder changes.
        """
        ...

    async def leader(self, name: str, *, now: datetime | None = None) -> Leadership | None:
        """Return the current lead; None if no process has it. Changes nothing."""
        ...

    async def resign(self, name: str, holder: str) -> None:
        """Give up the lead at once, if `holder` has it."""
        ...

    async def lock(self, name: str, holder: str, lasting: timedelta, *, now: datetime | None = None) -> Lock | None:
        """Take or keep a named lock if no other holder has it; else return None. Never waits.

        Its fence is greater than that of every earlier holder of this name.
        """
        ...

    async def unlock(self, name: str, holder: str | None, *, now: datetime | None = None) -> Lock | None:
        """Release a lock if `holder` has it (None: any holder), and return the lock that was released."""
        ...

    async def locks(self, *, now: datetime | None = None) -> Sequence[Lock]:
        """Return the locks that are held, by name."""
        ...

    async def configuration(self) -> Configuration:
        """Return the shared configuration. Its revision grows with every change."""
        ...

    async def configure(self, key: str, value: str | None) -> None:
        """Set a key of the shared configuration, or remove it (None). Changes of other keys at once hold as well."""
        ...

    async def check_in(self, heartbeat: MemberHeartbeat, *, now: datetime | None = None) -> ClusterView:
        """Record members as `beat` does, take or keep a lead as `lead` does, and return the view of the cluster.

        Without a `holder` it returns the leader, as `leader` does. If the lead changes at this moment, the answer may
        name no leader, but never one whose term has ended. One statement if the store can do it in one, because every
        process does this every few seconds.
        """
        ...

    async def put_queue(self, queue: Queue, *, entry: LedgerEntry | None = None, now: datetime | None = None) -> bool:
        """Write a queue's settings if their version is current; False if they were changed meanwhile."""
        ...

    async def queues(self) -> Sequence[Queue]:
        """Return the queues that have settings, by name."""
        ...


class LimitStore(Protocol):
    """Limits: how many jobs of a queue, task or key may run at once, and how often they may start."""

    def limit_pause(self, claim: Claim) -> timedelta | None:
        """Return after which time a claim that found nothing should be repeated because of a limit, once. Reads
        nothing.
        """
        ...

    def count_rates_with(self, counter: RateCounter) -> None:
        """Let a counter outside the store count fast rates; a store whose claims cannot wait for it ignores it."""
        ...

    def frees_permit(self, ids: Collection[JobId]) -> bool:
        """Return whether one of these jobs, which have ended, was claimed here under a limit. Reads nothing."""
        ...

    async def put_limits(
        self, limits_: Sequence[Limit], *, entry: LedgerEntry | None = None, now: datetime | None = None
    ) -> Sequence[str]:
        """Create or replace limits, and return their names. Whether a limit is closed stays as it is.

        It holds for each claim that begins afterwards. Jobs that run already are not affected.
        """
        ...

    async def close_limit(self, limit: Limit, *, entry: LedgerEntry | None = None, now: datetime | None = None) -> None:
        """Write `closed_until` and `reason` of a limit: no job starts under it until then. What it allows stays."""
        ...

    async def drop_limit(self, name: str, *, entry: LedgerEntry | None = None, now: datetime | None = None) -> bool:
        """Delete a limit, and return whether there was one."""
        ...

    async def limits(
        self, names: Sequence[str] | None = None, *, after: str = "", limit: int = 1000
    ) -> Sequence[Limit]:
        """Return limits by name; without names, all of them ordered by name, those after `after`."""
        ...

    async def limit_usage(self, limit: Limit, *, now: datetime | None = None) -> LimitUsage:
        """Count what runs and waits under a limit. The limit itself is used as it is given."""
        ...


class BreakerStore(Protocol):
    """Circuit breakers, and the calls that they count."""

    async def breakers(
        self, names: Sequence[str] | None = None, *, after: str = "", limit: int = 1000
    ) -> Sequence[CircuitBreaker]:
        """Return breakers by name; without names, all of them ordered by name, those after `after`."""
        ...

    async def put_breaker(
        self, breaker: CircuitBreaker, *, entry: LedgerEntry | None = None, now: datetime | None = None
    ) -> bool:
        """Create or change a breaker if it still has the version that was read, 0 if there was none; False if not.

        While it is open, jobs of its tasks and with its key start only as its limit allows: this holds for each claim
        that begins afterwards. The calls counted for it are forgotten.
        """
        ...

    async def count_calls(
        self, source: str, counts: Sequence[CallCount], *, now: datetime | None = None
    ) -> Sequence[CallCount]:
        """Add to the calls that a process has counted, and return those of all processes within each window."""
        ...

    async def calls(self, counts: Sequence[CallCount], *, now: datetime | None = None) -> Sequence[CallCount]:
        """Return the calls that all processes have counted within each window. Changes nothing."""
        ...


class LedgerStore(Protocol):
    """The ledger of operators' actions, and API tokens."""

    async def record(self, entries: Sequence[LedgerEntry], *, now: datetime | None = None) -> None:
        """Append entries to the ledger, each chained to the one before."""
        ...

    async def ledger(self, *, before: int | None = None, limit: int = 100) -> Sequence[LedgerEntry]:
        """Return the ledger's entries, newest first."""
        ...

    async def put_tokens(self, tokens: Sequence[Token], *, entry: LedgerEntry | None = None) -> None:
        """Create or change tokens by id; a revocation is never undone."""
        ...

    async def tokens(self, *, ids: Sequence[str] = ()) -> Sequence[Token]:
        """Return tokens by id; without ids, all of them."""
        ...


class WebhookStore(Protocol):
    """Webhooks: addresses that are notified of events."""

    async def put_webhook(self, webhook: Webhook, *, entry: LedgerEntry | None = None) -> bool:
        """Create (version 0) or replace a webhook whose version is current; False if it was changed meanwhile.

        The ledger's entry is written with it.
        """
        ...

    async def webhooks(self) -> Sequence[Webhook]:
        """Return all webhooks, also disabled and removed ones, by id."""
        ...


class NamespaceStore(Protocol):
    """Namespaces: the other stores of this deployment, listed in the default one."""

    async def put_namespace(self, namespace: Namespace, *, entry: LedgerEntry | None = None) -> bool:
        """Create (version 0) or replace a namespace whose version is current; False if it was changed meanwhile.

        The ledger's entry is written with it.
        """
        ...

    async def namespaces(self) -> Sequence[Namespace]:
        """Return all namespaces, also deleted ones, by name."""
        ...


class SavedViewStore(Protocol):
    """Saved views of the list of jobs."""

    async def put_view(self, view: SavedView, *, entry: LedgerEntry | None = None, now: datetime | None = None) -> bool:
        """Set an owner's view at the store's time, or remove it; False if there was none to remove.

        The last view of a name counts. The ledger's entry is written with it.
        """
        ...

    async def views(self, owners: Sequence[str]) -> Sequence[SavedView]:
        """Return the views of some owners, by owner and name."""
        ...


class OperationStore(Protocol):
    """Operations: actions on all jobs of a selection."""

    async def put_operation(
        self, operation: Operation, *, entry: LedgerEntry | None = None, now: datetime | None = None
    ) -> bool:
        """Create (version 0) or replace an operation whose version is current; False if it was changed meanwhile.

        The version written is one greater.
        """
        ...

    async def operation(self, operation_id: OperationId) -> Operation | None:
        """Return an operation; None if there is none of this id."""
        ...

    async def operations(self, *, before: OperationId | None = None, limit: int = 100) -> Sequence[Operation]:
        """Return operations, newest first, those before an id."""
        ...

    async def due_operations(self, limit: int, *, now: datetime | None = None) -> Sequence[Operation]:
        """Return up to `limit` operations whose `due_at` has come, the longest due first. Changes nothing."""
        ...


class HistoryStore(Protocol):
    """Counts of jobs by minute and hour, to which every process adds."""

    async def add_history(self, flush: HistoryFlush, *, now: datetime | None = None) -> bool:
        """Add counts to their buckets, and return whether they were added.

        A flush whose number is not greater than the last one of its writer was added before and is ignored. Concurrent
        writers lose nothing. A bucket has a bounded number of lanes; the rest is counted as `OTHER`.
        """
        ...

    async def history(self, query: HistoryQuery, *, limit: int = 50_000) -> Sequence[Bucket]:
        """Return the stored buckets of a span, oldest first: by lane, or the total of all lanes."""
        ...

    async def prune_history(self, limit: int, *, now: datetime | None = None) -> int:
        """Delete up to `limit` rows of each length of bucket that are past their time, and count them.

        Payload schemas that were not registered for as long as the oldest bucket is kept are deleted too.
        """
        ...

    async def register_schemas(self, schemas: Mapping[str, str], *, now: datetime | None = None) -> None:
        """Record the JSON Schemas of payloads by task type; the last registration of a type holds."""
        ...

    async def payload_schema(self, type_: str) -> PayloadSchema | None:
        """Return what was last registered for a task type; None if nothing was."""
        ...
