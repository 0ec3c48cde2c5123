"""Claims of a job that a notification announced: without reading other lanes, but never before a more urgent job."""

from __future__ import annotations

from dataclasses import replace

import pytest

from builders import claim, new_job
from rota.core.lease import Claim
from rota.stores.postgres import PostgresStore, notify
from stores.postgres.listeners import all_listening, announce_one

BOTH = claim(limit=2, types=("urgent", "lone"))


@pytest.fixture
async def at_work(store: PostgresStore, other: PostgresStore, monkeypatch: pytest.MonkeyPatch) -> PostgresStore:
    """A store with an urgent job without notification, to which a single job of another type was announced."""
    monkeypatch.setattr(notify, "HEAD_START_SECONDS", 3600.0)
    await all_listening(store, other)
    assert not await other.claim(BOTH)
    store._notifier._is_closing = True
    store._notifier._sent_at = float("inf")
    await store.insert([new_job(type="urgent", priority=9)])
    store._notifier._pending.clear()
    await announce_one(store, other, new_job(type="lone"))
    return other


async def types_given(store: PostgresStore, claim: Claim) -> list[str]:
    return [job.type for job in await store.claim(claim)]


async def test_a_woken_worker_gets_the_announced_job_and_then_the_others(at_work: PostgresStore) -> None:
    woken = replace(BOTH, is_woken=True)
    assert await types_given(at_work, woken) == ["lone"]
    assert await types_given(at_work, woken) == ["urgent"]


@pytest.mark.parametrize(
    ("claim", "given"),
    [
        (BOTH, ["urgent", "lone"]),
        (replace(BOTH, is_woken=True, limit=1), ["urgent"]),
        (replace(BOTH, is_woken=True, types=("urgent", "other")), ["urgent"]),
        (replace(BOTH, is_woken=True, types=None), ["lone"]),
    ],
)
async def test_other_claims_do_not_prefer_the_announced_job(
    at_work: PostgresStore, claim: Claim, given: list[str]
) -> None:
    assert await types_given(at_work, claim) == given


async def test_with_several_announced_jobs_the_most_urgent_comes_first(
    store: PostgresStore, at_work: PostgresStore
) -> None:
    await announce_one(store, at_work, new_job(type="urgent", priority=8))
    assert await types_given(at_work, replace(BOTH, is_woken=True)) == ["urgent", "urgent"]


async def test_a_later_worker_does_not_look_for_the_announced_job(
    at_work: PostgresStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(notify, "HEAD_START_SECONDS", 0.0)
    assert await types_given(at_work, replace(BOTH, is_woken=True)) == ["urgent", "lone"]


async def test_if_another_worker_was_faster_all_lanes_are_read(store: PostgresStore, at_work: PostgresStore) -> None:
    assert await types_given(store, replace(BOTH, types=("lone",))) == ["lone"]
    assert await types_given(at_work, replace(BOTH, is_woken=True)) == ["urgent"]


async def test_a_repeated_claim_gets_the_announced_job_once(at_work: PostgresStore) -> None:
    question = replace(BOTH, is_woken=True, claim_id="one")
    assert await types_given(at_work, question) == ["lone"]
    at_work._listener._wakes_since_claim, at_work._listener._announced = 1, ("default", "urgent")
    assert await types_given(at_work, question) == ["lone"]
