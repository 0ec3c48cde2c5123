"""Transactions: the three ways in which a verb meets the server, and what is done when it fails.

- `write`: several statements in one transaction. Until COMMIT is sent, nothing has happened, so whatever fails before
  is tried again: a deadlock or a clash with another writer a few times, a lost connection at once on another.
- `alone`: one statement that is a transaction of its own, which spares two round trips.
- `read`: looks only, and can always be tried again.

When the answer to a COMMIT (or to a statement that stands alone) is lost, nobody here knows whether it happened: the
caller is told that the store is away, and decides. After that everything heals by itself: dead connections are thrown
away and new ones made at the next call, to whichever host takes writes then.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from functools import partial
from typing import Any, Concatenate, Final, ParamSpec, TypeVar

from rota.core.errors import RotaError, StoreUnavailable
from rota.stores.postgres.connecting import Connection, Connector
from rota.stores.postgres.faults import AWAY, PASSING, REFUSED, told
from rota.stores.postgres.pool import Pool
from rota.stores.postgres.statements import statement
from rota.stores.rows import Row

#: Few connections with big batches beat many.
WRITERS: Final = 4
READERS: Final = 2
#: How often a transaction is tried again that stood in another's way.
CLASHES: Final = 20
CLASH_PAUSE_SECONDS: Final = 0.005
#: How often another connection is tried. A server that restarts takes longer, and the caller had better know.
LOSSES: Final = 3
LOSS_PAUSE_SECONDS: Final = 0.05

T = TypeVar("T")
P = ParamSpec("P")


class Session:
    """A connection as verbs see it: statements go by the names of their files."""

    __slots__ = ("connection",)

    def __init__(self, connection: Connection) -> None:
        self.connection = connection

    async def rows(self, name: str, *arguments: object, seconds: float | None = None) -> Sequence[Row]:
        """Run a statement and give the rows it yields."""
        rows: Sequence[Any] = await self.connection.fetch(statement(name), *arguments, timeout=seconds)
        return rows

    async def values(self, name: str, *arguments: object) -> list[Any]:
        """Run a statement and give the first column of the rows it yields."""
        return [row[0] for row in await self.rows(name, *arguments)]

    async def run(self, name: str, *arguments: object, seconds: float | None = None) -> int:
        """Run a statement and say how many rows it changed."""
        status: str = await self.connection.execute(statement(name), *arguments, timeout=seconds)
        count = status.rpartition(" ")[2]
        return int(count) if count.isdecimal() else 0

    async def say(self, command: str) -> None:
        """Give a command that has no file."""
        await self.connection.execute(command)


Verb = Callable[Concatenate[Session, P], Awaitable[T]]


class _UncertainError(Exception):
    """The answer to a commit was lost."""


class Database:
    """The server, as the verbs of the store use it."""

    def __init__(self, connector: Connector) -> None:
        self.connector = connector
        self.writers = Pool(connector, WRITERS)
        self.readers = Pool(connector, READERS)

    async def close(self) -> None:
        """Let go of the server."""
        await self.writers.close()
        await self.readers.close()

    async def write(self, verb: Verb[P, T], *arguments: P.args, **options: P.kwargs) -> T:
        """Run a verb in a transaction."""
        return await self._insistently(self._transact, verb, *arguments, **options)

    def alone(self, verb: Verb[P, T], *arguments: P.args, **options: P.kwargs) -> Coroutine[Any, Any, T]:
        """Run a verb that consists of one statement, which is a transaction of its own."""
        act = self._transact if self.connector.is_pooled else self._run_alone
        return self._insistently(act, verb, *arguments, **options)

    async def read(self, verb: Verb[P, T], *arguments: P.args, **options: P.kwargs) -> T:
        """Run a verb that changes nothing."""
        look = partial(self._look, self.connector.preamble if self.connector.is_pooled else None)
        return await self._insistently(look, verb, *arguments, **options)

    async def survey(self, verb: Verb[P, T], *arguments: P.args, **options: P.kwargs) -> T:
        """Run statements that look at much and change nothing, so that they see one moment."""
        look = partial(self._look, self.connector.survey)
        return await self._insistently(look, verb, *arguments, **options)

    async def _insistently(
        self, act: Callable[..., Awaitable[T]], verb: Verb[P, T], *arguments: P.args, **options: P.kwargs
    ) -> T:
        """Try until it is done, as long as trying again can neither harm nor be in vain."""
        clashes = losses = 0
        while True:
            try:
                return await act(verb, *arguments, **options)
            except RotaError:
                raise
            except _UncertainError as error:
                cause = error.__cause__
                assert cause is not None
                raise told(cause) from cause
            except PASSING as error:
                clashes += 1
                if clashes > CLASHES:
                    raise StoreUnavailable(f"PostgreSQL: others are in the way: {error}") from error
                await asyncio.sleep(CLASH_PAUSE_SECONDS * random.random() * clashes)  # noqa: S311 - spreads only
            except (*REFUSED, *AWAY) as error:
                losses += 1
                if losses > LOSSES or isinstance(error, REFUSED):
                    raise told(error) from error
                await asyncio.sleep(LOSS_PAUSE_SECONDS * random.random() * losses)  # noqa: S311 - spreads only

    async def _transact(self, verb: Verb[P, T], *arguments: P.args, **options: P.kwargs) -> T:
        async with self.writers.lend() as connection:
            await connection.execute(self.connector.preamble)
            try:
                answer = await verb(Session(connection), *arguments, **options)
            except (*PASSING, *REFUSED, RotaError) as error:
                # The connection is sound; only the transaction is not.
                await connection.execute("ROLLBACK")
                failure: BaseException = error
            else:
                await _commit(connection)
                return answer
        raise failure

    async def _run_alone(self, verb: Verb[P, T], *arguments: P.args, **options: P.kwargs) -> T:
        async with self.writers.lend() as connection:
            try:
                return await verb(Session(connection), *arguments, **options)
            except (*PASSING, *REFUSED) as error:
                failure: BaseException = error
            except AWAY as error:
                raise _UncertainError from error
        raise failure

    async def _look(self, begin: str | None, verb: Verb[P, T], *arguments: P.args, **options: P.kwargs) -> T:
        async with self.readers.lend() as connection:
            if begin is None:
                return await verb(Session(connection), *arguments, **options)
            await connection.execute(begin)
            answer = await verb(Session(connection), *arguments, **options)
            await connection.execute("COMMIT")
            return answer


async def _commit(connection: Connection) -> None:
    try:
        await connection.execute("COMMIT")
    except PASSING:
        raise
    except AWAY as error:
        raise _UncertainError from error
