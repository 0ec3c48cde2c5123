"""Topics of the live stream: what changed, whichever process changed it.

A topic is looked at by one task for all streams that follow it, four times a second at most, and only while there are
any: fifty open tabs cost the store as much as one. A look reads little: the newest rows of a list, by an index. Where
it is slow nevertheless, looks become rarer, so that they take at most a tenth of the time. What counts is the quickest
of the last looks: on a busy machine some looks wait long for the processor, which costs the store nothing. Streams are
told that a topic has changed, not how: a client reads again what it shows.

Looks find what any process wrote, because they read the store. A change that is reversed before the next look is not
seen.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Final

import msgspec

from rota.api.counts import JobCounts
from rota.api.errors import invalid
from rota.core.access import Action
from rota.core.errors import InvalidRequest, RotaError
from rota.core.ids import JobId, to_number
from rota.core.lifecycle import FINISHED, State
from rota.core.value import value
from rota.engine import Engine
from rota.ports.store import JobQuery
from rota.supervision import supervised
from rota.wire.scalars import check_queue_name

if TYPE_CHECKING:
    from collections.abc import Iterator

#: How often a topic is looked at, and which share of the time looks may take.
LOOK_SECONDS: Final = 0.25
_SHARE: Final = 0.1
#: How many of the last looks are compared.
_COMPARED: Final = 8
#: How soon a look that failed is repeated.
_RETRY_SECONDS: Final = 1.0
OVERVIEW: Final = "overview"
MOST_TOPICS: Final = 20
#: How many rows of a list a look reads.
_ROWS: Final = 50
_log = logging.getLogger("rota.api.live")

#: The topics, with the action that each needs. Those with a colon are followed by a queue or by the id of a job.
ACTIONS: Final[Mapping[str, Action]] = {
    OVERVIEW: Action.JOBS_READ,
    "jobs": Action.JOBS_READ,
    "jobs:": Action.JOBS_READ,
    "job:": Action.JOBS_READ,
    "dead": Action.JOBS_READ,
    "operations": Action.JOBS_READ,
    "schedules": Action.SCHEDULES_READ,
    "workers": Action.SYSTEM_READ,
    "ledger": Action.LEDGER_READ,
}
_KNOWN: Final = "overview, jobs, jobs:QUEUE, job:ID, dead, operations, schedules, workers, ledger"
Inbox = asyncio.Queue[bytes]
Mark = object


@value
class Topic:
    """One topic: its kind, a key of `ACTIONS`, and the queue or the job."""

    kind: str
    of: str = ""

    @property
    def name(self) -> str:
        return f"{self.kind}{self.of}"

    @property
    def action(self) -> Action:
        return ACTIONS[self.kind]


def topics_of(text: str) -> Sequence[Topic]:
    """Read a list of topics separated by commas; raise if one is unknown."""
    names = list(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))
    if not names:
        raise invalid([("topics", f"no topic is given; known are {_KNOWN}")])
    if len(names) > MOST_TOPICS:
        raise invalid([("topics", f"{len(names)} topics; at most {MOST_TOPICS} at once")])
    return [_topic_of(name) for name in names]


def _topic_of(name: str) -> Topic:
    kind, colon, of = name.partition(":")
    if not colon and name in ACTIONS:
        return Topic(name)
    if colon and of and f"{kind}:" in ACTIONS:
        try:
            if kind == "job":
                to_number(of)
            else:
                check_queue_name(of, "topics")
        except (InvalidRequest, ValueError) as error:
            raise invalid([("topics", f"{name[:120]!r}: {error}")]) from None
        return Topic(f"{kind}:", of)
    raise invalid([("topics", f"{name[:120]!r} is unknown; known are {_KNOWN}")])


class LookPace:
    """How long to wait between looks: the share of the time that they may take, by the quickest of the last ones."""

    def __init__(self) -> None:
        self._spent: deque[float] = deque(maxlen=_COMPARED)

    def rest(self, spent: float) -> float:
        """Return the seconds until the next look may begin, after one that took `spent` seconds."""
        self._spent.append(spent)
        return min(self._spent) / _SHARE


class TopicWatchers:
    """Looks at the topics that streams follow, and tells the streams."""

    def __init__(self, engine: Engine, counts: JobCounts, *, on_change: Callable[[], None] = lambda: None) -> None:
        """`on_change` is called before the streams are told of a change: what they then ask must not be older."""
        self._on_change = on_change
        self._engine = engine
        self._counts = counts
        self._inboxes: dict[Topic, set[Inbox]] = {}
        self._tasks: dict[Topic, asyncio.Task[None]] = {}

    @contextmanager
    def following(self, topics: Iterable[Topic], inbox: Inbox) -> Iterator[None]:
        """Put an event into a stream's inbox whenever one of its topics changes."""
        mine = [topic for topic in topics if topic.kind != OVERVIEW]
        for topic in mine:
            self._inboxes.setdefault(topic, set()).add(inbox)
            task = self._tasks.get(topic)
            if task is None or task.done():
                watch = supervised("a topic of the live stream", partial(self._watch, topic, self._look_of(topic)))
                self._tasks[topic] = asyncio.create_task(watch, name="rota-topic")
        try:
            yield
        finally:
            for topic in mine:
                self._inboxes[topic].discard(inbox)
                if not self._inboxes[topic]:
                    del self._inboxes[topic]
                    self._tasks.pop(topic).cancel()

    async def _watch(self, topic: Topic, look: Callable[[], Awaitable[Mark]]) -> None:
        loop = asyncio.get_running_loop()
        known: Mark = None
        pace = LookPace()
        while True:
            begun = loop.time()
            try:
                mark = await look()
            except RotaError as error:
                _log.debug("live stream: could not look at %s: %s", topic.name, error)
                await asyncio.sleep(_RETRY_SECONDS)
                continue
            if known is not None and mark != known:
                self._tell(topic)
            known = mark
            spent = loop.time() - begun
            await asyncio.sleep(max(LOOK_SECONDS - spent, pace.rest(spent)))

    def _tell(self, topic: Topic) -> None:
        self._on_change()
        event = b"event: changed\ndata: " + msgspec.json.encode({"topic": topic.name}) + b"\n\n"
        for inbox in self._inboxes.get(topic, ()):
            # A client that reads too slowly misses it. It is told again by the next change.
            if not inbox.full():
                inbox.put_nowait(event)

    def _look_of(self, topic: Topic) -> Callable[[], Awaitable[Mark]]:
        match topic.kind:
            case "jobs" | "jobs:":
                return lambda: self._jobs(topic.of)
            case "job:":
                return lambda: self._job(JobId(to_number(topic.of)))
            case "dead":
                return self._dead
            case "operations":
                return self._operations
            case "schedules":
                return self._schedules
            case "workers":
                return self._workers
            case _:
                return self._ledger

    async def _jobs(self, queue: str) -> Mark:
        """Read the newest job, the one that ended last, and the counts."""
        queues = (queue,) if queue else ()
        store = self._engine.store
        newest = await store.find_some(JobQuery(queues=queues, limit=1, is_light=True))
        ended = await store.find_some(JobQuery(states=tuple(sorted(FINISHED)), queues=queues, limit=1, is_light=True))
        census = await self._counts.census(at_most_old=LOOK_SECONDS, wait_for_count=True)
        lanes = [(one.lane, one.state, one.count) for one in census.lanes if not queue or one.lane.queue == queue]
        return (
            [(one.id, one.fence, one.state, one.updated_at) for one in (*newest.jobs, *ended.jobs)],
            lanes,
            () if queue else tuple(census.finished.items()),
        )

    async def _job(self, job_id: JobId) -> Mark:
        jobs = await self._engine.get([job_id])
        if not jobs:
            return "gone"
        (job,) = jobs
        attempts = await self._engine.store.attempts(job_id) if job.fence else ()
        last = (attempts[-1].progress, attempts[-1].log_tail) if attempts else ()
        return (job.fence, job.state, job.updated_at, job.lease_until is not None, last)

    async def _dead(self) -> Mark:
        """Read the job that died last, and how many there are."""
        newest = await self._engine.store.find_some(JobQuery(states=(State.DEAD,), limit=1, is_light=True))
        census = await self._counts.census(at_most_old=LOOK_SECONDS, wait_for_count=True)
        return ([(one.id, one.fence) for one in newest.jobs], census.finished.get(State.DEAD, 0))

    async def _operations(self) -> Mark:
        return list(await self._engine.store.operations(limit=_ROWS))

    async def _schedules(self) -> Mark:
        return [
            (one.id, one.version, one.next_fire_at, one.last_fire_at, one.last_job_id)
            for one in await self._engine.store.schedules()
        ]

    async def _workers(self) -> Mark:
        """Read all processes, without what changes with every heartbeat."""
        return [
            (one.boot, one.slots, one.busy, one.is_draining, one.version, one.orders)
            + ((one.facts.is_quiet, one.facts.jobs, one.facts.stacks_at) if one.facts is not None else ())
            for one in await self._engine.store.members()
        ]

    async def _ledger(self) -> Mark:
        return [one.number for one in await self._engine.store.ledger(limit=1)]
