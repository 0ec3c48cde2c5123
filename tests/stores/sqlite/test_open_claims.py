"""Open claims: who has found nothing waits on the board, and whoever brings a job answers it, in the same commit."""

from __future__ import annotations

import asyncio
import os
import sqlite3
import stat
import threading
from collections.abc import AsyncIterator, Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import pytest

from building import ADA, BEN, MINUTE, claim, key, new_job, new_jobs
from rota.core.job import Job
from rota.core.lane import Queue
from rota.core.lease import Claim
from rota.core.lifecycle import State
from rota.core.submission import Delivery, NewJob
from rota.ports.guest import at_once
from rota.ports.places import answer_to
from rota.ports.store import Receipt
from rota.runtime import connect
from rota.stores.open_claims import HEARING, SHORTEST_STAY, Answer, told_of
from rota.stores.sqlite import SqliteStore, board, open_claims
from rota.stores.sqlite.board import PLACE_BYTES, PLACES, Board, OpenClaim, board_of, steady_micros
from rota.stores.sqlite.letterbox import LONGEST_LETTER, Letterbox, Postman, letter_of
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
    """Submit a job by itself, and wait until another store has had its letter."""
    with heeded(other) as told:
        await bring(store, job)
        await until(lambda: bool(told))
    return job


def bring_unheard(store: SqliteStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the letters of a store get lost."""
    monkeypatch.setattr(claims_of(store)._postman, "deliver", lambda *_: None)


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
    watching = asyncio.ensure_future(waiting.watch(MINUTE, told.put_nowait))
    await asyncio.sleep(0)
    job = await bring(store, new_job())
    async with asyncio.timeout(10):
        assert answer_to("question") in await told.get()
    assert waiting.brought(QUESTION) == [await only(store, job)]
    assert not waiting.brought(QUESTION)
    watching.cancel()


async def test_what_came_while_nobody_watched_is_told_to_who_watches_next(
    store: SqliteStore, waiting: SqliteStore
) -> None:
    await bring(store, new_job())
    await until(lambda: bool(claims_of(waiting)._untold))
    with heeded(waiting) as told:
        assert told == {answer_to("question")}
    with heeded(waiting) as told:
        assert not told


@pytest.mark.parametrize("text", ["x" * 200_000, "\\u00e4" * 9_000, "ä" * 40_000], ids=["long", "escaped", "wide"])
async def test_a_job_that_is_too_long_for_a_letter_is_looked_up(
    store: SqliteStore, waiting: SqliteStore, text: str
) -> None:
    job = await bring_aloud(store, waiting, new_job(payload=f'"{text}"'))
    if len(letter_of(Answer("question", 0, told_of(job, LONGEST_LETTER)))) < len(text):
        assert not waiting.brought(QUESTION)
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
    assert notice.claim.until - notice.claim.since == (STAYS - HEARING) // timedelta(microseconds=1)
    monkeypatch.setattr(board, "steady_micros", lambda: notice.claim.until)
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
    monkeypatch.setattr(bringer._board, "has", lambda _: True)
    bringer._board.put_up(seen.claim)
    job = await bring(store, new_job())
    assert (await only(store, job)).state is State.PENDING
    assert not on_board(store)


async def test_what_came_by_name_does_not_come_once_more_by_its_letter(
    store: SqliteStore, waiting: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    bring_unheard(store, monkeypatch)
    job = await bring(store, new_job())
    assert [given.id for given in await waiting.claim(QUESTION)] == [job.id]
    late = Answer("question", 0, told_of(job, LONGEST_LETTER))
    assert not claims_of(waiting).bring(late)
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


async def test_who_asks_in_the_process_that_brings_need_not_wait_for_the_letter(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    await leave(store, QUESTION)
    bring_unheard(store, monkeypatch)
    job = await bring(store, new_job())
    assert store.brought(QUESTION) == [await only(store, job)]


async def test_a_job_whose_letter_is_lost_is_heard_of_from_the_log(
    path: Path, store: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As when whoever wrote it is killed after the commit."""
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


async def test_a_letter_without_the_secret_is_not_believed(store: SqliteStore, waiting: SqliteStore) -> None:
    box = claims_of(waiting)._letterbox
    assert box is not None
    forged = letter_of(Answer("question", 0, told_of(new_job(payload='"evil"'), LONGEST_LETTER)))
    postman = Postman()
    assert postman.finds(box.address)
    for secret, letter in (("", forged), ("0" * len(box.secret), forged), (box.secret, b"[1"), ("", b"")):
        postman.deliver(secret, letter)
    postman.close()
    job = await bring_aloud(store, waiting, new_job())
    assert [given.id for given in waiting.brought(QUESTION)] == [job.id]


def test_a_child_does_not_keep_the_box_of_its_parent_open() -> None:
    box, postman = Letterbox(lambda _: None), Postman()
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


def an_open_claim(name: str = "claim", **fields: Any) -> OpenClaim:  # noqa: ANN401 - a claim's
    now = steady_micros()
    made = OpenClaim(name, "w", "b", 1, now, now + 1_000_000, "\0nobody", "secret", ("default",), ("mail",))
    return msgspec.structs.replace(made, **fields)


@pytest.fixture
def empty_board(path: Path) -> Iterator[Board]:
    path.touch(0o640)
    found = Board.open(str(path))
    assert found is not None
    yield found
    found.close()


def names(found: Board) -> list[str]:
    return [notice.claim.claim_id for notice in found.waiting("default", "mail")]


def test_a_board_has_room_for_so_many(empty_board: Board) -> None:
    places = [empty_board.put_up(an_open_claim(str(number))) for number in range(PLACES)]
    assert places == list(range(PLACES))
    assert empty_board.put_up(an_open_claim("one too many")) is None
    assert names(empty_board) == [str(number) for number in range(PLACES)]
    empty_board.take_off(5)
    assert empty_board.put_up(an_open_claim("another")) == 5


def test_who_has_waited_longest_is_first_wherever_it_stands(empty_board: Board) -> None:
    now = steady_micros()
    for age in (2, 3, 1):
        empty_board.put_up(an_open_claim(f"{age}", since=now - age))
    assert names(empty_board) == ["3", "2", "1"]


def test_what_is_too_long_for_a_place_is_not_put_up(empty_board: Board) -> None:
    longest = PLACE_BYTES - len(msgspec.msgpack.encode(an_open_claim(""))) - 4
    assert empty_board.put_up(an_open_claim("n" * (longest + 1))) is None
    assert empty_board.put_up(an_open_claim("n" * longest)) == 0
    assert names(empty_board) == ["n" * longest]


@pytest.mark.parametrize("off", [{"until": 0}, {"since": steady_micros() + 3_600_000_000}], ids=["past", "restarted"])
def test_what_is_past_its_time_or_of_another_life_of_the_host_makes_room(
    empty_board: Board, off: dict[str, int]
) -> None:
    empty_board.put_up(an_open_claim("old", **off))
    assert not names(empty_board)
    assert empty_board.put_up(an_open_claim("new")) == 0


@pytest.mark.parametrize("at", [4096, 4098, 4120])
def test_what_is_torn_is_no_claim(empty_board: Board, at: int) -> None:
    empty_board.put_up(an_open_claim())
    os.pwrite(empty_board._descriptor, b"\xff\xff", at)
    assert not names(empty_board)


def test_what_was_cut_off_is_no_claim(empty_board: Board) -> None:
    empty_board.put_up(an_open_claim())
    for length in (4097, 300, 100, 0):
        os.ftruncate(empty_board._descriptor, length)
        assert not names(empty_board)
    assert empty_board.put_up(an_open_claim()) == 0
    assert names(empty_board) == ["claim"]


@pytest.mark.parametrize(("mode", "expected"), [(0o644, 0o600), (0o664, 0o660), (0o666, 0o666), (0o600, 0o600)])
def test_only_who_may_write_to_the_database_may_know_what_is_on_its_board(path: Path, mode: int, expected: int) -> None:
    path.touch()
    path.chmod(mode)
    for _ in range(2):
        found = Board.open(str(path))
        assert found is not None
        found.close()
        assert stat.S_IMODE(Path(board_of(str(path))).stat().st_mode) == expected


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
    """One letter in five is lost."""
    deliver, lost = Postman.deliver, Random(3)

    def delivered(postman: Postman, secret: str, letter: bytes) -> None:
        if lost.random() > 1 / 5:
            deliver(postman, secret, letter)

    monkeypatch.setattr(Postman, "deliver", delivered)
    await each_job_comes_once(f"sqlite:///{path}", monkeypatch)
