"""A guest: the caller's own connection to the store's database, in a transaction that is the caller's.

What is stored through it exists exactly if the caller commits. We never commit, never roll back more than we did
ourselves, and never keep the connection. Whatever the caller's driver raises is the caller's, and reaches it as it is.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Sequence
from datetime import datetime
from typing import Any, Protocol, TypeVar

from rota.core.identity import JobId
from rota.core.step import Step
from rota.core.submission import NewJob
from rota.core.value import value
from rota.ports.store import Inserted

T = TypeVar("T")
#: Makes the jobs, told what time it is by the store's clock. Called anew, it takes other ids.
Make = Callable[[datetime], Sequence[NewJob]]


class Guest(Protocol):
    """Acts within the caller's transaction. On a driver that blocks, no verb ever suspends."""

    async def insert(self, make: Make, *, bound: int | None = None) -> Sequence[Inserted]:
        """Store new jobs as `JobStore.insert` does, but all of them or none, and answer each, in order.

        If one of them is refused, or anything is raised, the transaction is left as it was. Others hear of the jobs
        soon after the commit, and not before.
        """
        ...

    async def step(self, job_id: JobId, key: str) -> Step | None:
        """Give a step as this transaction sees it. Takes no lock that others wait for."""
        ...

    async def conclude(self, job_id: JobId, fence: int, key: str, outcome: str) -> tuple[Step, bool] | None:
        """Write down that a step happens in this transaction, and say whether that is new.

        None when the job no longer runs under this fence. Otherwise nobody can take it away until the transaction ends,
        so an attempt that lost its job cannot commit, and one that holds it cannot lose it before.
        """
        ...


class Welcome(Protocol):
    """Makes a guest of a connection of a handler's."""

    def __call__(self, tx: object, *, is_async: bool) -> Awaitable[Guest]:
        """Make it, or refuse a connection that does not lead to the store, or is of the other kind."""
        ...


@value
class House:
    """How any process makes guests: what gives a `Welcome`, as ``module:function``, and the store's address for it."""

    factory: str
    url: str


def at_once(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine that never suspends, without any loop."""
    try:
        coroutine.send(None)
    except StopIteration as end:
        result: T = end.value
        return result
    coroutine.close()
    raise RuntimeError("a driver that was to block has suspended instead")
