"""The writer: callers without an event loop run their own operation, or share a commit, and never damage others."""

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
from rota.ports.caller_tx import run_sync
from rota.stores.sqlite import SqliteStore
from rota.stores.sqlite.driver import Parameters, SqliteConnection, StandardConnection
from rota.stores.sqlite.group_commit import (
    MERGEABLE,
    PLAIN,
    READ_FIRST_ATTEMPTS,
    OperationMode,
    QueuedCall,
    Verb,
    run_in_transaction,
)
from rota.stores.sqlite.writer import WriterThread


class Recorded(StandardConnection):
    """A connection that records its statements, and can be interrupted."""

    def __init__(self, location: str) -> None:
        super().__init__(location)
        self.statements: list[str] = []
        self.interrupt_at: str | None = None

    def run(self, sql: str, parameters: Parameters = ()) -> int:
        self.statements.append(sql)
        if sql == self.interrupt_at:
            self.interrupt_at = None
            raise KeyboardInterrupt
        return super().run(sql, parameters)


class Stage:
    """A writer on a table of numbers."""

    def __init__(self, path: Path) -> None:
        self.path = path
        with sqlite3.connect(path) as connection:
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("CREATE TABLE number (number INTEGER)")
        connection.close()
        self.connection = Recorded(str(path))
        self.writer = WriterThread("writer", lambda: self.connection, notify=lambda _: None)
        self.gate, self.has_begun = threading.Event(), threading.Event()

    def numbers(self) -> list[int]:
        """Read over another connection, which also shows that no lock was left."""
        connection = sqlite3.connect(self.path, isolation_level=None, timeout=0)
        connection.execute("BEGIN IMMEDIATE")
        rows = connection.execute("SELECT number FROM number ORDER BY number").fetchall()
        connection.close()
        return [number for (number,) in rows]

    def wait(self, connection: SqliteConnection) -> None:
        """Keep the running thread busy until the gate is open."""
        del connection
        self.has_begun.set()
        self.gate.wait()

    def do(self, verb: Verb, *arguments: object, mode: OperationMode = PLAIN) -> Any:  # noqa: ANN401 - as the verb does
        return self.writer.run_blocking(QueuedCall(verb, arguments, mode))

    @property
    def commits(self) -> int:
        return self.connection.statements.count("COMMIT")


@pytest.fixture
async def stage(tmp_path: Path) -> AsyncIterator[Stage]:
    one = Stage(tmp_path / "numbers.db")
    yield one
    one.gate.set()
    await one.writer.close()


def put(connection: SqliteConnection, numbers: list[int]) -> list[int]:
    for number in numbers:
        connection.run("INSERT INTO number VALUES (?)", (number,))
    return [2 * number for number in numbers]


def put_and(act: Callable[[], object]) -> Callable[[SqliteConnection], Any]:
    def verb(connection: SqliteConnection) -> None:
        put(connection, [1])
        act()

    return verb


async def queued(stage: Stage, count: int) -> None:
    async with asyncio.timeout(60):
        while len(stage.writer._queue) < count:  # noqa: ASYNC110 - no event for it
            await asyncio.sleep(0.001)


def test_a_caller_that_is_alone_runs_its_own_operation(stage: Stage) -> None:
    threads: list[int] = []

    def verb(connection: SqliteConnection) -> str:
        del connection
        threads.append(threading.get_ident())
        return "done"

    assert stage.do(verb) == "done"
    assert threads == [threading.get_ident()]


async def test_callers_that_arrive_during_an_operation_share_one_commit(stage: Stage) -> None:
    with ThreadPoolExecutor(9) as pool:
        first = pool.submit(stage.do, stage.wait)
        await asyncio.to_thread(stage.has_begun.wait)
        blocking = [pool.submit(stage.do, put, [number], mode=MERGEABLE) for number in range(8)]
        suspended = [asyncio.create_task(stage.writer.run(put, [number], mode=MERGEABLE)) for number in range(8, 16)]
        await queued(stage, 16)
        stage.gate.set()
        assert [await asyncio.wrap_future(one) for one in (first, *blocking)] == [None, *([2 * n] for n in range(8))]
        assert await asyncio.gather(*suspended) == [[2 * number] for number in range(8, 16)]
    assert stage.numbers() == list(range(16))
    assert stage.commits == 2, "the first one's, and one for all others"


