"""Counts of jobs by queue, type and state, shared by several routes and the live stream."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter, defaultdict
from collections.abc import Sequence
from datetime import datetime
from typing import Final

from rota.api.errors import not_counted
from rota.core.cluster import ALIVE_FOR, Member, Role
from rota.core.errors import RotaError
from rota.core.lifecycle import DUE_STATES, FINISHED, WAITING, State
from rota.core.queue import LaneCount, Queue, due_since
from rota.engine import Engine
from rota.ports.store import Census
from rota.wire.cluster import QueueForm, TypeDepth
from rota.wire.system import Overview, Stats, lane_forms

#: How old a count may be for scrapers and streams.
FRESH_SECONDS: Final = 1.0
#: Up to this many jobs are counted anew every time. Beyond it, counting takes at most this share of the time.
_FEW: Final = 100_000
_SHARE: Final = 0.1
#: A count is fresh for at most this long, however slow the store is.
_LONGEST_FRESH_SECONDS: Final = 10.0
#: A count older than this is never returned: the caller waits for the next one. Longer than usual scrape intervals.
_OLDEST_SECONDS: Final = 90.0
#: How long a caller waits for the first count, or for one that replaces a count that is too old.
COUNT_TIMEOUT_SECONDS: Final = 1.0
#: How many types of a queue are shown, and how many queues and lanes in the live stream.
MOST_TYPES: Final = 100
MOST_SHOWN: Final = 500

_log = logging.getLogger("rota.api")


class JobCounts:
    """Counts jobs for all callers, one count at a time: a census reads an index entry for every job.

    With few jobs the counts are always current. With millions the last count is returned at once, a few seconds old,
    and the next one is made in the background. All callers during a count share the next one.

    The first count starts with the API. A caller that would have to wait too long for it gets a 503.
    """

    def __init__(self, engine: Engine, background_tasks: set[asyncio.Task[None]]) -> None:
        self._engine = engine
        self._background_tasks = background_tasks
        self._recount: asyncio.Task[None] | None = None
        #: The error of the last count in the background.
        self._failure: RotaError | None = None
        self._one_at_a_time = asyncio.Lock()
        self._last: tuple[Census, datetime] | None = None
        self._ended, self._fresh_for = 0.0, 0.0
        #: How many counts have started, and the number of the last one that ended.
        self._begun, self._number = 0, 0

    def start(self) -> None:
        """Start the first count before a caller needs it."""
        if self._last is None:
            self._count_in_background()

    async def census(self, *, at_most_old: float = 0.0, wait_for_count: bool = False) -> Census:
        """Count the jobs, or give the last count if it is young enough or a new one would cost too much.

        With `wait_for_count`, the caller waits for the first count as long as it takes.
        """
        return (await self._census(at_most_old, wait_for_count=wait_for_count))[0]

    async def latest(self, *, at_most_old: float) -> tuple[Census, datetime]:
        """Return the counts and when they were true; of millions of jobs the last ones, however old.

        A count begins then, and the next caller gets it. So a page opens at once also after a quiet night.
        """
        if self._last is not None and self._fresh_for:
            if asyncio.get_running_loop().time() >= self._ended + max(at_most_old, self._fresh_for):
                self._count_in_background()
            return self._last
        return await self._census(at_most_old)

    async def census_with_time(self) -> tuple[Census, datetime]:
        """Return the counts and the time at which they were true; wait for the first count as long as it takes."""
        return await self._census(wait_for_count=True)

    async def stats(self, *, at_most_old: float = 0.0) -> Stats:
        """Return all counts, at most this old unless there are many jobs."""
        census, counted_at = await self._census(at_most_old)
        return stats_of(census, await live_workers(self._engine), counted_at)

    async def _census(self, at_most_old: float = 0.0, *, wait_for_count: bool = False) -> tuple[Census, datetime]:
        loop = asyncio.get_running_loop()
        before = self._begun
        if self._last is None or (self._fresh_for and loop.time() >= self._ended + _OLDEST_SECONDS):
            await self._wait_for_count(None if wait_for_count else COUNT_TIMEOUT_SECONDS)
        if self._fresh_for and self._last is not None:
            if loop.time() >= self._ended + max(at_most_old, self._fresh_for):
                self._count_in_background()
            return self._last
        async with self._one_at_a_time:
            is_old = self._number <= before and loop.time() >= self._ended + max(at_most_old, self._fresh_for)
            if self._last is None or is_old:
                return await self._count()
            return self._last

    async def _count(self) -> tuple[Census, datetime]:
        loop = asyncio.get_running_loop()
        self._begun += 1
        counted_at, begun = self._engine.clock(), loop.time()
        census = await self._engine.census()
        self._last, self._number, self._ended = (census, counted_at), self._begun, loop.time()
        fresh_for = min((self._ended - begun) / _SHARE, _LONGEST_FRESH_SECONDS)
        self._fresh_for = fresh_for if census.total() > _FEW else 0.0
        return self._last

    async def _wait_for_count(self, seconds: float | None) -> None:
        """Wait for the count under way, or start one; a timeout does not cancel it."""
        recount = self._count_in_background()
        try:
            async with asyncio.timeout(seconds):
                await asyncio.shield(recount)
        except TimeoutError:
            raise not_counted() from None
        if self._failure is not None:
            raise self._failure

    def _count_in_background(self) -> asyncio.Task[None]:
        """Start a count, unless one is under way."""
        if self._recount is None or self._recount.done():
            self._recount = asyncio.create_task(self._recount_once())
            self._background_tasks.add(self._recount)
            self._recount.add_done_callback(self._background_tasks.discard)
        return self._recount

    async def _recount_once(self) -> None:
        async with self._one_at_a_time:
            try:
                await self._count()
                self._failure = None
            except RotaError as error:
                # The last count serves until it is too old; other requests report that the store is unavailable.
                _log.warning("could not count the jobs: %s", error)
                self._failure = error
                self._ended = asyncio.get_running_loop().time()


async def live_workers(engine: Engine) -> Sequence[Member]:
    """Return the workers whose last heartbeat is recent."""
    return await engine.store.members(role=Role.WORKER, since=engine.clock() - ALIVE_FOR)


async def overview_now(engine: Engine, counts: JobCounts) -> Overview:
    """Return the counts of all jobs and of each queue."""
    census, counted_at = await counts.census_with_time()
    workers = await live_workers(engine)
    queues, left_out = queue_page(census, await engine.queues.all(), workers, limit=MOST_SHOWN)
    stats = stats_of(census, workers, counted_at)
    stats.lanes = stats.lanes[:MOST_SHOWN]
    return Overview(stats=stats, queues=queues, queues_left_out=left_out)


def stats_of(census: Census, workers: Sequence[Member], now: datetime) -> Stats:
    slots = sum(worker.slots for worker in workers)
    busy = sum(worker.busy for worker in workers)
    return Stats(
        timestamp=now,
        queue_depth=census.total(*WAITING),
        due=census.total(*DUE_STATES),
        running=census.total(State.RUNNING),
        worker_utilization=round(min(busy / slots, 1.0), 4) if slots else 0.0,
        dlq_size=census.total(State.DEAD),
        workers=len(workers),
        slots=slots,
        busy=busy,
        states={state: census.total(state) for state in State},
        pruned={state: census.pruned.get(state, 0) for state in State if state in FINISHED},
        lanes=lane_forms(census),
    )


def queue_page(
    census: Census, settings: Sequence[Queue], workers: Sequence[Member], *, after: str = "", limit: int
) -> tuple[list[QueueForm], int]:
    """Return queues that have jobs, workers or settings, by name behind `after`, and the number of those left out."""
    lanes: dict[str, list[LaneCount]] = defaultdict(list)
    for one in census.lanes:
        lanes[one.lane.queue].append(one)
    known = {queue.name: queue for queue in settings}
    attended, slots = Counter[str](), Counter[str]()
    for worker in workers:
        attended.update(worker.queues)
        slots.update(dict.fromkeys(worker.queues, worker.slots))
    names = sorted(name for name in {*lanes, *known, *attended} if name > after)
    forms = [
        queue_form(known.get(name, Queue(name)), lanes[name], attended[name], slots[name]) for name in names[:limit]
    ]
    return forms, max(len(names) - limit, 0)


def _largest(types: dict[str, Counter[State]]) -> list[TypeDepth]:
    """Return the types with the most jobs, ordered by name."""
    names = list(types)
    if len(names) > MOST_TYPES:
        names = sorted(names, key=lambda name: (-types[name].total(), name))[:MOST_TYPES]
    return [TypeDepth(type=name, states=dict(types[name])) for name in sorted(names)]


def queue_form(queue: Queue, lanes: Sequence[LaneCount], live_workers: int, slots: int) -> QueueForm:
    states: Counter[State] = Counter()
    types: dict[str, Counter[State]] = defaultdict(Counter)
    for one in lanes:
        states[one.state] += one.count
        types[one.lane.type][one.state] += one.count
    return QueueForm(
        name=queue.name,
        depth=sum(count for state, count in states.items() if state in WAITING),
        due=sum(count for state, count in states.items() if state in DUE_STATES),
        due_since=due_since(lanes),
        states=dict(states),
        types=_largest(types),
        types_left_out=max(len(types) - MOST_TYPES, 0),
        live_workers=live_workers,
        slots=slots,
        is_paused=queue.paused_at is not None,
        paused_at=queue.paused_at,
        pause_reason=queue.pause_reason,
        resume_at=queue.resume_at,
        max_depth=queue.max_depth,
        max_running=queue.max_running,
        rate_limit=queue.rate_limit,
        version=queue.version,
    )
