"""The fetcher: asks for exactly as many jobs as there are free slots, and hands them out.

It is woken, never polls: a slot becomes free, and it asks; there is no work, and the question itself waits at the
source until there is some (`WAIT_OF_LEASE` of a lease at most, since the lease is counted from the moment the
question was sent). Only one question is open at a time, so what it brings always finds its slots free. Where nothing
is due, the answer may bring jobs ahead of their time, which wait in their slots for it; see anteroom.py.

Each question has a name. If the answer is lost, the same question is asked again and brings the same jobs; only when
their leases must have run out anyway does it get a new name. When the worker stops while a question is open, the
question is withdrawn, and asked once more by name without waiting: whatever it had brought is handed back at once. The
heart is told each new name before it is asked. If the worker dies with a question open, its companion asks by that
name, and hands back what nobody has begun; without a companion, such jobs wait for their leases to run out.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from itertools import count
from typing import Final, Protocol

from rota.core.job import Job
from rota.core.lease import AHEAD, NOT_AHEAD, Claim
from rota.core.patience import Patience
from rota.ports.faces import WorkSource
from rota.telemetry.outage import Outage
from rota.worker.options import WorkerOptions

_log = logging.getLogger("rota.worker")
WAIT_OF_LEASE: Final = 1 / 3
AHEAD_OF_LEASE: Final = 1 / 10
SHORT_WAIT: Final = timedelta(milliseconds=500)
#: How long to leave the interpreter to those who begin, where a question has brought all there was. Their loop is on
#: another thread, and would else wait while we ask for what is not there.
BREATH_SECONDS: Final = 0.001


StoreTime = Callable[[], Awaitable[datetime]]


class Crew(Protocol):
    """Who takes the jobs."""

    def free(self) -> int:
        """How many more would find a slot."""
        ...

    def types(self) -> tuple[str, ...]:
        """Which types would."""
        ...

    def queues(self) -> tuple[str, ...]:
        """Which queues have slots left. However `free` jobs are spread over them, all find a slot."""
        ...

    def is_hampered(self) -> bool:
        """Whether others could soon."""
        ...

    def take_on(self, jobs: Sequence[Job], sent: float) -> None:
        """Run these jobs, whose leases count from the moment `sent`."""
        ...

    def hear_time(self, told: datetime, asked_at: float) -> None:
        """Learn what time it has just been by the store's clock."""
        ...

    def turn_away(self, jobs: Sequence[Job]) -> None:
        """Hand these jobs back untouched."""
        ...


class Fetcher:
    """Claims until it is closed."""

    def __init__(
        self,
        source: WorkSource,
        crew: Crew,
        options: WorkerOptions,
        store_time: StoreTime | None = None,
        *,
        clock: Callable[[], float],
        patience: Patience,
        expect: Callable[[str], None],
    ) -> None:
        self._source = source
        self._crew = crew
        self._expect = expect
        self._options = options
        self._clock = clock
        self._patience = patience
        self._wait = min(options.lease * WAIT_OF_LEASE, options.poll_interval)
        self._store_time = store_time
        # Of a short lease too much would pass before the job begins.
        can_hold = store_time is not None and options.lease * AHEAD_OF_LEASE >= AHEAD
        self._ahead = AHEAD if can_hold else NOT_AHEAD
        self._lease_seconds = options.lease.total_seconds()
        self._outage = Outage(_log, "claiming jobs", clock=clock)
        self._numbers = count(1)
        self._question: tuple[Claim, float] | None = None
        self._room = asyncio.Event()
        self._is_closing = False

    def stop(self) -> None:
        """Ask no more. A question that is answered in spite of being withdrawn is turned away."""
        self._is_closing = True
        self._room.set()

    def wake(self) -> None:
        """Look again for free slots."""
        self._room.set()

    async def run(self) -> None:
        """Claim whatever there is room for."""
        while not self._is_closing:
            self._room.clear()
            free, types, queues = self._crew.free(), self._crew.types(), self._crew.queues()
            if free > 0 and types and queues:
                await self._fetch(free, types, queues)
            else:
                await self._room.wait()

    async def _fetch(self, free: int, types: tuple[str, ...], queues: tuple[str, ...]) -> None:
        claim, sent = self._ask(free, types, queues)
        is_hampered = self._crew.is_hampered()
        try:
            jobs = await self._source.claim(claim, wait=min(self._wait, SHORT_WAIT) if is_hampered else self._wait)
        except Exception as error:  # noqa: BLE001 - a transport may raise anything; the worker goes on
            pause = self._patience.next()
            self._outage.failed(error)
            await asyncio.sleep(pause)
            return
        self._patience.reset()
        self._outage.worked()
        self._question = None
        if jobs and self._is_closing:
            self._crew.turn_away(jobs)
        elif jobs:
            self._crew.take_on(jobs, sent)
            if jobs[-1].is_ahead:
                await self._ask_time()
            elif len(jobs) < claim.limit:
                await asyncio.sleep(BREATH_SECONDS)

    async def _ask_time(self) -> None:
        """Ask for the store's time, once for all jobs that wait for theirs: an answer comes quicker than a claim's."""
        if self._store_time is None:
            return
        asked_at = self._clock()
        try:
            # Not for long: it is to know the time better, and what is due meanwhile waits for us.
            async with asyncio.timeout(AHEAD.total_seconds() / 2):
                told = await self._store_time()
        except Exception as error:  # noqa: BLE001 - a transport may raise anything
            # Nobody need act: the claim's own answer tells the time too, only less exactly.
            _log.debug("the store's time could not be asked for: %r", error)
            return
        self._crew.hear_time(told, asked_at)

    def _ask(self, free: int, types: tuple[str, ...], queues: tuple[str, ...]) -> tuple[Claim, float]:
        """Give the question whose answer is still awaited, or a new one."""
        now = self._clock()
        if self._question is None or now - self._question[1] > self._lease_seconds:
            name = f"{self._options.boot}-{next(self._numbers)}"
            # Before it is sent: from then on a job may be leased to us.
            self._expect(name)
            claim = Claim(
                worker=self._options.identity,
                limit=free,
                queues=queues,
                types=types,
                lease=self._options.lease,
                claim_id=name,
                ahead=self._ahead,
            )
            self._question = (claim, now)
            # Asked for the first time, it has no former answer. Whenever it is asked again, it may have one.
            return replace(claim, is_new=True), now
        return self._question

    async def close(self, seconds: float) -> None:
        """Hand back what an open question may have brought, if that can be known within so many seconds."""
        if self._question is None:
            return
        claim, _ = self._question
        self._question = None
        try:
            async with asyncio.timeout(seconds):
                # One at most if the question had brought nothing: a claim of none could not be told from a wrong one.
                jobs = await self._source.claim(replace(claim, limit=1), wait=timedelta(0))
        except Exception as error:  # noqa: BLE001 - then those leases run out
            _log.warning("jobs of the last claim, if it had any, are left to their leases: %r", error)
            return
        if jobs:
            self._crew.turn_away(jobs)
