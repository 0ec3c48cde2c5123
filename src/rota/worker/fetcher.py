"""The fetcher: claims exactly as many jobs as there are free slots.

It does not poll: when a slot becomes free it sends a claim, and if there is no work the claim waits at the source until
there is (for `WAIT_OF_LEASE` of a lease at most, since leases count from the moment the claim was sent). Only one claim
is open at a time, so its jobs always find their slots free. Where nothing is due, the answer may contain jobs ahead of
their time, which wait in their slots; see intake.py.

Each claim has an id. If the answer is lost, the same claim is repeated and returns the same jobs; only when their
leases must have lapsed anyway does it get a new id. When the worker stops while a claim is open, the claim is withdrawn
and repeated by its id without waiting: the jobs that it was given are handed back at once. If there are none it is
repeated once more, a moment later, since the withdrawn request may reach the store after the first repetition. The
heartbeat gets each new id before the claim is sent. If the worker dies with an open claim, its lease keeper repeats the
claim by its id and hands back the jobs that were not started; without a lease keeper, such jobs wait until their leases
lapse.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from itertools import count
from typing import Final

from rota.backoff import JitteredBackoff
from rota.core.job import Job
from rota.core.lease import AHEAD, NOT_AHEAD, Claim
from rota.ports.client import WorkSource
from rota.telemetry.outage import Outage
from rota.worker.intake import Intake
from rota.worker.options import WorkerOptions

_log = logging.getLogger("rota.worker")
WAIT_OF_LEASE: Final = 1 / 3
AHEAD_OF_LEASE: Final = 1 / 10
SHORT_WAIT: Final = timedelta(milliseconds=500)
#: A pause after a claim that returned all due jobs. The handlers start on another thread, which would otherwise wait
#: for the interpreter while this one sends a claim that finds nothing.
PAUSE_SECONDS: Final = 0.001
#: How long after it was withdrawn a claim may still reach the store.
UNDER_WAY_SECONDS: Final = 0.1


StoreTime = Callable[[], Awaitable[datetime]]


class Fetcher:
    """Claims jobs until it is closed."""

    def __init__(
        self,
        source: WorkSource,
        intake: Intake,
        options: WorkerOptions,
        store_time: StoreTime | None = None,
        *,
        clock: Callable[[], float],
        backoff: JitteredBackoff,
        expect_claim: Callable[[str], None],
    ) -> None:
        self._source = source
        self._intake = intake
        self._expect_claim = expect_claim
        self._options = options
        self._clock = clock
        self._backoff = backoff
        self._wait = min(options.lease * WAIT_OF_LEASE, options.poll_interval)
        self._store_time = store_time
        # Of a short lease too much would pass before the handler starts.
        can_hold = store_time is not None and options.lease * AHEAD_OF_LEASE >= AHEAD
        self._ahead = AHEAD if can_hold else NOT_AHEAD
        self._lease_seconds = options.lease.total_seconds()
        self._outage = Outage(_log, "claiming jobs", clock=clock)
        self._numbers = count(1)
        self._open_claim: tuple[Claim, float] | None = None
        self._has_room = asyncio.Event()
        self._is_closing = False
        self._is_quiet = False

    def set_quiet(self, *, is_quiet: bool) -> None:
        """Claim no more while quiet. The jobs of a claim that is answered nevertheless are handed back."""
        self._is_quiet = is_quiet
        self._has_room.set()

    def stop(self) -> None:
        """Claim no more. The jobs of a claim that is answered nevertheless are handed back."""
        self._is_closing = True
        self._has_room.set()

    def wake(self) -> None:
        """Check again for free slots."""
        self._has_room.set()

    async def run(self) -> None:
        """Claim whatever there are free slots for."""
        while not self._is_closing:
            self._has_room.clear()
            free, types, queues = self._intake.free_slots(), self._intake.types(), self._intake.queues()
            if free > 0 and types and queues and not self._is_quiet:
                await self._fetch(free, types, queues)
            else:
                await self._has_room.wait()

    async def _fetch(self, free: int, types: tuple[str, ...], queues: tuple[str, ...]) -> None:
        claim, sent = self._next_claim(free, types, queues)
        is_restricted = self._intake.is_restricted()
        try:
            jobs = await self._source.claim(claim, wait=min(self._wait, SHORT_WAIT) if is_restricted else self._wait)
        except Exception as error:  # noqa: BLE001 - a transport may raise anything; the worker goes on
            pause = self._backoff.next()
            self._outage.failed(error)
            await asyncio.sleep(pause)
            return
        self._backoff.reset()
        self._outage.worked()
        self._open_claim = None
        if jobs and (self._is_closing or self._is_quiet):
            self._intake.hand_back(jobs)
        elif jobs:
            self._intake.accept(jobs, sent)
            if jobs[-1].is_ahead:
                await self._read_store_time()
            elif len(jobs) < claim.limit:
                await asyncio.sleep(PAUSE_SECONDS)

    async def _read_store_time(self) -> None:
        """Read the store's clock, once for all early jobs: the answer comes quicker than a claim's."""
        if self._store_time is None:
            return
        asked_at = self._clock()
        try:
            # Not for long: this only makes the start more exact, and due jobs wait meanwhile.
            async with asyncio.timeout(AHEAD.total_seconds() / 2):
                store_time = await self._store_time()
        except Exception as error:  # noqa: BLE001 - a transport may raise anything
            # Harmless: the claim's answer contains the store's time too, only less exactly.
            _log.debug("the store's clock could not be read: %r", error)
            return
        self._intake.learn_store_time(store_time, asked_at)

    def _next_claim(self, free: int, types: tuple[str, ...], queues: tuple[str, ...]) -> tuple[Claim, float]:
        """Return the claim that has not been answered yet, or a new one."""
        now = self._clock()
        if self._open_claim is None or now - self._open_claim[1] > self._lease_seconds:
            claim_id = f"{self._options.boot}-{next(self._numbers)}"
            # Before it is sent: from then on jobs may be leased to this worker.
            self._expect_claim(claim_id)
            claim = Claim(
                worker=self._options.identity,
                limit=free,
                queues=queues,
                types=types,
                lease=self._options.lease,
                claim_id=claim_id,
                ahead=self._ahead,
            )
            self._open_claim = (claim, now)
            # Sent for the first time, it has no earlier answer. Whenever it is repeated, it may have one.
            return replace(claim, is_new=True), now
        return self._open_claim

    async def close(self, seconds: float) -> None:
        """Hand back the jobs of an open claim, if the source answers within `seconds`."""
        if self._open_claim is None:
            return
        claim, _ = self._open_claim
        self._open_claim = None
        try:
            async with asyncio.timeout(seconds):
                jobs = await self._withdrawn(claim)
                if not jobs:
                    await asyncio.sleep(min(UNDER_WAY_SECONDS, seconds / 3))
                    jobs = await self._withdrawn(claim)
        except Exception as error:  # noqa: BLE001 - then those leases lapse
            _log.warning("the jobs of the last claim, if any, wait until their leases lapse: %r", error)
            return
        if jobs:
            self._intake.hand_back(jobs)

    async def _withdrawn(self, claim: Claim) -> Sequence[Job]:
        """Repeat a claim that was withdrawn, to get its jobs.

        A limit of 0 would be refused; so this may lease one job more, which is handed back too.
        """
        return await self._source.claim(replace(claim, limit=1), wait=timedelta(0))
