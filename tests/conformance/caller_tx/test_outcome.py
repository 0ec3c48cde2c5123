"""A job that was submitted in a transaction exists exactly if the transaction was committed."""

from __future__ import annotations

import asyncio
import sqlite3
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from sqlalchemy import create_engine
from sqlalchemy.ext.asyncio import async_scoped_session, async_sessionmaker, create_async_engine
from sqlalchemy.orm import Session, scoped_session, sessionmaker

from conformance.caller_tx.callers import ASYNCPG, WRAPPED, Caller
from rota import Handle, Rota, Task
from rota.core.errors import KeyReused
from rota.core.ids import JobId, to_number, to_text
from rota.core.lifecycle import State
from rota.ports.store import JobQuery, Store
from rota.stores.caller_tx import resolved

Ship = Task[[int], int]


def id_of(handle: Handle[int]) -> JobId:
    return JobId(to_number(handle.id))


async def ids(store: Store) -> list[str]:
    """Return the ids of all jobs, oldest first."""
    return [to_text(job.id) for job in reversed(await store.find(JobQuery()))]


async def test_a_commit_leaves_one_job_beside_the_program_s_own_row(caller: Caller, task: Ship, store: Store) -> None:
    await caller.buy(7)
    handle = await caller.submit(task, 7)
    await caller.commit()
    assert await ids(store) == [handle.id]
    (job,) = await store.find(JobQuery())
    assert (job.type, job.payload, job.state) == ("ship", '{"args":[7],"kwargs":{}}', State.PENDING)
    await caller.start()
    assert await caller.fetch("SELECT number FROM purchase") == [(7,)]


async def test_a_rollback_leaves_nothing(caller: Caller, task: Ship, store: Store) -> None:
    await caller.buy(7)
    await caller.submit(task, 7, idempotency_key="k", tags=["urgent"], delay="1h")
    await caller.rollback()
    assert await ids(store) == []
    await caller.start()
    assert await caller.fetch("SELECT number FROM purchase") == []
    assert await caller.fetch("SELECT * FROM rota_idempotency") == []
    assert await caller.fetch("SELECT * FROM rota_tag") == []


async def test_a_submission_may_be_the_first_statement_of_a_transaction(
    caller: Caller, task: Ship, store: Store
) -> None:
    await caller.submit(task, 1)
    await caller.rollback()
    assert await ids(store) == []
    await caller.start()
    handle = await caller.submit(task, 2)
    await caller.commit()
    assert await ids(store) == [handle.id]


async def test_the_id_is_known_before_the_commit_and_nobody_sees_the_job_until_then(
    caller: Caller, task: Ship, store: Store
) -> None:
    await caller.buy(7)
    handle = await caller.submit(task, 7)
    assert await store.get([id_of(handle)]) == []
    await caller.commit()
    assert len(await store.get([id_of(handle)])) == 1


async def test_a_rollback_to_a_savepoint_takes_back_what_was_submitted_behind_it(
    caller: Caller, task: Ship, store: Store
) -> None:
    await caller.buy(1)
    first = await caller.submit(task, 1)
    await caller.execute("SAVEPOINT before_the_second")
    await caller.submit(task, 2)
    await caller.execute("ROLLBACK TO SAVEPOINT before_the_second")
    third = await caller.submit(task, 3)
    await caller.commit()
    assert await ids(store) == [first.id, third.id]


async def test_a_refused_submission_leaves_the_transaction_as_it_was(
    caller: Caller, app: Rota, task: Ship, store: Store
) -> None:
    first = await caller.submit(task, 1, idempotency_key="k")
    await caller.buy(1)
    with pytest.raises(KeyReused, match="'k'"):
        await caller.submit(task, 2, idempotency_key="k")
    with pytest.raises(KeyReused):
        await caller.submit_many(app, [task.call(3), task.using(idempotency_key="k").call(4)])
    await caller.buy(2)
    await caller.commit()
    assert await ids(store) == [first.id]
    await caller.start()
    assert await caller.fetch("SELECT number FROM purchase ORDER BY number") == [(1,), (2,)]


async def test_many_jobs_are_stored_together_or_not_at_all(caller: Caller, app: Rota, task: Ship, store: Store) -> None:
    await caller.submit_many(app, [task.call(number) for number in range(50)])
    await caller.rollback()
    assert await ids(store) == []
    await caller.start()
    handles = await caller.submit_many(app, [task.call(number) for number in range(300)])
    await caller.commit()
    assert (await store.census()).total(State.PENDING) == 300
    jobs = await store.get([id_of(handle) for handle in handles])
    assert [job.payload for job in jobs] == [f'{{"args":[{number}],"kwargs":{{}}}}' for number in range(300)]


