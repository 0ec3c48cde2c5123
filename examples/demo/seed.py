"""Fill an empty store with three weeks of a shop's past, so that the dashboard has something to show.

    python examples/demo/seed.py demo-history.db        # or postgresql://…, mysql://…

Nothing is written past the store's own verbs: jobs are inserted, claimed and settled one by one at times of the past,
schedules fire, and the counts of the history are added, all as running processes would have done it. What Rota does not
keep is not made up: completed jobs of the last day only, dead ones of the last two weeks, counts of three weeks. The
same seed makes the same past. A store that has jobs is left alone.
"""

from __future__ import annotations

import asyncio
import json
import math
import random
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Final

from rota.core.decision import DecisionInputs, cancel, decide
from rota.core.graph import NewNode, NodeParent, WorkflowId, planned
from rota.core.history import Counted, HistoryFlush, Tally
from rota.core.ids import JobId, ScheduleId
from rota.core.job import Job
from rota.core.lease import Claim, WorkerId
from rota.core.ledger import LedgerEntry
from rota.core.lifecycle import State
from rota.core.limit import Limit
from rota.core.outcome import Failed, Outcome, Succeeded
from rota.core.queue import Lane, Queue
from rota.core.schedule import Schedule, plan
from rota.core.settlement import JobError
from rota.core.submission import NewJob, Template
from rota.engine.ids import IdMaker
from rota.ports.store import Store
from rota.runtime.store import open_store

SEED: Final = 2026
DAYS_OF_COUNTS: Final = 21
#: The last hours of the counts are by minute, as a running deployment would have them.
HOURS_BY_MINUTE: Final = 26
#: Jobs a minute, about as many as the demo's schedules make.
PER_MINUTE: Final = 18.0
HOURS_OF_JOBS: Final = 20
JOBS: Final = 2_500
CUSTOMERS: Final = ("ada", "bob", "eve", "joe", "kim", "lin", "mia", "sam")
WORKERS: Final = ("shop-1", "shop-2", "media-1")


@dataclass(frozen=True)
class Kind:
    """A type of job: its queue, how often it comes beside others, how long it takes, how often it fails and by what."""

    type: str
    queue: str
    share: int
    seconds: float
    failing: float = 0.0
    errors: tuple[tuple[str, str], ...] = ()
    max_attempts: int = 3
    payload: Mapping[str, object] = field(default_factory=dict)


KINDS: Final = (
    Kind("take_order", "orders", 30, 0.05, payload={"customer": "ada"}),
    Kind("send_email", "mail", 40, 0.2, 0.03, (("SMTPServerDisconnected", "Connection unexpectedly closed"),)),
    Kind("charge_card", "payments", 30, 0.6, 0.12, (("ConnectionError", "the bank does not answer"),), 5),
    Kind("sync_stock", "orders", 12, 1.1, 0.2, (("TimeoutError", "warehouse 'north' did not answer within 1.5 s"),)),
    Kind("resize_images", "media", 6, 18.0, 0.05, (("OSError", "[Errno 28] No space left on device"),)),
    Kind("import_prices", "orders", 4, 0.4, 0.3, (("ValueError", "line 17: 'n/a' is not a number"),), 1),
)
SHARES: Final = sum(kind.share for kind in KINDS)
#: Jobs that failed for good in the last two weeks: type, error, how many, how many days ago the first and the last.
DEAD: Final = (
    ("charge_card", "payments", "CardDeclined", "card 4242 was declined: insufficient funds", 23, 13.0, 0.1),
    ("send_email", "mail", "SMTPRecipientsRefused", "550 mailbox unavailable", 14, 11.0, 0.4),
    ("import_prices", "orders", "ValueError", "prices of 'acme': line 17: 'n/a' is not a number", 9, 6.0, 0.2),
    ("resize_images", "media", "MemoryError", "cannot allocate 412 MB for a picture", 5, 3.0, 1.2),
    ("export_ledger", "reports", "KeyError", "'vat_id'", 3, 2.0, 1.0),
)
SCHEDULES: Final = (
    ("hourly stock report", "5 * * * *", "UTC", Template("gen_report", '{"pages":4}', "reports")),
    ("nightly invoices", "15 2 * * *", "Europe/Berlin", Template("gen_report", '{"pages":12}', "reports")),
    ("weekday digest", "30 8 * * 1-5", "America/New_York", Template("send_email", '{"to":"team@example.com"}', "mail")),
    ("prune carts", "*/20 * * * *", "UTC", Template("gen_report", '{"pages":1}', "reports")),
)


