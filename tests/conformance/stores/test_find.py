from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from itertools import combinations

import pytest

from builders import (
    ADA,
    BASE,
    BEN,
    DAY,
    MICROSECOND,
    at,
    error,
    failure,
    fresh_id,
    fresh_schedule_id,
    ids_of,
    new_job,
    new_jobs,
)
from conformance.stores.transitions import begin, call_off, complete, end, kill
from rota.core.ids import JobId
from rota.core.lifecycle import State
from rota.core.search.terms import NamePattern, NameTerm, NumberTerm
from rota.core.submission import NewJob
from rota.ports.store import JobQuery, Retention, Store
from rota.stores import listing


async def found(store: Store, query: JobQuery) -> list[JobId]:
    return ids_of(await store.find(query))


async def test_the_newest_come_first(store: Store) -> None:
    jobs = new_jobs(5)
    await store.insert(jobs[::2], now=BASE)
    await store.insert(jobs[1::2], now=BASE)
    assert await found(store, JobQuery()) == ids_of(reversed(jobs))


@pytest.mark.parametrize("states", [(), (State.PENDING,), (State.COMPLETED,)], ids=["all", "pending", "completed"])
async def test_a_light_list_leaves_out_payloads_and_results_only(store: Store, states: tuple[State, ...]) -> None:
    pending, done = new_job(payload='{"a": 1}', tags=("t",)), new_job(payload='{"b": 2}')
    await store.insert([pending, done], now=BASE)
    await complete(store, done)
    for query in (JobQuery(states=states), JobQuery(ids=(pending.id, done.id))):
        whole, light = await store.find(query), await store.find(replace(query, is_light=True))
        assert {job.payload for job in whole} <= {pending.payload, done.payload}
        assert whole
        assert light == [replace(job, payload="null", result=None) for job in whole]


COUNTED = {
    "all": JobQuery(),
    "pending": JobQuery(states=(State.PENDING,)),
    "completed": JobQuery(states=(State.COMPLETED,)),
    "dead": JobQuery(states=(State.DEAD,)),
    "finished": JobQuery(states=(State.COMPLETED, State.DEAD)),
    "both": JobQuery(states=(State.PENDING, State.COMPLETED)),
    "type": JobQuery(types=("report",)),
    "queue": JobQuery(queues=("other",)),
    "tag": JobQuery(tag="rich"),
    "type and state": JobQuery(types=("report",), states=(State.COMPLETED,)),
}


