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

from builders import new_job
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


class WriterEnvironment:
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
async def env(tmp_path: Path) -> AsyncIterator[WriterEnvironment]:
    one = WriterEnvironment(tmp_path / "numbers.db")
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


async def queued(env: WriterEnvironment, count: int) -> None:
    async with asyncio.timeout(60):
        while len(env.writer._queue) < count:  # noqa: ASYNC110 - no event for it
            await asyncio.sleep(0.001)


def test_a_caller_that_is_alone_runs_its_own_operation(env: WriterEnvironment) -> None:
    threads: list[int] = []

    def verb(connection: SqliteConnection) -> str:
        del connection
        threads.append(threading.get_ident())
        return "done"

    assert env.do(verb) == "done"
    assert threads == [threading.get_ident()]


async def test_callers_that_arrive_during_an_operation_share_one_commit(env: WriterEnvironment) -> None:
    with ThreadPoolExecutor(9) as pool:
        first = pool.submit(env.do, env.wait)
        await asyncio.to_thread(env.has_begun.wait)
        blocking = [pool.submit(env.do, put, [number], mode=MERGEABLE) for number in range(8)]
        suspended = [asyncio.create_task(env.writer.run(put, [number], mode=MERGEABLE)) for number in range(8, 16)]
        await queued(env, 16)
        env.gate.set()
        assert [await asyncio.wrap_future(one) for one in (first, *blocking)] == [None, *([2 * n] for n in range(8))]
        assert await asyncio.gather(*suspended) == [[2 * number] for number in range(8, 16)]
    assert env.numbers() == list(range(16))
    assert env.commits == 2, "the first one's, and one for all others"


async def test_a_failing_operation_does_not_fail_the_others_of_its_batch(env: WriterEnvironment) -> None:
    def fail(connection: SqliteConnection) -> None:
        put(connection, [13])
        raise ValueError("13")

    with ThreadPoolExecutor(3) as pool:
        first = pool.submit(env.do, env.wait)
        await asyncio.to_thread(env.has_begun.wait)
        calls = [pool.submit(env.do, put, [1]), pool.submit(env.do, fail)]
        await queued(env, 2)
        env.gate.set()
        await asyncio.wrap_future(first)
        assert await asyncio.wrap_future(calls[0]) == [2]
        with pytest.raises(ValueError, match="13"):
            await asyncio.wrap_future(calls[1])
    with pytest.raises(ValueError, match="13"):
        env.do(fail)
    assert env.numbers() == [1]


READS_FIRST = OperationMode(reads_first=True)


def test_a_committed_single_statement_is_not_repeated_when_its_results_cannot_be_distributed(
    env: WriterEnvironment,
) -> None:
    def in_one_statement(connection: SqliteConnection, numbers: list[int]) -> int:
        return connection.run("INSERT INTO number SELECT value FROM json_each(?)", (str(numbers),))

    together = OperationMode(is_mergeable=True, single_statement=in_one_statement)
    with env.writer.lock, pytest.raises(TypeError):
        run_in_transaction(env.connection, [QueuedCall(put, ([number],), together) for number in (1, 2)])
    assert env.numbers() == [1, 2]


async def test_a_failing_operation_that_reads_first_does_not_fail_the_others_of_its_batch(
    env: WriterEnvironment,
) -> None:
    def put_unless(connection: SqliteConnection, numbers: list[int]) -> list[int]:
        if numbers == [13]:
            raise ValueError("13")
        return put(connection, numbers)

    first = asyncio.create_task(asyncio.to_thread(env.do, env.wait))
    await asyncio.to_thread(env.has_begun.wait)
    calls = [asyncio.create_task(env.writer.run(put_unless, [number], mode=READS_FIRST)) for number in (1, 13, 2)]
    await queued(env, 3)
    env.gate.set()
    await first
    answers = await asyncio.gather(*calls, return_exceptions=True)
    assert [answers[0], answers[2]] == [[2], [4]]
    assert isinstance(answers[1], ValueError)
    assert env.numbers() == [1, 2]


def highest(connection: SqliteConnection) -> int:
    ((found,),) = connection.rows("SELECT max(number) FROM number")
    return found or 0


