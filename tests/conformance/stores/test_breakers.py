"""Circuit breakers: while one is open its jobs wait without attempts, and probes close it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any

import pytest

from builders import BASE, BEN, HOUR, MINUTE, SECOND, ManualClock, at, claim, entry, error, ids_of, new_jobs
from conformance.stores.adapters import SHARED, STORES, Adapter
from conformance.stores.conftest import OpenStore
from conformance.stores.transitions import look
from rota.brokers.in_store import InStoreBroker
from rota.core.breaker import BreakerRule, BreakerState, CallCount, CircuitBreaker, forced_open
from rota.core.job import Job
from rota.core.lifecycle import State
from rota.core.limit import Limit
from rota.core.outcome import Failed, Outcome, Released, Succeeded
from rota.core.queue import Lane
from rota.core.retry import Backoff
from rota.core.submission import Delivery
from rota.engine import Engine
from rota.ports.client import Actor, AttemptReport
from rota.ports.store import Retention, Store
from rota.telemetry.events import BreakerChanged, Event

RULE = BreakerRule(failures=0.5, window=timedelta(seconds=10), least=4, open_for=timedelta(seconds=30), probes=2)
STRIPE = CircuitBreaker("stripe", RULE, tasks=(("shop", "mail"), ("shop", "report")))
DOWN = Failed(error("refused", "ConnectionError"), dependency=True)
BUG = Failed(error("oops", "ValueError"))
OPERATOR = Actor("ada")


@pytest.fixture(params=STORES, ids=lambda adapter: adapter.name)
def adapter(request: pytest.FixtureRequest) -> Adapter:
    """Each real store: the reference model keeps no limits."""
    chosen: Adapter = request.param
    return chosen


@dataclass
class Scene:
    """A store with its engine and a clock; and a process of its own beside it, on the same database."""

    store: Store
    engine: Engine
    clock: ManualClock
    events: list[Event] = field(default_factory=list)

    async def start(self, limit: int = 100, **fields: Any) -> list[Job]:  # noqa: ANN401 - any field of a claim
        return list(await self.engine.claim(claim(limit=limit, **fields)))

    async def end(self, jobs: Sequence[Job], outcome: Outcome, breaker: str | None = "stripe") -> None:
        reports = [AttemptReport(job.id, job.fence, outcome, breaker=breaker) for job in jobs]
        assert await self.engine.settle(reports) == ids_of(jobs)

    async def state(self, name: str = "stripe") -> BreakerState:
        report = await self.engine.breakers.get(name)
        assert report is not None
        return report.state

    async def trip(self) -> None:
        """Let a dependency fail until its breaker is open."""
        await self.store.insert(new_jobs(4))
        await self.end(await self.start(), DOWN)
        assert await self.state() is BreakerState.OPEN

    def changes(self) -> list[str]:
        return [event.action for event in self.events if isinstance(event, BreakerChanged)]


@asynccontextmanager
async def scene_on(store: Store, clock: ManualClock) -> AsyncIterator[Scene]:
    """Return a scene with a breaker of two tasks."""
    broker = InStoreBroker(store)
    engine = Engine(store, broker, clock=clock, rng=lambda: 0.5, steady=clock.steady)
    scene = Scene(store, engine, clock)
    engine.telemetry.listen(scene.events.append)
    await store.put_breaker(STRIPE)
    yield scene
    await broker.close()


@pytest.fixture
async def scene(store: Store, clock: ManualClock) -> AsyncIterator[Scene]:
    async with scene_on(store, clock) as scene:
        yield scene


# Obligations of a store


async def test_a_breaker_is_stored_as_it_is_and_changed_by_its_version_only(store: Store) -> None:
    assert await store.put_breaker(STRIPE, entry=entry())
    (stored,) = await store.breakers(["stripe", "unknown"])
    assert stored == replace(STRIPE, version=1)
    assert not await store.put_breaker(STRIPE, entry=entry())
    changed = replace(stored, is_open=True, is_forced=True, since=BASE, open_until=at(5), reason="x", set_by="ada")
    assert await store.put_breaker(changed)
    assert not await store.put_breaker(changed)
    assert await store.breakers(["stripe"]) == [replace(changed, version=2)]
    assert len(await store.ledger()) == 1


async def test_breakers_are_listed_by_name(store: Store) -> None:
    for name in ("c", "a", "b"):
        await store.put_breaker(CircuitBreaker(name))
    assert [one.name for one in await store.breakers(after="a", limit=1)] == ["b"]
    assert [one.name for one in await store.breakers()] == ["a", "b", "c"]


async def opened(store: Store, breaker: CircuitBreaker = STRIPE, seconds: float = 0) -> CircuitBreaker:
    change = replace(breaker, is_open=True, since=at(seconds), open_until=at(seconds) + breaker.rule.open_for)
    assert await store.put_breaker(change, now=at(seconds))
    (stored,) = await store.breakers([breaker.name])
    return stored


async def started(store: Store, seconds: float, limit: int = 100, **fields: Any) -> list[str]:  # noqa: ANN401 - as above
    return sorted(job.type for job in await store.claim(claim(limit=limit, **fields), now=at(seconds)))


async def test_no_job_of_its_tasks_starts_while_it_is_open_and_others_do(store: Store) -> None:
    await store.insert([*new_jobs(3), *new_jobs(3, "report"), *new_jobs(2, "other")], now=BASE)
    await opened(store)
    assert await started(store, 0) == ["other"] * 2
    assert await started(store, 29.9) == []


async def test_its_tasks_share_the_probes_of_a_period(store: Store) -> None:
    await store.insert([*new_jobs(3), *new_jobs(3, "report")], now=BASE)
    await opened(store)
    assert len(await started(store, 30)) == 2
    assert await started(store, 30) == []
    assert await started(store, 44.9) == []


async def test_a_lost_probe_is_followed_by_another_one(store: Store) -> None:
    """The workers of both probes die; nothing is settled and nothing has to be written."""
    await store.insert(new_jobs(9), now=BASE)
    await opened(store)
    assert len(await started(store, 30)) == 2
    assert len(await started(store, 30 + 15)) == 1
    assert len(await started(store, 30 + 60)) == 2


async def test_all_jobs_start_once_it_is_closed_and_nothing_is_left_of_it(store: Store) -> None:
    await store.insert(new_jobs(5), now=BASE)
    stored = await opened(store)
    await store.put_breaker(replace(stored, is_open=False, since=at(1), open_until=None), now=at(1))
    assert await store.limits() == []
    assert len(await started(store, 1)) == 5


async def test_a_limit_of_a_task_holds_beside_the_breaker_and_stays_after_it(store: Store) -> None:
    await store.put_limits([Limit("task:mail", 3)], now=BASE)
    await store.insert(new_jobs(9), now=BASE)
    stored = await opened(store)
    assert len(await started(store, 30)) == 2
    (limit,) = await store.limits(["task:mail"])
    assert (limit.max_running, limit.breaker) == (3, "stripe")
    await store.put_breaker(replace(stored, is_open=False, open_until=None), now=at(31))
    (limit,) = await store.limits(["task:mail"])
    assert (limit.max_running, limit.breaker) == (3, None)
    assert len(await started(store, 31)) == 1


async def test_deleting_the_limit_of_a_task_does_not_let_its_jobs_pass_the_breaker(store: Store) -> None:
    await store.put_limits([Limit("task:mail", 3)], now=BASE)
    await store.insert(new_jobs(3), now=BASE)
    await opened(store)
    assert await store.drop_limit("task:mail")
    assert await started(store, 1) == []


async def test_jobs_with_a_breaker_of_their_own_wait_for_it_and_have_no_limit_otherwise(store: Store) -> None:
    await store.insert(new_jobs(3, "http", concurrency_key="breaker:api.shop"), now=BASE)
    await store.insert(new_jobs(2, "http", concurrency_key="breaker:other.shop"), now=BASE)
    assert len(await started(store, 0, limit=1)) == 1
    host = await opened(store, CircuitBreaker("api.shop", RULE))
    assert len(await started(store, 0)) == 2
    await store.insert(new_jobs(2, "http", concurrency_key="breaker:api.shop"), now=BASE)
    assert len(await started(store, 30)) == 2
    await store.put_breaker(replace(host, is_open=False, open_until=None), now=at(31))
    assert len(await started(store, 31)) == 2


async def test_no_other_way_to_start_leads_past_an_open_breaker(store: Store) -> None:
    jobs = new_jobs(2)
    await store.insert([*jobs, *new_jobs(1, run_at=at(1))], now=BASE)
    await opened(store)
    assert await started(store, 0, ids=tuple(ids_of(jobs))) == []
    assert await started(store, 0, ahead=timedelta(seconds=5)) == []
    assert not (await store.dispatch({Lane("default", "mail"): 10}, now=BASE))
    handed_over = await store.claim(claim(BEN, 1, claim_id="c1", waits=HOUR), now=BASE)
    assert handed_over == []
    await store.insert(new_jobs(1), now=BASE)
    assert await started(store, 0) == []


async def test_it_is_not_open_for_longer_because_the_clock_was_set_back(store: Store) -> None:
    await store.insert(new_jobs(5), now=at(-3600))
    await opened(store)
    assert len(await started(store, -3000)) == 2
    assert await started(store, -3000) == []
    assert len(await started(store, -3000 + 15)) == 1


async def test_one_that_an_operator_opened_stays_open_for_longer_than_its_rule(store: Store) -> None:
    await store.insert(new_jobs(5), now=BASE)
    await store.put_breaker(forced_open(STRIPE, BASE + HOUR, "", "ada", BASE))
    assert await started(store, 100) == []
    assert len(await started(store, 3600)) == 2


async def test_a_task_that_joins_an_open_breaker_waits_and_one_that_leaves_it_does_not(store: Store) -> None:
    await store.insert([*new_jobs(2), *new_jobs(2, "other")], now=BASE)
    stored = await opened(store)
    await store.put_breaker(replace(stored, tasks=(("shop", "other"), ("shop", "report"))), now=BASE)
    assert await started(store, 1) == ["mail"] * 2


async def test_calls_of_all_processes_are_summed_within_the_window(store: Store) -> None:
    ten, minute = timedelta(seconds=10), timedelta(minutes=1)
    await store.count_calls("a", [CallCount("x", ten, 3, 1), CallCount("y", minute, 1)], now=at(0))
    await store.count_calls("b", [CallCount("x", ten, 2, 2)], now=at(5))
    sums = await store.count_calls("a", [CallCount("x", ten, 1, 0), CallCount("y", minute, 1, 1)], now=at(5))
    assert [(one.calls, one.failures) for one in sums] == [(6, 3), (2, 1)]
    assert (await store.calls([CallCount("x", ten)], now=at(12)))[0].calls == 3
    assert (await store.calls([CallCount("x", ten)], now=at(16)))[0].calls == 0
    assert (await store.calls([CallCount("x", ten)], now=at(-60)))[0].calls == 0


async def test_a_change_of_state_forgets_the_calls_of_that_breaker_only(store: Store) -> None:
    counts = [CallCount("breaker:stripe", MINUTE, 3, 1), CallCount("breaker:other", MINUTE, 3, 1)]
    await store.count_calls("a", counts, now=BASE)
    await opened(store)
    assert [one.calls for one in await store.calls(counts, now=BASE)] == [0, 3]


async def test_old_calls_and_breakers_that_nothing_uses_are_deleted(store: Store) -> None:
    await store.count_calls("a", [CallCount("x", HOUR, 3, 1)], now=BASE)
    for breaker in (CircuitBreaker("host", since=BASE), CircuitBreaker("forced", is_forced=True, since=BASE), STRIPE):
        await store.put_breaker(breaker)
    await store.prune(Retention(), 100, now=at(3600))
    assert (await store.calls([CallCount("x", HOUR)], now=at(3500)))[0].calls == 3
    await store.prune(Retention(), 100, now=BASE + 8 * 24 * HOUR)
    assert (await store.calls([CallCount("x", HOUR)], now=at(3500)))[0].calls == 0
    assert [one.name for one in await store.breakers()] == ["forced", "stripe"]


# What the engine makes of it


async def test_it_opens_when_enough_calls_failed_and_gives_their_attempts_back(scene: Scene) -> None:
    await scene.store.insert(new_jobs(6))
    jobs = await scene.start()
    await scene.end(jobs[:3], DOWN)
    assert await scene.state() is BreakerState.CLOSED
    assert {(await look(scene.store, job)).attempts for job in jobs[:3]} == {1}
    await scene.end(jobs[3:], DOWN)
    assert await scene.state() is BreakerState.OPEN
    met = [await look(scene.store, job) for job in jobs[3:]]
    assert {(job.attempts, job.state) for job in met} == {(0, State.RETRYING)}
    assert scene.changes() == ["opened"]


async def test_it_stays_closed_while_the_share_of_failures_is_lower(scene: Scene) -> None:
    await scene.store.insert(new_jobs(9))
    jobs = await scene.start()
    await scene.end(jobs[:5], Succeeded())
    await scene.end(jobs[5:], DOWN)
    assert await scene.state() is BreakerState.CLOSED


async def test_only_failures_of_the_dependency_count(scene: Scene) -> None:
    await scene.store.insert(new_jobs(20))
    jobs = await scene.start()
    await scene.end(jobs[:10], BUG)
    await scene.end(jobs[10:17], Released(started=True))
    await scene.end(jobs[17:], DOWN)
    assert await scene.state() is BreakerState.CLOSED
    report = await scene.engine.breakers.get("stripe")
    assert report is not None
    assert (report.count.calls, report.count.failures) == (3, 3)


async def test_failures_that_left_the_window_do_not_count(scene: Scene) -> None:
    await scene.store.insert(new_jobs(6))
    jobs = await scene.start()
    await scene.end(jobs[:3], DOWN)
    scene.clock.move(11 * SECOND)
    await scene.end(jobs[3:], DOWN)
    assert await scene.state() is BreakerState.CLOSED


@pytest.mark.parametrize("adapter", SHARED, ids=lambda one: one.name, indirect=True)
async def test_several_processes_share_one_state(scene: Scene, open_store: OpenStore) -> None:
    store = await open_store()
    broker = InStoreBroker(store)
    other = replace(scene, engine=Engine(store, broker, clock=scene.clock, steady=scene.clock.steady))
    await scene.store.insert(new_jobs(4))
    jobs = await scene.start()
    await scene.end(jobs[:2], DOWN)
    await other.end(jobs[2:], DOWN)
    assert await scene.state() is BreakerState.OPEN
    await scene.store.insert(new_jobs(1))
    assert await other.start() == []
    await broker.close()


async def test_jobs_that_wait_use_no_attempt(scene: Scene) -> None:
    await scene.trip()
    waiting = new_jobs(5)
    await scene.store.insert(waiting)
    for _ in range(10):
        assert await scene.start() == []
        scene.clock.move(2 * SECOND)
    assert {((await look(scene.store, job)).attempts, (await look(scene.store, job)).fence) for job in waiting} == {
        (0, 0)
    }


async def test_a_probe_that_succeeds_closes_it(scene: Scene) -> None:
    await scene.trip()
    await scene.store.insert(new_jobs(9))
    scene.clock.move(30 * SECOND)
    assert await scene.state() is BreakerState.HALF_OPEN
    probes = await scene.start(limit=1)
    await scene.end(probes, Succeeded())
    assert await scene.state() is BreakerState.CLOSED
    assert len(await scene.start()) == 8
    assert scene.changes() == ["opened", "closed"]


async def test_a_probe_that_fails_keeps_it_open_and_gets_its_attempt_back(scene: Scene) -> None:
    await scene.trip()
    await scene.store.insert(new_jobs(5))
    scene.clock.move(30 * SECOND)
    probes = await scene.start()
    assert len(probes) == 2
    await scene.end(probes, DOWN)
    assert {(await look(scene.store, job)).attempts for job in probes} == {0}
    assert await scene.state() is BreakerState.OPEN
    scene.clock.move(29 * SECOND)
    assert await scene.start() == []
    scene.clock.move(1 * SECOND)
    assert len(await scene.start()) == 2
    assert scene.changes()[:2] == ["opened", "reopened"]


async def test_a_probe_that_fails_for_another_reason_says_nothing(scene: Scene) -> None:
    await scene.trip()
    await scene.store.insert(new_jobs(5))
    scene.clock.move(30 * SECOND)
    probes = await scene.start()
    await scene.end(probes, BUG)
    assert {(await look(scene.store, job)).attempts for job in probes} == {1}
    assert await scene.state() is BreakerState.HALF_OPEN
    scene.clock.move(15 * SECOND)
    assert len(await scene.start()) == 1


async def test_attempts_that_began_before_it_opened_neither_close_it_nor_keep_it_open(scene: Scene) -> None:
    await scene.store.insert(new_jobs(8))
    early = await scene.start(limit=4)
    scene.clock.move(SECOND)
    await scene.end(await scene.start(), DOWN)
    assert await scene.state() is BreakerState.OPEN
    scene.clock.move(10 * SECOND)
    await scene.end(early[:2], Succeeded())
    await scene.end(early[2:], DOWN)
    assert {(await look(scene.store, job)).attempts for job in early[2:]} == {0}
    scene.clock.move(20 * SECOND)
    assert await scene.state() is BreakerState.HALF_OPEN


async def test_attempts_that_began_before_it_closed_do_not_open_it_again(scene: Scene) -> None:
    await scene.store.insert(new_jobs(9))
    early = await scene.start(limit=5)
    scene.clock.move(SECOND)
    await scene.end(await scene.start(), DOWN)
    await scene.engine.breakers.reset("stripe", OPERATOR)
    await scene.end(early, DOWN)
    assert await scene.state() is BreakerState.CLOSED


async def test_the_success_of_a_probe_closes_it_although_successes_are_collected(scene: Scene) -> None:
    """A success just before, and no further outcome after it that would write what was collected."""
    await scene.trip()
    await scene.store.insert([*new_jobs(2), *new_jobs(1, "other")])
    scene.clock.move(29.8 * SECOND)
    await scene.end(await scene.start(), Succeeded(), breaker="elsewhere")
    scene.clock.move(0.2 * SECOND)
    await scene.end(await scene.start(limit=1), Succeeded())
    assert await scene.state() is BreakerState.CLOSED


async def test_a_breaker_counts_jobs_of_its_tasks_only(scene: Scene) -> None:
    await scene.store.insert(new_jobs(9, "other"))
    await scene.end(await scene.start(), DOWN)
    assert await scene.state() is BreakerState.CLOSED


async def test_a_name_that_no_app_defines_opens_for_jobs_that_have_it_as_their_own(scene: Scene) -> None:
    await scene.store.insert(new_jobs(12, "http", concurrency_key="breaker:api.shop"))
    await scene.end(await scene.start(), DOWN, breaker="api.shop")
    assert await scene.state("api.shop") is BreakerState.OPEN
    await scene.store.insert(new_jobs(1, "http", concurrency_key="breaker:api.shop"))
    assert await scene.start() == []
    report = await scene.engine.breakers.get("api.shop")
    assert report is not None
    assert report.waiting == 1


async def test_jobs_that_may_run_once_only_are_dead_after_a_failed_probe(scene: Scene) -> None:
    await scene.store.insert(new_jobs(4, delivery=Delivery.AT_MOST_ONCE))
    jobs = await scene.start()
    await scene.end(jobs, DOWN)
    assert {(await look(scene.store, job)).state for job in jobs} == {State.DEAD}


async def test_a_failed_probe_that_is_permanent_is_dead(scene: Scene) -> None:
    await scene.trip()
    await scene.store.insert(new_jobs(1))
    scene.clock.move(30 * SECOND)
    (probe,) = await scene.start(limit=1)
    await scene.end([probe], replace(DOWN, permanent=True))
    assert (await look(scene.store, probe)).state is State.DEAD


async def test_an_operator_opens_it_until_a_time_and_probes_follow(scene: Scene) -> None:
    await scene.store.insert(new_jobs(5))
    await scene.engine.breakers.open("stripe", scene.clock() + HOUR, "maintenance", OPERATOR)
    assert await scene.start() == []
    scene.clock.move(HOUR)
    probes = await scene.start(limit=1)
    await scene.end(probes, Succeeded())
    assert await scene.state() is BreakerState.CLOSED
    (entry_,) = await scene.store.ledger()
    assert (entry_.action, entry_.target, entry_.detail) == ("breakers.open", "stripe", "maintenance")


async def test_one_that_is_forced_closed_does_not_open_until_it_is_reset(scene: Scene) -> None:
    await scene.trip()
    await scene.engine.breakers.close("stripe", "", OPERATOR)
    await scene.store.insert(new_jobs(8))
    jobs = await scene.start(limit=8)
    assert len(jobs) == 8
    await scene.end(jobs, DOWN)
    assert await scene.state() is BreakerState.CLOSED
    await scene.engine.breakers.reset("stripe", OPERATOR)
    await scene.trip()


async def test_breakers_of_an_app_are_stored_and_keep_their_state(scene: Scene) -> None:
    await scene.trip()
    breakers = scene.engine.breakers
    rule = replace(RULE, least=99)
    await breakers.put_of_app([replace(STRIPE, rule=rule, tasks=(("mill", "grind"),))], "mill")
    (stored,) = await scene.store.breakers(["stripe"])
    assert (stored.rule, stored.is_open, stored.types) == (rule, True, ("grind", "mail", "report"))
    await breakers.put_of_app([replace(STRIPE, name="other", tasks=(("shop", "mail"),))], "shop")
    types = {one.name: one.types for one in await scene.store.breakers()}
    assert types == {"stripe": ("grind",), "other": ("mail",)}
    await scene.store.insert(new_jobs(1))
    assert len(await scene.start(limit=1)) == 1


# Retry budgets


BUDGET = Backoff(base=SECOND, factor=1.0, jitter=0.0, budget=0.1, budget_window=MINUTE)


async def _delays(scene: Scene, jobs: Sequence[Job]) -> list[float]:
    return [((await look(scene.store, job)).run_at - scene.clock()).total_seconds() for job in jobs]


async def test_retries_beyond_the_budget_start_later(scene: Scene) -> None:
    await scene.store.insert(new_jobs(25, backoff=BUDGET))
    jobs = await scene.start()
    await scene.end(jobs, BUG, breaker=None)
    assert sorted(await _delays(scene, jobs)) == [1.0] * 10 + [91.0] * 10 + [151.0] * 5


async def test_a_budget_grows_with_the_starts_of_the_task(scene: Scene) -> None:
    await scene.store.insert(new_jobs(300, backoff=BUDGET, queue="p"))
    await scene.end(await scene.start(limit=300, queues=("p",)), Succeeded(), breaker=None)
    await scene.store.insert(new_jobs(40, backoff=BUDGET))
    jobs = await scene.start()
    await scene.end(jobs, BUG, breaker=None)
    assert sorted(await _delays(scene, jobs)) == [1.0] * 34 + [91.0] * 6


async def test_a_budget_is_free_again_after_its_window(scene: Scene) -> None:
    await scene.store.insert(new_jobs(20, backoff=BUDGET))
    jobs = await scene.start()
    await scene.end(jobs[:10], BUG, breaker=None)
    scene.clock.move(70 * SECOND)
    await scene.end(jobs[10:], BUG, breaker=None)
    assert await _delays(scene, jobs[10:]) == [1.0] * 10


async def test_tasks_have_budgets_of_their_own_and_jobs_without_one_are_not_delayed(scene: Scene) -> None:
    await scene.store.insert([*new_jobs(10, backoff=BUDGET), *new_jobs(10, "report", backoff=BUDGET)])
    await scene.store.insert(new_jobs(10, backoff=replace(BUDGET, budget=None)))
    jobs = await scene.start()
    await scene.end(jobs, BUG, breaker=None)
    assert await _delays(scene, jobs) == [1.0] * 30
