"""Low-water marks: a lane that is drained is not scanned from its beginning each time, and no job is missed."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from builders import ADA, BASE, at, claim, ids_of, new_job, new_jobs
from rota.core.ids import JobId
from rota.core.queue import Queue
from rota.core.submission import NewJob
from rota.stores.mysql import MysqlStore, low_water
from rota.stores.mysql.driver import MysqlConnection
from rota.stores.mysql.errors import RetryTransaction
from rota.stores.mysql.statements import statement
from rota.stores.rows import Row


@pytest.fixture(autouse=True)
def lasting(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep low-water marks valid for as long as a test takes."""
    monkeypatch.setattr(low_water, "MIN_AGE_SECONDS", 3600.0)


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """From which lanes claims have looked for work from the beginning."""
    seen: list[str] = []
    rows_of = MysqlConnection.rows

    async def rows(self: MysqlConnection, sql: str, parameters: Any = None) -> Any:  # noqa: ANN401 - as the original
        if sql == statement("next_type_with_work"):
            seen.append(parameters["queue"])
        return await rows_of(self, sql, parameters)

    monkeypatch.setattr(MysqlConnection, "rows", rows)
    return seen


@pytest.fixture
def starts(monkeypatch: pytest.MonkeyPatch) -> list[Row]:
    """Behind which places claims have tried to lock jobs."""
    seen: list[Row] = []
    look_of = MysqlConnection.prepared_rows

    async def prepared_rows(self: MysqlConnection, sql: str, parameters: Any) -> Any:  # noqa: ANN401 - as the original
        if sql == statement("lock_lane"):
            seen.append((parameters["type"], parameters["after_id"]))
        return await look_of(self, sql, parameters)

    monkeypatch.setattr(MysqlConnection, "prepared_rows", prepared_rows)
    return seen


async def given(store: MysqlStore, limit: int = 2, types: Sequence[str] = ("mail",)) -> list[JobId]:
    return ids_of(await store.claim(claim(limit=limit, types=tuple(types))))


async def stored_elsewhere(url: str) -> NewJob:
    """Let another process store a job that is more urgent than others."""
    other = await MysqlStore.open(url)
    urgent = new_job(priority=9)
    await other.insert([urgent])
    await other.close()
    return urgent


async def test_a_line_that_is_worked_off_is_looked_at_from_its_beginning_once(
    store: MysqlStore, looks: list[str]
) -> None:
    jobs = new_jobs(6)
    await store.insert(jobs)
    assert [await given(store) for _ in range(3)] == [ids_of(jobs[start : start + 2]) for start in (0, 2, 4)]
    assert looks == ["default"]
    assert await given(store) == []
    assert looks == ["default"] * 2, "who does not get all it asked for looks from the beginning"


async def test_a_scan_from_the_beginning_locks_no_dead_entries(store: MysqlStore, starts: list[Row]) -> None:
    """Dead entries that are not purged yet come first. Locking them costs three times as much as reading them."""
    mails = new_jobs(4)
    await store.insert(mails)
    await given(store)
    starts.clear()
    await given(store, 9, ("mail", "report"))
    assert starts == [("mail", mails[2].id - 1)]


async def test_several_lanes_are_worked_off_in_the_order_of_turns(store: MysqlStore, looks: list[str]) -> None:
    jobs = [new_job("mail" if number % 3 else "report") for number in range(12)]
    for job in jobs:
        await store.insert([job])
    got = [await given(store, 4, ("mail", "report")) for _ in range(3)]
    assert got == [ids_of(jobs[start : start + 4]) for start in (0, 4, 8)]
    assert looks == ["default"] * 2, "once, for one type after the other"


async def test_a_lane_of_which_a_claim_took_nothing_is_not_passed_over(store: MysqlStore) -> None:
    jobs = [new_job(), new_job(), new_job("report"), new_job(), new_job()]
    for job in jobs:
        await store.insert([job])
    got = [await given(store, 2, ("mail", "report")) for _ in range(2)]
    assert got == [ids_of(jobs[:2]), ids_of(jobs[2:4])]


