"""The state machine (Hypothesis): runs the same operations on a store and on the reference model, and compares them.

Each rule sends one verb, or a few that belong together, to both and compares the answers. After each rule all that can
be seen of the jobs is compared field by field. What was decided, planned or leased is kept and used again much later,
so that stale fences, stale versions and repeated requests come up all the time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any, Final, TypeVar

from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, initialize, invariant, multiple, precondition, rule

from builders import BASE, HOUR, MINUTE, Ids, ManualClock, key
from conformance.model import strategies
from conformance.model.reference import Reference
from conformance.stores.adapters import Adapter, opened
from conformance.stores.transitions import EVERYTHING
from rota.core.cluster import Member, Role
from rota.core.decision import DecisionInputs, cancel, decide, expire, retry, run_now, skip
from rota.core.errors import IllegalTransition
from rota.core.graph import NewNode, NodeParent, WorkflowId, WorkflowPolicy, planned
from rota.core.ids import JobId, ScheduleId
from rota.core.job import Job
from rota.core.lease import Claim, Renewal, WorkerId
from rota.core.ledger import LedgerEntry
from rota.core.lifecycle import FINISHED, TIMED, WAITING, Event, State
from rota.core.outcome import Lost, Outcome, Released, Suspended
from rota.core.queue import Lane, Queue
from rota.core.schedule import Firing, Schedule, backfill, plan
from rota.core.settlement import Settlement
from rota.core.step import Resolution, StepKind
from rota.core.submission import Dependency, Need, NewJob, Template
from rota.core.waiting import Emission, Wait
from rota.ports.store import Census, DeadGroup, JobQuery, Retention, Store

ALL: Final = JobQuery(limit=EVERYTHING)
ACT: Final = LedgerEntry("olga", "act", "something")
#: Answers of which the port does not say in which order they come.
UNORDERED: Final = {"discard", "dead_groups", "dead_trend"}

MANY: Final = 8

Thing = TypeVar("Thing")
Rule = TypeVar("Rule", bound=Callable[..., Any])
#: What a rule gives to a bundle: nothing, one or many.
Given = Any


def plain(answer: object) -> object:
    """Convert an answer to a form in which only the obligations of the port are compared."""
    match answer:
        case Job():
            # How many waits a job had when it stopped waiting says nothing about what it does now.
            return answer if answer.state is State.BLOCKED else replace(answer, blockers=0)
        case Census():
            lanes = frozenset(lane for lane in answer.lanes if lane.count)
            return lanes, plain(answer.finished), plain(answer.pruned)
        case DeadGroup():
            return replace(answer, example=JobId(0))
        case Mapping():
            return {name: count for name, count in answer.items() if count}
        case str() | bytes():
            return answer
        case Sequence():
            return [plain(each) for each in answer]
        case _:
            return answer


def chosen(things: Sequence[Thing], number: int) -> Thing:
    """Choose one of many, the latest for zero, so that a shrunk number means the thing at hand."""
    return things[-1 - number % len(things)]


def is_roomy(machine: StoreMachine) -> bool:
    """Whether more jobs are welcome: in a crowd nothing happens to anyone."""
    return sum(job.state not in FINISHED for job in machine.model.jobs.values()) < MANY


def when(*states: State) -> Callable[[Rule], Rule]:
    """Let a rule wait until there is a job in one of these states: what it does to none is soon known."""

    def is_there(machine: StoreMachine) -> bool:
        return any(job.state in states for job in machine.model.jobs.values())

    return precondition(is_there)


class StoreMachine(RuleBasedStateMachine):
    """Drives one store and the model."""

    jobs: Bundle[JobId] = Bundle("jobs")
    moves: Bundle[Settlement] = Bundle("moves")
    plans: Bundle[Schedule] = Bundle("plans")
    firings: Bundle[Firing] = Bundle("firings")

    def __init__(self, adapter: Adapter, folder: Path) -> None:
        super().__init__()
        self.clock = ManualClock()
        self.ids = Ids()
        self.model = Reference(clock=self.clock)
        self.claims: list[Claim] = []
        self.graphs: list[WorkflowId] = []
        self.leases: list[Job] = []
        self.seen: dict[JobId, Job] = {}
        self.runner = asyncio.Runner()
        self.opening = opened(adapter, folder, self.clock)
        self.store: Store = self.run(self.opening.__aenter__())

    def run(self, awaitable: Any) -> Any:  # noqa: ANN401 - whatever it gives
        return self.runner.get_loop().run_until_complete(awaitable)

    def teardown(self) -> None:
        self.run(self.opening.__aexit__(None, None, None))
        self.runner.close()

    def both(self, verb: str, *arguments: object, **options: object) -> Any:  # noqa: ANN401 - whatever the verb gives
        """Call the same verb on the store and on the model, and compare the answers."""
        return self.run(self.ask_both(verb, *arguments, **options))

    async def ask_both(self, verb: str, *arguments: object, **options: object) -> Any:  # noqa: ANN401 - as above
        answer = await getattr(self.store, verb)(*arguments, **options)
        expected = await getattr(self.model, verb)(*arguments, **options)
        if verb in UNORDERED:
            answer, expected = sorted(answer, key=repr), sorted(expected, key=repr)
        assert plain(answer) == plain(expected), verb
        return expected

    def means(self) -> DecisionInputs:
        return DecisionInputs(now=self.clock(), follow_up_id=self.ids())

    def take(self, claim: Claim) -> list[Job]:
        """Claim, and keep the leases: a former holder may write at any time."""
        given: list[Job] = self.both("claim", claim)
        self.leases += given
        return given

    def held(self, picks: list[strategies.Pick]) -> list[Job]:
        """Choose jobs as their holders know them: such as run now, or any that ever ran."""
        running = [job for job in self.model.jobs.values() if job.state is State.RUNNING]
        return [chosen(self.leases if pick.is_stale else running, pick.number) for pick in picks]

    def later(self, jump: timedelta | None) -> None:
        """Let time pass: for a while, or up to the very moment at which something is due next."""
        due = None if jump is not None else self.run(self.model.timetable()).first
        self.clock.moment = max(self.clock(), due) if due is not None else self.clock() + (jump or strategies.NOTHING)

    # Submissions

    @precondition(is_roomy)
    @rule(target=jobs, lane=strategies.lanes, number=st.sampled_from([1, 2, 3]), bound=st.sampled_from([None, 4]))
    def insert_plain(self, lane: tuple[str, str], number: int, bound: int | None = None) -> Given:
        queue, kind = lane
        batch = [NewJob(self.ids(), kind, queue=queue) for _ in range(number)]
        self.both("insert", batch, bound=bound)
        return multiple(*(new.id for new in batch))

    @precondition(is_roomy)
    @rule(
        target=jobs,
        lane=strategies.lanes,
        fields=strategies.job_fields,
        run_at=strategies.offsets,
        expires=strategies.expiries,
        named=strategies.keys,
    )
    def insert_rich(
        self,
        lane: tuple[str, str],
        fields: dict[str, Any],
        run_at: timedelta | None,
        expires: timedelta | None,
        named: tuple[str, bytes, timedelta] | None,
    ) -> JobId:
        queue, kind = lane
        now = self.clock()
        new = NewJob(
            self.ids(),
            kind,
            queue=queue,
            run_at=None if run_at is None else now + run_at,
            expires_at=None if expires is None else now + expires,
            idempotency=None if named is None else key(named[0], named[1], keep=named[2]),
            **fields,
        )
        self.both("insert", [new, replace(new, id=self.ids())] if named else [new])
        return new.id

    @precondition(is_roomy)
    @rule(
        target=jobs, first=jobs, rest=st.lists(st.tuples(jobs, strategies.needs), max_size=2), delay=strategies.offsets
    )
    def insert_waiting(self, first: JobId, rest: list[tuple[JobId, Need]], delay: timedelta | None) -> JobId:
        run_at = None if delay is None else self.clock() + delay
        waits = (Dependency(first), *(Dependency(parent, need) for parent, need in rest))
        new = NewJob(self.ids(), "mail", queue="left", run_at=run_at, after=waits)
        self.both("insert", [new])
        return new.id

    @precondition(is_roomy)
    @rule(target=jobs, top=jobs, need=strategies.needs, is_backwards=st.booleans())
    def insert_family(self, top: JobId, need: Need, *, is_backwards: bool) -> Given:
        """A diamond below a job, in one batch, in either order."""
        left, right, bottom = self.ids(), self.ids(), self.ids()
        batch = [
            NewJob(left, "mail", queue="left", after=(Dependency(top, need),)),
            NewJob(right, "report", queue="right", after=(Dependency(top, Need.END),)),
            NewJob(bottom, "mail", queue="left", after=(Dependency(left), Dependency(right, need))),
        ]
        self.both("insert", batch[::-1] if is_backwards else batch)
        return multiple(left, right, bottom)

    @precondition(is_roomy)
    @rule(job=jobs)
    def insert_under_a_known_id(self, job: JobId) -> None:
        known = NewJob(job, "report", queue="right", tags=("ghost",))
        self.both("insert", [known, NewJob(self.ids(), "mail", queue="left")])

    # Workflows

    @precondition(is_roomy)
    @rule(
        target=jobs, shape=st.sampled_from(sorted(strategies.GRAPHS)), policy=st.sampled_from(WorkflowPolicy), top=jobs
    )
    def put_workflow(self, shape: str, policy: WorkflowPolicy, top: JobId) -> Given:
        """A graph, some of whose nodes have a follow-up for failures, or wait for a job outside."""
        nodes = [
            NewNode(
                f"node-{place}",
                NewJob(
                    self.ids(),
                    "mail",
                    queue="left",
                    on_failure=Template("report", queue="right") if place % 2 else None,
                ),
                tuple(NodeParent(None, need, top) if on is None else NodeParent(on, need) for on, need in parents),
            )
            for place, parents in enumerate(strategies.GRAPHS[shape])
        ]
        made = planned(WorkflowId(self.ids()), shape, nodes, policy)
        self.both("put_workflow", made)
        self.graphs.append(made.id)
        return multiple(*(job.id for job in made.jobs))

    @when(*WAITING)
    @rule(job=jobs)
    def skip_job(self, job: JobId) -> None:
        for known in self.both("get", [job]):
            if known.state in WAITING and known.state is not State.RUNNING:
                self.both("settle", [skip(known)])

    @precondition(lambda self: self.graphs)
    @rule(number=strategies.numbers)
    def look_at_a_workflow(self, number: int) -> None:
        workflow_id = chosen(self.graphs, number)
        self.both("nodes", workflow_id)
        answer = self.run(self.store.workflows([workflow_id]))
        expected = self.run(self.model.workflows([workflow_id]))
        assert [(one.state, dict(one.progress)) for one in answer] == [
            (one.state, dict(one.progress)) for one in expected
        ]

    # Workers

    @when(State.PENDING)
    @rule(rounds=st.lists(st.tuples(strategies.outcomes, strategies.jumps), min_size=1, max_size=3))
    def work(self, rounds: list[tuple[Outcome, timedelta | None]]) -> None:
        """A worker that takes what there is and ends it, round by round."""
        for outcome, jump in rounds:
            given = self.take(Claim(strategies.WORKERS[0], 2, strategies.QUEUES))
            self.later(jump)
            self.both("settle", [decide(job, outcome, self.means()) for job in given])

    @when(State.PENDING)
    @rule(
        worker=st.sampled_from(strategies.WORKERS),
        limit=strategies.limits,
        queues=strategies.queues_asked,
        types=strategies.types_asked,
        lease=strategies.leases,
    )
    def claim(
        self,
        worker: WorkerId,
        limit: int,
        queues: tuple[str, ...],
        types: tuple[str, ...] | None,
        lease: timedelta,
    ) -> None:
        wanted = Claim(worker, limit, queues, types, lease, claim_id=str(self.ids()))
        self.claims.append(wanted)
        self.take(wanted)

    @when(State.SCHEDULED, State.RETRYING)
    @rule(
        limit=strategies.limits,
        queues=strategies.queues_asked,
        types=strategies.types_asked,
        ahead=strategies.spans_ahead,
    )
    def claim_ahead(self, limit: int, queues: tuple[str, ...], types: tuple[str, ...] | None, ahead: timedelta) -> None:
        wanted = Claim(strategies.WORKERS[0], limit, queues, types, claim_id=str(self.ids()), ahead=ahead)
        self.claims.append(wanted)
        self.take(wanted)

    @when(State.PENDING, State.QUEUED)
    @rule(first=jobs, rest=st.lists(jobs, max_size=3), queues=strategies.queues_asked, types=strategies.types_asked)
    def claim_by_id(
        self, first: JobId, rest: list[JobId], queues: tuple[str, ...], types: tuple[str, ...] | None
    ) -> None:
        self.take(Claim(strategies.WORKERS[1], 3, queues, types, ids=(first, *rest)))

    @precondition(lambda self: self.claims)
    @rule(number=strategies.numbers)
    def claim_again(self, number: int) -> None:
        # A claim that found nothing before may find something now.
        self.take(chosen(self.claims, number))

    @when(State.RUNNING)
    @rule(number=strategies.numbers, outcome=st.sampled_from([Lost(), Released()]), late=strategies.outcomes)
    def pass_on(self, number: int, outcome: Outcome, late: Outcome) -> None:
        """Take a lease from its holder and give it to another; then the first one writes with its stale fence."""
        (known,) = self.held([strategies.Pick(number)])
        self.both("settle", [decide(known, outcome, self.means())])
        self.take(Claim(strategies.WORKERS[1], 1, strategies.QUEUES, ids=(known.id,)))
        self.both("settle", [decide(known, late, self.means())])

    @when(State.RUNNING)
    @rule(
        picks=strategies.picks,
        lease=strategies.leases,
        progress=st.none() | st.sampled_from(["1", "2"]),
        log_tail=st.none() | st.sampled_from(["one", "two"]),
    )
    def renew(self, picks: list[strategies.Pick], lease: timedelta, progress: str | None, log_tail: str | None) -> None:
        held = {(job.id, job.fence) for job in self.held(picks)}
        self.both("renew", [Renewal(job_id, fence, lease, progress, log_tail) for job_id, fence in sorted(held)])

    @when(State.RUNNING)
    @rule(
        picks=strategies.picks,
        outcome=strategies.outcomes,
        log_tail=st.none() | st.just("end"),
        progress=st.none() | st.just("100%"),
    )
    def settle(
        self, picks: list[strategies.Pick], outcome: Outcome, log_tail: str | None, progress: str | None
    ) -> None:
        settlements = [
            replace(
                decide(job, outcome, self.means()),
                log_tail=log_tail,
                progress=progress,
                lapsed_at=job.lease_until if isinstance(outcome, Lost) else None,
            )
            for job in self.held(picks)
        ]
        self.both("settle", settlements)

    @when(State.RUNNING)
    @rule(
        pick=strategies.one_pick,
        name=st.sampled_from(["charge", "send"]),
        then=st.sampled_from(["crash", "conclude", "withdraw"]),
    )
    def take_a_step(self, pick: strategies.Pick, name: str, then: str) -> None:
        (job,) = self.held([pick])
        self.both("intend", job.id, job.fence, name)
        if then == "conclude":
            self.both("conclude", job.id, job.fence, name, str(self.ids()))
        elif then == "withdraw":
            self.both("withdraw", job.id, job.fence, name)

    @rule(job=jobs, name=st.sampled_from(["charge", "send"]), happened=st.booleans())
    def resolve_a_step(self, job: JobId, name: str, *, happened: bool) -> None:
        self.both("resolve", Resolution(job, name, str(self.ids()) if happened else None), entry=ACT)

    @when(State.RUNNING)
    @rule(
        target=moves,
        pick=strategies.one_pick,
        wait=strategies.waits,
        then=st.sampled_from(["crash", "suspend", "suspend late"]),
    )
    def wait_for_something(self, pick: strategies.Pick, wait: Wait, then: str) -> Given:
        """Begin a wait, and suspend the job at once, much later, or never."""
        (job,) = self.held([pick])
        child = (
            NewJob(self.ids(), strategies.TYPES[0], queue=strategies.QUEUES[0]) if wait.kind is StepKind.CALL else None
        )
        step = self.both("begin_wait", job.id, job.fence, wait, child=child)
        if step is None or then == "crash":
            return multiple()
        settlement = decide(job, Suspended(wait.key), replace(self.means(), step=step))
        if then == "suspend":
            self.both("settle", [settlement])
        return settlement

    @rule(name=st.sampled_from(strategies.EVENTS), keep=st.sampled_from([MINUTE, HOUR]))
    def emit(self, name: str, keep: timedelta) -> None:
        self.both("emit", Emission(name, str(self.ids()), keep), entry=ACT)

    @rule()
    def end_waits(self) -> None:
        self.both("end_waits", EVERYTHING)

    # Operators

    @when(State.RUNNING)
    @rule(picks=strategies.picks, unknowing=strategies.outcomes)
    def ask_cancel(self, picks: list[strategies.Pick], unknowing: Outcome) -> None:
        """Request jobs to stop, one of which is being settled at the same time."""
        held = self.held(picks)
        decided = decide(held[0], unknowing, self.means())
        self.both("ask_cancel", [(job.id, job.fence) for job in held], entry=ACT)
        self.both("settle", [decided], entry=ACT)

    @rule(target=moves, act=strategies.acts, number=strategies.numbers, is_late=st.booleans())
    def operate(self, act: str, number: int, *, is_late: bool) -> Given:
        """Decide about a job that allows it, and write it down at once or much later, when it may be elsewhere."""
        allowed = [settlement for job in self.model.jobs.values() if (settlement := self._decided(job, act))]
        if not allowed:
            return multiple()
        settlement = chosen(allowed, number)
        if not is_late:
            self.both("settle", [settlement], entry=ACT)
        return settlement

    @rule(first=moves, rest=st.lists(moves, max_size=2))
    def apply_late_moves(self, first: Settlement, rest: list[Settlement]) -> None:
        self.both("settle", [first, *rest])

    def _decided(self, job: Job, act: str) -> Settlement | None:
        try:
            match act:
                case "cancel":
                    return cancel(job)
                case "retry":
                    return retry(job, self.clock())
                case "run_now":
                    return run_now(job, self.clock())
                case _:
                    return job.settled(Event(act))
        except IllegalTransition:
            return None

    @rule(
        name=st.sampled_from(strategies.QUEUES),
        act=st.sampled_from(["resume", "pause", "pause for a while", "limit"]),
        is_stale=st.booleans(),
    )
    def put_queue(self, name: str, act: str, *, is_stale: bool) -> None:
        known = self.model.settings.get(name, Queue(name))
        now = self.clock()
        queue = Queue(
            name,
            paused_at=now if act.startswith("pause") else None,
            resume_at=now + MINUTE if act == "pause for a while" else None,
            max_depth=3 if act == "limit" else None,
            version=max(known.version - 1, 0) if is_stale else known.version,
        )
        self.both("put_queue", queue, entry=ACT)

    @when(State.DEAD, State.CANCELLED)
    @rule(first=jobs, rest=st.lists(jobs, max_size=3))
    def discard(self, first: JobId, rest: list[JobId]) -> None:
        self.both("discard", sorted({first, *rest}), entry=ACT)

    # Upkeep

    @rule(jump=strategies.jumps)
    def time_passes(self, jump: timedelta | None) -> None:
        self.later(jump)

    @when(*TIMED)
    @rule(jump=strategies.jumps, limit=strategies.limits)
    def promote(self, jump: timedelta | None, limit: int) -> None:
        self.later(jump)
        self.both("promote", limit)

    @when(State.PENDING)
    @rule(lanes=st.lists(strategies.lanes, min_size=1, max_size=3, unique=True), limit=strategies.limits)
    def dispatch(self, lanes: list[tuple[str, str]], limit: int) -> None:
        self.both("dispatch", {Lane(*lane): limit for lane in lanes})

    @when(State.QUEUED)
    @rule(limit=strategies.limits, since=strategies.spans, some=st.lists(jobs, max_size=2))
    def recall(self, limit: int, since: timedelta, some: list[JobId]) -> None:
        line = self.both("queued", limit, since=since)
        self.both("queued", limit, after=line[-1].job_id if line else None)
        self.both("recall", [*some, *(one.job_id for one in line)])

    @when(State.QUEUED)
    @rule(limit=strategies.limits)
    def claim_what_was_dispatched(self, limit: int) -> None:
        """As a worker does that a broker has handed ids to."""
        ids = tuple(one.job_id for one in self.both("queued", limit))
        self.take(Claim(strategies.WORKERS[0], limit, strategies.QUEUES, ids=ids))

    @when(State.RUNNING)
    @rule(jump=strategies.jumps, limit=strategies.limits)
    def reap(self, jump: timedelta | None, limit: int) -> None:
        self.later(jump)
        lost = self.both("lost", limit)
        self.both("settle", [replace(decide(job, Lost(), self.means()), lapsed_at=job.lease_until) for job in lost])

    @precondition(lambda self: any(job.expires_at for job in self.model.jobs.values()))
    @rule(jump=strategies.jumps, limit=strategies.limits)
    def end_the_expired(self, jump: timedelta | None, limit: int) -> None:
        self.later(jump)
        self.both("settle", [expire(job) for job in self.both("expired", limit)])

    @when(*FINISHED)
    @rule(retention=strategies.retentions, limit=strategies.limits, is_thorough=st.booleans())
    def prune(self, retention: Retention, limit: int, *, is_thorough: bool) -> None:
        # How long a claim can be repeated after a prune is the store's own business.
        self.claims.clear()
        if is_thorough:
            self.both("prune", retention, EVERYTHING)
            return
        # Which of the prunable jobs are deleted is not specified: read it, and apply it to the model.
        may_go = self.model.prunable(retention, self.clock())
        count = self.run(self.store.prune(replace(retention, history=None), limit))
        gone = set(self.model.jobs) - {job.id for job in self.run(self.store.find(ALL))}
        assert gone <= may_go
        assert len(gone) == count == min(limit, len(may_go))
        self.model.forget(gone)

    # Schedules

    @precondition(lambda self: len(self.model.plans) < len(strategies.NAMES))
    @rule(target=plans, name=st.sampled_from(strategies.NAMES), fields=strategies.schedule_fields)
    def put_schedule(self, name: str, fields: dict[str, Any]) -> Schedule:
        now = self.clock()
        plain_fields = {"template": Template("mail", queue="right"), "created_at": now, "updated_at": now}
        new = Schedule(id=ScheduleId(self.ids()), name=name, **{**plain_fields, **fields})
        new = replace(new, next_fire_at=new.next_after(now))
        self.both("put_schedules", [new], entry=ACT)
        return new

    @rule(
        known=plans,
        name=st.sampled_from(strategies.NAMES),
        act=st.sampled_from(["resume", "pause", "drop"]),
        is_stale=st.booleans(),
    )
    def edit_schedule(self, known: Schedule, name: str, act: str, *, is_stale: bool) -> None:
        if act == "drop":
            self.both("drop_schedules", [known.id], entry=ACT)
            return
        current = known if is_stale else self.model.plans.get(known.id, known)
        edited = replace(current, name=name, paused_at=self.clock() if act == "pause" else None)
        self.both("put_schedules", [edited], entry=ACT)

    @rule(target=firings, known=plans, jump=strategies.jumps, is_backfill=st.booleans())
    def plan_a_firing(self, known: Schedule, jump: timedelta | None, *, is_backfill: bool) -> Given:
        """Two schedulers may plan the same; both plans are kept, to be written in any order or never."""
        found = self.model.plans.get(known.id)
        if found is None:
            return multiple()
        self.later(jump)
        if not is_backfill:
            return self._planned(found)
        now = self.clock()
        span = 3 * MINUTE if found.rule == "@every 1m" else 3 * HOUR
        return backfill(found, now - span, now, now, fresh_id=self.ids)

    @precondition(lambda self: self.model.plans)
    @rule(target=jobs, jump=strategies.jumps, limit=strategies.limits)
    def fire_what_is_due(self, jump: timedelta | None, limit: int) -> Given:
        self.later(jump)
        due = self.both("due_schedules", limit)
        return multiple(*self.both("fire", [self._planned(found) for found in due]))

    @rule(target=jobs, first=firings, rest=st.lists(firings, max_size=1))
    def fire(self, first: Firing, rest: list[Firing]) -> Given:
        return multiple(*self.both("fire", [first, *rest]))

    def _planned(self, found: Schedule) -> Firing:
        previous = self.model.jobs.get(found.last_job_id) if found.last_job_id is not None else None
        is_active = previous is not None and previous.state not in FINISHED
        return plan(found, self.clock(), previous_is_active=is_active, fresh_id=self.ids)

    # Processes

    @rule(
        act=st.sampled_from(["lead", "resign", "beat", "leave"]),
        name=st.sampled_from(["a", "b"]),
        span=strategies.spans,
    )
    def process(self, act: str, name: str, span: timedelta) -> None:
        match act:
            case "lead":
                self.both("lead", "upkeep", name, span)
            case "resign":
                self.both("resign", "upkeep", name)
            case "beat":
                self.both("beat", [Member(Role.WORKER, "ada", name, busy=span.seconds)])
            case _:
                self.both("leave", [name])

    # Looking

    @initialize(target=jobs)
    def begin(self) -> Given:
        """Not from nothing: an empty store answers most questions with nothing."""
        return self.insert_plain(("left", "mail"), 3)

    @invariant()
    def all_jobs_are_the_same(self) -> None:
        self.run(self._compare_jobs())

    async def _compare_jobs(self) -> None:
        jobs = await self.ask_both("find", ALL)
        await self.ask_both("census")
        await self.ask_both("timetable")
        for job in jobs:
            if self.seen.get(job.id) != job:
                await self._compare_belongings(job.id)
        self.seen = {job.id: job for job in jobs}

    async def _compare_belongings(self, job_id: JobId) -> None:
        await self.ask_both("attempts", job_id)
        await self.ask_both("steps", job_id)

    @rule(states=st.lists(st.sampled_from(State), max_size=2), tag=strategies.tags, limit=strategies.limits)
    def everything_is_the_same(self, states: list[State], tag: str | None, limit: int) -> None:
        self.both("find", JobQuery(states=tuple(states), tag=tag, limit=limit))
        self.run(self._compare_everything())

    async def _compare_everything(self) -> None:
        for job_id in self.model.jobs:
            await self._compare_belongings(job_id)
        for found in await self.ask_both("schedules"):
            await self.ask_both("occurrences", found.id)
        await self.ask_both("dead_groups", EVERYTHING)
        await self.ask_both("dead_trend", BASE - HOUR, HOUR)
        await self.ask_both("queues")
        await self.ask_both("members")
        await self.ask_both("ledger", limit=EVERYTHING)
