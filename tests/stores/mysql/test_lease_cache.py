"""The lease cache: completions of known leases need no query, and a wrong cache has no effect."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from typing import Any

import pytest

from builders import ADA, BEN, after, at, claim, failure, ids_of, means, new_job, new_jobs
from rota.core.decision import decide
from rota.core.errors import StoreUnavailable
from rota.core.job import Job
from rota.core.lifecycle import State
from rota.core.outcome import Lost, Released, Succeeded
from rota.core.settlement import Settlement
from rota.core.submission import NewJob
from rota.stores.mysql import MysqlStore, driver, lease_cache
from rota.stores.mysql.driver import MysqlConnection, connect
from rota.stores.mysql.errors import ConnectionLost
from rota.stores.mysql.location import location_of
from rota.stores.mysql.pipeline import MIN_BULK_ROWS
from rota.stores.mysql.statements import statement

FEW, MANY = MIN_BULK_ROWS - 1, 3 * MIN_BULK_ROWS


@pytest.fixture(autouse=True)
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The statements about leases in settlements."""
    seen: list[str] = []
    rows_of = MysqlConnection.rows

    async def rows(self: MysqlConnection, sql: str, parameters: Any = None) -> Any:  # noqa: ANN401 - as the original
        if sql == statement("lock_leases"):
            seen.append("leases")
        return await rows_of(self, sql, parameters)

    monkeypatch.setattr(MysqlConnection, "rows", rows)
    return seen


@pytest.fixture
async def beside(store: MysqlStore, url: str) -> AsyncIterator[MysqlStore]:
    """Return the store of another process."""
    assert await store.check() == []
    beside = await MysqlStore.open(url)
    yield beside
    await beside.close()


async def claimed(store: MysqlStore, jobs: Sequence[NewJob]) -> Sequence[Job]:
    await store.insert(jobs, now=at(0))
    held = await store.claim(claim(limit=len(jobs)), now=at(1))
    assert ids_of(held) == ids_of(jobs)
    return held


def ends(jobs: Sequence[Job], result: str = "null") -> list[Settlement]:
    return [decide(job, Succeeded(result), means(at(2))) for job in jobs]


async def states(store: MysqlStore, jobs: Sequence[Any]) -> list[State]:
    return [job.state for job in await store.get(ids_of(jobs))]


@pytest.mark.parametrize("number", [1, FEW, MANY, driver.MAX_LIST + 2])
async def test_nothing_is_asked_of_leases_that_this_store_gave(
    store: MysqlStore, asked: list[str], number: int
) -> None:
    held = await claimed(store, new_jobs(number))
    assert await store.settle(ends(held), now=at(2)) == ids_of(held)
    assert asked == []
    assert (await store.census()).total(State.COMPLETED) == number
    assert await store.check() == []


@pytest.mark.parametrize("number", [FEW, MANY])
async def test_completions_are_equal_with_and_without_the_cache(
    store: MysqlStore, beside: MysqlStore, asked: list[str], number: int
) -> None:
    ours, theirs = await claimed(store, new_jobs(number)), await claimed(store, new_jobs(number))
    await store.settle(ends(ours, '"done"'), now=at(2))
    assert asked == []
    await beside.settle(ends(theirs, '"done"'), now=at(2))
    assert asked != []
    for one, other in zip(await store.get(ids_of(ours)), await store.get(ids_of(theirs)), strict=True):
        assert replace(one, id=other.id) == other
        assert (one.worker, one.boot, one.started_at, one.result) == (ADA.name, ADA.boot, at(1), '"done"')
    assert await store.check() == []