async def test_what_a_submission_brings_is_stored_with_it(caller: Caller, task: Ship, store: Store) -> None:
    when = datetime(2030, 1, 2, 3, 4, 5, 678_901, tzinfo=UTC)
    options = {
        "run_at": when,
        "tags": ["späte", "100%s"],
        "meta": {"by": "ö $1 %(p1)s '\"\\"},
        "priority": 9,
        "queue": "q",
        "timeout": "30s",
        "expires": "1h",
    }
    handle = await caller.submit(task, 5, on_success=task.call(6), idempotency_key="ключ", **options)
    await caller.commit()
    (job,) = await store.get([id_of(handle)])
    assert (job.run_at, job.state, job.tags) == (when, State.SCHEDULED, ("späte", "100%s"))
    assert (job.meta, job.priority, job.queue) == ({"by": "ö $1 %(p1)s '\"\\"}, 9, "q")
    assert (job.timeout, job.expires_at) == (timedelta(seconds=30), when + timedelta(hours=1))
    assert job.idempotency_key == "ключ"
    assert job.on_success is not None
    assert [found.id for found in await store.find(JobQuery(tag="100%s"))] == [job.id]


async def test_times_are_computed_by_the_store_s_clock(caller: Caller, task: Ship, store: Store) -> None:
    before = await store.time()
    handle = await caller.submit(task, 5, delay="1h")
    after = await store.time()
    await caller.commit()
    (job,) = await store.get([id_of(handle)])
    assert before <= job.created_at <= after
    assert job.run_at == job.created_at + timedelta(hours=1)


async def test_a_worker_runs_the_job_after_the_commit(caller: Caller, app: Rota, task: Ship) -> None:
    with app.run():
        await caller.buy(21)
        handle = await caller.submit(task, 21)
        await caller.commit()
        assert await handle.aresult(timeout="20s") == 42


async def test_others_hear_of_the_job_after_the_commit_and_not_before(caller: Caller, task: Ship, store: Store) -> None:
    # Notifications of earlier writes may come first.
    while await store.watch(timedelta(seconds=0.3)):
        pass
    await caller.submit(task, 1)
    assert not await store.watch(timedelta(seconds=0.3))
    await caller.commit()
    assert await store.watch(timedelta(seconds=20))


class OwnSession(Session):
    """A session with habits of its own, as frameworks make them."""


class OwnConnection(sqlite3.Connection):
    """A connection with habits of its own."""


def test_what_is_made_of_a_known_class_is_known(tmp_path: Path) -> None:
    app = Rota(str(tmp_path / "rota.db"))
    app.portal.call(app.link())

    @app.task
    def ship(number: int) -> int:
        return number

    engine = create_engine(f"sqlite:///{tmp_path / 'rota.db'}")
    connection = sqlite3.connect(tmp_path / "rota.db", factory=OwnConnection)
    sessions = (OwnSession(engine), scoped_session(sessionmaker(engine)), connection)
    handles = []
    for session in sessions:
        handles.append(ship.using(tx=session).submit(1))
        session.commit()
        session.close()
    engine.dispose()
    assert [handle.state for handle in handles] == [State.PENDING] * 3
    app.close()


@pytest.mark.parametrize("way", [ASYNCPG], ids=lambda way: way.name)
async def test_a_scoped_session_of_asyncio_is_known(place: str, task: Ship, store: Store) -> None:
    engine = create_async_engine(place.replace("postgresql://", "postgresql+asyncpg://"))
    session = async_scoped_session(async_sessionmaker(engine), asyncio.current_task)
    handle = await task.using(tx=session).asubmit(1)
    assert await ids(store) == []
    await session.commit()
    await session.remove()
    await engine.dispose()
    assert await ids(store) == [handle.id]


@pytest.mark.parametrize("way", [way for way in WRAPPED if "session" in way.name], ids=lambda way: way.name)
async def test_a_nested_transaction_of_sqlalchemy_takes_its_jobs_back(caller: Caller, task: Ship, store: Store) -> None:
    await caller.buy(1)
    first = await caller.submit(task, 1)
    nested = await resolved(caller.tx.begin_nested())
    await caller.submit(task, 2)
    await resolved(nested.rollback())
    nested = await resolved(caller.tx.begin_nested())
    third = await caller.submit(task, 3)
    await resolved(nested.commit())
    await caller.commit()
    assert await ids(store) == [first.id, third.id]
