from __future__ import annotations

from typing import Any

import pytest

from builders import ADA, BASE, HOUR, MICROSECOND, after, at, claim, failure, fresh_id, ids_of, new_job, new_jobs
from conformance.stores.transitions import begin, complete, end, kill, look
from rota.core.lifecycle import Event, State
from rota.core.queue import Queue
from rota.ports.store import Store


async def test_only_the_queues_asked_for_are_served(store: Store) -> None:
    mine, other = new_job(queue="mine"), new_job(queue="other")
    await store.insert([other, mine], now=BASE)
    assert ids_of(await store.claim(claim(queues=("mine",)), now=BASE)) == [mine.id]


async def test_a_claim_of_no_queue_gets_nothing(store: Store) -> None:
    await store.insert(new_jobs(1), now=BASE)
    assert await store.claim(claim(queues=()), now=BASE) == []


async def test_a_queue_named_twice_gives_each_job_once(store: Store) -> None:
    await store.insert(new_jobs(3), now=BASE)
    assert len(await store.claim(claim(queues=("default", "default")), now=BASE)) == 3


async def test_no_types_named_means_every_type(store: Store) -> None:
    jobs = [new_job("mail"), new_job("report"), new_job("")]
    await store.insert(jobs, now=BASE)
    assert ids_of(await store.claim(claim(types=None), now=BASE)) == ids_of(jobs)


async def test_an_empty_list_of_types_means_none(store: Store) -> None:
    await store.insert(new_jobs(1), now=BASE)
    assert await store.claim(claim(types=()), now=BASE) == []


async def test_only_the_types_asked_for_are_given(store: Store) -> None:
    mail, report, other = new_job("mail"), new_job("report"), new_job("other")
    await store.insert([other, mail, report], now=BASE)
    assert ids_of(await store.claim(claim(types=("report", "mail")), now=BASE)) == [mail.id, report.id]


async def test_names_of_queues_and_types_are_compared_letter_by_letter(store: Store) -> None:
    """MariaDB's default collation takes case and trailing blanks lightly."""
    await store.insert([new_job("Mail", queue="q"), new_job("mail ", queue="q"), new_job("mail", queue="Q")], now=BASE)
    assert await store.claim(claim(queues=("q",), types=("mail",)), now=BASE) == []


async def test_only_the_ids_asked_for_are_given(store: Store) -> None:
    first, second, third = new_jobs(3)
    await store.insert([first, second, third], now=BASE)
    assert ids_of(await store.claim(claim(ids=(third.id, first.id, fresh_id())), now=BASE)) == [first.id, third.id]


@pytest.mark.parametrize(
    "fields",
    [{"queue": "other"}, {"job_type": "report"}, {"run_at": at(1)}, {"expires_at": at(-1), "run_at": at(-2)}],
    ids=["queue", "type", "run_at", "expires_at"],
)
async def test_ids_do_not_lift_the_other_conditions(store: Store, fields: dict[str, Any]) -> None:
    job = new_job(**fields)
    await store.insert([job], now=BASE)
    await store.promote(1, now=at(1))
    assert await store.claim(claim(types=("mail",), ids=(job.id,)), now=BASE) == []


async def test_a_claim_of_no_ids_gets_nothing(store: Store) -> None:
    """The broker handed nothing over; that is not the same as no broker."""
    await store.insert(new_jobs(1), now=BASE)
    assert await store.claim(claim(ids=()), now=BASE) == []


async def test_a_job_handed_to_a_broker_can_be_claimed_by_its_id(store: Store) -> None:
    job = new_job()
    await store.insert([job], now=BASE)
    pending = await look(store, job)
    await store.settle([pending.settled(Event.DISPATCH)], now=BASE)
    (held,) = await store.claim(claim(ids=(job.id,)), now=BASE)
    assert (held.state, held.fence) == (State.RUNNING, 1)


async def test_a_job_recalled_from_a_broker_can_be_claimed_by_anyone(store: Store) -> None:
    job = new_job()
    await store.insert([job], now=BASE)
    await store.settle([(await look(store, job)).settled(Event.DISPATCH)], now=BASE)
    await store.settle([(await look(store, job)).settled(Event.RECALL)], now=BASE)
    assert ids_of(await store.claim(claim(), now=BASE)) == [job.id]


async def test_a_pending_job_is_not_given_before_its_time_by_an_earlier_clock(store: Store) -> None:
    """The store's clock was set back after the job became pending."""
    await store.insert([new_job()], now=BASE)
    assert await store.claim(claim(), now=BASE - MICROSECOND) == []