async def test_a_claim_with_a_given_time_scans_from_the_beginning(store: MysqlStore) -> None:
    """For whom it was earlier passed by what was not due, though it is more urgent."""
    jobs, urgent = new_jobs(2), new_job(priority=9)
    await store.insert(jobs, now=BASE)
    await store.insert([urgent], now=at(20))
    got = [ids_of(await store.claim(claim(limit=1), now=at(seconds))) for seconds in (10, 30)]
    assert got == [[jobs[0].id], [urgent.id]]


async def test_a_more_urgent_job_of_this_process_is_given_next(store: MysqlStore) -> None:
    await store.insert(new_jobs(6))
    await given(store)
    urgent = new_job(priority=9)
    await store.insert([urgent])
    assert (await given(store))[0] == urgent.id


async def test_a_more_urgent_job_of_which_we_hear_is_given_next(store: MysqlStore, url: str) -> None:
    await store.insert(new_jobs(6))
    await given(store)
    heard = store._watch.changes
    urgent = await stored_elsewhere(url)
    async with asyncio.timeout(10):
        while store._watch.changes == heard:
            store._watch._note(await store._watch.read())
    assert (await given(store))[0] == urgent.id


async def test_a_job_in_front_of_the_mark_is_claimed_when_there_are_not_enough_behind_it(
    store: MysqlStore, url: str
) -> None:
    jobs = new_jobs(5)
    await store.insert(jobs)
    await given(store)
    urgent = await stored_elsewhere(url)
    assert await given(store) == ids_of(jobs[2:4])
    assert await given(store) == [urgent.id, jobs[4].id]


async def test_a_job_in_front_of_the_mark_is_claimed_when_the_mark_is_too_old(
    store: MysqlStore, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for bound in ("MIN_AGE_SECONDS", "MAX_AGE_SECONDS"):
        monkeypatch.setattr(low_water, bound, 0.0)
    jobs = new_jobs(5)
    await store.insert(jobs)
    await given(store)
    urgent = await stored_elsewhere(url)
    assert await given(store) == [urgent.id, jobs[2].id]


@pytest.mark.parametrize(
    ("took", "age"), [(0.001, 0.05), (0.02, 0.2), (3.0, 0.5)], ids=["a quick scan", "a slow one", "a very slow one"]
)
def test_marks_hold_ten_times_as_long_as_a_scan_takes_within_bounds(
    took: float, age: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a hundred lanes on a busy machine, marks were too old whenever the next claim came: each scanned anew."""
    monkeypatch.setattr(low_water, "MIN_AGE_SECONDS", 0.05)
    now = 100.0
    monkeypatch.setattr("rota.stores.mysql.low_water.time.monotonic", lambda: now)
    marks = low_water.LowWaterMarks()
    request = [claim()]
    scan = marks.begin(request, 0, may_continue=True)
    scan.covers_all, scan.stop = True, {("default", "mail"): (1, JobId(1))}
    now += took
    marks.commit(scan)
    held = [0.9 * age, 1.1 * age]
    found = []
    for after in held:
        now = 100.0 + after
        found.append(bool(marks.begin(request, 0, may_continue=True).start))
    assert found == [True, False]


async def test_from_a_queue_that_another_process_has_paused_nothing_is_given(store: MysqlStore, url: str) -> None:
    await store.insert(new_jobs(6))
    assert len(await given(store)) == 2
    other = await MysqlStore.open(url)
    await other.put_queue(Queue("default", paused_at=await store.time()))
    await other.close()
    assert await given(store) == []


async def test_a_claim_that_is_rolled_back_leaves_no_mark(store: MysqlStore, monkeypatch: pytest.MonkeyPatch) -> None:
    jobs = new_jobs(6)
    await store.insert(jobs)
    await given(store)
    commit = MysqlConnection.commit
    fails = True

    async def committed(self: MysqlConnection) -> None:
        nonlocal fails
        if fails:
            fails = False
            raise RetryTransaction("chosen to yield")
        await commit(self)

    monkeypatch.setattr(MysqlConnection, "commit", committed)
    assert await given(store) == ids_of(jobs[2:4])
    assert not fails
    assert await given(store) == ids_of(jobs[4:6])


async def test_a_different_claim_scans_from_the_beginning(store: MysqlStore, looks: list[str]) -> None:
    await store.insert([*new_jobs(4), *new_jobs(4, "report")])
    await given(store)
    report = await store.claim(claim(ADA, limit=2, types=("report",)))
    assert {job.type for job in report} == {"report"}
    assert looks == ["default"] * 2