async def test_a_failing_operation_does_not_fail_the_others_of_its_batch(stage: Stage) -> None:
    def fail(connection: SqliteConnection) -> None:
        put(connection, [13])
        raise ValueError("13")

    with ThreadPoolExecutor(3) as pool:
        first = pool.submit(stage.do, stage.wait)
        await asyncio.to_thread(stage.has_begun.wait)
        calls = [pool.submit(stage.do, put, [1]), pool.submit(stage.do, fail)]
        await queued(stage, 2)
        stage.gate.set()
        await asyncio.wrap_future(first)
        assert await asyncio.wrap_future(calls[0]) == [2]
        with pytest.raises(ValueError, match="13"):
            await asyncio.wrap_future(calls[1])
    with pytest.raises(ValueError, match="13"):
        stage.do(fail)
    assert stage.numbers() == [1]


READS_FIRST = OperationMode(reads_first=True)


def test_a_committed_single_statement_is_not_repeated_when_its_results_cannot_be_distributed(stage: Stage) -> None:
    def in_one_statement(connection: SqliteConnection, numbers: list[int]) -> int:
        return connection.run("INSERT INTO number SELECT value FROM json_each(?)", (str(numbers),))

    together = OperationMode(is_mergeable=True, single_statement=in_one_statement)
    with stage.writer.lock, pytest.raises(TypeError):
        run_in_transaction(stage.connection, [QueuedCall(put, ([number],), together) for number in (1, 2)])
    assert stage.numbers() == [1, 2]


async def test_a_failing_operation_that_reads_first_does_not_fail_the_others_of_its_batch(stage: Stage) -> None:
    def put_unless(connection: SqliteConnection, numbers: list[int]) -> list[int]:
        if numbers == [13]:
            raise ValueError("13")
        return put(connection, numbers)

    first = asyncio.create_task(asyncio.to_thread(stage.do, stage.wait))
    await asyncio.to_thread(stage.has_begun.wait)
    calls = [asyncio.create_task(stage.writer.run(put_unless, [number], mode=READS_FIRST)) for number in (1, 13, 2)]
    await queued(stage, 3)
    stage.gate.set()
    await first
    answers = await asyncio.gather(*calls, return_exceptions=True)
    assert [answers[0], answers[2]] == [[2], [4]]
    assert isinstance(answers[1], ValueError)
    assert stage.numbers() == [1, 2]


def highest(connection: SqliteConnection) -> int:
    ((found,),) = connection.rows("SELECT max(number) FROM number")
    return found or 0


