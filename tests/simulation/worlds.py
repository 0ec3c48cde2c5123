"""Worlds drawn from seeds: their processes, submissions, operations, limits, workflows and faults.

Everything that can be decided before a run is decided here, and depends on the seed alone. Worlds are small: a few
dozen jobs in a few minutes can have every race that a million jobs can, and a thousand small worlds find more than a
large one.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from random import Random
from typing import Final

from rota.core.graph import WorkflowPolicy
from rota.core.ids import ScheduleId
from rota.core.limit import STRICT, Limit
from rota.core.retry import Backoff
from rota.core.schedule import CatchUp, Overlap, Schedule
from rota.core.step import StepKind
from rota.core.submission import TAKES, Delivery, Need, Takes, Template
from rota.core.waiting import DEFAULT_KEEP
from rota.ports.store import Retention
from simulation import faults
from simulation.clocks import GENESIS
from simulation.faults import ALL_FAULTS, Fault, FaultClass, Topology
from simulation.models.client import Action, ActionKind, Graph, Submission
from simulation.models.scheduler import SchedulerConfig
from simulation.models.scripts import (
    SIGNAL,
    TYPES,
    Ending,
    PlannedWait,
    Step,
    payload_of,
    payload_with_waits,
    script_of,
)
from simulation.models.worker import WorkerConfig

QUEUES: Final = ("default", "bulk")
#: Rules whose fire times the checker can compute by itself: multiples of some seconds since 1970.
RULES: Final = ("*/10 * * * * *", "*/15 * * * * *", "*/30 * * * * *", "@every 7s", "@every 13s", "* * * * *")
#: From this seed on there are limits: many jobs have a key, and queues, types and keys run few at once.
FIRST_WITH_LIMITS: Final = 10_000_000
KEYS: Final = ("a", "b", f"{TYPES[0]}:1", f"{TYPES[0]}:2")
#: Jobs of this key start in the order of submission. Those that wait for others have no such key: a host whose clock is
#: behind may give a job an id below those of the jobs that it waits for.
STRICT_KEY: Final = "in-order"
#: From this seed on there are workflows, and jobs that wait durably: for a time, an event, or a child.
FIRST_WITH_WORKFLOWS: Final = 20_000_000
#: Events that several jobs may wait for, some of them without a timeout. They are emitted at the latest when the
#: faults have ended.
EVENTS: Final = ("event-0", "event-1", "event-2")
#: The part of the time before the faults end in which jobs are submitted.
COMING: Final = 0.75


Share = tuple[tuple[Submission, ...], tuple[Action, ...], tuple[Graph, ...]]


@dataclass(frozen=True, slots=True)
class World:
    """A world before its run."""

    seed: int
    #: When the faults end at the latest, in seconds.
    quiet_at: float
    lease: timedelta
    #: The drain timeout of workers; the grace of a SIGTERM is longer.
    drain: timedelta
    #: The timeout of calls of the store; sometimes longer than a lease.
    patience_seconds: float
    workers: tuple[WorkerConfig, ...]
    schedulers: tuple[SchedulerConfig, ...]
    #: For each client its submissions, its operations and its workflows.
    clients: tuple[Share, ...]
    #: How many hosts serve the API.
    apis: int
    schedules: tuple[Schedule, ...]
    faults: tuple[Fault, ...]
    can_poison: bool
    limits: tuple[Limit, ...] = ()
    #: Events that are emitted at the latest when the faults have ended.
    events: tuple[str, ...] = ()

    @property
    def topology(self) -> Topology:
        """The names of the hosts and the times that faults are drawn from."""
        hosts = len(self.workers), len(self.schedulers), len(self.clients), self.apis
        return _topology(hosts, self.quiet_at, self.lease, self.drain)


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
    graphs: tuple[Graph, ...] = ()
    has_waits = seed >= FIRST_WITH_WORKFLOWS
    if has_waits:
        submissions = _with_waits(Random(f"{seed}:waits"), submissions[: 4 + seed % 5], lease)
        graphs = _graphs(Random(f"{seed}:graphs"), quiet_at * COMING, lease)
    schedules = _schedules(Random(f"{seed}:schedules"), quiet_at * COMING)
    acts = _actions(Random(f"{seed}:acts"), submissions, quiet_at * COMING, has_schedules=bool(schedules))
    if has_waits:
        acts += _acts_on_graphs(Random(f"{seed}:acts on graphs"), graphs)
        acts += _emissions(Random(f"{seed}:emissions"), submissions, quiet_at * COMING)
    drain = timedelta(seconds=Random(f"{seed}:drain").choice((2.5, 2 * lease.total_seconds() + 4)))
    workers = tuple(_worker(rng, number, lease, drain) for number in range(rng.choice((1, 2, 2, 3, 3, 4, 5))))
    templates = [one.template for one in submissions] + [template for one in graphs for template, _ in one.nodes]
    schedulers = _schedulers(rng, templates, has_schedules=bool(schedules), has_waits=has_waits)
    clients = _shares(rng, rng.choice((1, 2, 2, 3)), submissions, acts, graphs)
    # One world of eight has no faults, only restarts: there no lease may be lost.
    is_calm = rng.random() < 1 / 8
    allowed = [kind for kind in classes if kind is FaultClass.TERMINATE or not is_calm]
    apis = Random(f"{seed}:apis").choice((1, 2, 2, 3)) if has_apis else 0
    topology = _topology((len(workers), len(schedulers), len(clients), apis), quiet_at, lease, drain)
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
        faults=tuple(faults.draw(seed, topology, allowed)),
        can_poison=FaultClass.POISON in allowed,
        limits=limits,
        events=EVENTS if has_waits else (),
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


def _topology(hosts: tuple[int, int, int, int], quiet_at: float, lease: timedelta, drain: timedelta) -> Topology:
    workers, schedulers, clients, apis = hosts
    return Topology(
        workers=[f"worker-{number}" for number in range(workers)],
        schedulers=[f"scheduler-{number}" for number in range(schedulers)],
        clients=[f"client-{number}" for number in range(clients)],
        apis=[f"api-{number}" for number in range(apis)],
        quiet_at=quiet_at,
        lease=lease.total_seconds(),
        drain=drain.total_seconds(),
    )


# Workers, schedulers, clients


def _worker(rng: Random, number: int, lease: timedelta, drain: timedelta) -> WorkerConfig:
    # The first one takes every queue and type, so that no job waits for ever.
    is_picky = number > 0 and rng.random() < 0.4
    return WorkerConfig(
        slots=rng.randint(2, 4) if number == 0 else rng.randint(1, 4),
        queues=(rng.choice(QUEUES),) if is_picky else QUEUES,
        types=tuple(rng.sample(TYPES, 2)) if is_picky and rng.random() < 0.5 else None,
        lease=lease,
        drain=drain,
        poll_seconds=rng.uniform(1.0, 3.0),
        settles_late=rng.random() < 0.5,
    )


def _schedulers(
    rng: Random, templates: Sequence[Template], *, has_schedules: bool, has_waits: bool
) -> tuple[SchedulerConfig, ...]:
    short, long = timedelta(seconds=5), timedelta(seconds=25)
    retention = Retention(
        completed=rng.choice((None, short, long)),
        cancelled=rng.choice((None, short, long)),
        dead=rng.choice((None, None, long)),
        history=None,
    )
    return tuple(
        SchedulerConfig(
            tick_seconds=rng.uniform(3.5, 7.0),
            retention=retention,
            has_schedules=has_schedules,
            has_expiries=any(_can_expire(template) for template in templates),
            prunes_every=rng.randint(2, 7),
            has_waits=has_waits,
        )
        for _ in range(rng.choice((1, 2, 2, 3)))
    )


def _can_expire(template: Template | None) -> bool:
    if template is None:
        return False
    return template.expires is not None or _can_expire(template.on_success) or _can_expire(template.on_failure)


def _shares(
    rng: Random, count: int, submissions: Sequence[Submission], acts: Sequence[Action], graphs: Sequence[Graph]
) -> tuple[Share, ...]:
    """Deal submissions, acts and workflows out to clients; one may cancel what another one submitted."""
    owners = [rng.randrange(count) for _ in submissions]
    actors = [rng.randrange(count) for _ in acts]
    return tuple(
        (
            tuple(one for one, owner in zip(submissions, owners, strict=True) if owner == number),
            tuple(one for one, actor in zip(acts, actors, strict=True) if actor == number),
            tuple(one for one in graphs if one.number % count == number),
        )
        for number in range(count)
    )


# Submissions, operations, schedules


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


def _actions(rng: Random, submissions: Sequence[Submission], until: float, *, has_schedules: bool) -> list[Action]:
    acts = [
        Action(one.at + rng.choice((0.02, 0.3, 3, 10)) * rng.random(), ActionKind.CANCEL, one.number)
        for one in submissions
        if rng.random() < 0.2
    ]
    acts += [Action(rng.uniform(0.2, 1) * until, ActionKind.RETRY) for _ in range(rng.randint(0, 4))]
    acts += [Action(rng.random() * until, ActionKind.RUN_NOW) for _ in range(rng.randint(0, 2))]
    if has_schedules:
        acts += [Action(rng.random() * until, ActionKind.EDIT) for _ in range(rng.randint(0, 2))]
    return acts


# Workflows and durable waits


def _with_waits(rng: Random, submissions: Sequence[Submission], lease: timedelta) -> list[Submission]:
    return [
        replace(one, template=_waiting(rng, one.template, lease)) if rng.random() < 0.6 else one for one in submissions
    ]


def _waiting(rng: Random, template: Template, lease: timedelta) -> Template:
    """Let a job wait durably, and name its attempt in its result."""
    # A job that may start only once cannot be run again after a wait.
    can_wait = template.delivery is Delivery.AT_LEAST_ONCE and rng.random() < 0.8
    count = rng.choice((1, 1, 2, 3)) if can_wait else 0
    waits = [_wait(rng, number, lease) for number in range(count)]
    steps = script_of(template.payload).steps
    return replace(
        template,
        payload=payload_with_waits(steps, waits),
        on_success=_taking(rng, template.on_success, Takes.RESULT),
        on_failure=_taking(rng, template.on_failure, Takes.FAILURE),
    )


def _taking(rng: Random, template: Template | None, takes: Takes) -> Template | None:
    if template is None or rng.random() < 0.4:
        return template
    return replace(template, meta={**template.meta, TAKES: takes})


def _wait(rng: Random, number: int, lease: timedelta) -> PlannedWait:
    key = f"wait-{number}"
    match rng.choice((StepKind.SLEEP, StepKind.EVENT, StepKind.EVENT, StepKind.CALL)):
        case StepKind.SLEEP:
            return PlannedWait(key, StepKind.SLEEP, round(rng.choice((0.2, 3, 15)) * rng.random(), 3))
        case StepKind.EVENT:
            event = rng.choice((*EVENTS, SIGNAL))
            # A signal may not come.
            timeout = None if event != SIGNAL and rng.random() < 0.4 else round(rng.uniform(0.5, 20), 3)
            return PlannedWait(key, StepKind.EVENT, timeout, event)
        case _:
            return PlannedWait(key, StepKind.CALL, child=_child(rng, lease))


def _child(rng: Random, lease: timedelta) -> Template:
    template = replace(_started_once(_template(rng, lease, depth=0)), expires=None)
    waits = [PlannedWait("nap", StepKind.SLEEP, round(4 * rng.random(), 3))] if rng.random() < 0.3 else []
    if template.delivery is Delivery.AT_MOST_ONCE:
        waits = []
    return replace(template, payload=payload_with_waits(script_of(template.payload).steps, waits))


def _started_once(template: Template) -> Template:
    """Give a job that may start only once one attempt: the API refuses more."""
    return replace(template, max_attempts=1) if template.delivery is Delivery.AT_MOST_ONCE else template


def _graphs(rng: Random, until: float, lease: timedelta) -> tuple[Graph, ...]:
    return tuple(_graph(rng, number, until, lease) for number in range(rng.choice((1, 1, 2, 2, 3))))


def _graph(rng: Random, number: int, until: float, lease: timedelta) -> Graph:
    """Draw a small graph: a chain, a fan-out with its fan-in, or anything."""
    size = rng.randint(2, 7)
    shape = rng.choice(("chain", "fan", "any", "any"))
    nodes: list[tuple[Template, tuple[tuple[int, Need], ...]]] = []
    for place in range(size):
        before = {"chain": [place - 1], "fan": [0] if place < size - 1 else list(range(1, place))}.get(shape)
        if before is None:
            before = rng.sample(range(place), min(rng.choice((0, 1, 1, 2, 3)), place))
        parents = tuple((one, _need(rng)) for one in before if 0 <= one < place)
        nodes.append((_node(rng, lease, parents), parents))
    return Graph(number, rng.uniform(0, until * 0.7), rng.choice(tuple(WorkflowPolicy)), tuple(nodes))


def _need(rng: Random) -> Need:
    return rng.choices((Need.SUCCESS, Need.END, Need.FAILURE), weights=(7, 2, 1))[0]


def _node(rng: Random, lease: timedelta, parents: Sequence[tuple[int, Need]]) -> Template:
    template = _started_once(_template(rng, lease, depth=1))
    steps = script_of(template.payload).steps
    template = replace(template, payload=payload_with_waits(steps, ()))
    if rng.random() < 0.25:
        template = _waiting(rng, template, lease)
    if rng.random() < 0.3:
        template = replace(template, concurrency_key=rng.choice(KEYS))
    if not parents or rng.random() < 0.25:
        return template
    takes = Takes.RESULT if len(parents) == 1 else Takes.RESULTS
    if any(need is not Need.SUCCESS for _, need in parents) and rng.random() < 0.5:
        takes = Takes.FAILURE
    return replace(template, meta={**template.meta, TAKES: takes})


def _acts_on_graphs(rng: Random, graphs: Sequence[Graph]) -> list[Action]:
    acts = []
    for graph in graphs:
        for kind, likelihood in (
            (ActionKind.CANCEL_WORKFLOW, 0.25),
            (ActionKind.RETRY_WORKFLOW, 0.3),
            (ActionKind.RETRY_NODE, 0.25),
            (ActionKind.SKIP_NODE, 0.35),
        ):
            for _ in range(2):
                if rng.random() < likelihood:
                    node = f"node-{rng.randrange(len(graph.nodes))}"
                    acts.append(
                        Action(graph.at + rng.choice((0.1, 2, 10, 25)) * rng.random(), kind, graph.number, node)
                    )
    return acts


def _emissions(rng: Random, submissions: Sequence[Submission], until: float) -> list[Action]:
    """Draw emissions: before, during and after waits."""
    acts = []
    for name in EVENTS:
        for _ in range(rng.choice((0, 1, 1, 2))):
            keep = DEFAULT_KEEP if rng.random() < 0.7 else timedelta(seconds=rng.uniform(2, 6))
            at = rng.uniform(0, until) if rng.random() < 0.5 else rng.choice(submissions).at + 2 * rng.random() ** 2
            acts.append(Action(at, ActionKind.EMIT, detail=name, keep=keep))
    for one in submissions:
        waits = script_of(one.template.payload).waits
        if any(wait.event == SIGNAL for wait in waits) and rng.random() < 0.7:
            acts.append(Action(one.at + rng.choice((1, 8)) * rng.random(), ActionKind.SIGNAL, one.number, SIGNAL))
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
