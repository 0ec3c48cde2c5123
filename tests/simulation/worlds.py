"""Worlds drawn from seeds: who is there, what they want of each other, and what will be done to them.

Everything that can be decided before a run is decided here, and depends on the seed alone. Worlds are small on purpose:
a few dozen jobs in a few minutes hold every race that a million jobs do, and a thousand small worlds find more than one
large one.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from random import Random
from typing import Final

from rota.core.ids import ScheduleId
from rota.core.limit import STRICT, Limit
from rota.core.retry import Backoff
from rota.core.schedule import CatchUp, Overlap, Schedule
from rota.core.submission import Delivery, Need, Template
from rota.ports.store import Retention
from simulation import faults
from simulation.clocks import GENESIS
from simulation.faults import ALL_FAULTS, ExplainContext, Fault, FaultClass
from simulation.models.behaviour import TYPES, Ending, Step, payload_of
from simulation.models.client import Act, Submission, Wish
from simulation.models.scheduler import SchedulerHabits
from simulation.models.worker import WorkerHabits

QUEUES: Final = ("default", "bulk")
#: Rules whose fire times a checker can reckon by itself: every so many seconds since 1970.
RULES: Final = ("*/10 * * * * *", "*/15 * * * * *", "*/30 * * * * *", "@every 7s", "@every 13s", "* * * * *")
#: From this seed on there are limits: many jobs have a key, and queues, types and keys run few at once.
FIRST_WITH_LIMITS: Final = 10_000_000
KEYS: Final = ("a", "b", f"{TYPES[0]}:1", f"{TYPES[0]}:2")
#: Jobs of this key start in the order of submission. Those that wait for others have no such key: a host whose clock is
#: behind may give a job an id below those of the jobs that it waits for.
STRICT_KEY: Final = "in-order"
#: The part of the busy time in which new jobs come in.
COMING: Final = 0.75


@dataclass(frozen=True, slots=True)
class World:
    """A world before anything has happened in it."""

    seed: int
    #: When the quiet time begins at the latest. It lasts a fifth of the whole, or longer.
    quiet_at: float
    lease: timedelta
    #: Within which workers mean to be gone once they are asked to end; a grace is longer.
    drain: timedelta
    #: How long everyone waits for an answer of the store; sometimes longer than a lease lasts.
    patience_seconds: float
    workers: tuple[WorkerHabits, ...]
    schedulers: tuple[SchedulerHabits, ...]
    #: What falls to each client: its submissions and its acts.
    clients: tuple[tuple[tuple[Submission, ...], tuple[Act, ...]], ...]
    #: How many hosts serve the API.
    apis: int
    schedules: tuple[Schedule, ...]
    faults: tuple[Fault, ...]
    can_poison: bool
    limits: tuple[Limit, ...] = ()

    @property
    def surroundings(self) -> ExplainContext:
        """What the nemesis may know."""
        hosts = len(self.workers), len(self.schedulers), len(self.clients), self.apis
        return _surroundings(hosts, self.quiet_at, self.lease, self.drain)


def draw(seed: int, classes: Collection[FaultClass] = ALL_FAULTS, *, has_apis: bool = False) -> World:
    """Draw the world of a seed, with only those classes of faults; with hosts for the API, if it has any."""
    rng = Random(f"{seed}:world")
    lease = timedelta(seconds=rng.choice((3, 4, 5, 5, 8, 15)))
    quiet_at = rng.uniform(25, 70)
    submissions = _submissions(Random(f"{seed}:submissions"), rng.randint(6, 24), quiet_at * COMING, lease)
    limits: tuple[Limit, ...] = ()
    if seed >= FIRST_WITH_LIMITS:
        limits = _limits(Random(f"{seed}:limits"))
        submissions = _with_keys(Random(f"{seed}:keys"), submissions)
    schedules = _schedules(Random(f"{seed}:schedules"), quiet_at * COMING)
    acts = _acts(Random(f"{seed}:acts"), submissions, quiet_at * COMING, has_schedules=bool(schedules))
    drain = timedelta(seconds=Random(f"{seed}:drain").choice((2.5, 2 * lease.total_seconds() + 4)))
    workers = tuple(_worker(rng, number, lease, drain) for number in range(rng.choice((1, 2, 2, 3, 3, 4, 5))))
    schedulers = _schedulers(rng, submissions, has_schedules=bool(schedules))
    clients = _shares(rng, rng.choice((1, 2, 2, 3)), submissions, acts)
    # In one world of eight nothing goes wrong, only processes come and go: there, not one lease may be lost.
    is_calm = rng.random() < 1 / 8
    allowed = [kind for kind in classes if kind is FaultClass.TERMINATE or not is_calm]
    apis = Random(f"{seed}:apis").choice((1, 2, 2, 3)) if has_apis else 0
    around = _surroundings((len(workers), len(schedulers), len(clients), apis), quiet_at, lease, drain)
    return World(
        seed=seed,
        quiet_at=quiet_at,
        lease=lease,
        drain=drain,
        patience_seconds=rng.choice((2.0, 4.0, 10.0)),
        workers=workers,
        schedulers=schedulers,
        clients=clients,
        apis=apis,
        schedules=schedules,
        faults=tuple(faults.draw(seed, around, allowed)),
        can_poison=FaultClass.POISON in allowed,
        limits=limits,
    )


def _limits(rng: Random) -> tuple[Limit, ...]:
    """Draw limits of queues, types and keys; a key without one runs one job at a time."""
    drawn = (
        Limit("queue:default", rng.randint(1, 3)),
        Limit("queue:bulk", rng.choice((None, 2)), rate_limit=rng.choice(("1/s burst 1", "2/s", "1/s burst 2, 20/m"))),
        Limit(f"task:{TYPES[0]}", rng.choice((None, 2)), per_key_max_running=rng.choice((1, 2)), weight=2),
        Limit(f"task:{TYPES[1]}", rate_limit=rng.choice(("2/s burst 1", "1/s"))),
        Limit("key:a", rng.choice((1, 2, 3))),
    )
    chosen = tuple(limit for limit in drawn if rng.random() < 0.6)
    # Drawn after the others, so that these stay what they were.
    closed_until = GENESIS + timedelta(seconds=rng.uniform(5, 30))
    more = (Limit(f"key:{STRICT_KEY}", order=STRICT), Limit("key:b", closed_until=closed_until, reason="429"))
    return chosen + tuple(limit for limit in more if rng.random() < 0.6)


def _with_keys(rng: Random, submissions: Sequence[Submission]) -> list[Submission]:
    return [
        replace(one, template=replace(one.template, concurrency_key=_key(rng, one))) if rng.random() < 0.6 else one
        for one in submissions
    ]


def _key(rng: Random, submission: Submission) -> str:
    return rng.choice(KEYS if submission.after else (*KEYS, STRICT_KEY))


def _surroundings(
    hosts: tuple[int, int, int, int], quiet_at: float, lease: timedelta, drain: timedelta
) -> ExplainContext:
    workers, schedulers, clients, apis = hosts
    return ExplainContext(
        workers=[f"worker-{number}" for number in range(workers)],
        schedulers=[f"scheduler-{number}" for number in range(schedulers)],
        clients=[f"client-{number}" for number in range(clients)],
        apis=[f"api-{number}" for number in range(apis)],
        quiet_at=quiet_at,
        lease=lease.total_seconds(),
        drain=drain.total_seconds(),
    )


# Those who serve


def _worker(rng: Random, number: int, lease: timedelta, drain: timedelta) -> WorkerHabits:
    # The first one takes everything, so that nothing has to wait for ever; the others choose.
    is_picky = number > 0 and rng.random() < 0.4
    return WorkerHabits(
        slots=rng.randint(2, 4) if number == 0 else rng.randint(1, 4),
        queues=(rng.choice(QUEUES),) if is_picky else QUEUES,
        types=tuple(rng.sample(TYPES, 2)) if is_picky and rng.random() < 0.5 else None,
        lease=lease,
        drain=drain,
        poll_seconds=rng.uniform(1.0, 3.0),
        is_stubborn=rng.random() < 0.5,
    )


def _schedulers(rng: Random, submissions: Sequence[Submission], *, has_schedules: bool) -> tuple[SchedulerHabits, ...]:
    short, long = timedelta(seconds=5), timedelta(seconds=25)
    retention = Retention(
        completed=rng.choice((None, short, long)),
        cancelled=rng.choice((None, short, long)),
        dead=rng.choice((None, None, long)),
        history=None,
    )
    return tuple(
        SchedulerHabits(
            tick_seconds=rng.uniform(3.5, 7.0),
            retention=retention,
            has_schedules=has_schedules,
            has_expiries=any(_can_expire(submission.template) for submission in submissions),
            prunes_every=rng.randint(2, 7),
        )
        for _ in range(rng.choice((1, 2, 2, 3)))
    )


def _can_expire(template: Template | None) -> bool:
    if template is None:
        return False
    return template.expires is not None or _can_expire(template.on_success) or _can_expire(template.on_failure)


def _shares(
    rng: Random, count: int, submissions: Sequence[Submission], acts: Sequence[Act]
) -> tuple[tuple[tuple[Submission, ...], tuple[Act, ...]], ...]:
    """Deal submissions and acts out to clients; that one cancels what another one submitted is just as well."""
    owners = [rng.randrange(count) for _ in submissions]
    actors = [rng.randrange(count) for _ in acts]
    return tuple(
        (
            tuple(one for one, owner in zip(submissions, owners, strict=True) if owner == number),
            tuple(one for one, actor in zip(acts, actors, strict=True) if actor == number),
        )
        for number in range(count)
    )


# What is wanted


def _submissions(rng: Random, count: int, until: float, lease: timedelta) -> list[Submission]:
    made: list[Submission] = []
    at = 0.0
    while len(made) < count:
        # Some come in bursts: order only matters where there is a queue.
        at = at if made and rng.random() < 0.5 else rng.uniform(0, until)
        made.append(_submission(rng, len(made), at, lease, made))
    return [replace(one, at=min(one.at, until)) for one in made]


def _submission(rng: Random, number: int, at: float, lease: timedelta, earlier: Sequence[Submission]) -> Submission:
    template = _template(rng, lease, depth=2)
    keyed = [one for one in earlier if one.key is not None]
    if keyed and rng.random() < 0.15:
        first = rng.choice(keyed)
        # Usually the same request again; sometimes another one under the same key, which must be refused.
        body = first.body if rng.random() < 0.7 else f"other {number}"
        return Submission(number, first.at + rng.uniform(0, 20), template, first.key, body, first.keep)
    key = f"key-{number}" if rng.random() < 0.6 else None
    keep = timedelta(days=1) if rng.random() < 0.5 else timedelta(seconds=rng.uniform(2, 10))
    after: tuple[tuple[int, Need], ...] = ()
    if earlier and rng.random() < 0.2:
        parents = rng.sample(range(len(earlier)), min(rng.choice((1, 1, 2)), len(earlier)))
        after = tuple((parent, rng.choice((Need.SUCCESS, Need.SUCCESS, Need.END))) for parent in parents)
        at = max([at, *(earlier[parent].at + rng.uniform(0.2, 4) for parent in parents)])
    return Submission(number, at, template, key, f"body {number}", keep, after)


def _template(rng: Random, lease: timedelta, *, depth: int) -> Template:
    is_once = rng.random() < 0.2
    return Template(
        type=rng.choice(TYPES),
        payload=payload_of(_script(rng, lease.total_seconds())),
        queue=rng.choice((QUEUES[0], QUEUES[0], QUEUES[1])),
        priority=rng.choice((5, 5, rng.randint(1, 10))),
        max_attempts=rng.choice((1, 2, 3, 3, 5)),
        backoff=Backoff(base=timedelta(seconds=rng.choice((0.5, 1, 2))), cap=timedelta(seconds=6)),
        delivery=Delivery.AT_MOST_ONCE if is_once else Delivery.AT_LEAST_ONCE,
        expires=timedelta(seconds=rng.uniform(3, 20)) if rng.random() < 0.1 else None,
        delay=timedelta(seconds=rng.uniform(0.5, 12)) if rng.random() < 0.25 else None,
        on_success=_template(rng, lease, depth=depth - 1) if depth and rng.random() < 0.12 else None,
        on_failure=_template(rng, lease, depth=depth - 1) if depth and rng.random() < 0.2 else None,
    )


def _script(rng: Random, lease: float) -> list[Step]:
    """Write what the attempts of a job do. Most succeed at once; none snoozes for ever."""
    before = (Ending.FAIL, Ending.FAIL, Ending.SNOOZE, Ending.CRASH)
    last = rng.choices(tuple(Ending), weights=(70, 12, 5, 0, 3, 4))[0]
    steps = [_step(rng, rng.choice(before), lease) for _ in range(rng.choice((0, 0, 0, 1, 2)))]
    return [*steps, _step(rng, last, lease)]


def _step(rng: Random, ending: Ending, lease: float) -> Step:
    is_long = rng.random() < 0.12
    seconds = lease * rng.uniform(0.8, 2.0) if is_long else 0.05 + 3 * rng.random() ** 3
    return Step(ending, round(seconds, 3), is_deaf=rng.random() < 0.2)


def _acts(rng: Random, submissions: Sequence[Submission], until: float, *, has_schedules: bool) -> list[Act]:
    acts = [
        Act(one.at + rng.choice((0.02, 0.3, 3, 10)) * rng.random(), Wish.CANCEL, one.number)
        for one in submissions
        if rng.random() < 0.2
    ]
    acts += [Act(rng.uniform(0.2, 1) * until, Wish.RETRY) for _ in range(rng.randint(0, 4))]
    acts += [Act(rng.random() * until, Wish.RUN_NOW) for _ in range(rng.randint(0, 2))]
    if has_schedules:
        acts += [Act(rng.random() * until, Wish.EDIT) for _ in range(rng.randint(0, 2))]
    return acts


def _schedules(rng: Random, until: float) -> tuple[Schedule, ...]:
    return tuple(_schedule(rng, number, until) for number in range(rng.choice((0, 0, 1, 1, 2))))


def _schedule(rng: Random, number: int, until: float) -> Schedule:
    steps = [Step(Ending.SUCCEED if rng.random() < 0.8 else Ending.FAIL, round(0.05 + 4 * rng.random() ** 2, 3))]
    template = Template(
        type=rng.choice(TYPES),
        payload=payload_of(steps),
        max_attempts=rng.choice((1, 2)),
        priority=rng.randint(3, 7),
        delivery=rng.choice((Delivery.AT_LEAST_ONCE, Delivery.AT_LEAST_ONCE, Delivery.AT_MOST_ONCE)),
        backoff=Backoff(base=timedelta(seconds=1), cap=timedelta(seconds=4)),
    )
    schedule = Schedule(
        id=ScheduleId(number + 1),
        name=f"schedule-{number}",
        rule=rng.choice(RULES),
        template=template,
        created_at=GENESIS,
        updated_at=GENESIS,
        catch_up=rng.choice(tuple(CatchUp)),
        catch_up_limit=rng.choice((2, 5)),
        grace=timedelta(seconds=rng.choice((10, 20))),
        overlap=rng.choice(tuple(Overlap)),
        jitter=timedelta(seconds=rng.choice((0, 0, 2))),
        end_at=GENESIS + timedelta(seconds=until),
    )
    return _armed(schedule)


def _armed(schedule: Schedule) -> Schedule:
    """Give a new schedule its first fire time."""
    return replace(schedule, next_fire_at=schedule.next_after(GENESIS))
