"""Why a job waits: for each code a real situation, on every store, in which it is the first reason."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

import pytest

from builders import BASE, HOUR, MINUTE, SECOND, ManualClock, after, at, claim, fresh_id, new_job, schedule
from conformance.stores.adapters import MODEL, Adapter
from conformance.stores.transitions import begin, complete, kill, look
from rota.brokers.in_store import InStoreBroker
from rota.core.breaker import CircuitBreaker
from rota.core.cluster import LEAD, Member, Role
from rota.core.graph import NewNode, NodeParent, WorkflowId, WorkflowPolicy, planned
from rota.core.history import Counted, HistoryFlush, Tally
from rota.core.ids import JobId, to_text
from rota.core.lifecycle import Event
from rota.core.limit import Limit
from rota.core.queue import Lane, Queue
from rota.core.settlement import Reason
from rota.core.submission import NewJob
from rota.core.unique_keys import UniqueKey, UniqueKind
from rota.engine import Engine, explain
from rota.engine.explain import ALL_WELL, ExplainContext
from rota.engine.explain_limits import Cause
from rota.ports.client import Actor
from rota.ports.store import Ahead, Store
from rota.wire.jobs import conflict_form

OPERATOR = Actor("ada")


@dataclass
class Scene:
    """A store with its engine, whose host has a clock of its own."""

    store: Store
    engine: Engine
    clock: ManualClock
    host_clock: ManualClock
    context: ExplainContext = ALL_WELL

    async def submit(self, **fields: Any) -> NewJob:  # noqa: ANN401 - any field
        job = new_job(**fields)
        await self.store.insert([job])
        return job

    async def worker(self, slots: int = 1, busy: int = 0, **fields: Any) -> None:  # noqa: ANN401 - any field
        member = Member(Role.WORKER, "w1", "b1", queues=("default",), types=("mail",), slots=slots, busy=busy)
        await self.store.beat([replace(member, **fields)])

    async def scheduler(self) -> None:
        await self.store.beat([Member(Role.SCHEDULER, "s1", "b2")])

    async def causes(self, job: NewJob | JobId) -> tuple[Cause, ...]:
        job_id = job if isinstance(job, int) else job.id
        return (await self.engine.explain(job_id, self.context)).reasons


@pytest.fixture
async def scene(store: Store, clock: ManualClock) -> AsyncIterator[Scene]:
    broker = InStoreBroker(store)
    host_clock = ManualClock()
    yield Scene(store, Engine(store, broker, clock=host_clock), clock, host_clock)
    await broker.close()


async def _scheduled(scene: Scene) -> NewJob:
    return await scene.submit(run_at=BASE + HOUR)


async def _circuit_open(scene: Scene) -> NewJob:
    await scene.store.put_breaker(CircuitBreaker("stripe", tasks=(("shop", "mail"),)))
    await scene.worker()
    await scene.engine.breakers.open("stripe", None, "down", OPERATOR)
    return await scene.submit()


async def _backing_off(scene: Scene) -> NewJob:
    job = await scene.submit()
    held = await begin(scene.store, job)
    await scene.store.settle([held.settled(Event.FAIL, run_at=BASE + HOUR)])
    return job


async def _blocked(scene: Scene) -> NewJob:
    return await scene.submit(after=after(await scene.submit()))


async def _paused(scene: Scene) -> NewJob:
    await scene.worker()
    await scene.engine.queues.pause("default", "repair", OPERATOR)
    return await scene.submit()


async def _no_worker(scene: Scene) -> NewJob:
    return await scene.submit()


async def _unknown_type(scene: Scene) -> NewJob:
    await scene.worker(types=("other",))
    return await scene.submit()


async def _saturated(scene: Scene) -> NewJob:
    await begin(scene.store, await scene.submit())
    await scene.worker(busy=1)
    return await scene.submit()


async def _behind_urgent_jobs(scene: Scene) -> NewJob:
    job = await _saturated(scene)
    for _ in range(3):
        await scene.submit(priority=9)
    return job


async def _full_limit(scene: Scene) -> NewJob:
    await scene.worker(slots=5)
    await scene.store.put_limits([Limit("task:mail", max_running=1)])
    await scene.submit()
    job = await scene.submit()
    await scene.store.claim(claim())
    return job


async def _used_up_rate(scene: Scene) -> NewJob:
    await scene.worker(slots=5)
    await scene.store.put_limits([Limit("task:mail", rate_limit="1/h")])
    await scene.submit()
    job = await scene.submit()
    await scene.store.claim(claim())
    return job


async def _closed_limit(scene: Scene) -> NewJob:
    await scene.worker(slots=5)
    await scene.engine.limits.close("task:mail", BASE + HOUR, "429", OPERATOR)
    return await scene.submit()


async def _leased(scene: Scene) -> NewJob:
    job = await scene.submit()
    await begin(scene.store, job)
    return job


async def _lapsed(scene: Scene) -> NewJob:
    job = await _leased(scene)
    scene.clock.move(HOUR)
    await scene.scheduler()
    await scene.store.lead(LEAD, "s1", MINUTE)
    return job


async def _asked_to_stop(scene: Scene) -> NewJob:
    job = await _leased(scene)
    await scene.engine.jobs.cancel([job.id], OPERATOR)
    return job


async def _without_scheduler(scene: Scene) -> NewJob:
    job = await _scheduled(scene)
    scene.clock.move(2 * HOUR)
    scene.host_clock.move(2 * HOUR)
    await scene.worker()
    return job


async def _without_leader(scene: Scene) -> NewJob:
    job = await _without_scheduler(scene)
    await scene.scheduler()
    return job


async def _clock_ahead(scene: Scene) -> NewJob:
    job = await _scheduled(scene)
    scene.host_clock.move(2 * HOUR)
    return job


async def _read_only(scene: Scene) -> NewJob:
    scene.context = ExplainContext(is_store_writable=False)
    return await scene.submit()


async def _expired(scene: Scene) -> NewJob:
    job = await scene.submit(expires_at=BASE + MINUTE)
    scene.clock.move(HOUR)
    await scene.worker()
    return job


async def _free(scene: Scene) -> NewJob:
    await scene.worker(slots=2)
    return await scene.submit()


SITUATIONS: dict[str, Callable[[Scene], Awaitable[NewJob]]] = {
    "scheduled_future": _scheduled,
    "retry_backoff": _backing_off,
    "blocked_by_dependency": _blocked,
    "queue_paused": _paused,
    "no_live_worker_for_queue": _no_worker,
    "no_worker_registers_type": _unknown_type,
    "workers_saturated": _saturated,
    "higher_priority_ahead": _behind_urgent_jobs,
    "concurrency_limit": _full_limit,
    "rate_limited_until": _used_up_rate,
    "limit_closed_until": _closed_limit,
    "circuit_open_until": _circuit_open,
    "leased": _leased,
    "lease_expired_waiting_reaper": _lapsed,
    "cancel_requested": _asked_to_stop,
    "no_live_scheduler": _without_scheduler,
    "no_leader": _without_leader,
    "clock_skew": _clock_ahead,
    "store_read_only": _read_only,
    "expired": _expired,
    "about_to_start": _free,
}
#: The documented codes. That the schedule of a job is paused is said beside the reason why it waits or ended; a
#: submission that meets a job of its unique key is answered with that job. Both have tests of their own below.
PROMISED = {
    *("scheduled_future", "retry_backoff", "blocked_by_dependency", "queue_paused", "no_live_worker_for_queue"),
    *("no_worker_registers_type", "workers_saturated", "concurrency_limit", "rate_limited_until", "circuit_open_until"),
    *("unique_conflict", "leased", "lease_expired_waiting_reaper", "no_leader", "clock_skew", "store_read_only"),
    *("schedule_paused", "expired", "cancel_requested", "higher_priority_ahead"),
}
BY_LIMITS = {"circuit_open_until", "concurrency_limit", "rate_limited_until", "limit_closed_until"}
#: Reasons that need nothing but patience.
WITHOUT_FIX = {"leased", "lease_expired_waiting_reaper", "cancel_requested", "about_to_start"}


@pytest.mark.parametrize("code", SITUATIONS)
async def test_the_right_reason_comes_first(scene: Scene, adapter: Adapter, code: str) -> None:
    if adapter is MODEL and code in BY_LIMITS:
        # The reference model has no limits; their own tests are in test_limits.py.
        return
    job = await SITUATIONS[code](scene)
    causes = await scene.causes(job)
    assert causes[0].code == code, causes
    assert bool(causes[0].fix) is (code not in WITHOUT_FIX)
    assert causes[0].evidence or code in {"store_read_only", "no_live_scheduler"}
    if code != "about_to_start":
        assert "about_to_start" not in {cause.code for cause in causes}


def test_every_promised_code_has_its_situation() -> None:
    assert PROMISED - SITUATIONS.keys() == {"unique_conflict", "schedule_paused"}


async def test_a_submission_that_meets_its_unique_key_names_the_other_job(scene: Scene) -> None:
    key = UniqueKey(UniqueKind.UNIQUE, "k")
    first = await scene.submit(unique=key)
    (answer,) = await scene.engine.submit([new_job(unique=key)])
    conflict = conflict_form(answer)
    assert conflict is not None
    assert (conflict.code, conflict.id) == ("unique_conflict", to_text(first.id))
    assert to_text(first.id) in conflict.detail


@pytest.mark.parametrize("code", sorted({"queue_paused", "workers_saturated", *BY_LIMITS} - {"circuit_open_until"}))
async def test_a_job_with_a_key_is_not_about_to_start_either(scene: Scene, adapter: Adapter, code: str) -> None:
    if adapter is MODEL:
        # The reference model has no limits.
        return
    await SITUATIONS[code](scene)
    causes = await scene.causes(await scene.submit(concurrency_key="k"))
    assert causes[0].code == code
    assert "about_to_start" not in {cause.code for cause in causes}


async def test_a_job_in_strict_order_names_the_one_that_goes_first(scene: Scene, adapter: Adapter) -> None:
    if adapter is MODEL:
        # The reference model has no limits.
        return
    await scene.worker(slots=5)
    await scene.store.put_limits([Limit("key:k", order="strict")])
    first = await scene.submit(concurrency_key="k", run_at=BASE + HOUR)
    (cause,) = await scene.causes(await scene.submit(concurrency_key="k"))
    assert (cause.code, cause.evidence["waits_for"]) == ("concurrency_limit", to_text(first.id))


async def test_a_job_that_a_rate_keeps_waiting_knows_its_position_and_when_it_starts(
    scene: Scene, adapter: Adapter
) -> None:
    if adapter is MODEL:
        # The reference model has no limits.
        return
    await scene.worker(slots=5)
    await scene.store.put_limits([Limit("queue:default", rate_limit="60/h burst 1, 1000/d")])
    jobs = [await scene.submit() for _ in range(4)]
    await scene.store.claim(claim())
    (cause,) = await scene.causes(jobs[3])
    assert (cause.code, cause.evidence["position"], cause.evidence["waiting"]) == ("rate_limited_until", 3, 3)
    # The slower of the two rates counts for those that go first: one in 86.4 s.
    assert cause.evidence["opens_at"] == at(60)
    assert cause.evidence["expected_start"] == at(60 + 2 * 86.4)
    assert "it is number 3 of those that wait" in cause.text
    assert cause.fix.endswith("rota limits set queue:default --rate-limit '120/h burst 1, 2000/d'")


async def test_each_limit_that_keeps_a_job_waiting_is_named_with_a_fix_that_helps(
    scene: Scene, adapter: Adapter
) -> None:
    if adapter is MODEL:
        # The reference model has no limits.
        return
    await scene.worker(slots=5)
    limits = [
        Limit("queue:default", max_running=1),
        Limit("task:mail", per_key_max_running=1, per_key_rate_limit="1/h"),
    ]
    await scene.store.put_limits(limits)
    await scene.submit(concurrency_key="mail:7")
    second = await scene.submit(concurrency_key="mail:7")
    await scene.store.claim(claim())
    assert [cause.evidence["limit"] for cause in await scene.causes(second)] == ["queue:default", "key:mail:7"]
    # As a user would, for both; what a key has from its task stays.
    fixes = [cause.fix.partition(": ")[2] for cause in await scene.causes(second)]
    assert fixes == [
        "rota limits set queue:default --max-running 2",
        "rota limits set key:mail:7 --max-running 2 --rate-limit 1/h",
    ]
    await scene.store.put_limits([Limit("queue:default", 2), Limit("key:mail:7", 2, "1/h")])
    (cause,) = await scene.causes(second)
    assert cause.code == "rate_limited_until"
    assert cause.fix.endswith("rota limits set key:mail:7 --max-running 2 --rate-limit 2/h")
    await scene.store.put_limits([Limit("key:mail:7", 2, "2/h")])
    scene.clock.move(HOUR)
    scene.host_clock.move(HOUR)
    assert len(await scene.store.claim(claim())) == 1


async def test_of_a_strict_order_the_fix_names_the_job_that_runs(scene: Scene, adapter: Adapter) -> None:
    if adapter is MODEL:
        # The reference model has no limits.
        return
    await scene.worker(slots=5)
    await scene.store.put_limits([Limit("key:k", order="strict")])
    first = await scene.submit(concurrency_key="k")
    second = await scene.submit(concurrency_key="k")
    await scene.store.claim(claim())
    (cause,) = await scene.causes(second)
    assert (cause.code, cause.fix.endswith(f"rota jobs explain {to_text(first.id)}")) == ("concurrency_limit", True)


async def test_blockers_are_named_with_their_states(scene: Scene) -> None:
    parents = [await scene.submit(), await scene.submit(run_at=BASE + HOUR)]
    (cause,) = await scene.causes(await scene.submit(after=after(*parents)))
    assert cause.evidence["waits_for"] == {to_text(parents[0].id): "pending", to_text(parents[1].id): "scheduled"}


async def test_a_waiting_job_knows_its_position_and_when_it_starts(scene: Scene) -> None:
    job = await _behind_urgent_jobs(scene)
    tally = Tally()
    tally.counts["started"] = 60
    age = timedelta(seconds=30)
    await scene.store.add_history(HistoryFlush("w", 1, [Counted(age, {Lane("default", "mail"): tally})]))
    urgent, saturated = await scene.causes(job)
    assert (urgent.evidence["higher_priority"], urgent.evidence["position"]) == (3, 4)
    assert (saturated.code, saturated.evidence["position"]) == ("workers_saturated", 4)
    wait = saturated.evidence["expected_start"] - BASE
    assert timedelta(seconds=1) < wait < MINUTE


async def test_a_free_slot_is_for_the_jobs_that_come_first(scene: Scene) -> None:
    await scene.worker(slots=1)
    await scene.submit()
    causes = await scene.causes(await scene.submit())
    assert [cause.code for cause in causes] == ["workers_saturated"]


async def test_a_queue_whose_pause_is_over_is_not_paused(scene: Scene) -> None:
    await scene.worker()
    await scene.store.put_queue(Queue("default", paused_at=BASE, resume_at=BASE + SECOND))
    scene.clock.move(MINUTE)
    await scene.worker()
    (cause,) = await scene.causes(await scene.submit())
    assert cause.code == "about_to_start"


async def test_the_pause_of_its_schedule_is_said_of_every_job(scene: Scene) -> None:
    paused = schedule("nightly", paused_at=BASE, pause_reason="holidays")
    await scene.store.put_schedules([paused])
    for act, first in ((complete, "ended_completed"), (kill, "ended_permanent")):
        job = await scene.submit(schedule_id=paused.id)
        await act(scene.store, job)
        causes = await scene.causes(job)
        assert [cause.code for cause in causes] == [first, "schedule_paused"]
        assert (causes[1].evidence["reason"], causes[1].fix) == ("holidays", "rota schedules resume nightly")


@pytest.mark.parametrize("policy", list(WorkflowPolicy))
async def test_of_a_workflow_the_fix_runs_the_nodes_after_it_too(scene: Scene, policy: WorkflowPolicy) -> None:
    nodes = [NewNode("a", new_job()), NewNode("b", new_job(), (NodeParent(0),)), NewNode("c", new_job(run_at=at(3600)))]
    made = planned(WorkflowId(fresh_id()), "etl", nodes, policy)
    await scene.store.put_workflow(made)
    await kill(scene.store, made.jobs[0])
    (dead,), (after_it,) = [await scene.causes(job) for job in made.jobs[:2]]
    name = to_text(made.id)
    assert (dead.evidence["workflow"], dead.evidence["node"]) == (name, "a")
    assert dead.fix == f"run it again with the nodes after it: rota workflows retry {name} --node a"
    assert after_it.fix == f"run the failed nodes of its workflow again: rota workflows retry {name}"
    await scene.engine.workflows.retry(made.id, OPERATOR)
    (replaced,) = await scene.causes(made.jobs[0])
    assert replaced.fix == f"see the job that runs in its place: rota workflows get {name}"
    third = (await scene.causes(made.jobs[2]))[0]
    assert (third.code == "ended_workflow_failed") == (policy is WorkflowPolicy.FAIL_FAST)


async def test_a_skipped_job_is_explained(scene: Scene) -> None:
    made = planned(WorkflowId(fresh_id()), "etl", [NewNode("a", new_job(run_at=at(3600)))])
    await scene.store.put_workflow(made)
    await scene.engine.workflows.skip(made.id, "a", OPERATOR)
    (cause,) = await scene.causes(made.jobs[0])
    assert cause.code == "ended_skipped"


async def test_a_limit_that_does_not_open_by_itself_is_closed_until_someone_opens_it(
    scene: Scene, adapter: Adapter
) -> None:
    if adapter is MODEL:
        # The reference model has no limits.
        return
    await scene.worker(slots=5)
    await scene.store.put_limits([Limit("task:mail", max_running=1)])
    await scene.engine.limits.close("task:mail", None, "the bank is away", OPERATOR)
    (cause, *_) = await scene.causes(await scene.submit())
    assert cause.text == "the limit task:mail is closed until it is opened: the bank is away"


def test_every_reason_to_end_has_words() -> None:
    assert set(explain._ENDS) == set(Reason)


async def test_jobs_of_other_queues_and_types_and_later_ones_are_not_ahead(store: Store) -> None:
    jobs = [new_job(priority=priority) for priority in (5, 9, 5, 1)]
    keyed = new_job(concurrency_key="k", priority=9)
    await store.insert([*jobs, new_job("other"), new_job(queue="other", priority=9), keyed])
    assert await store.ahead(keyed.id, ["mail"], 100) == Ahead(0, 0)
    assert await store.ahead(jobs[2].id, ["mail"], 100) == Ahead(2, 1)
    assert await store.ahead(jobs[2].id, ["mail"], 1) in {Ahead(1, 0), Ahead(1, 1)}
    assert (await store.ahead(jobs[3].id, ["mail", "other", "unknown"], 100)) == Ahead(4, 4)
    assert await store.ahead(jobs[1].id, ["mail"], 100) == Ahead(0, 0)
    held = await begin(store, jobs[1])
    assert (held.id, await store.ahead(held.id, ["mail"], 100)) == (jobs[1].id, Ahead(0, 0))
    assert (await look(store, jobs[1])).fence == 1
