"""By hand: a caller without a loop does its own work, shares a commit with others, and spoils nothing for them."""

from __future__ import annotations

import asyncio
import signal
import sqlite3
import threading
from collections.abc import AsyncIterator, Callable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from building import new_job
from rota.core.errors import StoreUnavailable
from rota.ports.guest import at_once
from rota.stores.sqlite import SqliteStore
from rota.stores.sqlite.desk import WriterDesk
from rota.stores.sqlite.driver import Connection, Parameters, StandardConnection
from rota.stores.sqlite.operations import LOOKS, MERGED, PLAINLY, Manner, Operation, Verb, transact


class Seen(StandardConnection):
    """A connection that remembers what it was told, and can be interrupted."""

    def __init__(self, location: str) -> None:
        super().__init__(location)
        self.told: list[str] = []
        self.interrupt_at: str | None = None

    def run(self, sql: str, parameters: Parameters = ()) -> int:
        self.told.append(sql)
        if sql == self.interrupt_at:
            self.interrupt_at = None
            raise KeyboardInterrupt
        return super().run(sql, parameters)


class Stage:
    """A writer's desk on a table of numbers."""

    def __init__(self, path: Path) -> None:
        self.path = path
        with sqlite3.connect(path) as connection:
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("CREATE TABLE number (number INTEGER)")
        connection.close()
        self.connection = Seen(str(path))
        self.desk = WriterDesk("writer", lambda: self.connection, knock=lambda _: None)
        self.gate, self.has_begun = threading.Event(), threading.Event()

    def numbers(self) -> list[int]:
        """Look from outside, which also shows that nobody was locked out."""
        connection = sqlite3.connect(self.path, isolation_level=None, timeout=0)
        connection.execute("BEGIN IMMEDIATE")
        rows = connection.execute("SELECT number FROM number ORDER BY number").fetchall()
        connection.close()
        return [number for (number,) in rows]

    def wait(self, connection: Connection) -> None:
        """Keep whoever does this busy until the gate is open."""
        del connection
        self.has_begun.set()
        self.gate.wait()

    def do(self, verb: Verb, *arguments: object, manner: Manner = PLAINLY) -> Any:  # noqa: ANN401 - as the verb does
        return self.desk.do(Operation(verb, arguments, manner))

    @property
    def commits(self) -> int:
        return self.connection.told.count("COMMIT")


@pytest.fixture
async def stage(tmp_path: Path) -> AsyncIterator[Stage]:
    one = Stage(tmp_path / "numbers.db")
    yield one
    one.gate.set()
    await one.desk.close()


def put(connection: Connection, numbers: list[int]) -> list[int]:
    for number in numbers:
        connection.run("INSERT INTO number VALUES (?)", (number,))
    return [2 * number for number in numbers]


def put_and(act: Callable[[], object]) -> Callable[[Connection], Any]:
    def verb(connection: Connection) -> None:
        put(connection, [1])
        act()

    return verb


async def handed_in(stage: Stage, count: int) -> None:
    async with asyncio.timeout(60):
        while len(stage.desk._inbox) < count:  # noqa: ASYNC110 - threads hand in when they do
            await asyncio.sleep(0.001)


def test_a_caller_who_is_alone_does_its_own_work(stage: Stage) -> None:
    threads: list[int] = []

    def verb(connection: Connection) -> str:
        del connection
        threads.append(threading.get_ident())
        return "done"

    assert stage.do(verb) == "done"
    assert threads == [threading.get_ident()]


async def test_those_who_come_while_another_is_at_it_share_one_commit(stage: Stage) -> None:
    with ThreadPoolExecutor(9) as pool:
        first = pool.submit(stage.do, stage.wait)
        await asyncio.to_thread(stage.has_begun.wait)
        blocking = [pool.submit(stage.do, put, [number], manner=MERGED) for number in range(8)]
        suspended = [asyncio.create_task(stage.desk.run(put, [number], manner=MERGED)) for number in range(8, 16)]
        await handed_in(stage, 16)
        stage.gate.set()
        assert [await asyncio.wrap_future(one) for one in (first, *blocking)] == [None, *([2 * n] for n in range(8))]
        assert await asyncio.gather(*suspended) == [[2 * number] for number in range(8, 16)]
    assert stage.numbers() == list(range(16))
    assert stage.commits == 2, "the first one's, and one for all others"


