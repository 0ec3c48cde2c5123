"""Hand-off: a claim that found nothing waits in the claims file, and a submitter leases its job to it in one commit."""

from __future__ import annotations

import asyncio
import errno
import os
import socket
import sqlite3
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from random import Random
from typing import Any

import pytest

from builders import ADA, BEN, MINUTE, claim, key, means, new_job, new_jobs
from rota.core.decision import decide
from rota.core.job import Job
from rota.core.lease import Claim
from rota.core.lifecycle import State
from rota.core.outcome import Lost
from rota.core.queue import Queue
from rota.core.submission import Delivery, NewJob
from rota.ports.caller_tx import run_sync
from rota.ports.store import Receipt
from rota.ports.wakeup import ClaimTopic, Topic, Wake
from rota.runtime import connect
from rota.stores.handoff import DELIVERY_MARGIN, SHORTEST_WAIT
from rota.stores.sqlite import SqliteStore
from rota.stores.sqlite.driver import DatabaseBusy
from rota.stores.sqlite.handoff import claim_handoff, claims_file, wakeup
from rota.stores.sqlite.handoff.claim_handoff import ClaimHandoff
from rota.stores.sqlite.handoff.claims_file import ClaimSlot, claims_file_of
from rota.stores.sqlite.handoff.wakeup import WakeupReceiver, WakeupSender
from stores.handoff_cases import each_job_comes_once

STAYS = timedelta(seconds=5)
CLAIM = claim(limit=2, types=("mail", "bill"), claim_id="claim", is_new=True, waits=STAYS)
NEXT_CLAIM = replace(CLAIM, claim_id="next claim")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "jobs.db"


@pytest.fixture
async def store(path: Path) -> AsyncIterator[SqliteStore]:
    """The submitting process."""
    store = await SqliteStore.open(path)
    yield store
    await store.close()


@pytest.fixture
async def waiting(path: Path, store: SqliteStore) -> AsyncIterator[SqliteStore]:  # noqa: ARG001 - first
    """Another process, in which a claim waits."""
    waiting = await SqliteStore.open(path)
    await wait_with(waiting, CLAIM)
    yield waiting
    await waiting.close()


def claims_of(store: SqliteStore) -> ClaimHandoff:
    assert store._handoff is not None
    return store._handoff


async def wait_with(store: SqliteStore, claim_: Claim) -> None:
    """Claim where there is no job."""
    assert not await store.claim(claim_)


async def submit(store: SqliteStore, job: NewJob) -> NewJob:
    """Submit a single job."""
    (answer,) = await store.insert([job])
    assert (answer.receipt, answer.job_id, answer.state) == (Receipt.CREATED, job.id, State.PENDING)
    return job


async def submit_and_wake(store: SqliteStore, other: SqliteStore, job: NewJob) -> NewJob:
    """Submit a single job, and wait until another store was woken for it."""
    with reported(other) as answer:
        await submit(store, job)
        await until(lambda: bool(answer))
    return job