async def test_ends_of_several_claims_and_with_several_results(store: MysqlStore, asked: list[str]) -> None:
    first, second = await claimed(store, new_jobs(MANY)), await claimed(store, new_jobs(MANY))
    settlements = [*ends(first[::2], "1"), *ends(first[1::2], "2"), *ends(second, "3")]
    assert len(await store.settle(settlements, now=at(2))) == 2 * MANY
    assert asked == []
    results = [job.result for job in await store.get(ids_of([*first, *second]))]
    assert results == ["1", "2"] * (MANY // 2) + ["3"] * MANY
    assert await store.check() == []


async def test_attempts_of_the_same_job_have_leases_of_their_own(store: MysqlStore, asked: list[str]) -> None:
    (held, *others) = await claimed(store, new_jobs(MANY))
    await store.settle([decide(held, Lost(), means(at(2)))], now=at(2))
    (again,) = await store.claim(claim(BEN, limit=1), now=at(3))
    asked.clear()
    assert set(await store.settle(ends([again, *others]), now=at(4))) == {held.id, *ids_of(others)}
    # By fence they would be locked in another order than everybody else locks them.
    assert asked == ["leases"]
    (shown,) = await store.get([held.id])
    assert (shown.fence, shown.attempts, shown.worker, shown.started_at) == (2, 2, BEN.name, at(3))
    assert await store.check() == []


@pytest.mark.parametrize("number", [FEW, MANY])
async def test_a_lease_that_was_lost_meanwhile_is_not_settled_and_all_others_are(
    store: MysqlStore, beside: MysqlStore, number: int
) -> None:
    held = await claimed(store, new_jobs(number))
    lost = held[number // 2]
    # Of all ends the one that leaves the fewest traces in the job.
    await beside.settle([decide(lost, Released(), means(at(100)))], now=at(100))
    (again,) = await beside.claim(claim(BEN, limit=1), now=at(101))
    assert again.id == lost.id
    assert await store.settle(ends(held), now=at(102)) == [job.id for job in held if job is not lost]
    (shown,) = await store.get([lost.id])
    assert (shown.state, shown.worker, shown.fence) == (State.RUNNING, BEN.name, 2)
    assert await store.check() == []


async def test_a_second_settlement_is_refused(store: MysqlStore, beside: MysqlStore) -> None:
    held = await claimed(store, new_jobs(MANY))
    store_knows = dict(store._lease_cache._leases)
    assert len(await store.settle(ends(held), now=at(2))) == MANY
    for one, moment in ((store, at(2)), (store, at(3)), (beside, at(2))):
        one._lease_cache._leases.update(store_knows)
        assert await one.settle(ends(held), now=moment) == []
        one._lease_cache._suspended_until = 0.0
    assert await store.check() == []


async def test_a_job_that_was_asked_to_stop_ends_and_says_so(store: MysqlStore, beside: MysqlStore) -> None:
    held = await claimed(store, new_jobs(MANY))
    await beside.ask_cancel([(held[3].id, held[3].fence)], now=at(2))
    assert len(await store.settle(ends(held), now=at(3))) == MANY
    asked_at = [job.cancel_requested_at for job in await store.get(ids_of(held))]
    assert asked_at == [None] * 3 + [at(2)] + [None] * (MANY - 4)


async def test_a_dependent_job_goes_on_when_the_job_has_ended(store: MysqlStore, asked: list[str]) -> None:
    held = await claimed(store, new_jobs(MANY))
    child = new_job(after=after(held[3].id))
    await store.insert([child], now=at(2))
    assert len(await store.settle(ends(held), now=at(3))) == MANY
    assert await states(store, [child]) == [State.PENDING]
    assert asked == ["leases"]


async def test_a_dependency_that_is_being_added_is_not_missed(store: MysqlStore, url: str, asked: list[str]) -> None:
    """It has the job locked and says that it waits; whether anybody does was asked before it was done."""
    held = await claimed(store, new_jobs(MANY))
    other = await connect(location_of(url), "test", autocommit=False)
    await other.rows("SELECT id FROM rota_job WHERE id = %(id)s FOR UPDATE", {"id": held[3].id})
    await other.run(
        "INSERT INTO rota_dependency (parent, child, need) VALUES (%(id)s, 1, 'success')", {"id": held[3].id}
    )
    settling = asyncio.ensure_future(store.settle(ends(held), now=at(3)))
    while (await other.rows("SHOW GLOBAL STATUS LIKE 'Innodb_row_lock_current_waits'"))[0][1] == "0":  # noqa: ASYNC110 - only the server knows
        await asyncio.sleep(0.005)
    await other.commit()
    assert len(await settling) == MANY
    assert asked == ["leases"], "it was noticed, and all was asked"
    await other.close()


async def test_a_settlement_does_not_wait_for_an_uncommitted_dependency(store: MysqlStore, url: str) -> None:
    held = await claimed(store, new_jobs(MANY))
    other = await connect(location_of(url), "test", autocommit=False)
    await other.run(
        "INSERT INTO rota_dependency (parent, child, need) VALUES (%(id)s, 1, 'success')", {"id": held[3].id + 1}
    )
    async with asyncio.timeout(driver.LOCK_WAIT_SECONDS / 2):
        assert len(await store.settle(ends(held), now=at(3))) == MANY
    await other.rollback()
    await other.close()


async def test_for_a_while_nothing_is_taken_for_known_after_it_was_not_so(
    store: MysqlStore, asked: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    held = await claimed(store, new_jobs(MANY))
    await store.insert([new_job(after=after(held[0].id))], now=at(2))
    await store.settle(ends(held[:2]), now=at(3))
    await store.settle(ends(held[2:4]), now=at(3))
    assert asked == ["leases"] * 2
    monkeypatch.setattr(store._lease_cache, "_suspended_until", 0.0)
    await store.settle(ends(held[4:]), now=at(3))
    assert asked == ["leases"] * 2


async def test_a_claim_with_an_unknown_outcome_is_not_cached(
    store: MysqlStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    await store.insert(new_jobs(MANY), now=at(0))

    async def commit(_: MysqlConnection) -> None:
        raise ConnectionLost("on the way")

    monkeypatch.setattr(MysqlConnection, "commit", commit)
    with pytest.raises(StoreUnavailable):
        await store.claim(claim(), now=at(1))
    assert store._lease_cache._leases == {}


async def test_what_is_known_is_forgotten_with_the_end_and_of_many_the_oldest(
    store: MysqlStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lease_cache, "MAX_LEASES", MANY)
    held = await claimed(store, new_jobs(2 * MANY))
    assert list(store._lease_cache._leases) == ids_of(held[MANY:])
    await store.settle([decide(held[-1], failure(), means(at(2)))], now=at(2))
    assert await store.settle(ends(held[:-1]), now=at(2)) == ids_of(held[:-1])
    assert store._lease_cache._leases == {}


async def test_of_jobs_that_have_a_latest_start_nothing_is_taken_for_known(store: MysqlStore, asked: list[str]) -> None:
    """They have more to their end. To try would fail each time, and be doubted for all others."""
    held = await claimed(store, new_jobs(MANY, expires_at=at(3600)))
    assert len(await store.settle(ends(held), now=at(2))) == MANY
    assert asked == ["leases"]
    held = await claimed(store, new_jobs(MANY))
    assert len(await store.settle(ends(held), now=at(2))) == MANY
    assert asked == ["leases"]


@pytest.mark.parametrize("number", [FEW, MANY])
async def test_a_server_that_has_hung_up_on_an_idle_connection_is_noticed_before_the_commit(
    store: MysqlStore, url: str, number: int
) -> None:
    """The commit is all that a completion sends: if it were the first statement, its outcome would be unknown."""
    held = await claimed(store, new_jobs(number))
    other = await connect(location_of(url), "other", autocommit=True)
    for (thread,) in await other.rows(
        "SELECT id FROM information_schema.processlist WHERE db = database() AND id <> connection_id()"
    ):
        await other.run(f"KILL {thread}")
    await other.close()
    for connection in store._writers._idle:
        connection.used_at -= driver.IDLE_SECONDS
    assert len(await store.settle(ends(held), now=at(2))) == number