async def test_one_that_fails_does_not_fail_its_neighbours(stage: Stage) -> None:
    def fail(connection: Connection) -> None:
        put(connection, [13])
        raise ValueError("13")

    with ThreadPoolExecutor(3) as pool:
        first = pool.submit(stage.do, stage.wait)
        await asyncio.to_thread(stage.has_begun.wait)
        calls = [pool.submit(stage.do, put, [1]), pool.submit(stage.do, fail)]
        await handed_in(stage, 2)
        stage.gate.set()
        await asyncio.wrap_future(first)
        assert await asyncio.wrap_future(calls[0]) == [2]
        with pytest.raises(ValueError, match="13"):
            await asyncio.wrap_future(calls[1])
    with pytest.raises(ValueError, match="13"):
        stage.do(fail)
    assert stage.numbers() == [1]


LOOKING = Manner(reads_first=True)


def test_what_was_done_at_one_stroke_is_not_done_again_when_its_answers_cannot_be_shared_out(stage: Stage) -> None:
    def stroke(connection: Connection, numbers: list[int]) -> int:
        return connection.run("INSERT INTO number SELECT value FROM json_each(?)", (str(numbers),))

    together = Manner(is_mergeable=True, stroke=stroke)
    with stage.desk.turn, pytest.raises(TypeError):
        transact(stage.connection, [Operation(put, ([number],), together) for number in (1, 2)])
    assert stage.numbers() == [1, 2]


async def test_one_that_reads_first_and_fails_does_not_fail_its_neighbours(stage: Stage) -> None:
    def put_unless(connection: Connection, numbers: list[int]) -> list[int]:
        if numbers == [13]:
            raise ValueError("13")
        return put(connection, numbers)

    first = asyncio.create_task(asyncio.to_thread(stage.do, stage.wait))
    await asyncio.to_thread(stage.has_begun.wait)
    calls = [asyncio.create_task(stage.desk.run(put_unless, [number], manner=LOOKING)) for number in (1, 13, 2)]
    await handed_in(stage, 3)
    stage.gate.set()
    await first
    answers = await asyncio.gather(*calls, return_exceptions=True)
    assert [answers[0], answers[2]] == [[2], [4]]
    assert isinstance(answers[1], ValueError)
    assert stage.numbers() == [1, 2]


def highest(connection: Connection) -> int:
    ((found,),) = connection.rows("SELECT max(number) FROM number")
    return found or 0


