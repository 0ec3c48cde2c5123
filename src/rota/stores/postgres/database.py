"""Transactions: how a verb runs on the server, and what is retried when it fails.

- `write`: several statements in one transaction. Until COMMIT is sent, nothing has happened, so whatever fails before
  is retried: a deadlock or a conflict a few times, a lost connection at once on another connection.
- `alone`: one statement that is a transaction of its own, which saves two round trips.
- `read`: changes nothing, and can always be retried.

If the answer to a COMMIT (or to a statement that stands alone) is lost, it is not known whether it happened: the caller
gets StoreUnavailable and decides. Dead connections are dropped, and new ones made at the next call, to whichever host
takes writes then.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from time import monotonic
from typing import Concatenate, Final, ParamSpec, TypeVar, TypeVarTuple

from asyncpg.exceptions import QueryCanceledError

from rota.core.errors import RotaError, StoreUnavailable
from rota.stores.postgres.connection import AWAY, CONNECT_SECONDS, FAULTS, REFUSED, TRANSIENT, Connector, error_of
from rota.stores.postgres.pool import Pool
from rota.stores.postgres.session import Session

#: Few connections with big batches are faster than many.
WRITERS: Final = 4
READERS: Final = 2
#: For lists and counts, so that these delay neither claims nor health checks.
LISTERS: Final = 2
#: The same where a process has the stores of many namespaces open.
FEW_WRITERS: Final = 2
FEW_LISTERS: Final = 1
#: How often a transaction is retried after a conflict with another.
MAX_CONFLICTS: Final = 20
CONFLICT_PAUSE_SECONDS: Final = 0.005
#: How often another connection is tried. A restart of the server takes longer, and is reported to the caller. No
#: connection is tried after some seconds: the caller has waited long enough then.
MAX_LOSSES: Final = 3
LONGEST_TRIAL_SECONDS: Final = 8.0
LOSS_PAUSE_SECONDS: Final = 0.05

T = TypeVar("T")
P = ParamSpec("P")
Ts = TypeVarTuple("Ts")

Verb = Callable[Concatenate[Session, P], Awaitable[T]]


class Database:
    """The pools of connections to one server, and the kinds of transactions on them."""

    def __init__(self, connector: Connector, *, few_connections: bool = False) -> None:
        self.connector = connector
        self.writers = Pool(connector, FEW_WRITERS if few_connections else WRITERS)
        self.readers = Pool(connector, READERS)
        self.listers = Pool(connector, FEW_LISTERS if few_connections else LISTERS)
        for pool in (self.writers, self.readers, self.listers):
            pool.on_no_response = self._drop_idle
        #: Also called when a connection gets no response, for the listener's own connection.
        self.on_no_response: Callable[[], None] | None = None

    def _drop_idle(self) -> None:
        """Drop all idle connections: one got no response, and the others may be half-open."""
        for pool in (self.writers, self.readers, self.listers):
            pool.drop_idle()
        if self.on_no_response is not None:
            self.on_no_response()

    async def close(self) -> None:
        await self.writers.close()
        await self.readers.close()
        await self.listers.close()

    async def write(self, verb: Verb[P, T], *arguments: P.args, **options: P.kwargs) -> T:
        """Run a verb in a transaction."""
        retries = _Retries()
        while True:
            try:
                return await self._transact(verb, *arguments, **options)
            except FAULTS as error:
                await retries.failed(error)

    async def alone(self, verb: Verb[P, T], *arguments: P.args, **options: P.kwargs) -> T:
        """Run a verb that consists of one statement, which is a transaction of its own."""
        if self.connector.is_pooled:
            return await self.write(verb, *arguments, **options)
        retries: _Retries | None = None
        while True:
            try:
                with self.writers.acquire_idle() or await self.writers.acquire() as session:
                    try:
                        return await verb(session, *arguments, **options)
                    except (*TRANSIENT, *REFUSED) as error:
                        # The connection is sound.
                        failure: Exception = error
                    except AWAY as error:
                        raise error_of(error) from error
            except FAULTS as error:
                failure = error
            # What is retried here has failed to connect, which took so long.
            retries = retries or _Retries(LONGEST_TRIAL_SECONDS - CONNECT_SECONDS)
            await retries.failed(failure)

    async def read(self, verb: Verb[P, T], *arguments: P.args, **options: P.kwargs) -> T:
        """Run a verb that changes nothing."""
        begin = self.connector.begin_write if self.connector.is_pooled else None
        return await self._read(self.readers, begin, verb, *arguments, **options)

    async def write_timed(
        self, verb: Callable[[Session, *Ts, int], Awaitable[T]], *arguments: *Ts, now: int | None
    ) -> T:
        """Run a verb in a transaction at a given time, or at the server's time if None is given."""

        async def run(session: Session) -> T:
            return await verb(session, *arguments, await server_time(session) if now is None else now)

        return await self.write(run)

    async def read_timed(
        self, verb: Callable[[Session, *Ts, int], Awaitable[T]], *arguments: *Ts, now: int | None
    ) -> T:
        """Run a verb that changes nothing at a given time, or at the server's time if None is given."""

        async def run(session: Session) -> T:
            return await verb(session, *arguments, await server_time(session) if now is None else now)

        return await self.read(run)

    async def survey(self, verb: Verb[P, T], *arguments: P.args, **options: P.kwargs) -> T:
        """Run long read-only statements (lists, counts) in one snapshot."""
        return await self._read(self.readers, self.connector.begin_survey, verb, *arguments, **options)

    async def read_list(self, verb: Verb[P, T], *arguments: P.args, **options: P.kwargs) -> T:
        """Run statements that read a list for a person: on separate connections, with a short time limit."""
        return await self._read(self.listers, self.connector.begin_list, verb, *arguments, **options)

    async def count(self, verb: Verb[P, T], *arguments: P.args, **options: P.kwargs) -> T:
        """Run statements that count for a person, in one snapshot: on separate connections, as `read_list`."""
        return await self._read(self.listers, self.connector.begin_count, verb, *arguments, **options)

    async def _transact(self, verb: Verb[P, T], *arguments: P.args, **options: P.kwargs) -> T:
        with self.writers.acquire_idle() or await self.writers.acquire() as session:
            await session.execute(self.connector.begin_write)
            try:
                result = await verb(session, *arguments, **options)
            except (*TRANSIENT, *REFUSED, RotaError) as error:
                # The connection is sound; only the transaction is not.
                await session.execute("ROLLBACK")
                failure: BaseException = error
            else:
                await _commit(session)
                return result
        raise failure

    async def _read(
        self, pool: Pool, begin: str | None, verb: Verb[P, T], *arguments: P.args, **options: P.kwargs
    ) -> T:
        retries = _Retries()
        while True:
            try:
                with pool.acquire_idle() or await pool.acquire() as session:
                    if begin is not None:
                        await session.execute(begin)
                    result = await verb(session, *arguments, **options)
                    if begin is not None:
                        await session.execute("COMMIT")
                    return result
            except QueryCanceledError as error:
                # It took too long, and would again.
                raise error_of(error) from error
            except FAULTS as error:
                await retries.failed(error)