def test_an_operation_that_reads_first_and_writes_nothing_needs_no_lock(env: WriterEnvironment) -> None:
    other = sqlite3.connect(env.path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    assert env.do(highest, mode=READS_FIRST) == 0
    other.close()


@pytest.mark.parametrize("times", [1, 10], ids=["once", "again and again"])
def test_a_write_after_a_read_is_repeated_when_another_process_wrote_in_between(
    env: WriterEnvironment, times: int
) -> None:
    """Otherwise a value that no longer holds would be written."""
    other = sqlite3.connect(env.path, isolation_level=None, timeout=0)
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

    answer = env.do(put_next, mode=READS_FIRST)
    other.close()
    assert answer == max(env.numbers())
    assert env.numbers() == list(range(1, answer + 1))
    assert answer == 1 + min(times, READ_FIRST_ATTEMPTS)


def interrupt() -> None:
    raise KeyboardInterrupt


@pytest.mark.parametrize("statement", ["BEGIN IMMEDIATE", "INSERT INTO number VALUES (?)", "COMMIT"])
def test_a_signal_during_an_operation_leaves_nothing_behind(env: WriterEnvironment, statement: str) -> None:
    env.connection.interrupt_at = statement
    with pytest.raises(KeyboardInterrupt):
        env.do(put, [1])
    assert env.numbers() == []
    assert env.do(put, [2]) == [4]
    assert env.numbers() == [2]


def test_a_timeout_right_after_begin_leaves_nothing_behind(env: WriterEnvironment) -> None:
    """A signal handler may raise any error. The next operation ran in the open transaction and was acknowledged."""
    run = env.connection.run

    def late(sql: str, parameters: Parameters = ()) -> int:
        env.connection.run = run  # type: ignore[method-assign]
        run(sql, parameters)
        raise TimeoutError("by a signal")

    env.connection.run = late  # type: ignore[method-assign]
    with pytest.raises(TimeoutError):
        env.do(put, [1])
    assert env.connection.statements[0] == "BEGIN IMMEDIATE"
    assert env.numbers() == []
    env.do(put, [2])
    assert env.numbers() == [2]


def test_after_two_signals_the_next_operation_rolls_back(env: WriterEnvironment) -> None:
    env.connection.interrupt_at = "ROLLBACK"
    with pytest.raises(KeyboardInterrupt):
        env.do(put_and(interrupt))
    assert env.do(put, [2]) == [4]
    assert env.numbers() == [2]


def test_a_nested_call_is_refused_and_does_not_deadlock(env: WriterEnvironment) -> None:
    with pytest.raises(RuntimeError, match="during another call"):
        env.do(put_and(lambda: env.do(put, [2])))
    assert env.do(put, [3]) == [6]
    assert env.numbers() == [3]


def test_a_nested_call_right_after_the_lock_was_taken_is_refused_and_does_not_deadlock(env: WriterEnvironment) -> None:
    """A signal may arrive when the lock is taken and no operation has begun."""
    serve = env.writer._run_batch

    def interrupted(batch: list[QueuedCall]) -> None:
        env.do(put, [2])
        serve(batch)

    env.writer._run_batch = interrupted  # type: ignore[method-assign]
    refused: Future[Any] = Future()

    def call() -> None:
        try:
            refused.set_result(env.do(put, [1]))
        except RuntimeError as error:
            refused.set_exception(error)

    threading.Thread(target=call, daemon=True).start()
    with pytest.raises(RuntimeError, match="during another call"):
        refused.result(10)
    env.writer._run_batch = serve  # type: ignore[method-assign]
    assert env.do(put, [3]) == [6]
    assert env.numbers() == [3]


async def test_a_call_by_a_finalizer_on_the_writers_thread_is_refused(env: WriterEnvironment) -> None:
    """It may run at any moment, also between two operations."""
    gather = env.writer._next_batch
    errors: list[Exception] = []

    def finalize() -> list[QueuedCall]:
        env.writer._next_batch = gather  # type: ignore[method-assign]
        try:
            env.do(put, [2])
        except RuntimeError as error:
            errors.append(error)
        return gather()

    env.writer._next_batch = finalize  # type: ignore[method-assign]
    assert await asyncio.wait_for(env.writer.run(put, [1]), 10) == [2]
    assert len(errors) == 1
    assert env.numbers() == [1]


async def test_an_operation_whose_caller_stopped_waiting_is_not_run(env: WriterEnvironment) -> None:
    class Enough(Exception):
        pass

    def enough(*_: object) -> None:
        raise Enough

    def signal_in_time() -> None:
        while not env.writer._queue:
            env.gate.wait(0.001)
        signal.pthread_kill(main, signal.SIGUSR1)

    assert threading.current_thread() is threading.main_thread()
    main = threading.get_ident()
    before = signal.signal(signal.SIGUSR1, enough)
    try:
        with ThreadPoolExecutor(2) as pool:
            first = pool.submit(env.do, env.wait)
            env.has_begun.wait()
            signalling = pool.submit(signal_in_time)
            with pytest.raises(Enough):
                env.do(put, [1])
            env.gate.set()
            first.result()
            signalling.result()
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert env.do(put, [2]) == [4]
    assert env.numbers() == [2]


async def test_closing_waits_for_running_and_queued_operations_and_refuses_later_ones(env: WriterEnvironment) -> None:
    with ThreadPoolExecutor(2) as pool:
        first: Future[None] = pool.submit(env.do, env.wait)
        await asyncio.to_thread(env.has_begun.wait)
        second = pool.submit(env.do, put, [1])
        await queued(env, 1)
        closing = asyncio.create_task(env.writer.close())
        await asyncio.sleep(0)
        assert not closing.done()
        env.gate.set()
        await asyncio.wrap_future(first)
        assert await asyncio.wrap_future(second) == [2], "handed in before"
        await closing
    with pytest.raises(StoreUnavailable, match="closed"):
        env.do(put, [2])
    with pytest.raises(StoreUnavailable, match="closed"):
        await env.writer.run(put, [2])


async def test_an_operation_queued_after_the_thread_ended_is_refused(env: WriterEnvironment) -> None:
    """The thread had already looked at its queue for the last time."""
    await env.writer.close()
    with pytest.raises(StoreUnavailable, match="closed"):
        await asyncio.wait_for(env.writer.run(put, [1]), 60)


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