def test_who_reads_first_and_finds_nothing_to_write_needs_no_lock(stage: Stage) -> None:
    other = sqlite3.connect(stage.path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    assert stage.do(highest, manner=LOOKING) == 0
    other.close()


@pytest.mark.parametrize("times", [1, 10], ids=["once", "again and again"])
def test_what_is_written_upon_a_look_is_not_outdated_by_another_process(stage: Stage, times: int) -> None:
    """Who looked, was overtaken, and then wrote would write what no longer holds."""
    other = sqlite3.connect(stage.path, isolation_level=None, timeout=0)
    left = [5] * times

    def put_next(connection: Connection) -> int:
        number = highest(connection) + 1
        if left:
            left.pop()
            try:
                other.execute("INSERT INTO number SELECT coalesce(max(number), 0) + 1 FROM number")
            except sqlite3.OperationalError:
                left.clear()  # the lock is ours by now
        put(connection, [number])
        return number

    answer = stage.do(put_next, manner=LOOKING)
    other.close()
    assert answer == max(stage.numbers())
    assert stage.numbers() == list(range(1, answer + 1))
    assert answer == 1 + min(times, LOOKS)


def interrupt() -> None:
    raise KeyboardInterrupt


@pytest.mark.parametrize("statement", ["BEGIN IMMEDIATE", "INSERT INTO number VALUES (?)", "COMMIT"])
def test_a_signal_in_the_midst_of_it_leaves_nothing_behind(stage: Stage, statement: str) -> None:
    stage.connection.interrupt_at = statement
    with pytest.raises(KeyboardInterrupt):
        stage.do(put, [1])
    assert stage.numbers() == []
    assert stage.do(put, [2]) == [4]
    assert stage.numbers() == [2]


def test_a_timeout_that_comes_once_a_transaction_is_begun_leaves_nothing_behind(stage: Stage) -> None:
    """A handler of a signal may raise any error. The next one was taken into that transaction, and acknowledged."""
    run = stage.connection.run

    def late(sql: str, parameters: Parameters = ()) -> int:
        stage.connection.run = run  # type: ignore[method-assign]
        run(sql, parameters)
        raise TimeoutError("by a signal")

    stage.connection.run = late  # type: ignore[method-assign]
    with pytest.raises(TimeoutError):
        stage.do(put, [1])
    assert stage.connection.told[0] == "BEGIN IMMEDIATE"
    assert stage.numbers() == []
    stage.do(put, [2])
    assert stage.numbers() == [2]


def test_after_two_signals_the_next_one_clears_up(stage: Stage) -> None:
    stage.connection.interrupt_at = "ROLLBACK"
    with pytest.raises(KeyboardInterrupt):
        stage.do(put_and(interrupt))
    assert stage.do(put, [2]) == [4]
    assert stage.numbers() == [2]


def test_a_call_in_the_midst_of_a_call_is_refused_and_does_not_wait_for_itself(stage: Stage) -> None:
    with pytest.raises(RuntimeError, match="in the midst"):
        stage.do(put_and(lambda: stage.do(put, [2])))
    assert stage.do(put, [3]) == [6]
    assert stage.numbers() == [3]


def test_a_call_right_after_the_turn_was_taken_is_refused_and_does_not_wait_for_itself(stage: Stage) -> None:
    """A signal comes when it comes: also when the turn is taken and nothing has begun."""
    serve = stage.desk._serve

    def interrupted(batch: list[Operation]) -> None:
        stage.do(put, [2])
        serve(batch)

    stage.desk._serve = interrupted  # type: ignore[method-assign]
    refused: Future[Any] = Future()

    def call() -> None:
        try:
            refused.set_result(stage.do(put, [1]))
        except RuntimeError as error:
            refused.set_exception(error)

    threading.Thread(target=call, daemon=True).start()
    with pytest.raises(RuntimeError, match="in the midst"):
        refused.result(10)
    stage.desk._serve = serve  # type: ignore[method-assign]
    assert stage.do(put, [3]) == [6]
    assert stage.numbers() == [3]


async def test_a_finalizer_on_the_desks_own_thread_is_refused(stage: Stage) -> None:
    """It may run at any moment, also when the thread has the turn and is between two operations."""
    gather = stage.desk._gather
    errors: list[Exception] = []

    def finalize() -> list[Operation]:
        stage.desk._gather = gather  # type: ignore[method-assign]
        try:
            stage.do(put, [2])
        except RuntimeError as error:
            errors.append(error)
        return gather()

    stage.desk._gather = finalize  # type: ignore[method-assign]
    assert await asyncio.wait_for(stage.desk.run(put, [1]), 10) == [2]
    assert len(errors) == 1
    assert stage.numbers() == [1]


async def test_who_stops_waiting_is_left_out(stage: Stage) -> None:
    class Enough(Exception):
        pass

    def enough(*_: object) -> None:
        raise Enough

    def signal_in_time() -> None:
        while not stage.desk._inbox:
            stage.gate.wait(0.001)
        signal.pthread_kill(main, signal.SIGUSR1)

    assert threading.current_thread() is threading.main_thread()
    main = threading.get_ident()
    before = signal.signal(signal.SIGUSR1, enough)
    try:
        with ThreadPoolExecutor(2) as pool:
            first = pool.submit(stage.do, stage.wait)
            stage.has_begun.wait()
            signalling = pool.submit(signal_in_time)
            with pytest.raises(Enough):
                stage.do(put, [1])
            stage.gate.set()
            first.result()
            signalling.result()
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert stage.do(put, [2]) == [4]
    assert stage.numbers() == [2]


async def test_closing_waits_for_who_is_at_it_and_refuses_the_next(stage: Stage) -> None:
    with ThreadPoolExecutor(2) as pool:
        first: Future[None] = pool.submit(stage.do, stage.wait)
        await asyncio.to_thread(stage.has_begun.wait)
        second = pool.submit(stage.do, put, [1])
        await handed_in(stage, 1)
        closing = asyncio.create_task(stage.desk.close())
        await asyncio.sleep(0)
        assert not closing.done()
        stage.gate.set()
        await asyncio.wrap_future(first)
        assert await asyncio.wrap_future(second) == [2], "handed in before"
        await closing
    with pytest.raises(StoreUnavailable, match="closed"):
        stage.do(put, [2])
    with pytest.raises(StoreUnavailable, match="closed"):
        await stage.desk.run(put, [2])


async def test_who_slips_in_while_it_closes_is_answered(stage: Stage) -> None:
    """It came when the thread had already looked for the last time."""
    await stage.desk.close()
    with pytest.raises(StoreUnavailable, match="closed"):
        await asyncio.wait_for(stage.desk.run(put, [1]), 60)


async def test_a_store_on_a_file_works_by_hand_and_one_in_memory_does_not(tmp_path: Path) -> None:
    store = await SqliteStore.open(tmp_path / "rota.db")
    job = new_job()
    assert store.by_hand is not None
    assert [answer.job_id for answer in at_once(store.by_hand.insert([job]))] == [job.id]
    assert [one.id for one in at_once(store.by_hand.get([job.id]))] == [job.id]
    await store.close()
    in_memory = await SqliteStore.open(":memory:")
    assert in_memory.by_hand is None
    await in_memory.close()
