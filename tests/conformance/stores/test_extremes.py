from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from builders import ADA, BASE, HOUR, MICROSECOND, after, at, claim, entry, ids_of, means, new_job, new_jobs
from conformance.stores.transitions import begin, complete, end, look, state
from rota.core.decision import decide
from rota.core.ids import LARGEST, JobId
from rota.core.lease import Renewal, WorkerId
from rota.core.lifecycle import Event, State
from rota.core.outcome import Failed, Succeeded
from rota.core.settlement import JobError
from rota.core.submission import Template
from rota.ports.store import JobQuery, Store

ODD_WORDS = [
    "",
    " ",
    "'",
    '"',
    "\\",
    "%",
    "_",
    "\n",
    "\t",
    "\u00e9",
    "e\u0301",
    "\u4e2d\u6587",
    "\U0001f600",
    "\u202e",
    "\ufeff",
]
IDS = [JobId(0), JobId(1), JobId(2**31), JobId(2**53 + 1), JobId(LARGEST - 1), JobId(LARGEST)]


@pytest.mark.parametrize("job_id", IDS)
async def test_an_extreme_id_goes_through_a_whole_life(store: Store, job_id: JobId) -> None:
    child = new_job(after=after(job_id))
    await store.insert([new_job(id=job_id, tags=("t",)), child], now=BASE)
    assert ids_of(await store.find(JobQuery(tag="t"))) == [job_id]
    held = await begin(store, job_id)
    await store.intend(job_id, held.fence, "s", now=BASE)
    await end(store, held, Succeeded())
    assert await state(store, job_id) is State.COMPLETED
    assert await state(store, child) is State.PENDING
    assert len(await store.attempts(job_id)) == len(await store.steps(job_id)) == 1


@pytest.mark.parametrize("job_id", IDS)
async def test_an_act_on_an_extreme_id_is_written_to_the_ledger(store: Store, job_id: JobId) -> None:
    await store.insert([new_job(id=job_id)], now=BASE)
    held = await begin(store, job_id)
    assert await store.ask_cancel([(job_id, held.fence)], entry=entry("ask"), now=BASE) == [job_id]
    assert [written.action for written in await store.ledger()] == ["ask"]


async def test_extreme_ids_are_in_order_like_all_others(store: Store) -> None:
    await store.insert([new_job(id=job_id) for job_id in reversed(IDS)], now=BASE)
    assert ids_of(await store.claim(claim(), now=BASE)) == IDS
    assert ids_of(await store.find(JobQuery())) == IDS[::-1]
    assert ids_of(await store.find(JobQuery(before=JobId(LARGEST)))) == IDS[-2::-1]


async def test_a_follow_up_of_the_largest_id_is_made_even_if_that_is_taken(store: Store) -> None:
    parent = new_job(on_success=Template("next"))
    await store.insert([parent, new_job(id=JobId(LARGEST))], now=BASE)
    held = await begin(store, parent)
    settlement = decide(held, Succeeded(), means(follow_up_id=JobId(LARGEST)))
    assert await store.settle([settlement], now=BASE) == [parent.id]
    assert [job.parent_id for job in await store.find(JobQuery(types=("next",)))] == [parent.id]


@pytest.mark.parametrize("word", ODD_WORDS, ids=ascii)
async def test_an_odd_word_is_kept_wherever_words_are_kept(store: Store, word: str) -> None:
    job = new_job(
        word,
        queue=word,
        payload=json.dumps(word, ensure_ascii=False),
        tags=(word,),
        meta={word: word},
        # No submission has an empty key.
        concurrency_key=word or None,
    )
    await store.insert([job], now=BASE)
    worker = WorkerId(word, word)
    (held,) = await store.claim(claim(worker, queues=(word,), types=(word,), claim_id=word), now=BASE)
    assert (held.type, held.queue, held.payload, held.tags) == (word, word, job.payload, (word,))
    assert (dict(held.meta), held.concurrency_key, held.worker, held.boot) == ({word: word}, word or None, word, word)


@pytest.mark.parametrize("word", ODD_WORDS, ids=ascii)
async def test_an_odd_word_is_found_wherever_it_is_sought(store: Store, word: str) -> None:
    job = new_job(word, queue=word, tags=(word,))
    await store.insert([job, new_job("plain", queue="plain", tags=("plain",))], now=BASE)
    await begin(store, job, worker=WorkerId(word, word))
    for query in (JobQuery(types=(word,)), JobQuery(queues=(word,)), JobQuery(tag=word), JobQuery(worker=word)):
        assert ids_of(await store.find(query)) == [job.id]


