from __future__ import annotations

import pytest

from builders import ADA, BASE, BEN, HOUR, MICROSECOND, SECOND, at, claim, ids_of, new_job, new_jobs
from conformance.stores.transitions import begin, end, look
from rota.core.job import AGING
from rota.core.lease import DEFAULT_LEASE
from rota.core.lifecycle import State
from rota.core.outcome import Lost, Released
from rota.core.submission import HIGHEST_PRIORITY, LOWEST_PRIORITY
from rota.ports.store import Store


async def test_the_most_urgent_goes_first(store: Store) -> None:
    jobs = [new_job(priority=priority) for priority in (3, 9, 1, 10, 5)]
    await store.insert(jobs, now=BASE)
    assert [job.priority for job in await store.claim(claim(), now=BASE)] == [10, 9, 5, 3, 1]


async def test_among_equals_the_one_that_is_due_longest_goes_first(store: Store) -> None:
    late, early, middle = new_jobs(3)
    for job, moment in ((early, at(-3)), (middle, at(-2)), (late, at(-1))):
        await store.insert([job], now=moment)
    assert ids_of(await store.claim(claim(), now=BASE)) == [early.id, middle.id, late.id]


async def test_a_time_in_the_past_is_worth_no_more_than_now(store: Store) -> None:
    """A job of priority 1 with the time 1970 went before every priority 10."""
    backdated, urgent = new_job(priority=1, run_at=at(-86_400 * 365)), new_job(priority=10)
    await store.insert([backdated, urgent], now=BASE)
    assert ids_of(await store.claim(claim(), now=BASE)) == [urgent.id, backdated.id]


async def test_among_those_due_at_one_moment_the_one_submitted_first_goes_first(store: Store) -> None:
    first, second, third = new_jobs(3)
    await store.insert([third, first, second], now=BASE)
    assert ids_of(await store.claim(claim(), now=BASE)) == [first.id, second.id, third.id]


async def test_one_level_of_priority_is_worth_one_aging_span_of_waiting(store: Store) -> None:
    new, old = new_job(priority=5), new_job(priority=4)
    await store.insert([old], now=BASE - AGING - MICROSECOND)
    await store.insert([new], now=BASE)
    assert ids_of(await store.claim(claim(), now=BASE)) == [old.id, new.id]


async def test_within_the_aging_span_the_more_urgent_one_passes(store: Store) -> None:
    old, new = new_job(priority=4), new_job(priority=5)
    await store.insert([old], now=BASE - AGING + MICROSECOND)
    await store.insert([new], now=BASE)
    assert ids_of(await store.claim(claim(), now=BASE)) == [new.id, old.id]


async def test_the_lowest_priority_is_not_passed_over_for_ever(store: Store) -> None:
    patient = new_job(priority=LOWEST_PRIORITY)
    await store.insert([patient], now=BASE - 10 * HOUR)
    await store.insert(new_jobs(20, priority=HIGHEST_PRIORITY), now=BASE)
    assert ids_of(await store.claim(claim(limit=1), now=BASE)) == [patient.id]


async def test_order_holds_across_queues_and_types(store: Store) -> None:
    """Stores look lane by lane; what they give must still be in one order."""
    jobs = [
        new_job(job_type, queue=queue)
        for queue, job_type in (
            [("b", "y"), ("a", "x"), ("c", "x"), ("a", "y"), ("b", "x"), ("a", "x"), ("c", "y"), ("b", "y")]
        )
    ]
    for second, job in enumerate(jobs):
        await store.insert([job], now=at(-second))
    given = await store.claim(claim(queues=("c", "a", "b")), now=BASE)
    assert ids_of(given) == ids_of(reversed(jobs))


async def test_the_most_urgent_of_all_lanes_are_taken_when_not_all_can_be(store: Store) -> None:
    urgent = [new_job("x", queue="a", priority=9), new_job("y", queue="b", priority=9)]
    await store.insert([*new_jobs(5, "x", queue="b"), *urgent, *new_jobs(5, "y", queue="a")], now=BASE)
    assert ids_of(await store.claim(claim(limit=2, queues=("a", "b")), now=BASE)) == ids_of(urgent)