class _Retries:
    """Counts the failures of one operation, and decides whether it is retried."""

    def __init__(self, seconds: float = LONGEST_TRIAL_SECONDS) -> None:
        self._conflicts = self._losses = 0
        self._give_up_at = monotonic() + seconds

    async def failed(self, error: Exception) -> None:
        """Pause before the next try, or raise the caller's error if a retry is of no use."""
        if isinstance(error, TRANSIENT):
            self._conflicts += 1
            if self._conflicts > MAX_CONFLICTS:
                raise StoreUnavailable(f"PostgreSQL: conflicts with other transactions: {error}; try again") from error
            await asyncio.sleep(CONFLICT_PAUSE_SECONDS * random.random() * self._conflicts)  # noqa: S311 - jitter
            return
        self._losses += 1
        if self._losses > MAX_LOSSES or isinstance(error, REFUSED) or monotonic() > self._give_up_at:
            raise error_of(error) from error
        await asyncio.sleep(LOSS_PAUSE_SECONDS * random.random() * self._losses)  # noqa: S311 - jitter


async def server_time(session: Session) -> int:
    """Return the server's time in microseconds."""
    (now,) = await session.values("now")
    return int(now)


async def server_version(session: Session) -> str:
    """Return the server's version text."""
    rows = await session.fetch("SELECT version()")
    return str(rows[0][0])


async def _commit(session: Session) -> None:
    try:
        await session.execute("COMMIT")
    except TRANSIENT:
        raise
    except AWAY as error:
        raise error_of(error) from error
