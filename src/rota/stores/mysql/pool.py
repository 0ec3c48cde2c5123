"""Connection pool, and when a transaction is run again.

A transaction has a connection to itself. What can fail, and what happens then:

- Deadlock, or a lock wait that takes too long: it is rolled back and run again after a short random pause, for
  `RETRY_SECONDS`. The caller does not notice.
- The connection is lost before the commit was sent: nothing happened, so it is run again on a new connection. All idle
  connections are dropped, since they lead to the same server.
- The connection is lost during the commit: the outcome is unknown. `StoreUnavailable`.
- It is lost because a proxy does not support pipelining: run again without, and pipelining stays off for a while.
- No connection can be made: `StoreUnavailable` at once; the next call tries again.
- The caller is cancelled: the connection is dropped, and the server rolls back.
- No response in time, or the caller is cancelled after a long wait: the server may be gone silently. The idle
  connections of all pools are dropped (`on_no_response`), so the next call makes a new one.
- A connection was idle: it is pinged before use, since it may be half-open.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable
from secrets import token_hex
from typing import Final, TypeVar, TypeVarTuple

from rota.core.errors import StoreUnavailable
from rota.stores.base.session import Running
from rota.stores.mysql.driver import MysqlConnection, connect
from rota.stores.mysql.errors import (
    ConnectionLost,
    NoResponse,
    NothingSent,
    PipelineLost,
    RetryTransaction,
    ServerRefused,
)
from rota.stores.mysql.location import MysqlLocation

#: How long a transaction is run again after deadlocks and lock waits.
RETRY_SECONDS: Final = 20.0
MIN_RETRY_PAUSE_SECONDS: Final = 0.001
MAX_RETRY_PAUSE_SECONDS: Final = 0.1
#: How often a transaction is run again after its connection was lost before the commit.
MAX_LOSSES: Final = 3
#: How often it is run again without a response. The server may still be working on it, and on each further one.
MAX_NO_RESPONSES: Final = 1
#: A caller that is cancelled after this time may have waited for a response that never comes.
SUSPICIOUS_SECONDS: Final = 5.0
#: A connection that was idle for this time is pinged before it is used.
REST_SECONDS: Final = 1.0
#: How long pipelining stays off after it failed; the cause may have been another.
NO_PIPELINE_SECONDS: Final = 3600.0

T = TypeVar("T")
Ts = TypeVarTuple("Ts")


class Pool:
    """Up to `size` connections, made when needed."""

    def __init__(self, location: MysqlLocation, size: int, *, autocommit: bool) -> None:
        self.location = location
        #: The prefix of the names of this pool's writers.
        self.origin = token_hex(8)
        self._size = size
        self._autocommit = autocommit
        self._places = asyncio.Semaphore(size)
        self._idle: list[MysqlConnection] = []
        self._made = 0
        self._no_pipeline_until = float("-inf")
        self._is_open = True
        #: Called when a connection gets no response: drops idle connections, in a store those of all pools.
        self.on_no_response: Callable[[], None] = self.drop_idle

    @property
    def has_free_connection(self) -> bool:
        return not self._places.locked()

    async def run(self, verb: Callable[[MysqlConnection, *Ts], Running[T]], *arguments: *Ts) -> T:
        """Run a verb on a connection; in one transaction, unless the pool is in autocommit mode."""
        if not self._is_open:
            raise StoreUnavailable("the store is closed")
        async with self._places:
            return await self._run_with_retries(verb, arguments)

    async def close(self) -> None:
        """Wait for running verbs and close all connections."""
        self._is_open = False
        held = 0
        try:
            while held < self._size:
                await self._places.acquire()
                held += 1
            while self._idle:
                await self._idle.pop().close()
        finally:
            # Also if cancelled: a loop that ends cancels all tasks, and then the pool is closed again.
            for _ in range(held):
                self._places.release()

    async def _run_with_retries(self, verb: Callable[[MysqlConnection, *Ts], Running[T]], arguments: tuple[*Ts]) -> T:
        loop = asyncio.get_running_loop()
        give_up_at = loop.time() + RETRY_SECONDS
        pause = MIN_RETRY_PAUSE_SECONDS
        losses = silences = 0
        is_retry = False
        while True:
            try:
                return await self._run_once(verb, arguments, is_retry=is_retry)
            except RetryTransaction as error:
                is_retry = True
                if loop.time() > give_up_at:
                    raise self._unavailable(
                        f"locks of other transactions were in the way for {RETRY_SECONDS:.0f} s"
                    ) from error
                await asyncio.sleep(pause * (0.5 + random.random()))  # noqa: S311 - spreads, protects nothing
                pause = min(pause * 2, MAX_RETRY_PAUSE_SECONDS)
            except ConnectionLost as error:
                losses += 1
                silences += isinstance(error, NoResponse)
                if losses > MAX_LOSSES or silences > MAX_NO_RESPONSES:
                    raise self._unavailable(error) from error
            except ServerRefused as error:
                raise self._unavailable(error) from error

    async def _run_once(
        self, verb: Callable[[MysqlConnection, *Ts], Running[T]], arguments: tuple[*Ts], *, is_retry: bool
    ) -> T:
        connection = await self._take()
        connection.is_retry = is_retry
        begun = asyncio.get_running_loop().time()
        try:
            answer = await verb(connection, *arguments)
            if not self._autocommit:
                await self._commit(connection)
        except ConnectionLost as error:
            connection.abandon()
            self._lose(error)
            if isinstance(error, PipelineLost):
                self._no_pipeline_until = asyncio.get_running_loop().time() + NO_PIPELINE_SECONDS
            raise
        except StoreUnavailable:
            connection.abandon()
            raise
        except Exception:
            await self._roll_back(connection)
            raise
        except BaseException:
            # Cut off in the middle of a response, the connection is out of step.
            connection.abandon()
            if asyncio.get_running_loop().time() - begun >= SUSPICIOUS_SECONDS:
                self.on_no_response()
            raise
        connection.used_at = time.monotonic()
        self._idle.append(connection)
        return answer

    async def _commit(self, connection: MysqlConnection) -> None:
        try:
            await connection.commit()
        except NothingSent:
            raise
        except ConnectionLost as error:
            self._lose(error)
            raise self._unavailable(f"connection lost during the commit, outcome unknown: {error}") from error

    async def _roll_back(self, connection: MysqlConnection) -> None:
        connection.has_made_work = False
        try:
            await connection.rollback()
        except (RetryTransaction, ServerRefused, ConnectionLost):
            connection.abandon()
        except BaseException:
            connection.abandon()
            raise
        else:
            connection.used_at = time.monotonic()
            self._idle.append(connection)

    async def _take(self) -> MysqlConnection:
        while self._idle:
            connection = self._idle.pop()
            if time.monotonic() < connection.used_at + REST_SECONDS or await self._answers(connection):
                return connection
        self._made += 1
        try:
            made = await connect(self.location, f"{self.origin}-{self._made}", autocommit=self._autocommit)
        except (RetryTransaction, ServerRefused, ConnectionLost) as error:
            raise self._unavailable(error) from error
        made.can_pipeline = made.can_pipeline and asyncio.get_running_loop().time() >= self._no_pipeline_until
        return made

    async def _answers(self, connection: MysqlConnection) -> bool:
        """Ping an idle connection; if it gets no response, the others are dropped too."""
        try:
            await connection.ping()
        except ConnectionLost as error:
            connection.abandon()
            self._lose(error)
            return False
        except BaseException:
            connection.abandon()
            raise
        return True

    def _lose(self, error: ConnectionLost) -> None:
        if isinstance(error, NoResponse):
            self.on_no_response()
        else:
            self.drop_idle()

    def drop_idle(self) -> None:
        while self._idle:
            self._idle.pop().abandon()

    def _unavailable(self, why: object) -> StoreUnavailable:
        return StoreUnavailable(f"{self.location.name}: {why}")


async def limited(
    connection: MysqlConnection,
    seconds: int,
    verb: Callable[[MysqlConnection, *Ts], Running[T]],
    *arguments: *Ts,
) -> T:
    """Run several reads in one snapshot; the server ends a statement that takes longer than `seconds`."""
    limit = f"max_statement_time = {seconds}" if connection.is_mariadb else f"max_execution_time = {seconds * 1000}"
    await connection.run(f"SET SESSION {limit}")
    return await in_snapshot(connection, verb, *arguments)


async def in_snapshot(
    connection: MysqlConnection, verb: Callable[[MysqlConnection, *Ts], Running[T]], *arguments: *Ts
) -> T:
    """Run several reads in one snapshot."""
    connection.defer("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ", {})
    connection.defer("START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY", {})
    answer = await verb(connection, *arguments)
    await connection.commit()
    return answer