@pytest.mark.parametrize("limit", [1, 2, 7])
async def test_no_more_than_the_limit_is_given(store: Store, limit: int) -> None:
    await store.insert(new_jobs(10), now=BASE)
    assert len(await store.claim(claim(limit=limit), now=BASE)) == limit


async def test_a_claim_for_nothing_gets_nothing(store: Store) -> None:
    await store.insert(new_jobs(1), now=BASE)
    assert await store.claim(claim(limit=0), now=BASE) == []
    assert (await store.census()).total(State.PENDING) == 1


async def test_what_one_has_claimed_another_does_not_get(store: Store) -> None:
    await store.insert(new_jobs(5), now=BASE)
    mine = await store.claim(claim(ADA, 3), now=BASE)
    yours = await store.claim(claim(BEN, 3), now=BASE)
    assert (len(mine), len(yours)) == (3, 2)
    assert not set(ids_of(mine)) & set(ids_of(yours))


async def test_a_claimed_job_runs_under_a_lease_of_the_worker(store: Store) -> None:
    job = new_job()
    await store.insert([job], now=BASE)
    (held,) = await store.claim(claim(ADA, lease=7 * SECOND), now=at(2))
    assert (held.state, held.worker, held.boot) == (State.RUNNING, ADA.name, ADA.boot)
    assert (held.started_at, held.lease_until, held.updated_at) == (at(2), at(9), at(2))


async def test_a_claim_adds_one_to_fence_and_attempts(store: Store) -> None:
    job = new_job()
    await store.insert([job], now=BASE)
    held = await begin(store, job)
    assert (held.fence, held.attempts) == (1, 1)
    await end(store, held, Lost())
    held = await begin(store, job)
    assert (held.fence, held.attempts) == (2, 2)


async def test_a_fence_grows_even_when_the_attempt_was_given_back(store: Store) -> None:
    job = new_job()
    await store.insert([job], now=BASE)
    for fence in (1, 2, 3, 4):
        held = await begin(store, job)
        assert (held.fence, held.attempts) == (fence, 1)
        await end(store, held, Released())


async def test_what_a_claim_gives_is_what_is_stored(store: Store) -> None:
    await store.insert([new_job(tags=("a",), meta={"k": "v"}, payload='{"x": [1]}')], now=BASE)
    (held,) = await store.claim(claim(), now=BASE)
    assert held == await look(store, held)


async def test_a_lease_lasts_for_the_default_when_none_is_named(store: Store) -> None:
    await store.insert([new_job()], now=BASE)
    (held,) = await store.claim(claim(), now=BASE)
    assert held.lease_until == BASE + DEFAULT_LEASE


async def test_a_job_that_was_handed_back_keeps_its_place(store: Store) -> None:
    first, second = new_jobs(2)
    await store.insert([first, second], now=BASE)
    await end(store, await begin(store, first), Released(), at(1))
    assert ids_of(await store.claim(claim(), now=at(1))) == [first.id, second.id]


@pytest.mark.parametrize("limit", [1, 3, 30, 200])
async def test_of_many_lanes_the_most_urgent_come_first(store: Store, limit: int) -> None:
    """Some lanes hold many of the most urgent, some few, some none; those of one turn go by their ids."""
    types = tuple(f"type-{number}" for number in range(30))
    jobs = [new_job(types[number * number % 25], priority=1 + number % 3) for number in range(90)]
    late = new_jobs(20, types[29], priority=9)
    await store.insert([*jobs, *late], now=BASE)
    claimed = await store.claim(claim(types=types, limit=limit), now=at(2))
    expected = sorted([*jobs, *late], key=lambda job: (-job.priority, job.id))[:limit]
    assert [job.id for job in claimed] == ids_of(expected)