def test_an_operation_that_reads_first_and_writes_nothing_needs_no_lock(stage: Stage) -> None:
    other = sqlite3.connect(stage.path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    assert stage.do(highest, mode=READS_FIRST) == 0
    other.close()


@pytest.mark.parametrize("times", [1, 10], ids=["once", "again and again"])
def test_a_write_after_a_read_is_repeated_when_another_process_wrote_in_between(stage: Stage, times: int) -> None:
    """Otherwise a value that no longer holds would be written."""
    other = sqlite3.connect(stage.path, isolation_level=None, timeout=0)
    left = [5] * times

    def put_next(connection: SqliteConnection) -> int:
        number = highest(connection) + 1
        if left:
            left.pop()
            try:
                other.execute("INSERT INTO number SELECT coalesce(max(number), 0) + 1 FROM number")
            except sqlite3.OperationalError:
                left.clear()  # the lock is ours by now
        put(connection, [number])
        return number

    answer = stage.do(put_next, mode=READS_FIRST)
    other.close()
    assert answer == max(stage.numbers())
    assert stage.numbers() == list(range(1, answer + 1))
    assert answer == 1 + min(times, READ_FIRST_ATTEMPTS)


def interrupt() -> None:
    raise KeyboardInterrupt


@pytest.mark.parametrize("statement", ["BEGIN IMMEDIATE", "INSERT INTO number VALUES (?)", "COMMIT"])
def test_a_signal_during_an_operation_leaves_nothing_behind(stage: Stage, statement: str) -> None:
    stage.connection.interrupt_at = statement
    with pytest.raises(KeyboardInterrupt):
        stage.do(put, [1])
    assert stage.numbers() == []
    assert stage.do(put, [2]) == [4]
    assert stage.numbers() == [2]


def test_a_timeout_right_after_begin_leaves_nothing_behind(stage: Stage) -> None:
    """A signal handler may raise any error. The next operation ran in the open transaction and was acknowledged."""
    run = stage.connection.run

    def late(sql: str, parameters: Parameters = ()) -> int:
        stage.connection.run = run  # type: ignore[method-assign]
        run(sql, parameters)
        raise TimeoutError("by a signal")

    stage.connection.run = late  # type: ignore[method-assign]
    with pytest.raises(TimeoutError):
        stage.do(put, [1])
    assert stage.connection.statements[0] == "BEGIN IMMEDIATE"
    assert stage.numbers() == []
    stage.do(put, [2])
    assert stage.numbers() == [2]


def test_after_two_signals_the_next_operation_rolls_back(stage: Stage) -> None:
    stage.connection.interrupt_at = "ROLLBACK"
    with pytest.raises(KeyboardInterrupt):
        stage.do(put_and(interrupt))
    assert stage.do(put, [2]) == [4]
    assert stage.numbers() == [2]


def test_a_nested_call_is_refused_and_does_not_deadlock(stage: Stage) -> None:
    with pytest.raises(RuntimeError, match="during another call"):
        stage.do(put_and(lambda: stage.do(put, [2])))
    assert stage.do(put, [3]) == [6]
    assert stage.numbers() == [3]


def test_a_nested_call_right_after_the_lock_was_taken_is_refused_and_does_not_deadlock(stage: Stage) -> None:
    """A signal may arrive when the lock is taken and no operation has begun."""
    serve = stage.writer._run_batch

    def interrupted(batch: list[QueuedCall]) -> None:
        stage.do(put, [2])
        serve(batch)

    stage.writer._run_batch = interrupted  # type: ignore[method-assign]
    refused: Future[Any] = Future()

    def call() -> None:
        try:
            refused.set_result(stage.do(put, [1]))
        except RuntimeError as error:
            refused.set_exception(error)

    threading.Thread(target=call, daemon=True).start()
    with pytest.raises(RuntimeError, match="during another call"):
        refused.result(10)
    stage.writer._run_batch = serve  # type: ignore[method-assign]
    assert stage.do(put, [3]) == [6]
    assert stage.numbers() == [3]


async def test_a_call_by_a_finalizer_on_the_writers_thread_is_refused(stage: Stage) -> None:
    """It may run at any moment, also between two operations."""
    gather = stage.writer._next_batch
    errors: list[Exception] = []

    def finalize() -> list[QueuedCall]:
        stage.writer._next_batch = gather  # type: ignore[method-assign]
        try:
            stage.do(put, [2])
        except RuntimeError as error:
            errors.append(error)
        return gather()

    stage.writer._next_batch = finalize  # type: ignore[method-assign]
    assert await asyncio.wait_for(stage.writer.run(put, [1]), 10) == [2]
    assert len(errors) == 1
    assert stage.numbers() == [1]


async def test_an_operation_whose_caller_stopped_waiting_is_not_run(stage: Stage) -> None:
    class Enough(Exception):
        pass

    def enough(*_: object) -> None:
        raise Enough

    def signal_in_time() -> None:
        while not stage.writer._queue:
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


async def test_closing_waits_for_running_and_queued_operations_and_refuses_later_ones(stage: Stage) -> None:
    with ThreadPoolExecutor(2) as pool:
        first: Future[None] = pool.submit(stage.do, stage.wait)
        await asyncio.to_thread(stage.has_begun.wait)
        second = pool.submit(stage.do, put, [1])
        await queued(stage, 1)
        closing = asyncio.create_task(stage.writer.close())
        await asyncio.sleep(0)
        assert not closing.done()
        stage.gate.set()
        await asyncio.wrap_future(first)
        assert await asyncio.wrap_future(second) == [2], "handed in before"
        await closing
    with pytest.raises(StoreUnavailable, match="closed"):
        stage.do(put, [2])
    with pytest.raises(StoreUnavailable, match="closed"):
        await stage.writer.run(put, [2])


async def test_an_operation_queued_after_the_thread_ended_is_refused(stage: Stage) -> None:
    """The thread had already looked at its queue for the last time."""
    await stage.writer.close()
    with pytest.raises(StoreUnavailable, match="closed"):
        await asyncio.wait_for(stage.writer.run(put, [1]), 60)


async def test_a_store_on_a_file_has_a_blocking_form_and_one_in_memory_has_none(tmp_path: Path) -> None:
    store = await SqliteStore.open(tmp_path / "rota.db")
    job = new_job()
    assert store.blocking is not None
    assert [answer.job_id for answer in run_sync(store.blocking.insert([job]))] == [job.id]
    assert [one.id for one in run_sync(store.blocking.get([job.id]))] == [job.id]
    await store.close()
    in_memory = await SqliteStore.open(":memory:")
    assert in_memory.blocking is None
    await in_memory.close()