def lose_wakeups(store: SqliteStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a store send no wake-ups."""
    monkeypatch.setattr(claims_of(store)._sender, "send", lambda: None)


@contextmanager
def reported(store: SqliteStore) -> Iterator[set[Topic]]:
    answer: set[Topic] = set()
    with claims_of(store).reporting_to(answer.update):
        yield answer


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(10):
        while not holds():  # noqa: ASYNC110 - nothing rings for it
            await asyncio.sleep(0.001)


async def only(store: SqliteStore, job: NewJob) -> Job:
    (found,) = await store.get([job.id])
    return found


def in_file(store: SqliteStore) -> list[str]:
    return [entry.claim.claim_id for entry in claims_of(store)._file.waiting("default", "mail")]


async def test_a_single_job_is_stored_as_leased_to_a_waiting_claim(store: SqliteStore, waiting: SqliteStore) -> None:
    job = await submit_and_wake(store, waiting, new_job(payload='{"to": "ann", "text": "100 %, \\"quoted\\" 🙂"}'))
    stored = await only(store, job)
    assert (stored.state, stored.worker, stored.boot) == (State.RUNNING, ADA.name, ADA.boot)
    assert (stored.fence, stored.attempts, stored.started_at) == (1, 1, stored.created_at)
    assert stored.lease_until == stored.created_at + CLAIM.lease
    assert await waiting.claim(CLAIM) == [stored]
    assert not in_file(store)


async def test_a_single_job_of_a_blocking_caller_is_too(store: SqliteStore, waiting: SqliteStore) -> None:
    assert store.blocking is not None
    job = new_job()
    await asyncio.to_thread(run_sync, store.blocking.insert([job]))
    assert await waiting.claim(CLAIM) == [await only(store, job)]


async def test_the_waiting_process_is_told_and_has_the_job_in_memory(store: SqliteStore, waiting: SqliteStore) -> None:
    wakes: asyncio.Queue[Wake] = asyncio.Queue()

    async def watch() -> None:
        # Each write to the log ends a watch, too.
        while True:
            await waiting.watch(MINUTE, wakes.put_nowait)

    watching = asyncio.ensure_future(watch())
    await asyncio.sleep(0)
    job = await submit(store, new_job())
    async with asyncio.timeout(10):
        assert ClaimTopic("claim") in await wakes.get()
    assert waiting.leased_meanwhile(CLAIM) == [await only(store, job)]
    assert not waiting.leased_meanwhile(CLAIM)
    watching.cancel()


async def test_an_answer_that_came_while_nobody_watched_is_reported_until_it_is_taken(
    store: SqliteStore, waiting: SqliteStore
) -> None:
    await submit(store, new_job())
    await until(lambda: claims_of(waiting)._by_claim["claim"].answer is not None)
    for _ in range(2):
        with reported(waiting) as reply:
            assert reply == {ClaimTopic("claim")}
    assert waiting.leased_meanwhile(CLAIM)
    with reported(waiting) as reply:
        assert not reply


@pytest.mark.parametrize(
    ("text", "is_at_hand"), [("x" * 3_000, True), ("x" * 200_000, False), ("x" * 4_090, False), ("ä" * 2_040, False)]
)
async def test_a_job_that_is_too_long_for_a_slot_is_read_from_the_database(
    store: SqliteStore, waiting: SqliteStore, text: str, *, is_at_hand: bool
) -> None:
    job = await submit_and_wake(store, waiting, new_job(payload=f'"{text}"'))
    assert bool(claims_of(waiting)._by_claim["claim"].answer.job) == is_at_hand  # type: ignore[union-attr]
    assert await waiting.claim(CLAIM) == [await only(store, job)]


@pytest.mark.parametrize(
    "fields",
    [
        {"job_type": "other"},
        {"queue": "elsewhere"},
        {"delivery": Delivery.AT_MOST_ONCE},
        {"max_attempts": 1},
        {"idempotency": key("once")},
        {"tags": ("urgent",)},
        {"timeout": MINUTE},
    ],
    ids=str,
)
async def test_jobs_that_no_claim_wants_or_that_must_not_start_twice_are_not_handed_over(
    store: SqliteStore, waiting: SqliteStore, fields: dict[str, Any]
) -> None:
    job = await submit(store, new_job(**fields))
    assert (await only(store, job)).state is State.PENDING
    assert in_file(waiting) == ["claim"]


async def test_scheduled_jobs_and_batches_are_not_handed_over(store: SqliteStore, waiting: SqliteStore) -> None:
    (answer,) = await store.insert([new_job(run_at=await store.time() + MINUTE)])
    assert answer.state is State.SCHEDULED
    await store.insert(new_jobs(2))
    await store.insert([new_job()], bound=100)
    assert len(await waiting.claim(CLAIM)) == 2
    assert not in_file(waiting)


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("default", {"paused": True}),
        ("default", {"max_running": 1}),
        ("default", {"rate_limit": "10/s"}),
        ("default", {"max_depth": 9}),
        ("elsewhere", {"max_depth": 9}),
    ],
    ids=str,
)
async def test_jobs_of_a_paused_or_limited_queue_are_not_handed_over(
    store: SqliteStore, waiting: SqliteStore, name: str, settings: dict[str, Any]
) -> None:
    if settings.pop("paused", False):
        settings["paused_at"] = await store.time()
    assert await store.put_queue(Queue(name, **settings))
    job = await submit(store, new_job())
    assert (await only(waiting, job)).state is State.PENDING


async def test_jobs_of_a_queue_whose_pause_has_ended_are_handed_over(store: SqliteStore, waiting: SqliteStore) -> None:
    now = await store.time()
    assert await store.put_queue(Queue("default", paused_at=now - MINUTE, resume_at=now))
    job = await submit(store, new_job())
    assert (await only(waiting, job)).state is State.RUNNING


async def test_the_longest_waiting_claim_gets_the_first_job(store: SqliteStore, waiting: SqliteStore) -> None:
    await wait_with(waiting, replace(NEXT_CLAIM, worker=BEN))
    first, second = await submit(store, new_job()), await submit(store, new_job())
    third = await submit(store, new_job())
    states = [(job.boot, job.state) for job in await store.get([first.id, second.id, third.id])]
    assert states == [(ADA.boot, State.RUNNING), (BEN.boot, State.RUNNING), (None, State.PENDING)]


@pytest.mark.parametrize(
    "fields",
    [
        {"limit": 1},
        {"types": None},
        {"claim_id": None},
        {"waits": SHORTEST_WAIT / 2},
        {"types": ("t" * 9, "u" * 5000)},
    ],
    ids=["room for one", "any type", "no name", "in passing", "too many words"],
)
async def test_claims_that_cannot_wait_are_not_in_the_file(store: SqliteStore, fields: dict[str, Any]) -> None:
    await wait_with(store, replace(CLAIM, **fields))
    assert not claims_of(store)._file.checksums()


async def test_no_job_is_handed_to_a_process_that_is_gone(store: SqliteStore, path: Path) -> None:
    gone = await SqliteStore.open(path)
    await wait_with(gone, CLAIM)
    await gone.close()
    assert in_file(store) == ["claim"]
    job = await submit(store, new_job())
    assert (await only(store, job)).state is State.PENDING


async def test_a_claim_waits_a_little_shorter_in_the_file_than_its_worker(
    store: SqliteStore, waiting: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    (entry,) = claims_of(waiting)._file.waiting("default", "mail")
    assert entry.until - entry.since == (STAYS - DELIVERY_MARGIN) // timedelta(microseconds=1)
    monkeypatch.setattr(claims_file, "monotonic_micros", lambda: entry.until)
    job = await submit(store, new_job())
    assert (await only(store, job)).state is State.PENDING


async def test_a_job_whose_wake_up_was_lost_is_returned_when_the_claim_is_repeated(
    store: SqliteStore, waiting: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    lose_wakeups(store, monkeypatch)
    job = await submit(store, new_job())
    assert await waiting.claim(replace(CLAIM, waits=timedelta(0), limit=1)) == [await only(store, job)]


async def test_a_job_whose_wake_up_was_lost_is_returned_with_the_next_claim(
    store: SqliteStore, waiting: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    lose_wakeups(store, monkeypatch)
    job = await submit(store, new_job())
    others = new_jobs(2)
    await store.insert(others)
    given = await waiting.claim(NEXT_CLAIM)
    assert {one.id for one in given} == {job.id, *(other.id for other in others)}
    assert not await waiting.claim(replace(NEXT_CLAIM, claim_id="one more"))


async def test_a_claim_with_another_id_removes_the_earlier_one(store: SqliteStore, waiting: SqliteStore) -> None:
    await wait_with(waiting, NEXT_CLAIM)
    assert in_file(store) == ["next claim"]
    job = await submit(store, new_job())
    assert await waiting.claim(NEXT_CLAIM) == [await only(store, job)]


@pytest.mark.parametrize("last", [replace(CLAIM, waits=timedelta(0), limit=1), replace(NEXT_CLAIM, limit=1)], ids=str)
async def test_the_last_claim_of_a_worker_removes_its_waiting_claim(
    store: SqliteStore, waiting: SqliteStore, last: Claim
) -> None:
    await wait_with(waiting, last)
    assert not in_file(store)
    assert not claims_of(waiting)._by_boot


async def test_removing_a_claim_waits_for_a_submitter_that_is_answering_it(
    store: SqliteStore, waiting: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    lease, begun, may_go_on = claim_handoff._insert_leased, threading.Event(), threading.Event()

    def slowly(*arguments: Any) -> bool:  # noqa: ANN401 - as it is
        begun.set()
        may_go_on.wait(10)
        return lease(*arguments)

    monkeypatch.setattr(claim_handoff, "_insert_leased", slowly)
    submitting = asyncio.ensure_future(submit(store, new_job()))
    await asyncio.to_thread(begun.wait, 10)
    claiming = asyncio.ensure_future(waiting.claim(NEXT_CLAIM))
    done, _ = await asyncio.wait([claiming], timeout=0.1)
    may_go_on.set()
    assert not done
    assert [given.id for given in await claiming] == [(await submitting).id]


async def test_a_claim_removed_just_before_it_is_answered_is_not_answered(
    store: SqliteStore, waiting: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The submitter checks again with the lock; otherwise no worker would receive the job."""
    submitter = claims_of(store)
    (seen,) = submitter._file.waiting("default", "mail")
    await wait_with(waiting, NEXT_CLAIM)
    monkeypatch.setattr(submitter, "_longest_waiting", lambda *_: seen)
    monkeypatch.setattr(submitter, "used_checksums", lambda: b".")
    job = await submit(store, new_job())
    assert (await only(store, job)).state is State.PENDING
    assert [given.id for given in await waiting.claim(NEXT_CLAIM)] == [job.id]


async def test_a_claim_that_has_found_jobs_is_not_answered(
    store: SqliteStore, waiting: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    submitter = claims_of(store)
    (seen,) = submitter._file.waiting("default", "mail")
    jobs = new_jobs(2)
    await store.insert(jobs)
    assert {given.id for given in await waiting.claim(CLAIM)} == {job.id for job in jobs}
    assert not in_file(store)
    # Even if it still seems to be there.
    monkeypatch.setattr(submitter, "_longest_waiting", lambda *_: seen)
    monkeypatch.setattr(submitter, "used_checksums", lambda: b".")
    monkeypatch.setattr(submitter._file, "has", lambda *_: True)
    submitter._file.add(seen.claim, seen.since, seen.until)
    job = await submit(store, new_job())
    assert (await only(store, job)).state is State.PENDING
    assert not in_file(store)


async def test_a_job_returned_by_claim_id_is_not_returned_again_from_the_file(
    store: SqliteStore, waiting: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    lose_wakeups(store, monkeypatch)
    job = await submit(store, new_job())
    assert [given.id for given in await waiting.claim(CLAIM)] == [job.id]
    assert not claims_of(waiting)._read_answers()
    assert not await waiting.claim(NEXT_CLAIM)


async def test_a_taken_id_is_reported(store: SqliteStore, waiting: SqliteStore) -> None:
    job = await submit(store, new_job())
    await waiting.claim(CLAIM)
    await wait_with(waiting, NEXT_CLAIM)
    (answer,) = await store.insert([new_job(id=job.id)])
    assert answer.receipt is Receipt.ID_TAKEN
    assert not await waiting.claim(NEXT_CLAIM)


async def test_handing_over_waits_for_the_write_lock(store: SqliteStore, waiting: SqliteStore, path: Path) -> None:
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    job = new_job()
    submitting = asyncio.ensure_future(store.insert([job]))
    done, _ = await asyncio.wait([submitting], timeout=0.05)
    assert not done
    other.execute("ROLLBACK")
    other.close()
    (answer,) = await submitting
    assert answer.receipt is Receipt.CREATED
    assert [given.id for given in await waiting.claim(CLAIM)] == [job.id]


async def test_a_signal_while_handing_over_leaves_no_open_transaction(
    store: SqliteStore, waiting: SqliteStore, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The transaction stayed open, and the next operations were acknowledged and lost."""

    def interrupted(*_: object) -> bool:
        raise TimeoutError("by a signal")

    monkeypatch.setattr(claim_handoff, "_insert_leased", interrupted)
    assert in_file(waiting)
    assert store.blocking is not None
    with pytest.raises(TimeoutError):
        await asyncio.to_thread(run_sync, store.blocking.insert([new_job()]))
    monkeypatch.undo()
    job = await submit(store, new_job("nobody waits for it"))
    other = sqlite3.connect(path, isolation_level=None, timeout=0)
    other.execute("BEGIN IMMEDIATE")
    assert other.execute("SELECT count(*) FROM rota_job WHERE id = ?", (job.id,)).fetchall() == [(1,)]
    other.close()


async def test_a_claim_whose_transaction_is_repeated_has_one_slot(
    store: SqliteStore, waiting: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its transaction may be repeated because of another operation; the first slot was never freed."""
    look = claims_of(waiting).claim
    tries = 0

    def overtaken(*arguments: Any) -> list[Job]:  # noqa: ANN401 - as it is
        nonlocal tries
        tries += 1
        found = look(*arguments)
        if tries < 3:
            raise DatabaseBusy("somebody was quicker")
        return found

    monkeypatch.setattr(claims_of(waiting), "claim", overtaken)
    await wait_with(waiting, replace(NEXT_CLAIM, worker=BEN))
    assert tries == 3
    assert sorted(in_file(store)) == ["claim", "next claim"]


async def test_without_a_socket_jobs_are_stored_as_usual(
    store: SqliteStore, waiting: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    def none_left() -> socket.socket:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    monkeypatch.setattr(wakeup, "_new_socket", none_left)
    job = await submit(store, new_job())
    assert (await only(waiting, job)).state is State.PENDING


async def test_claims_that_a_cancelled_call_should_have_removed_are_removed_by_the_next(
    store: SqliteStore, waiting: SqliteStore, path: Path
) -> None:
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    first = asyncio.ensure_future(waiting.claim(replace(CLAIM, worker=BEN, claim_id="in the way")))
    second = asyncio.ensure_future(waiting.claim(NEXT_CLAIM))
    await asyncio.sleep(0.02)
    second.cancel()
    await asyncio.wait([second])
    other.execute("ROLLBACK")
    other.close()
    await first
    await wait_with(waiting, replace(NEXT_CLAIM, claim_id="one more"))
    assert sorted(in_file(store)) == ["in the way", "one more"]


async def test_a_claim_cancelled_and_repeated_while_it_is_added_has_one_slot(
    store: SqliteStore, waiting: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first slot stayed used when the worker had gone on."""
    add, begun, may_go_on = claims_of(waiting)._file.add, threading.Event(), threading.Event()

    def slowly(*arguments: Any) -> ClaimSlot | None:  # noqa: ANN401 - as it is
        begun.set()
        may_go_on.wait(10)
        return add(*arguments)

    monkeypatch.setattr(claims_of(waiting)._file, "add", slowly)
    first = asyncio.ensure_future(waiting.claim(NEXT_CLAIM))
    await asyncio.to_thread(begun.wait, 10)
    first.cancel()
    await asyncio.wait([first])
    again = asyncio.ensure_future(waiting.claim(NEXT_CLAIM))
    await asyncio.sleep(0)
    may_go_on.set()
    assert not await again
    assert in_file(store) == ["next claim"]
    await wait_with(waiting, replace(NEXT_CLAIM, claim_id="one more"))
    assert in_file(store) == ["one more"]


async def test_a_job_returned_late_is_recorded_under_the_new_id_with_a_new_lease(
    store: SqliteStore, waiting: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    lose_wakeups(store, monkeypatch)
    job = await submit(store, new_job())
    later = await store.time() + timedelta(seconds=9)
    (given,) = await waiting.claim(NEXT_CLAIM, now=later)
    assert given.lease_until == later + NEXT_CLAIM.lease
    assert given == await only(store, job)
    assert await waiting.claim(replace(NEXT_CLAIM, waits=timedelta(0), limit=1), now=later) == [given]


async def test_a_job_returned_late_to_a_cancelled_call_is_returned_once(
    store: SqliteStore, waiting: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    lose_wakeups(store, monkeypatch)
    job = await submit(store, new_job())
    monkeypatch.setattr(claims_of(waiting), "note_claimed", lambda *_: None)
    assert [given.id for given in await waiting.claim(NEXT_CLAIM)] == [job.id]
    monkeypatch.undo()
    assert [given.id for given in await waiting.claim(replace(NEXT_CLAIM, waits=timedelta(0), limit=1))] == [job.id]


async def test_a_job_returned_late_is_not_returned_again_to_the_claim_after_it(
    store: SqliteStore, waiting: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    lose_wakeups(store, monkeypatch)
    job = await submit(store, new_job())
    monkeypatch.setattr(claims_of(waiting), "note_claimed", lambda *_: None)
    await waiting.claim(NEXT_CLAIM)
    monkeypatch.undo()
    assert [given.id for given in await waiting.claim(NEXT_CLAIM)] == [job.id]
    assert not await waiting.claim(replace(NEXT_CLAIM, claim_id="one more"))


async def test_a_wake_up_before_the_slot_is_known_is_not_lost(
    store: SqliteStore, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = await SqliteStore.open(path)
    add = claims_of(other)._file.add

    def slowly(*arguments: Any) -> ClaimSlot | None:  # noqa: ANN401 - as it is
        entry = add(*arguments)
        assert store.blocking is not None
        run_sync(store.blocking.insert([new_job()]))
        return entry

    monkeypatch.setattr(claims_of(other)._file, "add", slowly)
    with reported(other) as answer:
        await wait_with(other, CLAIM)
        assert answer == {ClaimTopic("claim")}
    await other.close()


async def test_an_answer_to_an_earlier_claim_is_checked_in_the_database(
    store: SqliteStore, waiting: SqliteStore
) -> None:
    """The worker may have been stopped for long, and its job be another's by now."""
    job = await submit_and_wake(store, waiting, new_job())
    assert not waiting.leased_meanwhile(NEXT_CLAIM)
    later = await store.time() + timedelta(minutes=1)
    (held,) = await store.lost(10, now=later)
    assert await store.settle([decide(held, Lost(), means(later))], now=later)
    given = await waiting.claim(NEXT_CLAIM, now=later + MINUTE)
    assert [(one.id, one.fence) for one in given if one.id == job.id] in ([], [(job.id, 2)])


async def test_a_lease_keeper_can_remove_the_claim_of_its_worker_and_get_its_job(
    store: SqliteStore, waiting: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    last_word = claim(limit=1, queues=(), types=(), claim_id="claim")
    lose_wakeups(store, monkeypatch)
    job = await submit(store, new_job())
    await wait_with(waiting, replace(NEXT_CLAIM, worker=BEN))
    assert [given.id for given in await store.claim(last_word)] == [job.id]
    await wait_with(store, replace(last_word, claim_id="next claim"))
    assert not in_file(store)


async def test_a_claim_in_the_submitting_process_needs_no_wake_up(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    await wait_with(store, CLAIM)
    lose_wakeups(store, monkeypatch)
    job = await submit(store, new_job())
    assert store.leased_meanwhile(CLAIM) == [await only(store, job)]


async def test_a_job_whose_wake_up_was_lost_is_noticed_by_the_write_to_the_log(
    path: Path, store: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As when the submitter is killed after the commit."""
    lose_wakeups(store, monkeypatch)
    link = await connect(f"sqlite:///{path}")
    assert link.engine is not None
    claiming = asyncio.ensure_future(link.engine.claim(replace(CLAIM, waits=timedelta(0)), wait=MINUTE))
    await until(lambda: bool(in_file(store)))
    job = await submit(store, new_job())
    assert (await only(store, job)).state is State.RUNNING
    async with asyncio.timeout(10):
        assert [given.id for given in await claiming] == [job.id]
    await link.close()


async def test_a_flood_of_useless_wake_ups_does_not_hide_a_real_one(
    store: SqliteStore, waiting: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Any process of the host may send datagrams. They have no content, and must not take all of our time."""
    looks = 0
    box = claims_of(waiting)._receiver
    assert box is not None
    look = box._look

    def counted() -> bool:
        nonlocal looks
        looks += 1
        return look()

    monkeypatch.setattr(box, "_look", counted)
    stranger = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
    stranger.connect(box.address)
    begun = time.monotonic()
    with reported(waiting) as answer:
        job = await submit(store, new_job())
        while time.monotonic() < begun + 0.5:
            with suppress(BlockingIOError):
                stranger.send(b"evil" * 1000)
            await asyncio.sleep(0)
        await until(lambda: bool(answer))
    stranger.close()
    assert [given.id for given in waiting.leased_meanwhile(CLAIM)] == [job.id]
    assert looks < 500


async def test_a_wake_up_reveals_nothing_to_a_process_that_took_the_name_of_a_dead_worker(
    store: SqliteStore, waiting: SqliteStore
) -> None:
    box = claims_of(waiting)._receiver
    assert box is not None
    box.close()
    stranger = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    stranger.bind(box.address)
    await submit(store, new_job(payload='"the password is sesame"'))
    assert stranger.recv(100_000) == b"."
    stranger.close()


def test_a_child_does_not_keep_the_socket_of_its_parent_open() -> None:
    box, sender = WakeupReceiver(lambda: False), WakeupSender()
    (answer, tell), (go, let_go) = os.pipe(), os.pipe()
    child = os.fork()
    if not child:
        os.write(tell, b".")
        os.close(let_go)
        os.read(go, 1)
        os._exit(0)
    os.read(answer, 1)
    assert sender.connect(box.address)
    box.close()
    assert not sender.connect(box.address)
    os.close(let_go)
    os.waitpid(child, 0)
    for descriptor in (answer, tell, go):
        os.close(descriptor)
    sender.close()


@pytest.mark.parametrize("what", ["directory", "link", "pipe"])
async def test_without_a_claims_file_jobs_are_claimed_as_usual(path: Path, what: str) -> None:
    make: dict[str, Callable[[str], None]] = {
        "directory": os.mkdir,
        "link": lambda name: Path(name).symlink_to("elsewhere"),
        "pipe": os.mkfifo,
    }
    make[what](claims_file_of(str(path)))
    store = await SqliteStore.open(path)
    assert not store.keeps_waiting_claims
    assert not store.leased_meanwhile(CLAIM)
    await wait_with(store, CLAIM)
    job = await submit(store, new_job())
    assert [given.id for given in await store.claim(CLAIM)] == [job.id]
    await store.close()


async def test_with_hand_over_switched_off_jobs_are_claimed_as_usual(path: Path) -> None:
    store = await SqliteStore.open(path, hand_over=False)
    assert not store.keeps_waiting_claims
    await wait_with(store, CLAIM)
    job = await submit(store, new_job())
    assert [given.id for given in await store.claim(CLAIM)] == [job.id]
    await store.close()


async def test_in_memory_claims_are_not_kept() -> None:
    store = await SqliteStore.open(":memory:")
    assert not store.keeps_waiting_claims
    await store.close()


async def test_every_job_comes_to_one_worker_in_whichever_way(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One wake-up in five is lost."""
    send, lost = WakeupSender.send, Random(3)

    def sometimes(sender: WakeupSender) -> None:
        if lost.random() > 1 / 5:
            send(sender)

    monkeypatch.setattr(WakeupSender, "send", sometimes)
    await each_job_comes_once(f"sqlite:///{path}", monkeypatch)
