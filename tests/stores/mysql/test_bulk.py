"""Bulk inserts: common columns are sent once, and the jobs are stored as if inserted one by one."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from builders import BASE, SECOND, claim, ids_of, new_job, new_jobs
from rota.core.job import Job
from rota.core.lifecycle import State
from rota.core.submission import NewJob
from rota.ports.store import Receipt
from rota.stores.mysql import MysqlStore, insert, multi_row
from rota.stores.mysql.insert import MIN_SHARED_JOBS


async def stored(store: MysqlStore, jobs: list[NewJob]) -> list[Job]:
    await store.insert(jobs, now=BASE)
    found = {job.id: job for job in await store.get(ids_of(jobs))}
    return [found[job.id] for job in jobs]


@pytest.mark.parametrize(
    "fields",
    [
        pytest.param({}, id="plain"),
        pytest.param({"queue": "o'clock", "priority": 9, "max_attempts": 7}, id="with options"),
        pytest.param({"run_at": BASE - SECOND}, id="overdue"),
        pytest.param({"run_at": BASE + SECOND}, id="later"),
        pytest.param({"job_type": "naïve \\ 100 % 'task' %s 😀"}, id="of a difficult name"),
    ],
)
async def test_jobs_that_share_are_as_those_that_came_alone(
    store: MysqlStore, monkeypatch: pytest.MonkeyPatch, fields: dict[str, Any]
) -> None:
    together = await stored(store, new_jobs(MIN_SHARED_JOBS, **fields))
    monkeypatch.setattr(insert, "MIN_SHARED_JOBS", MIN_SHARED_JOBS + 1)
    apart = await stored(store, new_jobs(MIN_SHARED_JOBS, **fields))
    assert [replace(one, id=apart[0].id) for one in together] == [replace(one, id=apart[0].id) for one in apart]
    assert await store.check() == []


@pytest.mark.parametrize("place", [0, MIN_SHARED_JOBS - 1])
@pytest.mark.parametrize(
    "fields",
    [{"job_type": "call"}, {"priority": 9}, {"tags": ("red",)}, {"run_at": BASE + SECOND}, {"meta": {"a": "b"}}],
    ids=", ".join,
)
async def test_one_job_that_differs_is_stored_as_it_is(store: MysqlStore, place: int, fields: dict[str, Any]) -> None:
    jobs = new_jobs(MIN_SHARED_JOBS)
    jobs[place] = replace(new_job(**fields), id=jobs[place].id)
    found = await stored(store, jobs)
    assert [(job.type, job.priority, job.tags, job.meta) for job in found] == [
        (job.type, job.priority, job.tags, job.meta) for job in jobs
    ]
    assert [job.run_at for job in found] == [job.run_at or BASE for job in jobs]
    assert await store.check() == []


async def test_what_one_batch_shared_is_forgotten_by_the_next(store: MysqlStore) -> None:
    mails, calls = new_jobs(MIN_SHARED_JOBS, "mail", priority=2), new_jobs(MIN_SHARED_JOBS, "call", queue="phone")
    for batch in (mails, calls):
        await store.insert(batch, now=BASE)
    assert [(job.type, job.queue, job.priority) for job in await store.get(ids_of(mails + calls))] == [
        (job.type, job.queue, job.priority) for job in mails + calls
    ]
    claimed = await store.claim(claim(queues=("default", "phone"), types=("mail", "call")), now=BASE)
    assert sorted(ids_of(claimed)) == sorted(ids_of(mails + calls))


async def test_one_id_that_is_taken_does_not_hinder_those_that_share(store: MysqlStore) -> None:
    earlier = new_job("other")
    await store.insert([earlier], now=BASE)
    jobs = new_jobs(MIN_SHARED_JOBS)
    jobs[3] = replace(jobs[3], id=earlier.id)
    answers = await store.insert(jobs, now=BASE)
    assert [answer.receipt for answer in answers].count(Receipt.CREATED) == MIN_SHARED_JOBS - 1
    assert answers[3].receipt is Receipt.ID_TAKEN
    assert (await store.census()).total(State.PENDING) == MIN_SHARED_JOBS
    assert await store.check() == []


@pytest.mark.parametrize(
    "limit",
    [
        pytest.param(("MAX_ROWS", 3), id="rows"),
        pytest.param(("MAX_PACKET_CHARACTERS", 300), id="characters"),
        pytest.param(("MAX_PACKET_CHARACTERS", 1), id="each larger than a packet should be"),
        pytest.param(("MAX_BATCH_CHARACTERS", 300), id="characters in flight"),
        pytest.param(("MAX_BATCH_CHARACTERS", 1), id="each larger than one in flight should be"),
    ],
)
@pytest.mark.parametrize("tags", [(), ("red",)], ids=["alike", "apart"])
async def test_what_does_not_fit_into_one_packet_goes_in_several(
    store: MysqlStore, monkeypatch: pytest.MonkeyPatch, limit: tuple[str, int], tags: tuple[str, ...]
) -> None:
    monkeypatch.setattr(multi_row, *limit)
    jobs = [new_job(payload=f'"{"x" * number * 10}"', tags=tags) for number in range(20)]
    assert [job.payload for job in await stored(store, jobs)] == [job.payload for job in jobs]
    assert len(await store.claim(claim(), now=BASE)) == len(jobs)


@pytest.mark.parametrize("number", [1, 3, 4, 20])
@pytest.mark.parametrize("lengths", [(1,), (40, 40, 40), (0, 90, 9, 1, 200)], ids=str)
def test_a_batch_is_split_into_packets_that_fit(
    monkeypatch: pytest.MonkeyPatch, number: int, lengths: tuple[int, ...]
) -> None:
    monkeypatch.setattr(multi_row, "MAX_ROWS", 3)
    monkeypatch.setattr(multi_row, "MAX_BATCH_CHARACTERS", 100)
    ids, texts = range(number), [f"{place:{lengths[place % len(lengths)]}}" for place in range(number)]
    parts = list(multi_row.split_batch(ids, texts))
    assert [pair for some, carried in parts for pair in zip(some, carried or (), strict=True)] == list(
        zip(ids, texts, strict=True)
    )
    for some, carried in parts:
        assert 0 < len(some) <= 3
        assert len(some) == 1 or sum(map(len, carried or ())) <= 100
    assert [list(some) for some, _ in multi_row.split_batch(ids, None)] == [
        list(ids[start : start + 3]) for start in range(0, number, 3)
    ]