@pytest.mark.parametrize("word", ODD_WORDS, ids=ascii)
async def test_an_odd_word_is_kept_in_what_an_attempt_leaves(store: Store, word: str) -> None:
    job = new_job()
    await store.insert([job], now=BASE)
    held = await begin(store, job)
    await store.renew([Renewal(job.id, held.fence, progress=word, log_tail="x")], now=BASE)
    settlement = replace(decide(held, Failed(JobError(word, word, word)), means()), log_tail=word)
    await store.settle([settlement], now=BASE)
    (attempt,) = await store.attempts(job.id)
    assert (attempt.progress, attempt.log_tail, attempt.error) == (word, word, JobError(word, word, word))


async def test_types_that_begin_alike_are_told_apart(store: Store) -> None:
    """Stores leap from type to type; a leap too far skips one."""
    types = ["", "\1", "a", "a\1", "a\1\1", "a ", "aa", "a\uffff", "a\U0010ffff", "b", "\U0010ffff"]
    await store.insert([new_job(name) for name in types], now=BASE)
    assert sorted(job.type for job in await store.claim(claim(), now=BASE)) == sorted(types)


async def test_a_very_large_payload_is_kept(store: Store) -> None:
    payload = json.dumps("\u4e2d" * 5_000_000, ensure_ascii=False)
    job = new_job(payload=payload)
    await store.insert([job], now=BASE)
    held = await begin(store, job)
    ended = await end(store, held, Succeeded(payload))
    assert held.payload == payload
    assert ended.result == payload


async def test_a_job_may_have_very_many_tags_and_words_beside_it(store: Store) -> None:
    tags = tuple(f"tag-{number}" for number in range(2_000))
    meta = {f"key-{number}": "v" * 100 for number in range(2_000)}
    job = new_job(tags=tags, meta=meta)
    await store.insert([job], now=BASE)
    stored = await look(store, job)
    assert (stored.tags, dict(stored.meta)) == (tags, meta)
    assert ids_of(await store.find(JobQuery(tag="tag-1999"))) == [job.id]


async def test_a_claim_may_ask_for_very_many_queues_and_types(store: Store) -> None:
    await store.insert(new_jobs(3), now=BASE)
    queues = (*(f"q{number}" for number in range(2_000)), "default")
    types = (*(f"t{number}" for number in range(2_000)), "mail")
    assert len(await store.claim(claim(queues=queues, types=types), now=BASE)) == 3


async def test_a_claim_may_ask_for_very_many_ids(store: Store) -> None:
    jobs = new_jobs(10)
    await store.insert(jobs, now=BASE)
    ids = (*(JobId(number) for number in range(40_000)), *ids_of(jobs))
    assert len(await store.claim(claim(ids=ids), now=BASE)) == 10


async def test_a_limit_larger_than_all_there_is_gives_all_there_is(store: Store) -> None:
    await store.insert(new_jobs(3), now=BASE)
    assert len(await store.claim(claim(limit=2**31), now=BASE)) == 3


@pytest.mark.parametrize("priority", [1, 10])
@pytest.mark.parametrize("seconds", [-60 * 10**9, 200 * 10**9], ids=["long ago", "far off"])
async def test_a_job_of_another_age_is_claimed_in_its_time(store: Store, seconds: int, priority: int) -> None:
    moment = at(seconds)
    job = new_job(run_at=moment, priority=priority)
    await store.insert([job], now=moment - HOUR)
    await store.promote(1, now=moment)
    assert await store.claim(claim(), now=moment - MICROSECOND) == []
    assert ids_of(await store.claim(claim(), now=moment)) == [job.id]


async def test_a_life_of_very_many_attempts(store: Store) -> None:
    job = new_job(max_attempts=2**31 - 1)
    await store.insert([job], now=BASE)
    for _ in range(200):
        held = await begin(store, job, worker=ADA)
        await end(store, held, Failed(JobError("E", "again")))
        await store.settle([(await look(store, job)).settled(Event.RETRY, run_at=BASE)], now=BASE)
    await complete(store, job)
    assert [attempt.fence for attempt in await store.attempts(job.id)] == list(range(1, 202))


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    words=st.lists(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0")), min_size=8, max_size=8)
)
async def test_any_words_come_back_as_they_were(store: Store, words: list[str]) -> None:
    kind, queue, payload, tag, name, value, lock, key = words
    job = new_job(kind, queue=queue, payload=payload, tags=(tag,), meta={name: value}, concurrency_key=lock or None)
    await store.insert([job], now=BASE)
    held = await begin(store, job)
    await store.intend(job.id, held.fence, key, now=BASE)
    done = await store.conclude(job.id, held.fence, key, value, now=BASE)
    assert done is not None
    assert (done.key, done.outcome) == (key, value)
    ended = await end(store, held, Succeeded(payload))
    assert (ended.type, ended.queue, ended.payload, ended.tags) == (kind, queue, payload, (tag,))
    assert (dict(ended.meta), ended.concurrency_key, ended.result) == ({name: value}, lock or None, payload)
