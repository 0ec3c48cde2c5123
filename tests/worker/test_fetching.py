"""Claims: exactly the free slots, woken rather than polled, and safe to repeat."""

from __future__ import annotations

import asyncio
import threading
import time
from datetime import timedelta

import pytest

from rota.core.fleet import Member, Role
from rota.core.lifecycle import State
from worker.staging import Losing, Passing, Stage


async def test_a_claim_asks_for_the_free_slots_and_no_more(stage: Stage) -> None:
    source = Passing(stage.engine)
    release = threading.Event()
    begun = threading.Semaphore(0)

    def waits() -> None:
        begun.release()
        release.wait(timeout=20)

    ids = await stage.submit_many(7, "waits")
    async with stage.worker(waits, source=source, concurrency=4):
        for _ in range(4):
            await asyncio.to_thread(begun.acquire, timeout=20)
        assert [claim.limit for claim in source.claims] == [4]
        assert [(await stage.look(job_id)).state for job_id in ids].count(State.RUNNING) == 4
        release.set()
        await stage.ends_of(ids)
    assert all(claim.limit <= 4 for claim in source.claims)


async def test_an_idle_worker_hears_of_work_at_once(stage: Stage) -> None:
    """With a lease of a minute the question waits for 20 s; the answer must not."""

    async def quick() -> None:
        return

    source = Passing(stage.engine)
    async with stage.worker(quick, source=source, lease=timedelta(minutes=1)):
        await stage.end_of(await stage.submit("quick"))
        asked = len(source.claims)
        begun = time.perf_counter()
        await stage.end_of(await stage.submit("quick"))
        assert time.perf_counter() - begun < 3
        assert len(source.claims) - asked <= 3


async def test_settlements_and_claims_go_out_in_batches(stage: Stage) -> None:
    source = Passing(stage.engine)

    async def quick() -> None:
        return

    ids = await stage.submit_many(1000, "quick")
    async with stage.worker(quick, source=source, concurrency=100):
        await stage.ends_of(ids)
    assert sum(len(batch) for batch in source.settled) == 1000
    assert len(source.settled) < 100
    assert sum(count > 0 for count in source.claimed) < 100


@pytest.mark.parametrize("arrives", [False, True])
async def test_a_claim_whose_answer_is_lost_is_repeated_and_loses_nothing(stage: Stage, *, arrives: bool) -> None:
    source = Passing(stage.engine, on_claim=Losing(3, arrives=arrives))

    async def quick() -> int:
        return 1

    ids = await stage.submit_many(5, "quick")
    async with stage.worker(quick, source=source, concurrency=5):
        jobs = await stage.ends_of(ids)
    assert [(job.state, job.attempts, job.fence) for job in jobs] == [(State.COMPLETED, 1, 1)] * 5
    assert len({claim.claim_id for claim in source.claims[:4]}) == 1


async def test_a_worker_without_handlers_claims_nothing(stage: Stage) -> None:
    source = Passing(stage.engine)
    async with stage.worker(source=source):
        await stage.submit("anything")
        await asyncio.sleep(0)
    assert source.claims == []


async def test_a_worker_makes_itself_known_and_says_when_it_drains(stage: Stage) -> None:
    told: list[Member] = []
    heard = asyncio.Event()

    async def announce(member: Member) -> None:
        told.append(member)
        heard.set()

    async def quick() -> None:
        return

    async with stage.worker(quick, announce_member=announce, queues=("a", "b"), concurrency=3):
        await asyncio.wait_for(heard.wait(), 10)
    first, last = told[0], told[-1]
    assert (first.role, first.name, first.queues, first.types, first.slots) == (
        Role.WORKER, "ada", ("a", "b"), ("quick",), 3,
    )  # fmt: skip
    assert (first.is_draining, last.is_draining) == (False, True)
