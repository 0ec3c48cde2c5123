"""Claims of what was heard of: one job by itself, for who has found nothing else, and never before what is urgent."""

from __future__ import annotations

from dataclasses import replace

import pytest

from building import claim, new_job
from rota.core.lease import Claim
from rota.stores.postgres import PostgresStore, hearing
from stores.postgres.ears import all_ears, tell_of_one

BOTH = claim(limit=2, types=("urgent", "lone"))


@pytest.fixture
async def at_work(store: PostgresStore, other: PostgresStore, monkeypatch: pytest.MonkeyPatch) -> PostgresStore:
    """A store with an urgent job of which no notice came, that was told of a lone one of another type."""
    monkeypatch.setattr(hearing, "HEAD_START_SECONDS", 3600.0)
    await all_ears(store, other)
    assert not await other.claim(BOTH)
    store._bell._is_closing = True
    store._bell._sent_at = float("inf")
    await store.insert([new_job(type="urgent", priority=9)])
    store._bell._places.clear()
    await tell_of_one(store, other, new_job(type="lone"))
    return other


async def types_given(store: PostgresStore, wanted: Claim) -> list[str]:
    return [job.type for job in await store.claim(wanted)]


async def test_who_is_woken_gets_the_one_job_that_was_heard_of_and_then_the_others(at_work: PostgresStore) -> None:
    woken = replace(BOTH, is_woken=True)
    assert await types_given(at_work, woken) == ["lone"]
    assert await types_given(at_work, woken) == ["urgent"]


@pytest.mark.parametrize(
    ("wanted", "given"),
    [
        (BOTH, ["urgent", "lone"]),
        (replace(BOTH, is_woken=True, limit=1), ["urgent"]),
        (replace(BOTH, is_woken=True, types=("urgent", "other")), ["urgent"]),
        (replace(BOTH, is_woken=True, types=None), ["lone"]),
    ],
)
async def test_what_was_heard_of_comes_first_for_nobody_else(
    at_work: PostgresStore, wanted: Claim, given: list[str]
) -> None:
    assert await types_given(at_work, wanted) == given


async def test_where_more_was_heard_of_than_one_job_the_most_urgent_comes_first(
    store: PostgresStore, at_work: PostgresStore
) -> None:
    await tell_of_one(store, at_work, new_job(type="urgent", priority=8))
    assert await types_given(at_work, replace(BOTH, is_woken=True)) == ["urgent", "urgent"]


async def test_who_comes_later_does_not_ask_for_what_the_first_has_taken(
    at_work: PostgresStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hearing, "HEAD_START_SECONDS", 0.0)
    assert await types_given(at_work, replace(BOTH, is_woken=True)) == ["urgent", "lone"]


async def test_where_another_was_faster_there_is_a_look_at_all(store: PostgresStore, at_work: PostgresStore) -> None:
    assert await types_given(store, replace(BOTH, types=("lone",))) == ["lone"]
    assert await types_given(at_work, replace(BOTH, is_woken=True)) == ["urgent"]


async def test_what_was_heard_of_is_given_once_to_a_question_that_is_repeated(at_work: PostgresStore) -> None:
    question = replace(BOTH, is_woken=True, claim_id="one")
    assert await types_given(at_work, question) == ["lone"]
    at_work._ear._unasked, at_work._ear._heard = 1, ("default", "urgent")
    assert await types_given(at_work, question) == ["lone"]
