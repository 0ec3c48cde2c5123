"""Claims without a notification: a query checks first whether there is work, and no job is missed."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from builders import claim, ids_of, new_job, new_jobs
from rota.core.queue import Queue
from rota.stores.mysql import MysqlStore, clock
from rota.stores.mysql import claim as claims

PLAIN = claim(types=("mail", "report"))


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """What each look before a claim has found."""
    found: list[bool] = []
    has_work = claims.has_work

    async def noted(*arguments: Any) -> bool:  # noqa: ANN401 - as the original
        found.append(await has_work(*arguments))
        return found[-1]

    monkeypatch.setattr(claims, "has_work", noted)
    return found


async def test_after_an_empty_claim_the_next_one_asks_first_whether_there_is_work(
    store: MysqlStore, looks: list[bool]
) -> None:
    for _ in range(3):
        assert list(await store.claim(PLAIN)) == []
    assert looks == [False] * len(looks)
    assert len(looks) >= 2


async def test_after_a_notification_a_claim_begins_at_once(store: MysqlStore, looks: list[bool]) -> None:
    await store.claim(PLAIN)
    looks.clear()
    job = new_job(type="mail")
    await store.insert([job])
    await store.time()
    assert ids_of(await store.claim(PLAIN)) == [job.id]
    assert looks == [], "the time was known, and something was rung for"


async def test_after_a_full_claim_the_next_one_begins_at_once(store: MysqlStore, looks: list[bool]) -> None:
    """A backlog is quiet, too, and each look was one more statement for every claim of it."""
    await store.insert(new_jobs(5))
    few = claim(limit=2, types=("mail", "report"))
    given = []
    for _ in range(4):
        await store.time()
        given.append(len(await store.claim(few)))
    assert given == [2, 2, 1, 0]
    # The first had heard of work, the second and the third were given two before; the last got one of two before.
    assert looks == [False]


async def test_a_look_that_finds_nothing_ends_the_backlog(
    store: MysqlStore, looks: list[bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was made to read the time, and the next claim read the same in a transaction."""
    await store.insert(new_jobs(2))
    few = claim(limit=2, types=("mail", "report"))
    assert len(await store.claim(few)) == 2
    looks.clear()
    with monkeypatch.context() as patched:
        patched.setattr(clock, "TRUSTED_SECONDS", 0.0)
        assert list(await store.claim(few)) == []
    await store.time()
    assert list(await store.claim(few)) == []
    assert looks == [False, False]


@pytest.mark.parametrize("types", [("mail", "report"), ("mail",), None], ids=["several", "one", "any"])
async def test_what_came_without_a_word_is_found_by_the_look(
    store: MysqlStore, url: str, looks: list[bool], types: tuple[str, ...] | None
) -> None:
    other = await MysqlStore.open(url)
    wanted = claim(types=types, queues=("quiet", "default"))
    await store.claim(wanted)
    job = new_job(type="mail")
    await other.insert([job])
    await other.close()
    assert ids_of(await store.claim(wanted)) == [job.id]
    assert looks[-1:] == [True]


async def test_what_cannot_be_had_is_not_given_though_the_look_sees_it(store: MysqlStore, looks: list[bool]) -> None:
    await store.insert([new_job(type="mail")])
    await store.put_queue(Queue("default", paused_at=await store.time()))
    await store.claim(PLAIN)
    assert list(await store.claim(PLAIN)) == []
    assert looks[-1:] == [True]


async def test_jobs_of_other_types_and_queues_are_not_seen_by_the_look(store: MysqlStore, looks: list[bool]) -> None:
    await store.insert([new_job(type="other"), new_job(type="mail", queue="elsewhere")])
    await store.claim(PLAIN)
    assert list(await store.claim(PLAIN)) == []
    assert looks[-1:] == [False]


async def test_a_claim_without_types_gets_nothing(store: MysqlStore) -> None:
    await store.insert([new_job(type="mail")])
    await store.claim(claim(types=()))
    assert list(await store.claim(claim(types=()))) == []


async def test_a_repeated_claim_gets_its_former_answer_though_there_is_no_work(
    store: MysqlStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    # However long ago the server time was read.
    monkeypatch.setattr(clock, "TRUSTED_SECONDS", 0.0)
    job = new_job(type="mail")
    await store.insert([job])
    first = await store.claim(claim(types=("mail",), claim_id="c", is_new=True))
    assert ids_of(first) == [job.id]
    assert await store.claim(claim(types=("mail",), claim_id="c")) == first


async def test_a_claim_ahead_of_time_is_not_kept_from_looking_ahead(store: MysqlStore) -> None:
    soon = timedelta(seconds=60)
    job = new_job(type="mail", run_at=await store.time() + soon / 2)
    await store.insert([job])
    await store.claim(PLAIN)
    assert ids_of(await store.claim(claim(types=("mail",), ahead=soon))) == [job.id]


@pytest.mark.parametrize("number", [1, 3])
async def test_leases_are_written_as_json_whether_their_fences_are_the_same_or_not(
    store: MysqlStore, number: int
) -> None:
    await store.insert(new_jobs(number))
    jobs = list(await store.claim(claim(limit=number)))
    for fences in ([7] * number, list(range(number))):
        leased = [replace(job, fence=fence) for job, fence in zip(jobs, fences, strict=True)]
        assert claims._leases_text(leased) == json.dumps([[job.id, job.fence] for job in leased])
