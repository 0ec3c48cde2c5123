"""Operations on every store: stored by version, done in batches, resumed without doing a job twice."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from builders import BASE, ManualClock, fresh_id, ids_of, new_job, new_jobs
from conformance.stores.transitions import call_off, complete, kill, look
from rota.brokers.in_store import InStoreBroker
from rota.core.errors import IllegalTransition, InvalidRequest
from rota.core.ids import JobId, to_text
from rota.core.ledger import LedgerEntry
from rota.core.lifecycle import State
from rota.core.operation import (
    BATCH_TIME,
    ENDED,
    Operation,
    OperationAction,
    OperationId,
    OperationState,
    PlannedJob,
    Refusal,
)
from rota.core.settlement import Settlement
from rota.engine import Engine
from rota.ports.client import Actor
from rota.ports.store import Retention, Store

OLGA = Actor("olga", "here")
SECOND = timedelta(seconds=1)


def operation(**fields: Any) -> Operation:  # noqa: ANN401 - any field
    plain = Operation(
        OperationId(fresh_id()), OperationAction.RETRY, created_at=BASE, due_at=BASE, by="olga", q="status:dead"
    )
    return replace(plain, **fields)


@pytest.fixture
def engine(store: Store, clock: ManualClock) -> Engine:
    return Engine(store, InStoreBroker(store), clock=clock, steady=clock.steady)


async def finish(engine: Engine, clock: ManualClock, made: Operation) -> Operation:
    """Let schedulers work, and time pass, until an operation has ended."""
    for _ in range(1_000):
        now = await engine.operations.one(made.id)
        if now.state in ENDED:
            return now
        if not await engine.operations.tick():
            clock.move(SECOND / 4)
    raise AssertionError(f"it does not end: {now}")


async def test_an_operation_is_stored_as_it_is(store: Store) -> None:
    first = operation(
        ids=(JobId(1), JobId(2)), q=None, rate=2.5, canary=3, state=OperationState.RUNNING, matched=7, is_exact=False,
        done=1, refused=2, refusals=(Refusal(JobId(1), "nul \0, ü and \U0001f600"),), started_at=BASE, reason="why",
        after_id=JobId(9), after_finished_at=BASE, is_list_read=True, batch=(PlannedJob(JobId(3), 4, State.DEAD),),
        canary_ids=(JobId(5),), origin="there",
    )  # fmt: skip
    assert await store.put_operation(first)
    assert await store.operation(first.id) == replace(first, version=1)
    assert await store.operation(OperationId(fresh_id())) is None


async def test_only_the_current_version_is_replaced(store: Store) -> None:
    first = operation()
    entry = LedgerEntry("olga", "operations.create", "x")
    assert await store.put_operation(first, entry=entry, now=BASE)
    assert not await store.put_operation(first, entry=entry, now=BASE)
    assert await store.put_operation(replace(first, version=1, done=5))
    assert not await store.put_operation(replace(first, version=1, done=6), entry=entry)
    assert await store.operation(first.id) == replace(first, version=2, done=5)
    assert len(await store.ledger()) == 1


async def test_operations_are_listed_and_found_when_due(store: Store) -> None:
    made = [operation(due_at=due) for due in (BASE + SECOND, BASE, None)]
    for one in made:
        assert await store.put_operation(one)
    assert [one.id for one in await store.operations()] == [one.id for one in reversed(made)]
    assert [one.id for one in await store.operations(before=made[2].id, limit=1)] == [made[1].id]
    assert [one.id for one in await store.due_operations(9, now=BASE)] == [made[1].id]
    assert [one.id for one in await store.due_operations(9, now=BASE + SECOND)] == [made[1].id, made[0].id]
    assert [one.id for one in await store.due_operations(1, now=BASE + SECOND)] == [made[1].id]


async def test_dead_jobs_are_retried_and_the_others_left_alone(
    engine: Engine, store: Store, clock: ManualClock
) -> None:
    jobs = new_jobs(12)
    await store.insert(jobs, now=BASE)
    await kill(store, *jobs[:5])
    await complete(store, jobs[5])
    made = await engine.operations.create(operation())
    assert (made.matched, made.is_exact) == (5, True)
    ended = await finish(engine, clock, made)
    assert (ended.state, ended.done, ended.refused) == (OperationState.COMPLETED, 5, 0)
    assert [(await look(store, job.id)).state for job in jobs[:6]] == [State.PENDING] * 5 + [State.COMPLETED]
    assert [entry.action for entry in await store.ledger()] == ["operations.create"]


@pytest.mark.parametrize(
    ("action", "query", "states", "refused"),
    [
        (OperationAction.CANCEL, "status:any", ["cancelled", "cancelled", "dead", "cancelled"], 2),
        (OperationAction.RUN_NOW, "status:scheduled,dead", ["pending", "pending", "dead", "cancelled"], 1),
        (OperationAction.RETRY, "status:any", ["pending", "pending", "pending", "pending"], 1),
        (OperationAction.DELETE, "status:any", ["pending", "scheduled", None, None], 2),
    ],
)
async def test_each_action_does_what_it_says(
    engine: Engine, store: Store, clock: ManualClock, action: OperationAction, query: str, states: list[str | None],
    refused: int,
) -> None:  # fmt: skip
    pending, dead, cancelled = new_jobs(3)
    later = new_job(run_at=BASE + timedelta(hours=1))
    await store.insert([pending, later, dead, cancelled], now=BASE)
    await kill(store, dead)
    await call_off(store, cancelled)
    ended = await finish(engine, clock, await engine.operations.create(operation(action=action, q=query)))
    found = {job.id: job.state.value for job in await store.get(ids_of([pending, later, dead, cancelled]))}
    assert [found.get(job.id) for job in (pending, later, dead, cancelled)] == states
    assert ended.refused == len(ended.refusals) == refused


async def test_a_selection_by_ids(engine: Engine, store: Store, clock: ManualClock) -> None:
    jobs = new_jobs(4)
    await store.insert(jobs, now=BASE)
    chosen = operation(action=OperationAction.CANCEL, q=None, ids=(jobs[0].id, jobs[2].id, fresh_id()))
    ended = await finish(engine, clock, await engine.operations.create(chosen))
    assert (ended.matched, ended.done) == (2, 2)
    assert [(await look(store, job.id)).state for job in jobs] == ["cancelled", "pending"] * 2


async def test_a_rate_bounds_the_jobs_of_each_second(engine: Engine, store: Store, clock: ManualClock) -> None:
    jobs = new_jobs(10)
    await store.insert(jobs, now=BASE)
    made = await engine.operations.create(operation(action=OperationAction.CANCEL, q="status:pending", rate=2))
    ended = await finish(engine, clock, made)
    assert ended.done == 10
    assert timedelta(seconds=4) <= clock() - BASE <= timedelta(seconds=7)


@pytest.mark.parametrize("is_good", [True, False])
async def test_the_rest_follows_only_if_the_canaries_succeed(
    engine: Engine,
    store: Store,
    clock: ManualClock,
    is_good: bool,  # noqa: FBT001 - a table
) -> None:
    jobs = new_jobs(6)
    await store.insert(jobs, now=BASE)
    await kill(store, *jobs)
    made = await engine.operations.create(operation(canary=2))
    for _ in range(5):
        await engine.operations.tick()
    canaries = [job for job in await store.get(ids_of(jobs)) if job.state is State.PENDING]
    assert len(canaries) == 2
    await complete(store, canaries[0], now=clock())
    await (complete if is_good else kill)(store, canaries[1], now=clock())
    ended = await finish(engine, clock, made)
    assert (ended.state, ended.done) == ((OperationState.COMPLETED, 6) if is_good else (OperationState.STOPPED, 2))
    assert is_good or "canary job" in ended.reason


class _Crash(Exception):
    """The process dies here."""


class _DyingStore:
    """A store whose process dies right before or right after a batch is settled."""

    def __init__(self, store: Store, *, after: bool) -> None:
        self._store = store
        self._after = after

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - any verb
        return getattr(self._store, name)

    async def settle(self, settlements: Sequence[Settlement], **more: Any) -> Sequence[JobId]:  # noqa: ANN401
        if self._after:
            await self._store.settle(settlements, **more)
        raise _Crash


@pytest.mark.parametrize("after", [True, False])
async def test_a_batch_whose_process_died_is_resumed_without_a_second_retry(
    engine: Engine,
    store: Store,
    clock: ManualClock,
    after: bool,  # noqa: FBT001 - a table
) -> None:
    jobs = new_jobs(5)
    await store.insert(jobs, now=BASE)
    await kill(store, *jobs)
    made = await engine.operations.create(operation())
    dying: Any = _DyingStore(store, after=after)
    with pytest.raises(_Crash):
        await Engine(dying, InStoreBroker(store), clock=clock, steady=clock.steady).operations.tick()
    if after:
        # A retried job runs and dies again before the batch is repeated: it must not be retried a second time.
        await kill(store, jobs[0], now=clock())
    assert not await engine.operations.tick(), "the first process may still be at it"
    clock.move(BATCH_TIME)
    ended = await finish(engine, clock, made)
    assert (ended.done, ended.refused) == (5, 0)
    states = [(await look(store, job.id)).state for job in jobs]
    assert states == ([State.DEAD] if after else [State.PENDING]) + [State.PENDING] * 4


async def test_two_schedulers_do_each_job_once(engine: Engine, store: Store, clock: ManualClock) -> None:
    jobs = new_jobs(3)
    await store.insert(jobs, now=BASE)
    made = await engine.operations.create(operation(action=OperationAction.CANCEL, q="status:pending"))
    (seen,) = await store.due_operations(9, now=clock())
    await engine.operations.tick()
    await engine.operations._step(seen)
    ended = await finish(engine, clock, made)
    assert (ended.done, ended.refused) == (3, 0)


async def test_an_operation_that_cannot_go_on_does_not_hold_up_the_others(
    engine: Engine, store: Store, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    (job,) = new_jobs(1)
    await store.insert([job], now=BASE)
    stuck = await engine.operations.create(operation(q="status:any", due_at=BASE - SECOND))
    made = await engine.operations.create(operation(action=OperationAction.CANCEL, q="status:pending"))
    step = engine.operations._step

    async def failing(one: Operation) -> None:
        if one.id == stuck.id:
            raise RuntimeError("planted")
        await step(one)

    monkeypatch.setattr(engine.operations, "_step", failing)
    for _ in range(3):
        with pytest.raises(RuntimeError, match="planted"):
            await engine.operations.tick()
        clock.move(SECOND)
    assert (await engine.operations.one(made.id)).state is OperationState.COMPLETED
    assert (await look(store, job.id)).state is State.CANCELLED


async def test_a_cancelled_operation_does_no_more(engine: Engine, store: Store, clock: ManualClock) -> None:
    (job,) = new_jobs(1)
    await store.insert([job], now=BASE)
    made = await engine.operations.create(
        operation(action=OperationAction.CANCEL, q="status:pending", due_at=BASE + 10 * SECOND)
    )
    assert not await engine.operations.tick()
    await engine.operations.cancel(made.id, OLGA)
    clock.move(11 * SECOND)
    assert not await engine.operations.tick()
    assert (await look(store, job.id)).state is State.PENDING
    with pytest.raises(IllegalTransition, match="has ended already"):
        await engine.operations.cancel(made.id, OLGA)
    assert [entry.action for entry in await store.ledger()] == ["operations.cancel", "operations.create"]


async def test_jobs_that_are_submitted_later_are_left_alone(engine: Engine, store: Store, clock: ManualClock) -> None:
    first, second = new_jobs(2)
    await store.insert([first], now=BASE)
    made = await engine.operations.create(operation(action=OperationAction.CANCEL, q="status:pending"))
    clock.move(SECOND)
    await store.insert([second], now=clock())
    assert (await finish(engine, clock, made)).done == 1
    assert (await look(store, second.id)).state is State.PENDING


@pytest.mark.parametrize(
    ("fields", "remedy"),
    [
        ({"q": None}, "by one of them only"),
        ({"ids": (JobId(1),)}, "by one of them only"),
        ({"q": "  "}, "status:any"),
        ({"q": "stauts:dead"}, "did you mean 'status'"),
        ({"action": OperationAction.CANCEL, "canary": 1}, "leave this out"),
        ({"canary": 101}, "between 1 and 100"),
    ],
)
async def test_an_operation_that_cannot_be_meant_is_refused(
    engine: Engine, store: Store, fields: dict[str, Any], remedy: str
) -> None:
    with pytest.raises(InvalidRequest, match=remedy):
        await engine.operations.create(operation(**fields))
    assert not await store.operations()


async def test_ended_operations_are_deleted_with_the_old_history(store: Store) -> None:
    old, open_one = operation(due_at=None), operation()
    for one in (old, open_one):
        await store.put_operation(one)
    await store.prune(Retention(history=timedelta(days=90)), 100, now=BASE + timedelta(days=89))
    assert len(await store.operations()) == 2
    # An entry of the ledger is written with every operation; a store may look for old ones only if it has some.
    await store.record([LedgerEntry("olga", "act", to_text(old.id))] * 2, now=BASE)
    await store.prune(Retention(history=timedelta(days=90)), 100, now=BASE + timedelta(days=91))
    assert [one.id for one in await store.operations()] == [open_one.id]
