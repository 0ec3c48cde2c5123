"""Open claims: who has found nothing waits on the board, and whoever brings a job answers it, in the same commit."""

from __future__ import annotations

import asyncio
import errno
import os
import socket
import sqlite3
import threading
import time
from collections.abc import AsyncIterator, Callable, Collection, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from random import Random
from typing import Any

import pytest

from building import ADA, BEN, MINUTE, claim, key, means, new_job, new_jobs
from rota.core.decision import decide
from rota.core.job import Job
from rota.core.lane import Queue
from rota.core.lease import Claim
from rota.core.lifecycle import State
from rota.core.outcome import Lost
from rota.core.submission import Delivery, NewJob
from rota.ports.guest import at_once
from rota.ports.places import answer_to
from rota.ports.store import Receipt
from rota.runtime import connect
from rota.stores.open_claims import HEARING, SHORTEST_STAY
from rota.stores.sqlite import SqliteStore, board, letterbox, open_claims
from rota.stores.sqlite.board import Notice, board_of
from rota.stores.sqlite.driver import Busy
from rota.stores.sqlite.letterbox import Letterbox, Postman
from rota.stores.sqlite.open_claims import OpenClaims
from stores.coming import each_job_comes_once

STAYS = timedelta(seconds=5)
QUESTION = claim(limit=2, types=("mail", "bill"), claim_id="question", is_new=True, stays=STAYS)
NEXT = replace(QUESTION, claim_id="next question")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "jobs.db"


@pytest.fixture
async def store(path: Path) -> AsyncIterator[SqliteStore]:
    """Who brings jobs."""
    store = await SqliteStore.open(path)
    yield store
    await store.close()


@pytest.fixture
async def waiting(path: Path, store: SqliteStore) -> AsyncIterator[SqliteStore]:  # noqa: ARG001 - first
    """Another, in which a question stays."""
    waiting = await SqliteStore.open(path)
    await leave(waiting, QUESTION)
    yield waiting
    await waiting.close()


def claims_of(store: SqliteStore) -> OpenClaims:
    assert store._open_claims is not None
    return store._open_claims


async def leave(store: SqliteStore, question: Claim) -> None:
    """Ask where there is nothing."""
    assert not await store.claim(question)


async def bring(store: SqliteStore, job: NewJob) -> NewJob:
    """Submit a job by itself."""
    (answer,) = await store.insert([job])
    assert (answer.receipt, answer.job_id, answer.state) == (Receipt.CREATED, job.id, State.PENDING)
    return job


async def bring_aloud(store: SqliteStore, other: SqliteStore, job: NewJob) -> NewJob:
    """Submit a job by itself, and wait until another store was poked for it."""
    with heeded(other) as told:
        await bring(store, job)
        await until(lambda: bool(told))
    return job


