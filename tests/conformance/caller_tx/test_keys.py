"""Idempotency keys, bounds and waits hold in a caller's transaction as they do outside of one."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Sequence
from typing import Any, Final

import pytest

from builders import after, key, new_job
from conformance.caller_tx.callers import DRIVERS, Caller, Way
from rota import Rota, Task
from rota.core.errors import InvalidRequest, KeyReused, QueueFull
from rota.core.ids import JobId, to_number, to_text
from rota.core.lifecycle import State
from rota.core.queue import Queue
from rota.core.submission import NewJob
from rota.ports.store import Inserted, JobQuery, Receipt, Store
from rota.runtime.caller_tx import caller_connection_of

Ship = Task[[int], int]


@pytest.fixture(params=DRIVERS, ids=lambda way: way.name)
def way(request: pytest.FixtureRequest) -> Way:
    """Leave SQLAlchemy out: below it there is one of these."""
    chosen: Way = request.param
    return chosen


@pytest.fixture
async def other(way: Way, place: str, caller: Caller) -> AsyncIterator[Caller]:
    """Return a second connection, in a transaction of its own."""
    del caller
    async with way.connect(place) as other:
        await other.start()
        yield other
        await other.rollback()


async def insert(place: str, caller: Caller, jobs: Sequence[NewJob], bound: int | None = None) -> Sequence[Inserted]:
    guest = await caller_connection_of(place, caller.tx)
    return await guest.insert(lambda _: jobs, bound=bound)


async def test_a_key_makes_one_job_in_one_transaction_and_the_next(caller: Caller, task: Ship, store: Store) -> None:
    first = await caller.submit(task, 1, idempotency_key="k")
    again = await caller.submit(task, 1, idempotency_key="k")
    await caller.commit()
    await caller.start()
    later = await caller.submit(task, 1, idempotency_key="k")
    await caller.commit()
    outside = task.using(idempotency_key="k").submit(1)
    assert first.id == again.id == later.id == outside.id
    assert (await store.census()).total() == 1


async def test_a_key_of_a_transaction_that_was_rolled_back_is_free(caller: Caller, task: Ship, store: Store) -> None:
    await caller.submit(task, 1, idempotency_key="k")
    await caller.rollback()
    await caller.start()
    handle = await caller.submit(task, 2, idempotency_key="k")
    await caller.commit()
    assert [job.id for job in await store.find(JobQuery())] == [to_number(handle.id)]


async def test_any_request_is_recognised_when_it_comes_again(caller: Caller, place: str) -> None:
    """What is kept of a request is bytes of any kind, and every driver writes bytes in its own way."""
    jobs = [new_job(idempotency=key(f"k{number}", bytes([number]))) for number in range(256)]
    assert {answer.receipt for answer in await insert(place, caller, jobs)} == {Receipt.CREATED}
    await caller.commit()
    await caller.start()
    again = [new_job(idempotency=job.idempotency) for job in jobs]
    answers = await insert(place, caller, again)
    assert {answer.receipt for answer in answers} == {Receipt.REPLAYED}
    assert [answer.job_id for answer in answers] == [job.id for job in jobs]


async def refuses_changed_rows(way: Way, caller: Caller) -> bool:
    """Whether a row that changed since the transaction began cannot be locked, as on MariaDB 11.6.2 and newer."""
    if way.store.name != "mariadb":
        return False
    return ("innodb_snapshot_isolation", "ON") in await caller.fetch("SHOW VARIABLES LIKE 'innodb_snapshot_isolation'")


#: What MariaDB says then: "Record has changed since last read".
CHANGED: Final = 1020


async def test_a_key_taken_since_the_transaction_began_to_look_is_found(
    way: Way, caller: Caller, task: Ship, store: Store
) -> None:
    is_refused = await refuses_changed_rows(way, caller)
    await caller.fetch("SELECT number FROM purchase")
    first = await task.using(idempotency_key="k").asubmit(1)
    if is_refused:
        with pytest.raises(Exception, match=str(CHANGED)):
            await caller.submit(task, 1, idempotency_key="k")
        await caller.rollback()
        await caller.start()
    again = await caller.submit(task, 1, idempotency_key="k")
    assert again.id == first.id
    with pytest.raises(KeyReused):
        await caller.submit(task, 2, idempotency_key="k")
    await caller.commit()
    assert (await store.census()).total() == 1


async def beside(work: Coroutine[Any, Any, Any], waits: Callable[[], Awaitable[bool]]) -> asyncio.Future[Any]:
    """Begin a call on a thread of its own, since it may block; return when it waits for a lock, or is done."""
    done: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
    loop = asyncio.get_running_loop()

    def settle(call: Callable[[Any], None], value: Any) -> None:  # noqa: ANN401 - whatever came of it
        loop.call_soon_threadsafe(call, value)

    def run() -> None:
        try:
            # Without a loop: a coroutine over a driver that blocks never suspends.
            work.send(None)
        except StopIteration as end:
            settle(done.set_result, end.value)
        except Exception as error:  # noqa: BLE001 - the test wants to see it
            settle(done.set_exception, error)

    threading.Thread(target=run, daemon=True).start()
    await until_stuck(done, waits)
    return done


async def until_stuck(work: asyncio.Future[Any], waits: Callable[[], Awaitable[bool]]) -> None:
    """Wait until the server reports a lock wait, or none."""
    while not work.done() and not await waits():  # noqa: ASYNC110 - a server sets no event
        await asyncio.sleep(GLANCE_SECONDS)


#: Queries for lock waits. SQLite cannot be asked; there the order of events is left to chance.
WAITS = {
    "postgres": "SELECT count(*) FROM pg_locks WHERE NOT granted",
    "mariadb": "SELECT count(*) FROM information_schema.innodb_trx WHERE trx_state = 'LOCK WAIT'",
    "sqlite-file": "SELECT 1",
}
#: InnoDB tells the news only to those who have not asked for a tenth of a second.
GLANCE_SECONDS = 0.15


@pytest.mark.parametrize("ending", ["commit", "rollback"])
async def test_two_transactions_with_the_same_key_make_one_job(
    way: Way, caller: Caller, other: Caller, task: Ship, store: Store, ending: str
) -> None:
    first = await caller.submit(task, 1, idempotency_key="k")
    sql = WAITS[way.store.name]

    async def waits() -> bool:
        return await caller.fetch(sql) != [(0,)]

    work = other.submit(task, 1, idempotency_key="k")
    waiting: asyncio.Future[Any]
    if other.is_async:
        waiting = asyncio.ensure_future(work)
        await until_stuck(waiting, waits)
    else:
        waiting = await beside(work, waits)
    assert not waiting.done() or way.store.name == "sqlite-file"
    await getattr(caller, ending)()
    if ending == "commit" and await refuses_changed_rows(way, caller):
        with pytest.raises(Exception, match=str(CHANGED)):
            await waiting
        await other.rollback()
        await other.start()
        second = await other.submit(task, 1, idempotency_key="k")
    else:
        second = await waiting
    await other.commit()
    assert (second.id == first.id) is (ending == "commit")
    assert [job.id for job in await store.find(JobQuery())] == [to_number(second.id)]


async def test_transactions_with_different_keys_do_not_wait_for_each_other(
    way: Way, caller: Caller, other: Caller, task: Ship, store: Store
) -> None:
    """On MariaDB the first of them once locked the gap into which the second wanted to write."""
    await caller.submit(task, 1, idempotency_key="k1")
    if way.store.name == "sqlite-file":
        # One writer at a time, and the other waits.
        await caller.commit()
    await other.submit(task, 2, idempotency_key="k2")
    if way.store.name != "sqlite-file":
        await caller.submit(task, 3, idempotency_key="k3")
    await other.commit()
    await caller.commit()
    assert (await store.census()).total() == 2 + (way.store.name != "sqlite-file")


async def test_a_full_queue_refuses_at_once_and_the_transaction_goes_on(
    caller: Caller, app: Rota, task: Ship, store: Store
) -> None:
    await store.put_queue(Queue("default", max_depth=2))
    await caller.submit(task, 1)
    with pytest.raises(QueueFull, match="'default'"):
        await caller.submit_many(app, [task.call(number) for number in range(2)])
    await caller.submit(task, 2)
    with pytest.raises(QueueFull):
        await caller.submit(task, 3)
    await caller.submit(task, 4, delay="1h")
    await caller.commit()
    assert (await store.census()).total(State.PENDING) == 2
    assert (await store.census()).total(State.SCHEDULED) == 1


async def test_the_bound_that_is_set_for_all_holds(
    caller: Caller, task: Ship, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JOB_QUEUE_SIZE", "1")
    await caller.submit(task, 1)
    with pytest.raises(QueueFull):
        await caller.submit(task, 2)
    await caller.commit()
    assert (await store.census()).total() == 1


async def test_jobs_wait_for_others_of_their_transaction_and_of_before(
    caller: Caller, place: str, store: Store
) -> None:
    running, cancelled = new_job(), new_job()
    await store.insert([running, cancelled])
    await caller.buy(1)
    parent = new_job()
    children = [new_job(after=after(parent, running)), new_job(after=after(cancelled)), new_job(after=after(parent))]
    await insert(place, caller, [parent])
    answers = await insert(place, caller, children)
    assert {answer.state for answer in answers} == {State.BLOCKED}
    assert {answer.receipt for answer in answers} == {Receipt.CREATED}
    await caller.commit()
    assert {job.state for job in await store.get([child.id for child in children])} == {State.BLOCKED}


async def test_a_job_after_one_that_is_unknown_is_refused(caller: Caller, place: str, store: Store) -> None:
    """It was cancelled at once, without an error."""
    await caller.buy(1)
    missing = new_job()
    with pytest.raises(InvalidRequest, match=f"after: job {to_text(missing.id)} is unknown") as refused:
        await insert(place, caller, [new_job(), new_job(after=after(missing))])
    assert refused.value.field == "after"
    kept = new_job()
    await insert(place, caller, [kept])
    await caller.commit()
    assert [job.id for job in await store.find(JobQuery())] == [kept.id]
    assert await caller.fetch("SELECT number FROM purchase") == [(1,)]


async def test_a_job_may_wait_for_one_that_came_after_the_transaction_began(
    way: Way, caller: Caller, place: str, store: Store
) -> None:
    is_refused = await refuses_changed_rows(way, caller)
    await caller.fetch("SELECT number FROM purchase")
    parent = new_job()
    await store.insert([parent])
    if is_refused:
        with pytest.raises(Exception, match=str(CHANGED)):
            await insert(place, caller, [new_job(after=after(parent))])
        await caller.rollback()
        await caller.start()
    (answer,) = await insert(place, caller, [new_job(after=after(parent))])
    assert answer.receipt is Receipt.CREATED
    assert answer.state is State.BLOCKED


async def test_an_id_that_is_taken_gives_way_to_another(caller: Caller, place: str, store: Store) -> None:
    taken = new_job()
    await store.insert([taken])
    free = new_job()
    answers = await insert(place, caller, [free, taken])
    assert [answer.receipt for answer in answers][1] is Receipt.ID_TAKEN
    await caller.commit()
    assert [job.id for job in await store.find(JobQuery())] == [taken.id]


async def test_what_no_store_can_keep_is_refused_by_its_name(caller: Caller, task: Ship, store: Store) -> None:
    with pytest.raises(InvalidRequest, match="tags"):
        await caller.submit(task, 1, tags=["a\0b"])
    await caller.buy(1)
    await caller.commit()
    assert (await store.census()).total() == 0


async def test_a_unique_key_makes_one_job_in_one_transaction_and_the_next(
    caller: Caller, task: Ship, store: Store
) -> None:
    first = await caller.submit(task, 1, unique_for="1h")
    again = await caller.submit(task, 1, unique_for="1h")
    await caller.commit()
    await caller.start()
    later = await caller.submit(task, 1, unique_for="1h")
    await caller.commit()
    outside = task.using(unique_for="1h").submit(1)
    assert first.id == again.id == later.id == outside.id
    assert [first.receipt, again.receipt] == [Receipt.CREATED, Receipt.UNIQUE_CONFLICT]
    assert (await store.census()).total() == 1


async def test_a_debounced_payload_is_replaced_only_if_the_transaction_commits(
    caller: Caller, task: Ship, store: Store
) -> None:
    first = task.using(debounce="1h").submit(1)
    again = await caller.submit(task, 2, debounce="1h")
    await caller.rollback()
    assert (await store.get([JobId(to_number(first.id))]))[0].payload == '{"args":[1],"kwargs":{}}'
    await caller.start()
    again = await caller.submit(task, 3, debounce="1h")
    await caller.commit()
    assert again.id == first.id
    assert (await store.get([JobId(to_number(first.id))]))[0].payload == '{"args":[3],"kwargs":{}}'
