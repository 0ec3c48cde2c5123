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
from collections.abc import Awaitable, Callable
from time import monotonic
from typing import Concatenate, Final, ParamSpec, TypeVar

from asyncpg.exceptions import QueryCanceledError

from rota.core.errors import RotaError, StoreUnavailable
from rota.stores.postgres.connecting import CONNECT_SECONDS, Connector
from rota.stores.postgres.faults import AWAY, FAULTS, PASSING, REFUSED, told
from rota.stores.postgres.pool import Pool
from rota.stores.postgres.session import Session

#: Few connections with big batches beat many.
WRITERS: Final = 4
READERS: Final = 2
#: For lists and counts, so that these hold up neither claims nor health.
BROWSERS: Final = 2
#: How often a transaction is tried again that stood in another's way.
CLASHES: Final = 20
CLASH_PAUSE_SECONDS: Final = 0.005
#: How often another connection is tried. A server that restarts takes longer, and the caller had better know. None is
#: tried after some seconds: then the caller has waited as long as it can be asked to.
LOSSES: Final = 3
LONGEST_TRIAL_SECONDS: Final = 8.0
LOSS_PAUSE_SECONDS: Final = 0.05

T = TypeVar("T")
P = ParamSpec("P")

Verb = Callable[Concatenate[Session, P], Awaitable[T]]


class Database:
    """The server, as the verbs of the store use it."""

    def __init__(self, connector: Connector) -> None:
        self.connector = connector
        self.writers = Pool(connector, WRITERS)
        self.readers = Pool(connector, READERS)
        self.browsers = Pool(connector, BROWSERS)
        for pool in (self.writers, self.readers, self.browsers):
            pool.condemn = self._condemn_connections
        #: Called too when a connection is silent, by whoever has one of its own.
        self.on_silence: Callable[[], None] | None = None

    def _condemn_connections(self) -> None:
        """Drop all that rests: one connection was silent, and the others may be."""
        for pool in (self.writers, self.readers, self.browsers):
            pool.drop_idle()
        if self.on_silence is not None:
            self.on_silence()

    async def close(self) -> None:
        """Let go of the server."""
        await self.writers.close()
        await self.readers.close()
        await self.browsers.close()

    async def write(self, verb: Verb[P, T], *arguments: P.args, **options: P.kwargs) -> T:
        """Run a verb in a transaction."""
        trials = _Trials()
        while True:
            try:
                return await self._transact(verb, *arguments, **options)
            except FAULTS as error:
                await trials.failed(error)

    async def alone(self, verb: Verb[P, T], *arguments: P.args, **options: P.kwargs) -> T:
        """Run a verb that consists of one statement, which is a transaction of its own."""
        if self.connector.is_pooled:
            return await self.write(verb, *arguments, **options)
        trials: _Trials | None = None
        while True:
            try:
                with self.writers.at_hand() or await self.writers.lend() as session:
                    try:
                        return await verb(session, *arguments, **options)
                    except (*PASSING, *REFUSED) as error:
                        # The connection is sound.
                        failure: Exception = error
                    except AWAY as error:
                        raise told(error) from error
            except FAULTS as error:
                failure = error
            # What can be tried again here has failed to connect, for so long.
            trials = trials or _Trials(LONGEST_TRIAL_SECONDS - CONNECT_SECONDS)
            await trials.failed(failure)

    async def read(self, verb: Verb[P, T], *arguments: P.args, **options: P.kwargs) -> T:
        """Run a verb that changes nothing."""
        begin = self.connector.preamble if self.connector.is_pooled else None
        return await self._look(self.readers, begin, verb, *arguments, **options)

    async def survey(self, verb: Verb[P, T], *arguments: P.args, **options: P.kwargs) -> T:
        """Run statements that look at much and change nothing, so that they see one moment."""
        return await self._look(self.readers, self.connector.survey, verb, *arguments, **options)

    async def browse(self, verb: Verb[P, T], *arguments: P.args, **options: P.kwargs) -> T:
        """Run statements that read a list for a person: on connections of their own, and not for long."""
        return await self._look(self.browsers, self.connector.browse, verb, *arguments, **options)

    async def count(self, verb: Verb[P, T], *arguments: P.args, **options: P.kwargs) -> T:
        """Run statements that count for a person, so that they see one moment: as `browse` does."""
        return await self._look(self.browsers, self.connector.count, verb, *arguments, **options)

    async def _transact(self, verb: Verb[P, T], *arguments: P.args, **options: P.kwargs) -> T:
        with self.writers.at_hand() or await self.writers.lend() as session:
            await session.say(self.connector.preamble)
            try:
                answer = await verb(session, *arguments, **options)
            except (*PASSING, *REFUSED, RotaError) as error:
                # The connection is sound; only the transaction is not.
                await session.say("ROLLBACK")
                failure: BaseException = error
            else:
                await _commit(session)
                return answer
        raise failure

    async def _look(
        self, pool: Pool, begin: str | None, verb: Verb[P, T], *arguments: P.args, **options: P.kwargs
    ) -> T:
        trials = _Trials()
        while True:
            try:
                with pool.at_hand() or await pool.lend() as session:
                    if begin is not None:
                        await session.say(begin)
                    answer = await verb(session, *arguments, **options)
                    if begin is not None:
                        await session.say("COMMIT")
                    return answer
            except QueryCanceledError as error:
                # It took too long, and would again.
                raise told(error) from error
            except FAULTS as error:
                await trials.failed(error)


class _Trials:
    """What has gone wrong so far with something that is tried until it is done."""

    def __init__(self, seconds: float = LONGEST_TRIAL_SECONDS) -> None:
        self._clashes = self._losses = 0
        self._give_up_at = monotonic() + seconds

    async def failed(self, error: Exception) -> None:
        """Pause, as long as trying again can neither harm nor be in vain; otherwise raise what the caller is told."""
        if isinstance(error, PASSING):
            self._clashes += 1
            if self._clashes > CLASHES:
                raise StoreUnavailable(f"PostgreSQL: others are in the way: {error}") from error
            await asyncio.sleep(CLASH_PAUSE_SECONDS * random.random() * self._clashes)  # noqa: S311 - spreads only
            return
        self._losses += 1
        if self._losses > LOSSES or isinstance(error, REFUSED) or monotonic() > self._give_up_at:
            raise told(error) from error
        await asyncio.sleep(LOSS_PAUSE_SECONDS * random.random() * self._losses)  # noqa: S311 - spreads only


async def _commit(session: Session) -> None:
    try:
        await session.say("COMMIT")
    except PASSING:
        raise
    except AWAY as error:
        raise told(error) from error