def bring_unheard(store: SqliteStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have a store poke nobody."""
    monkeypatch.setattr(claims_of(store)._postman, "poke", lambda: None)


@contextmanager
def heeded(store: SqliteStore) -> Iterator[set[str]]:
    told: set[str] = set()
    with claims_of(store).heeded(told.update):
        yield told


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(10):
        while not holds():  # noqa: ASYNC110 - nothing rings for it
            await asyncio.sleep(0.001)


async def only(store: SqliteStore, job: NewJob) -> Job:
    (found,) = await store.get([job.id])
    return found


def on_board(store: SqliteStore) -> list[str]:
    return [notice.claim.claim_id for notice in claims_of(store)._board.waiting("default", "mail")]


async def test_a_lone_job_is_leased_to_who_waits_for_it_as_it_is_stored(
    store: SqliteStore, waiting: SqliteStore
) -> None:
    job = await bring_aloud(store, waiting, new_job(payload='{"to": "ann", "text": "100 %, \\"quoted\\" 🙂"}'))
    stored = await only(store, job)
    assert (stored.state, stored.worker, stored.boot) == (State.RUNNING, ADA.name, ADA.boot)
    assert (stored.fence, stored.attempts, stored.started_at) == (1, 1, stored.created_at)
    assert stored.lease_until == stored.created_at + QUESTION.lease
    assert await waiting.claim(QUESTION) == [stored]
    assert not on_board(store)


async def test_a_lone_job_of_a_plain_thread_is_too(store: SqliteStore, waiting: SqliteStore) -> None:
    assert store.by_hand is not None
    job = new_job()
    await asyncio.to_thread(at_once, store.by_hand.insert([job]))
    assert await waiting.claim(QUESTION) == [await only(store, job)]


async def test_who_waits_is_told_where_and_has_it_at_hand(store: SqliteStore, waiting: SqliteStore) -> None:
    told: asyncio.Queue[Collection[str]] = asyncio.Queue()

    async def watch() -> None:
        # Each write to the log ends a watch, too.
        while True:
            await waiting.watch(MINUTE, told.put_nowait)

    watching = asyncio.ensure_future(watch())
    await asyncio.sleep(0)
    job = await bring(store, new_job())
    async with asyncio.timeout(10):
        assert answer_to("question") in await told.get()
    assert waiting.brought(QUESTION) == [await only(store, job)]
    assert not waiting.brought(QUESTION)
    watching.cancel()


async def test_what_came_while_nobody_watched_is_told_to_who_watches_until_it_is_taken(
    store: SqliteStore, waiting: SqliteStore
) -> None:
    await bring(store, new_job())
    await until(lambda: claims_of(waiting)._by_claim["question"].answer is not None)
    for _ in range(2):
        with heeded(waiting) as told:
            assert told == {answer_to("question")}
    assert waiting.brought(QUESTION)
    with heeded(waiting) as told:
        assert not told


@pytest.mark.parametrize(
    ("text", "is_at_hand"), [("x" * 3_000, True), ("x" * 200_000, False), ("x" * 4_090, False), ("ä" * 2_040, False)]
)
async def test_a_job_that_is_too_long_for_the_board_is_looked_up(
    store: SqliteStore, waiting: SqliteStore, text: str, *, is_at_hand: bool
) -> None:
    job = await bring_aloud(store, waiting, new_job(payload=f'"{text}"'))
    assert bool(claims_of(waiting)._by_claim["question"].answer.job) == is_at_hand  # type: ignore[union-attr]
    assert await waiting.claim(QUESTION) == [await only(store, job)]


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
async def test_what_was_not_asked_for_or_must_not_begin_twice_is_brought_to_nobody(
    store: SqliteStore, waiting: SqliteStore, fields: dict[str, Any]
) -> None:
    job = await bring(store, new_job(**fields))
    assert (await only(store, job)).state is State.PENDING
    assert on_board(waiting) == ["question"]


async def test_what_comes_later_or_with_others_is_brought_to_nobody(store: SqliteStore, waiting: SqliteStore) -> None:
    (answer,) = await store.insert([new_job(run_at=await store.time() + MINUTE)])
    assert answer.state is State.SCHEDULED
    await store.insert(new_jobs(2))
    await store.insert([new_job()], bound=100)
    assert len(await waiting.claim(QUESTION)) == 2
    assert not on_board(waiting)


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
async def test_a_queue_that_is_paused_or_has_limits_keeps_its_jobs(
    store: SqliteStore, waiting: SqliteStore, name: str, settings: dict[str, Any]
) -> None:
    if settings.pop("paused", False):
        settings["paused_at"] = await store.time()
    assert await store.put_queue(Queue(name, **settings))
    job = await bring(store, new_job())
    assert (await only(waiting, job)).state is State.PENDING


async def test_a_queue_that_was_paused_until_now_does_not(store: SqliteStore, waiting: SqliteStore) -> None:
    now = await store.time()
    assert await store.put_queue(Queue("default", paused_at=now - MINUTE, resume_at=now))
    job = await bring(store, new_job())
    assert (await only(waiting, job)).state is State.RUNNING


async def test_who_has_waited_longest_is_brought_the_first_job(store: SqliteStore, waiting: SqliteStore) -> None:
    await leave(waiting, replace(NEXT, worker=BEN))
    first, second = await bring(store, new_job()), await bring(store, new_job())
    third = await bring(store, new_job())
    states = [(job.boot, job.state) for job in await store.get([first.id, second.id, third.id])]
    assert states == [(ADA.boot, State.RUNNING), (BEN.boot, State.RUNNING), (None, State.PENDING)]


@pytest.mark.parametrize(
    "fields",
    [{"limit": 1}, {"types": None}, {"claim_id": None}, {"stays": SHORTEST_STAY / 2}, {"types": ("t" * 9, "u" * 5000)}],
    ids=["room for one", "any type", "no name", "in passing", "too many words"],
)
async def test_who_cannot_wait_does_not(store: SqliteStore, fields: dict[str, Any]) -> None:
    await leave(store, replace(QUESTION, **fields))
    assert not claims_of(store)._board.marks()


async def test_who_is_gone_is_brought_nothing(store: SqliteStore, path: Path) -> None:
    gone = await SqliteStore.open(path)
    await leave(gone, QUESTION)
    await gone.close()
    assert on_board(store) == ["question"]
    job = await bring(store, new_job())
    assert (await only(store, job)).state is State.PENDING


async def test_a_claim_stays_a_little_shorter_than_who_asked(
    store: SqliteStore, waiting: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    (notice,) = claims_of(waiting)._board.waiting("default", "mail")
    assert notice.until - notice.since == (STAYS - HEARING) // timedelta(microseconds=1)
    monkeypatch.setattr(board, "steady_micros", lambda: notice.until)
    job = await bring(store, new_job())
    assert (await only(store, job)).state is State.PENDING


async def test_an_answer_that_nobody_hears_is_given_to_who_asks_again_by_name(
    store: SqliteStore, waiting: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    bring_unheard(store, monkeypatch)
    job = await bring(store, new_job())
    assert await waiting.claim(replace(QUESTION, stays=timedelta(0), limit=1)) == [await only(store, job)]


async def test_and_comes_along_with_the_next_question(
    store: SqliteStore, waiting: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    bring_unheard(store, monkeypatch)
    job = await bring(store, new_job())
    others = new_jobs(2)
    await store.insert(others)
    given = await waiting.claim(NEXT)
    assert {one.id for one in given} == {job.id, *(other.id for other in others)}
    assert not await waiting.claim(replace(NEXT, claim_id="one more"))


async def test_who_asks_under_another_name_takes_the_last_claim_off(store: SqliteStore, waiting: SqliteStore) -> None:
    await leave(waiting, NEXT)
    assert on_board(store) == ["next question"]
    job = await bring(store, new_job())
    assert await waiting.claim(NEXT) == [await only(store, job)]


@pytest.mark.parametrize("last", [replace(QUESTION, stays=timedelta(0), limit=1), replace(NEXT, limit=1)], ids=str)
async def test_who_goes_away_takes_it_along(store: SqliteStore, waiting: SqliteStore, last: Claim) -> None:
    await leave(waiting, last)
    assert not on_board(store)
    assert not claims_of(waiting)._by_boot


async def test_who_takes_its_claim_off_waits_for_who_is_just_answering_it(
    store: SqliteStore, waiting: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    lease, begun, may_go_on = open_claims._lease, threading.Event(), threading.Event()

    def slowly(*arguments: Any) -> bool:  # noqa: ANN401 - as it is
        begun.set()
        may_go_on.wait(10)
        return lease(*arguments)

    monkeypatch.setattr(open_claims, "_lease", slowly)
    bringing = asyncio.ensure_future(bring(store, new_job()))
    await asyncio.to_thread(begun.wait, 10)
    asking = asyncio.ensure_future(waiting.claim(NEXT))
    done, _ = await asyncio.wait([asking], timeout=0.1)
    may_go_on.set()
    assert not done
    assert [given.id for given in await asking] == [(await bringing).id]


async def test_a_claim_that_is_taken_off_as_it_is_about_to_be_answered_is_not(
    store: SqliteStore, waiting: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever has looked and not begun yet looks once more under the lock; or nobody would know of the job."""
    bringer = claims_of(store)
    (seen,) = bringer._board.waiting("default", "mail")
    await leave(waiting, NEXT)
    monkeypatch.setattr(bringer, "_longest_waiting", lambda *_: seen)
    monkeypatch.setattr(bringer, "glance", lambda: b".")
    job = await bring(store, new_job())
    assert (await only(store, job)).state is State.PENDING
    assert [given.id for given in await waiting.claim(NEXT)] == [job.id]


async def test_a_claim_that_has_found_something_is_answered_by_nobody(
    store: SqliteStore, waiting: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    bringer = claims_of(store)
    (seen,) = bringer._board.waiting("default", "mail")
    jobs = new_jobs(2)
    await store.insert(jobs)
    assert {given.id for given in await waiting.claim(QUESTION)} == {job.id for job in jobs}
    assert not on_board(store)
    # Even one that still seems to be there.
    monkeypatch.setattr(bringer, "_longest_waiting", lambda *_: seen)
    monkeypatch.setattr(bringer, "glance", lambda: b".")
    monkeypatch.setattr(bringer._board, "has", lambda *_: True)
    bringer._board.put_up(seen.claim, seen.since, seen.until)
    job = await bring(store, new_job())
    assert (await only(store, job)).state is State.PENDING
    assert not on_board(store)


async def test_what_came_by_name_does_not_come_once_more_by_its_letter(
    store: SqliteStore, waiting: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    bring_unheard(store, monkeypatch)
    job = await bring(store, new_job())
    assert [given.id for given in await waiting.claim(QUESTION)] == [job.id]
    assert not claims_of(waiting)._look()
    assert not await waiting.claim(NEXT)


async def test_an_id_that_is_taken_is_told(store: SqliteStore, waiting: SqliteStore) -> None:
    job = await bring(store, new_job())
    await waiting.claim(QUESTION)
    await leave(waiting, NEXT)
    (answer,) = await store.insert([new_job(id=job.id)])
    assert answer.receipt is Receipt.ID_TAKEN
    assert not await waiting.claim(NEXT)


async def test_who_brings_waits_for_the_lock_like_everyone(
    store: SqliteStore, waiting: SqliteStore, path: Path
) -> None:
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    job = new_job()
    bringing = asyncio.ensure_future(store.insert([job]))
    done, _ = await asyncio.wait([bringing], timeout=0.05)
    assert not done
    other.execute("ROLLBACK")
    other.close()
    (answer,) = await bringing
    assert answer.receipt is Receipt.CREATED
    assert [given.id for given in await waiting.claim(QUESTION)] == [job.id]


async def test_a_signal_in_the_midst_of_bringing_leaves_nothing_begun(
    store: SqliteStore, waiting: SqliteStore, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A timeout is an error like others. The transaction stayed open, and what came next was acknowledged and lost."""

    def interrupted(*_: object) -> bool:
        raise TimeoutError("by a signal")

    monkeypatch.setattr(open_claims, "_lease", interrupted)
    assert on_board(waiting)
    assert store.by_hand is not None
    with pytest.raises(TimeoutError):
        await asyncio.to_thread(at_once, store.by_hand.insert([new_job()]))
    monkeypatch.undo()
    job = await bring(store, new_job("nobody waits for it"))
    other = sqlite3.connect(path, isolation_level=None, timeout=0)
    other.execute("BEGIN IMMEDIATE")
    assert other.execute("SELECT count(*) FROM job WHERE id = ?", (job.id,)).fetchall() == [(1,)]
    other.close()


async def test_a_claim_that_is_looked_for_again_waits_at_one_place(
    store: SqliteStore, waiting: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its transaction may be repeated, for another that is part of it; the first place was never taken off again."""
    look = claims_of(waiting).claim
    tries = 0

    def overtaken(*arguments: Any) -> list[Job]:  # noqa: ANN401 - as it is
        nonlocal tries
        tries += 1
        found = look(*arguments)
        if tries < 3:
            raise Busy("somebody was quicker")
        return found

    monkeypatch.setattr(claims_of(waiting), "claim", overtaken)
    await leave(waiting, replace(NEXT, worker=BEN))
    assert tries == 3
    assert sorted(on_board(store)) == ["next question", "question"]


async def test_where_no_socket_can_be_had_jobs_are_stored_as_always(
    store: SqliteStore, waiting: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    def none_left() -> socket.socket:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    monkeypatch.setattr(letterbox, "_new_socket", none_left)
    job = await bring(store, new_job())
    assert (await only(waiting, job)).state is State.PENDING


async def test_what_a_question_was_to_take_off_that_was_called_off_is_taken_off_by_the_next(
    store: SqliteStore, waiting: SqliteStore, path: Path
) -> None:
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    first = asyncio.ensure_future(waiting.claim(replace(QUESTION, worker=BEN, claim_id="in the way")))
    second = asyncio.ensure_future(waiting.claim(NEXT))
    await asyncio.sleep(0.02)
    second.cancel()
    await asyncio.wait([second])
    other.execute("ROLLBACK")
    other.close()
    await first
    await leave(waiting, replace(NEXT, claim_id="one more"))
    assert sorted(on_board(store)) == ["in the way", "one more"]


async def test_a_question_that_is_called_off_and_asked_again_as_it_is_put_up_waits_at_one_place(
    store: SqliteStore, waiting: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first place was nobody's then, and stayed on the board when the worker had gone on."""
    put_up, begun, may_go_on = claims_of(waiting)._board.put_up, threading.Event(), threading.Event()

    def slowly(*arguments: Any) -> Notice | None:  # noqa: ANN401 - as it is
        begun.set()
        may_go_on.wait(10)
        return put_up(*arguments)

    monkeypatch.setattr(claims_of(waiting)._board, "put_up", slowly)
    first = asyncio.ensure_future(waiting.claim(NEXT))
    await asyncio.to_thread(begun.wait, 10)
    first.cancel()
    await asyncio.wait([first])
    again = asyncio.ensure_future(waiting.claim(NEXT))
    await asyncio.sleep(0)
    may_go_on.set()
    assert not await again
    assert on_board(store) == ["next question"]
    await leave(waiting, replace(NEXT, claim_id="one more"))
    assert on_board(store) == ["one more"]


async def test_what_comes_along_late_is_known_by_the_new_name_too_and_its_lease_begins_anew(
    store: SqliteStore, waiting: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    bring_unheard(store, monkeypatch)
    job = await bring(store, new_job())
    later = await store.time() + timedelta(seconds=9)
    (given,) = await waiting.claim(NEXT, now=later)
    assert given.lease_until == later + NEXT.lease
    assert given == await only(store, job)
    assert await waiting.claim(replace(NEXT, stays=timedelta(0), limit=1), now=later) == [given]


async def test_what_came_along_for_a_question_that_was_called_off_is_given_once(
    store: SqliteStore, waiting: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    bring_unheard(store, monkeypatch)
    job = await bring(store, new_job())
    monkeypatch.setattr(claims_of(waiting), "note_done", lambda *_: None)
    assert [given.id for given in await waiting.claim(NEXT)] == [job.id]
    monkeypatch.undo()
    assert [given.id for given in await waiting.claim(replace(NEXT, stays=timedelta(0), limit=1))] == [job.id]


async def test_and_not_once_more_to_the_question_after_it(
    store: SqliteStore, waiting: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    bring_unheard(store, monkeypatch)
    job = await bring(store, new_job())
    monkeypatch.setattr(claims_of(waiting), "note_done", lambda *_: None)
    await waiting.claim(NEXT)
    monkeypatch.undo()
    assert [given.id for given in await waiting.claim(NEXT)] == [job.id]
    assert not await waiting.claim(replace(NEXT, claim_id="one more"))


async def test_a_poke_that_comes_before_it_is_known_where_the_claim_stands_is_not_for_nothing(
    store: SqliteStore, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = await SqliteStore.open(path)
    put_up = claims_of(other)._board.put_up

    def slowly(*arguments: Any) -> Notice | None:  # noqa: ANN401 - as it is
        notice = put_up(*arguments)
        assert store.by_hand is not None
        at_once(store.by_hand.insert([new_job()]))
        return notice

    monkeypatch.setattr(claims_of(other)._board, "put_up", slowly)
    with heeded(other) as told:
        await leave(other, QUESTION)
        assert told == {answer_to("question")}
    await other.close()


async def test_an_answer_to_a_former_question_is_looked_up(store: SqliteStore, waiting: SqliteStore) -> None:
    """The worker may have been stopped for long, and its job be another's by now."""
    job = await bring_aloud(store, waiting, new_job())
    assert not waiting.brought(NEXT)
    later = await store.time() + timedelta(minutes=1)
    (held,) = await store.lost(10, now=later)
    assert await store.settle([decide(held, Lost(), means(later))], now=later)
    given = await waiting.claim(NEXT, now=later + MINUTE)
    assert [(one.id, one.fence) for one in given if one.id == job.id] in ([], [(job.id, 2)])


async def test_a_companion_can_take_off_and_ask_for_what_its_worker_left(
    store: SqliteStore, waiting: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    last_word = claim(limit=1, queues=(), types=(), claim_id="question")
    bring_unheard(store, monkeypatch)
    job = await bring(store, new_job())
    await leave(waiting, replace(NEXT, worker=BEN))
    assert [given.id for given in await store.claim(last_word)] == [job.id]
    await leave(store, replace(last_word, claim_id="next question"))
    assert not on_board(store)


async def test_who_asks_in_the_process_that_brings_need_not_wait_for_the_letter(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    await leave(store, QUESTION)
    bring_unheard(store, monkeypatch)
    job = await bring(store, new_job())
    assert store.brought(QUESTION) == [await only(store, job)]


async def test_a_job_for_which_nobody_is_poked_is_heard_of_from_the_log(
    path: Path, store: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As when whoever brought it is killed after the commit."""
    bring_unheard(store, monkeypatch)
    link = await connect(f"sqlite:///{path}")
    assert link.engine is not None
    asking = asyncio.ensure_future(link.engine.claim(replace(QUESTION, stays=timedelta(0)), wait=MINUTE))
    await until(lambda: bool(on_board(store)))
    job = await bring(store, new_job())
    assert (await only(store, job)).state is State.RUNNING
    async with asyncio.timeout(10):
        assert [given.id for given in await asking] == [job.id]
    await link.close()


async def test_who_is_poked_for_nothing_all_the_time_still_hears(
    store: SqliteStore, waiting: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Any process of the host may poke. Nothing is said by it, and it must not take all of our time."""
    looks = 0
    box = claims_of(waiting)._letterbox
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
    with heeded(waiting) as told:
        job = await bring(store, new_job())
        while time.monotonic() < begun + 0.5:
            with suppress(BlockingIOError):
                stranger.send(b"evil" * 1000)
            await asyncio.sleep(0)
        await until(lambda: bool(told))
    stranger.close()
    assert [given.id for given in waiting.brought(QUESTION)] == [job.id]
    assert looks < 500


async def test_a_poke_says_nothing_to_whoever_took_the_name_of_a_dead_worker(
    store: SqliteStore, waiting: SqliteStore
) -> None:
    box = claims_of(waiting)._letterbox
    assert box is not None
    box.close()
    stranger = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    stranger.bind(box.address)
    await bring(store, new_job(payload='"the password is sesame"'))
    assert stranger.recv(100_000) == b"."
    stranger.close()


def test_a_child_does_not_keep_the_box_of_its_parent_open() -> None:
    box, postman = Letterbox(lambda: False), Postman()
    (told, tell), (go, let_go) = os.pipe(), os.pipe()
    child = os.fork()
    if not child:
        os.write(tell, b".")
        os.close(let_go)
        os.read(go, 1)
        os._exit(0)
    os.read(told, 1)
    assert postman.finds(box.address)
    box.close()
    assert not postman.finds(box.address)
    os.close(let_go)
    os.waitpid(child, 0)
    for descriptor in (told, tell, go):
        os.close(descriptor)
    postman.close()


@pytest.mark.parametrize("what", ["directory", "link", "pipe"])
async def test_where_there_can_be_no_board_jobs_are_claimed_as_always(path: Path, what: str) -> None:
    make: dict[str, Callable[[str], None]] = {
        "directory": os.mkdir,
        "link": lambda name: Path(name).symlink_to("elsewhere"),
        "pipe": os.mkfifo,
    }
    make[what](board_of(str(path)))
    store = await SqliteStore.open(path)
    assert not store.keeps_claims
    assert not store.brought(QUESTION)
    await leave(store, QUESTION)
    job = await bring(store, new_job())
    assert [given.id for given in await store.claim(QUESTION)] == [job.id]
    await store.close()


async def test_in_memory_claims_are_not_kept() -> None:
    store = await SqliteStore.open(":memory:")
    assert not store.keeps_claims
    await store.close()


async def test_every_job_comes_to_one_worker_however_it_comes(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One poke in five is lost."""
    poke, lost = Postman.poke, Random(3)

    def poked(postman: Postman) -> None:
        if lost.random() > 1 / 5:
            poke(postman)

    monkeypatch.setattr(Postman, "poke", poked)
    await each_job_comes_once(f"sqlite:///{path}", monkeypatch)