def main() -> None:
    """Fill the store that the first argument names."""
    if len(sys.argv) != 2:  # noqa: PLR2004 - the program and its argument
        raise SystemExit(f"usage: {sys.argv[0]} STORE, a file or the URL of a database")
    made = asyncio.run(seed(sys.argv[1]))
    print(f"{sys.argv[1]}: {made} jobs made" if made else f"{sys.argv[1]}: it has jobs already and is left alone")  # noqa: T201


async def seed(url: str) -> int:
    """Fill a store, unless it has jobs; give how many were made."""
    store = await open_store(url)
    try:
        if (await store.census()).total():
            return 0
        return await Past(store, await store.time()).make()
    finally:
        await store.close()


class Past:
    """Makes the past of a store that is empty."""

    def __init__(self, store: Store, now: datetime) -> None:
        self._store = store
        self._now = now
        self._random = random.Random(SEED)  # noqa: S311 - the same past each time
        self._clock = now
        self._made = 0

    async def make(self) -> int:
        await self._add_counts()
        await self._make_dead()
        schedules = [await self._schedule(*one) for one in SCHEDULES]
        for at in sorted(self._times(JOBS)):
            await self._run_one(self._kind(), at)
        for schedule in schedules:
            await self._fire(schedule)
        await self._make_workflows()
        await self._make_waiting()
        await self._close_shop()
        await self._set_limits()
        return self._made

    def _fresh_id(self) -> JobId:
        # A maker of its own: ids of one maker only grow, and this past is not made in order.
        return IdMaker(lambda: self._clock, self._random.random)()

    def _times(self, count: int) -> Iterator[datetime]:
        for _ in range(count):
            # More of them lately: the page opens on the last hour.
            yield self._now - timedelta(hours=HOURS_OF_JOBS * self._random.random() ** 2) - timedelta(minutes=1)

    def _kind(self) -> Kind:
        return self._random.choices(KINDS, [kind.share for kind in KINDS])[0]

    async def _add_counts(self) -> None:
        """Add the counts of three weeks, busier by day, and minute by minute for the last day."""
        spans = [(timedelta(hours=hour), 60 * PER_MINUTE) for hour in range(HOURS_BY_MINUTE, DAYS_OF_COUNTS * 24)]
        spans += [(timedelta(minutes=minute), PER_MINUTE) for minute in range(HOURS_BY_MINUTE * 60)]
        for number in range(0, len(spans), 100):
            counted = [
                Counted(age, self._counts(self._now - age, scale)) for age, scale in spans[number : number + 100]
            ]
            await self._store.add_history(HistoryFlush("seed", number, counted))

    def _counts(self, at: datetime, scale: float) -> Mapping[Lane, Tally]:
        # Most at two in the afternoon, least at two in the morning.
        by_day = 0.75 - 0.25 * math.cos((at.hour + at.minute / 60 - 2) * math.pi / 12)
        incident = timedelta(days=6) < self._now - at < timedelta(days=6, hours=5) or at.hour == 14  # noqa: PLR2004
        lanes: dict[Lane, Tally] = {}
        for kind in KINDS:
            count = int(kind.share / SHARES * scale * by_day * self._random.uniform(0.7, 1.3) + self._random.random())
            failed = sum(self._random.random() < kind.failing * (2 if incident else 1) for _ in range(min(count, 200)))
            tally = Tally()
            dead = sum(self._random.random() < 1 / 9 for _ in range(failed))
            tally.counts.update(
                submitted=count, started=count + failed, succeeded=count - dead, failed=failed, dead=dead
            )
            for _ in range(min(count, 40)):
                tally.measure("wait", self._random.expovariate(20))
                tally.measure("duration", kind.seconds * self._random.lognormvariate(0, 0.4))
            lanes[Lane(kind.queue, kind.type)] = tally
        return lanes

    async def _insert(self, job: NewJob, at: datetime) -> None:
        await self._store.insert([job], now=at)
        self._made += 1

    def _new(self, kind: Kind, at: datetime) -> NewJob:
        self._clock = at
        customer = self._random.choice(CUSTOMERS)
        payload = {
            "send_email": {"to": f"{customer}@example.com", "subject": "Your order"},
            "charge_card": {"amount": self._random.randint(5, 300), "card": "4242"},
            "resize_images": {"count": 120, "folder": f"/pictures/{customer}"},
        }.get(kind.type, dict(kind.payload))
        tags = (f"customer:{customer}",)
        text = json.dumps(payload)
        return NewJob(self._fresh_id(), kind.type, text, kind.queue, max_attempts=kind.max_attempts, tags=tags)

    async def _run_one(self, kind: Kind, at: datetime) -> None:
        """Submit a job and run it to its end, attempt by attempt."""
        job = self._new(kind, at)
        await self._insert(job, at)
        at += timedelta(seconds=self._random.expovariate(15))
        while True:
            leased = await self._claim(kind.queue, kind.type, at)
            if leased is None:
                return
            at += timedelta(seconds=kind.seconds * self._random.lognormvariate(0, 0.4))
            is_failing = bool(kind.errors) and self._random.random() < kind.failing
            outcome: Outcome = (
                Failed(_error(*self._random.choice(kind.errors), kind.type)) if is_failing else Succeeded(_result(kind))
            )
            again = await self._settle(leased, outcome, at)
            if again is None:
                return
            at = again + timedelta(seconds=0.01)
            await self._store.promote(10, now=at)

    async def _claim(self, queue: str, type_: str, at: datetime) -> Job | None:
        worker = "media-1" if queue == "media" else self._random.choice(WORKERS[:2])
        wanted = Claim(WorkerId(worker, f"boot-{worker}"), 1, (queue,), (type_,), timedelta(minutes=5))
        return next(iter(await self._store.claim(wanted, now=at)), None)

    async def _settle(self, job: Job, outcome: Outcome, at: datetime) -> datetime | None:
        """Settle an attempt; give when the next one is due."""
        settlement = decide(job, outcome, DecisionInputs(at, self._random.random()))
        await self._store.settle([settlement], now=at)
        return settlement.run_at if settlement.target is State.RETRYING else None

    async def _make_dead(self) -> None:
        for type_, queue, name, message, count, first, last in DEAD:
            for number in range(count):
                days = last + (first - last) * (1 - number / count) ** 2
                at = self._now - timedelta(days=days, seconds=self._random.random() * 600)
                kind = Kind(type_, queue, 1, 0.5, 1.0, ((name, message),), self._random.choice((1, 2, 3)))
                await self._run_one(kind, at)

    async def _schedule(self, name: str, rule: str, zone: str, template: Template) -> ScheduleId:
        begun = self._now - timedelta(days=7)
        self._clock = begun
        schedule = Schedule(
            id=ScheduleId(self._fresh_id()), name=name, rule=rule, zone=zone, template=template, created_at=begun,
            updated_at=begun,
        )  # fmt: skip
        first = self._now - timedelta(hours=HOURS_OF_JOBS) if "*" in rule.split()[1] else begun
        schedule = replace(schedule, next_fire_at=schedule.next_after(first))
        entry = LedgerEntry("ada", "schedules.create", name, "127.0.0.1", surface="ui")
        await self._store.put_schedules([schedule], entry=entry, now=begun)
        return schedule.id

    async def _fire(self, schedule_id: ScheduleId) -> None:
        """Fire a schedule for all its past fire times, each in its turn, and run the jobs."""
        while True:
            (schedule,) = await self._store.schedules([schedule_id])
            at = schedule.next_fire_at
            if at is None or at > self._now:
                return
            at += timedelta(seconds=self._random.expovariate(4))
            self._clock = at
            await self._store.fire([plan(schedule, at, previous_is_active=False, fresh_id=self._fresh_id)], now=at)
            self._made += 1
            template = schedule.template
            leased = await self._claim(template.queue, template.type, at + timedelta(milliseconds=8))
            if leased is not None:
                failing = self._random.random() < 1 / 12
                error = _error("RuntimeError", "the printer is out of paper", template.type)
                outcome = Failed(error, permanent=True) if failing else Succeeded('{"pages":4}')
                await self._settle(leased, outcome, at + timedelta(seconds=self._random.uniform(1, 6)))

    async def _make_workflows(self) -> None:
        """Leave a workflow that has completed, one that has failed, and one whose last nodes wait for the night."""
        charge, mail, sync = KINDS[2], KINDS[1], KINDS[3]
        for number, (name, outcome) in enumerate(
            (("order 1041", Succeeded("{}")), ("order 1042", Failed(_error("CardDeclined", "declined", "charge_card"))))
        ):
            at = self._now - timedelta(minutes=30 - 10 * number)
            nodes = (
                self._node("charge", charge, at),
                self._node("stock", sync, at),
                self._node("mail", mail, at, 0, 1),
            )
            await self._submit_workflow(name, nodes, at)
            await self._run_node(
                charge, replace(outcome, permanent=True) if isinstance(outcome, Failed) else outcome, at
            )
            await self._run_node(sync, Succeeded("640"), at)
            await self._run_node(mail, Succeeded("{}"), at + timedelta(seconds=3))
        at = self._now - timedelta(minutes=5)
        reports = Kind("gen_report", "reports", 1, 2.0, payload={"pages": 12})
        ledger = self._node("close ledger", reports, self._now + timedelta(hours=6), 0)
        nodes = (self._node("count stock", sync, at), ledger, self._node("send report", mail, at, 1))
        await self._submit_workflow("month end", nodes, at)
        await self._run_node(sync, Succeeded("640"), at)

    def _node(self, name: str, kind: Kind, run_at: datetime, *parents: int) -> NewNode:
        job = self._new(kind, min(run_at, self._now))
        is_later = run_at > self._now
        return NewNode(name, replace(job, run_at=run_at if is_later else None), tuple(map(NodeParent, parents)))

    async def _submit_workflow(self, name: str, nodes: tuple[NewNode, ...], at: datetime) -> None:
        await self._store.put_workflow(planned(WorkflowId(self._fresh_id()), name, nodes), now=at)
        self._made += len(nodes)

    async def _run_node(self, kind: Kind, outcome: Outcome, at: datetime) -> None:
        leased = await self._claim(kind.queue, kind.type, at + timedelta(seconds=1))
        if leased is not None:
            await self._settle(leased, outcome, at + timedelta(seconds=1 + kind.seconds))

    async def _make_waiting(self) -> None:
        """Leave jobs that wait: for their time, for a worker that does not run, and in a paused queue."""
        for number in range(24):
            at = self._now - timedelta(minutes=90 - number)
            await self._insert(self._new(Kind("transcode_video", "video", 1, 60.0), at), at)
        for number in range(40):
            at = self._now - timedelta(minutes=50 - number)
            await self._insert(self._new(Kind("send_newsletter", "newsletter", 1, 0.2), at), at)
        for number in range(12):
            job = self._new(KINDS[1], self._now)
            later = self._now + timedelta(hours=1 + number)
            await self._insert(NewJob(job.id, job.type, job.payload, job.queue, run_at=later, tags=job.tags), self._now)
        cancelled = [self._new(KINDS[1], self._now - timedelta(hours=2, minutes=one)) for one in range(5)]
        for job in cancelled:
            await self._insert(job, self._now - timedelta(hours=2))
        found = await self._store.get([job.id for job in cancelled])
        entry = LedgerEntry("bob", "jobs.cancel", f"{len(found)} jobs", "127.0.0.1", surface="cli")
        await self._store.settle([s for job in found if (s := cancel(job))], entry=entry, now=self._now)

    async def _close_shop(self) -> None:
        queue = Queue(
            "newsletter", paused_at=self._now - timedelta(minutes=45), pause_reason="the texts are being checked"
        )
        entry = LedgerEntry("ada", "queues.pause", "newsletter", "127.0.0.1", queue.pause_reason or "", surface="ui")
        await self._store.put_queue(queue, entry=entry, now=self._now - timedelta(minutes=45))

    async def _set_limits(self) -> None:
        limits = (Limit("queue:media", max_running=1), Limit("task:charge_card", rate_limit="5/s"))
        for limit in limits:
            entry = LedgerEntry("ada", "limits.set", limit.name, "127.0.0.1", surface="ui")
            await self._store.put_limits([replace(limit, set_by="ada")], entry=entry, now=self._now)


def _error(name: str, message: str, type_: str) -> JobError:
    trace = (
        "Traceback (most recent call last):\n"
        f'  File "/srv/shop/tasks.py", line 48, in {type_}\n    answer = client.call(request)\n'
        '  File "/srv/shop/client.py", line 112, in call\n    raise error\n'
        f"{name}: {message}\n"
    )
    return JobError(name, message, trace)


def _result(kind: Kind) -> str:
    return json.dumps({"done": kind.type})


if __name__ == "__main__":
    main()
