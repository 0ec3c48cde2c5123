"""Claims: exactly the free slots, woken rather than polled, and safe to repeat."""

from __future__ import annotations

import asyncio
import threading
import time
from collections import Counter
from collections.abc import Sequence
from datetime import datetime, timedelta

import pytest

from rota.core.errors import StoreUnavailable
from rota.core.fleet import Member, Role
from rota.core.identity import JobId
from rota.core.job import Job
from rota.core.lease import Claim, Renewal, Renewed
from rota.core.lifecycle import State
from rota.core.patience import Patience
from rota.ports.faces import Report
from rota.worker import WorkerOptions
from rota.worker.fetcher import Fetcher
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


class Empty:
    """A source with nothing to give, away for every other question, and the fetcher's crew, with room for two."""

    def __init__(self, questions: int) -> None:
        self.events: list[tuple[str, str | None]] = []
        self.fetcher = Fetcher(
            self, self, WorkerOptions(name="ada", boot="b"),
            clock=lambda: 0.0, patience=Patience(lambda: 0.0, longest=0.0), expect=self._expect,
        )  # fmt: skip
        self._left = questions

    def _expect(self, name: str) -> None:
        self.events.append(("told", name))

    async def claim(self, wanted: Claim, *, wait: timedelta = timedelta(0)) -> Sequence[Job]:
        del wait
        self.events.append(("asked", wanted.claim_id))
        self._left -= 1
        if not self._left:
            self.fetcher.stop()
        if self._left % 2:
            raise StoreUnavailable("away")
        return ()

    async def renew(self, renewals: Sequence[Renewal]) -> Sequence[Renewed]:
        raise AssertionError(renewals)

    async def settle(self, reports: Sequence[Report]) -> Sequence[JobId]:
        raise AssertionError(reports)

    def free(self) -> int:
        return 2

    def types(self) -> tuple[str, ...]:
        return ("quick",)

    def queues(self) -> tuple[str, ...]:
        return ("default",)

    def is_hampered(self) -> bool:
        return False

    def take_on(self, jobs: Sequence[Job], sent: float) -> None:
        raise AssertionError(jobs, sent)

    def hear_time(self, told: datetime, asked_at: float) -> None:
        raise AssertionError(told, asked_at)

    def turn_away(self, jobs: Sequence[Job]) -> None:
        raise AssertionError(jobs)


async def test_each_new_name_is_told_once_and_before_it_is_asked_by() -> None:
    """Whoever dies has been able to say by which name a job may have been leased to it."""
    empty = Empty(questions=4)
    await empty.fetcher.run()
    assert empty.events == [
        ("told", "b-1"), ("asked", "b-1"), ("asked", "b-1"), ("told", "b-2"), ("asked", "b-2"), ("asked", "b-2"),
    ]  # fmt: skip
    await empty.fetcher.close(2.0)
    assert len(empty.events) == 6


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


async def test_a_queue_with_slots_of_its_own_never_takes_more_and_holds_up_no_other(stage: Stage) -> None:
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

    slow = await stage.submit_many(5, "work", payload='"slow"', queue="slow")
    other = await stage.submit_many(20, "work", payload='"other"', queue="other")
    slots = {"slow": 2, "other": 3}
    async with stage.worker(work, queues=("slow", "other"), queue_slots=slots, concurrency=5):
        await stage.ends_of(other)
        free.set()
        await stage.ends_of(slow)
    assert most["slow"] == 2
    assert 1 <= most["other"] <= 3