async def test_a_scheduled_job_is_not_given(store: Store) -> None:
    await store.insert([new_job(run_at=at(1))], now=BASE)
    assert await store.claim(claim(), now=BASE) == []


async def test_a_job_promoted_ahead_of_time_is_not_given_before_its_time(store: Store) -> None:
    job = new_job(run_at=at(5))
    await store.insert([job], now=BASE)
    await store.promote(10, now=at(5))
    assert await store.claim(claim(), now=at(5) - MICROSECOND) == []
    assert ids_of(await store.claim(claim(), now=at(5))) == [job.id]


async def test_a_job_is_given_until_it_expires(store: Store) -> None:
    job = new_job(expires_at=at(5))
    await store.insert([job], now=BASE)
    assert ids_of(await store.claim(claim(), now=at(5) - MICROSECOND)) == [job.id]


@pytest.mark.parametrize("by_id", [False, True])
async def test_a_job_is_not_given_from_the_moment_it_expires(store: Store, *, by_id: bool) -> None:
    job = new_job(expires_at=at(5))
    await store.insert([job], now=BASE)
    assert await store.claim(claim(ids=(job.id,) if by_id else None), now=at(5)) == []


async def test_a_paused_queue_gives_nothing(store: Store) -> None:
    await store.insert([*new_jobs(2, queue="q"), new_job(queue="other")], now=BASE)
    await store.put_queue(Queue("q", paused_at=BASE), now=BASE)
    assert [job.queue for job in await store.claim(claim(queues=("q", "other")), now=BASE)] == ["other"]


async def test_a_paused_queue_gives_nothing_by_id_either(store: Store) -> None:
    job = new_job(queue="q")
    await store.insert([job], now=BASE)
    await store.put_queue(Queue("q", paused_at=BASE), now=BASE)
    assert await store.claim(claim(queues=("q",), ids=(job.id,)), now=BASE) == []


async def test_a_resumed_queue_gives_again(store: Store) -> None:
    await store.insert(new_jobs(1, queue="q"), now=BASE)
    await store.put_queue(Queue("q", paused_at=BASE), now=BASE)
    await store.put_queue(Queue("q", version=1), now=BASE)
    assert len(await store.claim(claim(queues=("q",)), now=BASE)) == 1


async def test_a_queue_that_is_paused_until_a_moment_gives_from_that_moment_on(store: Store) -> None:
    job = new_job(queue="q")
    await store.insert([job], now=BASE)
    await store.put_queue(Queue("q", paused_at=BASE, resume_at=at(5)), now=BASE)
    assert await store.claim(claim(queues=("q",)), now=at(5) - MICROSECOND) == []
    assert ids_of(await store.claim(claim(queues=("q",)), now=at(5))) == [job.id]


async def test_settings_other_than_a_pause_do_not_stop_a_queue(store: Store) -> None:
    await store.insert(new_jobs(1, queue="q"), now=BASE)
    await store.put_queue(Queue("q", max_depth=10), now=BASE)
    assert len(await store.claim(claim(queues=("q",)), now=BASE)) == 1


@pytest.mark.parametrize("hidden", ["other type", "other queue", "expired", "paused", "later"])
async def test_jobs_that_cannot_be_given_do_not_hide_those_behind_them(store: Store, hidden: str) -> None:
    """A scan that stops after `limit` rows, fit or not, starves whatever is behind the unfit ones."""
    every_case: dict[str, dict[str, Any]] = {
        "other type": {"job_type": "other"},
        "other queue": {"queue": "other"},
        "expired": {"expires_at": BASE - HOUR},
        "paused": {"queue": "paused"},
        "later": {"run_at": BASE + MICROSECOND},
    }
    fields = every_case[hidden]
    await store.put_queue(Queue("paused", paused_at=BASE), now=BASE)
    await store.insert(new_jobs(300, priority=10, **{"run_at": BASE - 2 * HOUR, **fields}), now=BASE)
    await store.promote(1000, now=BASE + MICROSECOND)
    wanted = new_job(priority=1)
    await store.insert([wanted], now=BASE)
    given = await store.claim(claim(limit=1, queues=("default", "paused"), types=("mail",)), now=BASE)
    assert ids_of(given) == [wanted.id]


async def test_no_state_but_pending_is_given(store: Store) -> None:
    blocked_on, running, completed, dead, retrying = new_jobs(5)
    blocked = new_job(after=after(blocked_on))
    await store.insert([blocked_on, running, completed, dead, retrying, blocked], now=BASE)
    await begin(store, blocked_on)
    await begin(store, running)
    await complete(store, completed)
    await kill(store, dead)
    await end(store, await begin(store, retrying), failure())
    assert await store.claim(claim(ADA), now=at(3600)) == []
