"""Counting: the state of the whole, as several routes and the live stream show it."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter, defaultdict
from collections.abc import Sequence
from datetime import datetime
from typing import Final

from rota.api.errors import not_counted
from rota.core.errors import RotaError
from rota.core.fleet import ALIVE_FOR, Member, Role
from rota.core.lane import LaneCount, Queue, due_since
from rota.core.lifecycle import DUE_STATES, FINISHED, WAITING, State
from rota.engine import Engine
from rota.ports.store import Census
from rota.wire.fleet import QueueForm, TypeDepth
from rota.wire.system import Overview, Stats, lane_forms

#: How long a count is good enough for those who ask again and again.
FRESH_SECONDS: Final = 1.0
#: So many jobs are counted in a moment, and always anew. Beyond them counting may take this part of the time at most.
_FEW: Final = 100_000
_SHARE: Final = 0.1
#: Older than this no count is called good, however slow the store.
_LONGEST_GOOD_SECONDS: Final = 15.0
#: Older than this no count is given away: whoever asks then waits for the next. Longer than scrapers pause.
_OLDEST_SECONDS: Final = 90.0
#: So long a caller waits for the first count, or for one that replaces a count that is too old.
PATIENCE_SECONDS: Final = 1.0
#: How many types of a queue are shown, and how many queues and lanes in the live stream.
MOST_TYPES: Final = 100
MOST_SHOWN: Final = 500

_log = logging.getLogger("rota.api")


class Counting:
    """Counts for all who ask, one at a time: a census reads an entry for every job, and dashboards come in swarms.

    Who looks at a store of a few jobs sees what is true now. Of millions, what was true a few seconds ago must do: the
    last count is given at once, and when it is due another one is made in the background. And all who ask while a count
    is under way share the next one.

    The first count is begun when the API is. A caller for whom it is not done in time is refused with 503 meanwhile.
    """

    def __init__(self, engine: Engine, errands: set[asyncio.Task[None]]) -> None:
        self._engine = engine
        #: What goes on in the background, and is called off when the server stops.
        self._errands = errands
        self._recount: asyncio.Task[None] | None = None
        #: Why the last count in the background failed.
        self._failure: RotaError | None = None
        self._one_at_a_time = asyncio.Lock()
        self._last: tuple[Census, datetime] | None = None
        self._ended, self._good_for = 0.0, 0.0
        #: How many counts have begun, and which of them gave the last one.
        self._begun, self._number = 0, 0

    def begin(self) -> None:
        """Begin the first count, so that nobody has to wait for it."""
        if self._last is None:
            self._count_in_background()

    async def census(self, *, at_most_old: float = 0.0, is_patient: bool = False) -> Census:
        """Count the jobs, or give the last count while a new one would cost too much, or is as new as this.

        Where there is no count yet, one who is patient waits for it as long as it takes.
        """
        return (await self._census(at_most_old, is_patient=is_patient))[0]

    async def counted(self) -> tuple[Census, datetime]:
        """Count the jobs as `census` does for one who is patient; say also when they were counted."""
        return await self._census(is_patient=True)

    async def stats(self, *, at_most_old: float = 0.0) -> Stats:
        """Give counts, with the moment at which they were true; as old as this at most, unless there are many jobs."""
        census, counted_at = await self._census(at_most_old)
        return stats_of(census, await live_workers(self._engine), counted_at)

    async def _census(self, at_most_old: float = 0.0, *, is_patient: bool = False) -> tuple[Census, datetime]:
        loop = asyncio.get_running_loop()
        before = self._begun
        if self._last is None or (self._good_for and loop.time() >= self._ended + _OLDEST_SECONDS):
            await self._wait_for_count(None if is_patient else PATIENCE_SECONDS)
        if self._good_for and self._last is not None:
            if loop.time() >= self._ended + max(at_most_old, self._good_for):
                self._count_in_background()
            return self._last
        async with self._one_at_a_time:
            is_old = self._number <= before and loop.time() >= self._ended + max(at_most_old, self._good_for)
            if self._last is None or is_old:
                return await self._count()
            return self._last

    async def _count(self) -> tuple[Census, datetime]:
        loop = asyncio.get_running_loop()
        self._begun += 1
        counted_at, begun = self._engine.clock(), loop.time()
        census = await self._engine.census()
        self._last, self._number, self._ended = (census, counted_at), self._begun, loop.time()
        good_for = min((self._ended - begun) / _SHARE, _LONGEST_GOOD_SECONDS)
        self._good_for = good_for if census.total() > _FEW else 0.0
        return self._last

    async def _wait_for_count(self, patience: float | None) -> None:
        """Wait for the count that is under way, or begun now; it goes on when we no longer wait."""
        recount = self._count_in_background()
        try:
            async with asyncio.timeout(patience):
                await asyncio.shield(recount)
        except TimeoutError:
            raise not_counted() from None
        if self._failure is not None:
            raise self._failure

    def _count_in_background(self) -> asyncio.Task[None]:
        """Begin a count, unless one is under way."""
        if self._recount is None or self._recount.done():
            self._recount = asyncio.create_task(self._recount_once())
            self._errands.add(self._recount)
            self._recount.add_done_callback(self._errands.discard)
        return self._recount

    async def _recount_once(self) -> None:
        async with self._one_at_a_time:
            try:
                await self._count()
                self._failure = None
            except RotaError as error:
                # The last count is good enough until it is too old; a store that is away is noticed by every request.
                _log.warning("the jobs could not be counted: %s", error)
                self._failure = error
                self._ended = asyncio.get_running_loop().time()


async def live_workers(engine: Engine) -> Sequence[Member]:
    """Give the workers heard of lately."""
    return await engine.store.members(role=Role.WORKER, since=engine.clock() - ALIVE_FOR)


async def overview_now(engine: Engine, counting: Counting) -> Overview:
    """Give all counts, and those of each queue."""
    census, counted_at = await counting.counted()
    workers = await live_workers(engine)
    queues, left_out = queue_page(census, await engine.queues.all(), workers, limit=MOST_SHOWN)
    stats = stats_of(census, workers, counted_at)
    stats.lanes = stats.lanes[:MOST_SHOWN]
    return Overview(stats=stats, queues=queues, queues_left_out=left_out)


def stats_of(census: Census, workers: Sequence[Member], now: datetime) -> Stats:
    """Make the counts of a census and the workers there are."""
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
    """Describe queues that have jobs, workers or settings, by name behind `after`; say how many more there are."""
    lanes: dict[str, list[LaneCount]] = defaultdict(list)
    for one in census.lanes:
        lanes[one.lane.queue].append(one)
    known = {queue.name: queue for queue in settings}
    attended = Counter(name for worker in workers for name in worker.queues)
    names = sorted(name for name in {*lanes, *known, *attended} if name > after)
    forms = [queue_form(known.get(name, Queue(name)), lanes[name], attended[name]) for name in names[:limit]]
    return forms, max(len(names) - limit, 0)


def _largest(types: dict[str, Counter[State]]) -> list[TypeDepth]:
    """Give the types with the most jobs, by name."""
    names = list(types)
    if len(names) > MOST_TYPES:
        names = sorted(names, key=lambda name: (-types[name].total(), name))[:MOST_TYPES]
    return [TypeDepth(type=name, states=dict(types[name])) for name in sorted(names)]


def queue_form(queue: Queue, lanes: Sequence[LaneCount], live_workers: int) -> QueueForm:
    """Describe one queue, whose lanes these are."""
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
        is_paused=queue.paused_at is not None,
        paused_at=queue.paused_at,
        pause_reason=queue.pause_reason,
        resume_at=queue.resume_at,
        max_depth=queue.max_depth,
        version=queue.version,
    )
