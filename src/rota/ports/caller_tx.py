"""Caller transactions: submit jobs and record steps on the caller's own database connection and transaction.

What is stored exists exactly if the caller commits. Rota never commits, never rolls back more than its own savepoint,
and never keeps the connection. Errors of the caller's driver reach the caller unchanged.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Sequence
from datetime import datetime
from typing import Any, Protocol, TypeVar

from rota.core.graph import NewWorkflow
from rota.core.ids import JobId
from rota.core.step import Step
from rota.core.submission import NewJob
from rota.core.value import value
from rota.core.waiting import Emission, Emitted
from rota.ports.store import Inserted

T = TypeVar("T")
#: Makes the jobs, or a workflow, for a time by the store's clock. Another call takes other ids.
MakeJobs = Callable[[datetime], Sequence[NewJob] | NewWorkflow]


class CallerTransaction(Protocol):
    """Store verbs within the caller's transaction. With a blocking driver, no verb ever suspends."""

    async def insert(self, make: MakeJobs, *, bound: int | None = None) -> Sequence[Inserted]:
        """Store new jobs as `JobStore.insert` does, or a workflow with its jobs, but all of them or none.

        Each job is answered, in order. A workflow is not stored if one of its jobs was submitted before.

        If one is refused, or anything is raised, the transaction is left as it was. Workers are woken soon after the
        commit, and not before.
        """
        ...

    async def step(self, job_id: JobId, key: str) -> Step | None:
        """Return a step as this transaction sees it. Takes no lock that others wait for."""
        ...

    async def conclude(self, job_id: JobId, fence: int, key: str, outcome: str) -> tuple[Step, bool] | None:
        """Record that a step happens in this transaction, and return whether that is new.

        None if the job no longer runs under this fence. Otherwise the job is locked until the transaction ends: an
        attempt that lost its lease cannot commit, and one that has it cannot lose it before.
        """
        ...

    async def emit(self, emission: Emission) -> Emitted:
        """Emit an event as `EventStore.emit` does; jobs are woken soon after the commit."""
        ...


class OpenCallerTransaction(Protocol):
    """Opens a `CallerTransaction` on a connection that a handler passes."""

    def __call__(self, tx: object, *, is_async: bool) -> Awaitable[CallerTransaction]:
        """Open it, or refuse a connection to another database, or of the wrong kind (async, blocking)."""
        ...


@value
class CallerTxConfig:
    """How a process opens caller transactions: the factory, as `module:function`, and its arguments."""

    factory: str
    url: str
    #: The setting `encryption_keys`; with keys, the results of steps are encrypted.
    encryption_keys: str = ""

    def __repr__(self) -> str:
        # Without the URL, which may have a password, and the keys.
        return f"<CallerTxConfig {self.factory}>"


def run_sync(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine that never suspends, without an event loop."""
    try:
        coroutine.send(None)
    except StopIteration as end:
        result: T = end.value
        return result
    coroutine.close()
    raise RuntimeError("the coroutine suspended, on a connection whose calls must block")