@pytest.mark.parametrize("query", COUNTED.values(), ids=COUNTED)
@pytest.mark.parametrize("first", [1, 3, 1_000])
async def test_a_count_is_the_number_of_the_jobs_that_are_found(
    store: Store, monkeypatch: pytest.MonkeyPatch, query: JobQuery, first: int
) -> None:
    monkeypatch.setattr(listing, "FIRST_COUNTED", first)
    jobs = [
        new_job(
            ("mail", "report")[number % 2],
            queue=("default", "other")[number % 3 // 2],
            tags=("rich",) * (number % 5 == 0),
        )
        for number in range(24)
    ]
    await store.insert(jobs, now=BASE)
    for job in jobs[:12]:
        await complete(store, job)
    for job in jobs[12:16]:
        await kill(store, job)
    count, rest = 0, replace(query, is_count=True)
    while True:
        found = await store.find_some(rest)
        assert not found.jobs
        count += found.count
        if found.resume is None:
            break
        rest = rest.behind(found.resume)
    assert count == len(await store.find(query)) > 0


async def test_no_more_than_the_limit_are_given(store: Store) -> None:
    jobs = new_jobs(5)
    await store.insert(jobs, now=BASE)
    assert await found(store, JobQuery(limit=2)) == [jobs[4].id, jobs[3].id]


async def test_jobs_are_found_by_state(store: Store) -> None:
    pending, done, dead = new_jobs(3)
    await store.insert([pending, done, dead], now=BASE)
    await complete(store, done)
    await kill(store, dead)
    assert await found(store, JobQuery(states=(State.DEAD,))) == [dead.id]
    assert await found(store, JobQuery(states=(State.PENDING, State.COMPLETED))) == [done.id, pending.id]


async def test_jobs_are_found_by_type(store: Store) -> None:
    mail, report, other = new_job("mail"), new_job("report"), new_job("other")
    await store.insert([mail, report, other], now=BASE)
    assert await found(store, JobQuery(types=("mail", "report"))) == [report.id, mail.id]


async def test_jobs_are_found_by_queue(store: Store) -> None:
    first, second = new_job(queue="a"), new_job(queue="b")
    await store.insert([first, second], now=BASE)
    assert await found(store, JobQuery(queues=("a",))) == [first.id]


async def test_jobs_are_found_by_each_of_their_tags(store: Store) -> None:
    both, one = new_job(tags=("x", "y")), new_job(tags=("y",))
    await store.insert([both, one, new_job()], now=BASE)
    assert await found(store, JobQuery(tag="x")) == [both.id]
    assert await found(store, JobQuery(tag="y")) == [one.id, both.id]


async def test_a_part_of_a_tag_is_not_the_tag(store: Store) -> None:
    await store.insert([new_job(tags=("customer-42",))], now=BASE)
    assert await found(store, JobQuery(tag="customer-4")) == []


async def test_a_tag_given_twice_is_one_tag_of_the_job(store: Store) -> None:
    job = new_job(tags=("x", "x"))
    await store.insert([job], now=BASE)
    assert await found(store, JobQuery(tag="x")) == [job.id]


async def test_jobs_are_found_by_the_worker_that_holds_or_last_held_them(store: Store) -> None:
    running, ended, other = new_jobs(3)
    await store.insert([running, ended, other, new_job()], now=BASE)
    await begin(store, running, worker=ADA)
    await complete(store, ended)
    await begin(store, other, worker=BEN)
    assert await found(store, JobQuery(worker=ADA.name)) == [ended.id, running.id]


async def test_jobs_are_found_by_schedule(store: Store) -> None:
    schedule_id = fresh_schedule_id()
    job = new_job(schedule_id=schedule_id, fire_time=BASE)
    await store.insert([job, new_job()], now=BASE)
    assert await found(store, JobQuery(schedule_id=schedule_id)) == [job.id]


async def test_only_dead_jobs_are_found_by_fingerprint(store: Store) -> None:
    dead, trying = new_jobs(2)
    await store.insert([dead, trying], now=BASE)
    await end(store, await begin(store, dead), failure("same", permanent=True))
    await end(store, await begin(store, trying), failure("same"))
    assert await found(store, JobQuery(fingerprint=error("same").fingerprint("mail"))) == [dead.id]


async def test_jobs_are_found_by_the_time_of_their_submission_end_exclusive(store: Store) -> None:
    jobs = new_jobs(4)
    for second, job in enumerate(jobs):
        await store.insert([job], now=at(second))
    assert await found(store, JobQuery(created_from=at(1), created_until=at(3))) == [jobs[2].id, jobs[1].id]
    assert await found(store, JobQuery(created_from=at(1) + MICROSECOND)) == [jobs[3].id, jobs[2].id]


FILTERS = {
    "states": (State.DEAD,),
    "types": ("report",),
    "queues": ("q",),
    "tag": "t",
    "worker": ADA.name,
    "created_from": at(5),
    "created_until": at(6),
}


@pytest.mark.parametrize("left_out", list(combinations(FILTERS, 2)), ids="+".join)
async def test_filters_hold_together(store: Store, left_out: tuple[str, ...]) -> None:
    """A job that meets all but one of the filters is not found by all of them."""
    match = new_job("report", queue="q", tags=("t",))
    await store.insert([match], now=at(5))
    await kill(store, match, now=at(5))
    misses = [new_job("other", queue="q", tags=("t",)), new_job("report", queue="r", tags=("t",))]
    misses += [new_job("report", queue="q"), new_job("report", queue="q", tags=("u",))]
    await store.insert(misses, now=at(5))
    await kill(store, *misses, now=at(5))
    query = {name: value for name, value in FILTERS.items() if name not in left_out}
    expected = {match.id} | {miss.id for miss in misses if _fits(miss, query)}
    assert set(await found(store, JobQuery(**query))) == expected  # type: ignore[arg-type]


async def test_a_page_continues_behind_a_job(store: Store) -> None:
    jobs = new_jobs(5)
    await store.insert(jobs, now=BASE)
    assert await found(store, JobQuery(before=jobs[3].id, limit=2)) == [jobs[2].id, jobs[1].id]


async def test_a_page_continues_behind_a_job_that_is_gone(store: Store) -> None:
    jobs = new_jobs(5)
    await store.insert(jobs, now=BASE)
    await complete(store, jobs[3])
    await store.prune(Retention(DAY, None, None), 10, now=BASE + DAY)
    assert await found(store, JobQuery(before=jobs[3].id, limit=2)) == [jobs[2].id, jobs[1].id]


async def test_a_page_continues_behind_an_id_that_never_was(store: Store) -> None:
    first, ghost, third = fresh_id(), fresh_id(), fresh_id()
    await store.insert([new_job(id=first), new_job(id=third)], now=BASE)
    assert await found(store, JobQuery(before=ghost)) == [first]


@pytest.mark.parametrize("size", [1, 3, 7])
async def test_no_page_skips_a_job_that_was_there_all_along(store: Store, size: int) -> None:
    """Meanwhile jobs are inserted at both ends, pruned, and change their state."""
    early, stay, late = new_jobs(5), new_jobs(20), new_jobs(30)
    await store.insert(stay, now=BASE)
    await complete(store, *stay[::2])
    read: list[JobId] = []
    while page := await found(store, JobQuery(before=read[-1] if read else None, limit=size)):
        read.extend(page)
        await store.insert([late.pop()], now=at(1)) if late else None
        await store.insert([early.pop()], now=at(1)) if early else None
        passing = new_job()
        await store.insert([passing], now=at(1))
        await call_off(store, passing, now=at(1))
        await store.prune(Retention(None, MICROSECOND, None), 10, now=at(2))
    assert len(read) == len(set(read))
    assert [job_id for job_id in read if job_id in set(ids_of(stay))] == ids_of(reversed(stay))


async def test_a_filtered_page_does_not_skip_jobs_behind_those_that_do_not_match(store: Store) -> None:
    wanted = new_job("rare")
    await store.insert([wanted, *new_jobs(500)], now=BASE)
    assert await found(store, JobQuery(types=("rare",), limit=1)) == [wanted.id]


def _fits(job: NewJob, query: dict[str, object]) -> bool:
    return (
        ("types" not in query or job.type == "report")
        and ("queues" not in query or job.queue == "q")
        and ("tag" not in query or "t" in job.tags)
    )


async def test_of_finished_jobs_the_last_to_finish_comes_first(store: Store) -> None:
    """A list of failures shows the last failure first, however long the job had waited."""
    first, second, third, waiting = new_jobs(4)
    await store.insert([first, second, third, waiting], now=BASE)
    await complete(store, third, now=at(1))
    await kill(store, first, now=at(2))
    await complete(store, second, now=at(3))
    assert await found(store, JobQuery(states=(State.COMPLETED, State.DEAD))) == [second.id, first.id, third.id]
    assert await found(store, JobQuery(states=(State.COMPLETED,))) == [second.id, third.id]
    # With others among them, all are in the order of their ids.
    everything = JobQuery(states=(State.COMPLETED, State.DEAD, State.PENDING))
    assert await found(store, everything) == [waiting.id, third.id, second.id, first.id]


@pytest.mark.parametrize("size", [1, 2, 5])
async def test_no_page_of_finished_jobs_skips_or_repeats_one(store: Store, size: int) -> None:
    """Many finish in the same microsecond, and more do while the list is read."""
    jobs, later = new_jobs(9), new_jobs(9)
    await store.insert([*jobs, *later], now=BASE)
    await complete(store, *jobs[:4], now=at(2))
    await kill(store, *jobs[4:], now=at(2))
    read: list[JobId] = []
    query = JobQuery(states=(State.COMPLETED, State.DEAD), limit=size)
    while page := await store.find(query):
        read.extend(ids_of(page))
        await complete(store, later.pop(), now=at(3))
        query = query.behind(query.position_of(page[-1]))
    assert read == sorted(ids_of(jobs), reverse=True)


async def test_bounded_work_finds_everything_in_the_end(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """A rare type far behind many others: no answer takes long, and together they give what `find` gives."""
    monkeypatch.setattr(listing, "MOST_CANDIDATES", 4)
    monkeypatch.setattr(listing.find_some, "__kwdefaults__", {"seconds": -1.0})
    rare, others, last = new_job("rare", queue="a"), new_jobs(30), new_job("rare", queue="b")
    await store.insert([rare, *others, last], now=BASE)
    await begin(store, rare, worker=ADA)
    query = JobQuery(types=("rare",), worker=ADA.name, limit=2)
    answers, read = 0, []
    while True:
        page = await store.find_some(query)
        answers += 1
        read += ids_of(page.jobs)
        if page.resume is None:
            break
        query = query.behind(page.resume)
    assert read == [rare.id]
    assert await found(store, JobQuery(types=("rare",), worker=ADA.name)) == [rare.id]


FIRST, LAST = datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)


@pytest.mark.parametrize("states", [(), (State.PENDING,), (State.COMPLETED,)], ids=["all", "waiting", "finished"])
async def test_moments_beyond_all_ids_are_compared_too(store: Store, states: tuple[State, ...]) -> None:
    """Ids end in 2093 and the calendar in 9999: what was created behind that is nothing, and before it everything."""
    jobs = new_jobs(2)
    await store.insert(jobs, now=BASE)
    await complete(store, jobs[1])
    everything = await found(store, JobQuery(states=states))
    for late in (datetime(2199, 12, 31, tzinfo=UTC), LAST):
        assert await found(store, JobQuery(states=states, created_from=late)) == []
        assert await found(store, JobQuery(states=states, created_until=late)) == everything
    assert await found(store, JobQuery(states=states, created_from=FIRST)) == everything
    assert await found(store, JobQuery(states=states, created_until=FIRST)) == []


async def test_terms_without_an_index_are_evaluated_on_the_rows(store: Store) -> None:
    jobs = [new_job("mail.send" if place % 3 else "report", priority=place % 10 + 1) for place in range(30)]
    await store.insert(jobs, now=BASE)
    terms = (NameTerm("type", (NamePattern("mail*", is_exact=False),)), NumberTerm("priority", ">", 5))
    matching = [job.id for job in reversed(jobs) if job.type == "mail.send" and job.priority > 5]
    assert await found(store, JobQuery(terms=terms)) == matching
    assert await found(store, JobQuery(terms=terms, limit=3)) == matching[:3]
    assert await found(store, JobQuery(terms=terms, states=(State.PENDING,), before=matching[2])) == matching[3:]


async def test_a_list_with_terms_continues_where_it_stopped(store: Store) -> None:
    jobs = [new_job("mail" if place % 50 == 0 else "report") for place in range(500)]
    await store.insert(jobs, now=BASE)
    for job in jobs[:100]:
        await complete(store, job)
    chosen: list[tuple[tuple[State, ...], list[NewJob]]] = [
        ((), jobs), ((State.PENDING,), jobs[100:]), ((State.COMPLETED,), jobs[:100])
    ]  # fmt: skip
    for states, among in chosen:
        query = JobQuery(states=states, terms=(NameTerm("type", (NamePattern("ma*", is_exact=False),)),), limit=3)
        whole = [job.id for job in reversed(among) if job.type == "mail"]
        seen: list[JobId] = []
        rest: JobQuery | None = query
        while rest is not None:
            page = await store.find_some(rest)
            seen += ids_of(page.jobs)
            rest = None if page.resume is None else query.behind(page.resume)
        assert sorted(seen, reverse=True) == whole
        assert len(set(seen)) == len(seen)


async def test_jobs_are_found_by_their_ids(store: Store) -> None:
    jobs = new_jobs(5)
    await store.insert(jobs, now=BASE)
    await complete(store, jobs[1])
    wanted = (jobs[0].id, jobs[3].id, jobs[1].id, fresh_id())
    assert await found(store, JobQuery(ids=wanted)) == [jobs[3].id, jobs[1].id, jobs[0].id]
    assert await found(store, JobQuery(ids=wanted, states=(State.COMPLETED,))) == [jobs[1].id]
    assert await found(store, JobQuery(ids=wanted, before=jobs[3].id, limit=1)) == [jobs[1].id]
