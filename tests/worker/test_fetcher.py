"""Claims: exactly the free slots, woken rather than polled, and safe to repeat."""

from __future__ import annotations

import asyncio
import threading
import time
from collections import Counter
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import cast

import pytest

from rota.backoff import JitteredBackoff
from rota.core.cluster import Member, Role
from rota.core.errors import StoreUnavailable
from rota.core.ids import JobId
from rota.core.job import Job
from rota.core.lease import Claim, Renewal, Renewed
from rota.core.lifecycle import State
from rota.ports.client import AttemptReport
from rota.worker import WorkerOptions
from rota.worker.fetcher import Fetcher
from rota.worker.intake import Intake
from worker.environment import LostResponses, RecordingSource, WorkerEnvironment


async def test_a_claim_asks_for_the_free_slots_and_no_more(env: WorkerEnvironment) -> None:
    source = RecordingSource(env.engine)
    release = threading.Event()
    begun = threading.Semaphore(0)

    def waits() -> None:
        begun.release()
        release.wait(timeout=20)

    ids = await env.submit_many(7, "waits")
    async with env.worker(waits, source=source, concurrency=4):
        for _ in range(4):
            await asyncio.to_thread(begun.acquire, timeout=20)
        assert [claim.limit for claim in source.claims] == [4]
        assert [(await env.look(job_id)).state for job_id in ids].count(State.RUNNING) == 4
        release.set()
        await env.ends_of(ids)
    assert all(claim.limit <= 4 for claim in source.claims)


async def test_an_idle_worker_hears_of_work_at_once(env: WorkerEnvironment) -> None:
    """With a lease of a minute the claim waits for 20 s; the answer must not."""

    async def quick() -> None:
        return

    source = RecordingSource(env.engine)
    async with env.worker(quick, source=source, lease=timedelta(minutes=1)):
        await env.end_of(await env.submit("quick"))
        asked = len(source.claims)
        begun = time.perf_counter()
        await env.end_of(await env.submit("quick"))
        assert time.perf_counter() - begun < 3
        assert len(source.claims) - asked <= 3


async def test_settlements_and_claims_go_out_in_batches(env: WorkerEnvironment) -> None:
    source = RecordingSource(env.engine)

    async def quick() -> None:
        return

    ids = await env.submit_many(1000, "quick")
    async with env.worker(quick, source=source, concurrency=100):
        await env.ends_of(ids)
    assert sum(len(batch) for batch in source.settled) == 1000
    assert len(source.settled) < 100
    assert sum(count > 0 for count in source.claimed) < 100


@pytest.mark.parametrize("arrives", [False, True])
async def test_a_claim_whose_answer_is_lost_is_repeated_and_loses_nothing(
    env: WorkerEnvironment, *, arrives: bool
) -> None:
    source = RecordingSource(env.engine, on_claim=LostResponses(3, arrives=arrives))

    async def quick() -> int:
        return 1

    ids = await env.submit_many(5, "quick")
    async with env.worker(quick, source=source, concurrency=5):
        jobs = await env.ends_of(ids)
    assert [(job.state, job.attempts, job.fence) for job in jobs] == [(State.COMPLETED, 1, 1)] * 5
    assert len({claim.claim_id for claim in source.claims[:4]}) == 1


class Empty:
    """A source without jobs that fails every other claim, and an intake with two free slots."""

    def __init__(self, claims: int) -> None:
        self.events: list[tuple[str, str | None]] = []
        self.fetcher = Fetcher(
            self, cast("Intake", self), WorkerOptions(name="ada", boot="b"),
            clock=lambda: 0.0, backoff=JitteredBackoff(lambda: 0.0, longest=0.0), expect_claim=self._expect_claim,
        )  # fmt: skip
        self._left = claims

    def _expect_claim(self, name: str) -> None:
        self.events.append(("expected", name))

    async def claim(self, claim: Claim, *, wait: timedelta = timedelta(0)) -> Sequence[Job]:
        del wait
        self.events.append(("sent", claim.claim_id))
        self._left -= 1
        if not self._left:
            self.fetcher.stop()
        if self._left % 2:
            raise StoreUnavailable("away")
        return ()

    async def renew(self, renewals: Sequence[Renewal]) -> Sequence[Renewed]:
        raise AssertionError(renewals)

    async def settle(self, reports: Sequence[AttemptReport]) -> Sequence[JobId]:
        raise AssertionError(reports)

    def free_slots(self) -> int:
        return 2

    def types(self) -> tuple[str, ...]:
        return ("quick",)

    def queues(self) -> tuple[str, ...]:
        return ("default",)

    def is_restricted(self) -> bool:
        return False

    def accept(self, jobs: Sequence[Job], sent: float) -> None:
        raise AssertionError(jobs, sent)

    def learn_store_time(self, store_time: datetime, asked_at: float) -> None:
        raise AssertionError(store_time, asked_at)

    def hand_back(self, jobs: Sequence[Job]) -> None:
        raise AssertionError(jobs)


async def test_the_heartbeat_learns_each_new_claim_id_once_and_before_the_claim_is_sent() -> None:
    """So the lease keeper of a worker that dies knows under which ids jobs may be leased to it."""
    empty = Empty(claims=4)
    await empty.fetcher.run()
    assert empty.events == [
        ("expected", "b-1"), ("sent", "b-1"), ("sent", "b-1"), ("expected", "b-2"), ("sent", "b-2"), ("sent", "b-2"),
    ]  # fmt: skip
    await empty.fetcher.close(2.0)
    assert len(empty.events) == 6


async def test_a_worker_without_handlers_claims_nothing(env: WorkerEnvironment) -> None:
    source = RecordingSource(env.engine)
    async with env.worker(source=source):
        await env.submit("anything")
        await asyncio.sleep(0)
    assert source.claims == []


async def test_a_worker_makes_itself_known_and_says_when_it_drains(env: WorkerEnvironment) -> None:
    answer: list[Member] = []
    heard = asyncio.Event()

    async def announce(member: Member) -> None:
        answer.append(member)
        heard.set()

    async def quick() -> None:
        return

    async with env.worker(quick, announce_member=announce, queues=("a", "b"), concurrency=3):
        await asyncio.wait_for(heard.wait(), 10)
    first, last = answer[0], answer[-1]
    assert (first.role, first.name, first.queues, first.types, first.slots) == (
        Role.WORKER, "ada", ("a", "b"), ("quick",), 3,
    )  # fmt: skip
    assert (first.is_draining, last.is_draining) == (False, True)


async def test_a_queue_with_slots_of_its_own_never_takes_more_and_holds_up_no_other(env: WorkerEnvironment) -> None:
    running: Counter[str] = Counter()
    most: Counter[str] = Counter()
    free = asyncio.Event()

    async def work(queue: str) -> None:
        running[queue] += 1
        most[queue] = max(most[queue], running[queue])
        if queue == "other":
            await asyncio.sleep(0)
        else:
            await free.wait()
        running[queue] -= 1

    slow = await env.submit_many(5, "work", payload='"slow"', queue="slow")
    other = await env.submit_many(20, "work", payload='"other"', queue="other")
    slots = {"slow": 2, "other": 3}
    async with env.worker(work, queues=("slow", "other"), queue_slots=slots, concurrency=5):
        await env.ends_of(other)
        free.set()
        await env.ends_of(slow)
    assert most["slow"] == 2
    assert 1 <= most["other"] <= 3
