"""Counting: the state of the whole, as several routes and the live stream show it."""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from collections.abc import Sequence
from datetime import datetime
from typing import Final

from rota.core.fleet import ALIVE_FOR, Member, Role
from rota.core.lane import Queue
from rota.core.lifecycle import FINISHED, WAITING, State
from rota.engine import Engine
from rota.ports.store import Census
from rota.wire.fleet import QueueForm, TypeDepth
from rota.wire.system import Overview, Stats, lane_forms

#: How long a count is good enough for those who ask again and again.
FRESH_SECONDS: Final = 1.0
#: So many jobs are counted in a moment, and always anew. Beyond them counting may take this part of the time at most.
_FEW: Final = 100_000
_SHARE: Final = 0.1
#: Older than this no count is given away, however slow the store.
_OLDEST_SECONDS: Final = 30.0


class Counting:
    """Counts for all who ask, one at a time: a census reads an entry for every job, and dashboards come in swarms.

    Who looks at a store of a few jobs sees what is true now. Of millions, what was true a few seconds ago must do. And
    all who ask while a count is under way share the next one.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._one_at_a_time = asyncio.Lock()
        self._last: tuple[Census, datetime] | None = None
        self._ended, self._good_for = 0.0, 0.0
        #: How many counts have begun, and which of them gave the last one.
        self._begun, self._number = 0, 0

    async def census(self) -> Census:
        """Count the jobs, or give the last count while a new one would cost too much."""
        return (await self._census())[0]

    async def stats(self, *, at_most_old: float = 0.0) -> Stats:
        """Give counts, with the moment at which they were true; as old as this at most, unless there are many jobs."""
        census, counted_at = await self._census(at_most_old)
        return stats_of(census, await live_workers(self._engine), counted_at)

    async def _census(self, at_most_old: float = 0.0) -> tuple[Census, datetime]:
        loop = asyncio.get_running_loop()
        before = self._begun
        async with self._one_at_a_time:
            is_old = self._number <= before and loop.time() >= self._ended + max(at_most_old, self._good_for)
            if self._last is None or is_old:
                self._begun += 1
                counted_at, begun = self._engine.clock(), loop.time()
                census = await self._engine.census()
                self._last, self._number, self._ended = (census, counted_at), self._begun, loop.time()
                good_for = min((self._ended - begun) / _SHARE, _OLDEST_SECONDS)
                self._good_for = good_for if census.total() > _FEW else 0.0
            return self._last


async def live_workers(engine: Engine) -> Sequence[Member]:
    """Give the workers heard of lately."""
    return await engine.store.members(role=Role.WORKER, since=engine.clock() - ALIVE_FOR)


async def overview_now(engine: Engine) -> Overview:
    """Count everything, and queue by queue."""
    census, workers = await engine.census(), await live_workers(engine)
    queues = queue_forms(census, await engine.queues.all(), workers)
    return Overview(stats=stats_of(census, workers, engine.clock()), queues=queues)


def stats_of(census: Census, workers: Sequence[Member], now: datetime) -> Stats:
    """Make the counts of a census and the workers there are."""
    slots = sum(worker.slots for worker in workers)
    busy = sum(worker.busy for worker in workers)
    return Stats(
        timestamp=now,
        queue_depth=census.total(*WAITING),
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


def queue_forms(census: Census, settings: Sequence[Queue], workers: Sequence[Member]) -> list[QueueForm]:
    """Describe every queue that has jobs, workers or settings."""
    types: dict[str, dict[str, Counter[State]]] = defaultdict(lambda: defaultdict(Counter))
    for one in census.lanes:
        types[one.lane.queue][one.lane.type][one.state] += one.count
    known = {queue.name: queue for queue in settings}
    attended = Counter(name for worker in workers for name in worker.queues)
    names = sorted({*types, *known, *attended})
    return [queue_form(known.get(name, Queue(name)), types[name], attended[name]) for name in names]


def queue_form(queue: Queue, types: dict[str, Counter[State]], live_workers: int) -> QueueForm:
    """Describe one queue."""
    states: Counter[State] = Counter()
    for counts in types.values():
        states += counts
    return QueueForm(
        name=queue.name,
        depth=sum(count for state, count in states.items() if state in WAITING),
        states=dict(states),
        types=[TypeDepth(type=name, states=dict(counts)) for name, counts in sorted(types.items())],
        live_workers=live_workers,
        is_paused=queue.paused_at is not None,
        paused_at=queue.paused_at,
        pause_reason=queue.pause_reason,
        resume_at=queue.resume_at,
        max_depth=queue.max_depth,
        max_running=queue.max_running,
        rate_limit=queue.rate_limit,
        version=queue.version,
    )
