"""Pipelining: statements that fail, lost connections, servers that do not respond, proxies."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import replace

import pytest

from builders import BASE, claim, ids_of, new_job, new_jobs
from rota.core.lifecycle import Event, State
from rota.core.queue import Queue
from rota.core.submission import NewJob
from rota.ports.store import Receipt
from rota.stores.mysql import MysqlStore, insert, pipeline
from rota.stores.mysql.driver import LOCK_WAIT_SECONDS, MysqlConnection, connect
from rota.stores.mysql.errors import ConnectionLost, ConstraintViolated, NothingSent, RetryTransaction, StatementKilled
from rota.stores.mysql.insert import FIRST_BATCH, MIN_SHARED_JOBS, NEXT_BATCHES
from rota.stores.mysql.location import location_of
from rota.stores.mysql.pipeline import MAX_IN_FLIGHT, MIN_BULK_ROWS, Pipeline, RowBatch
from rota.stores.mysql.statements import statement
from rota.stores.rows import plain_job_row
from servers.mariadb import shared_server
from servers.proxies import Proxy

PUT = "INSERT INTO cargo (id, text) VALUES (%s, %s)"
PUT_ID = "INSERT INTO cargo (id, text) VALUES (%s, @text)"
PUT_ALIKE = "INSERT INTO cargo (id, number, text) VALUES (%s, %s, %s)"


def batch(*rows: tuple[int, str]) -> RowBatch:
    ids, texts = zip(*rows, strict=True)
    return PUT, ids, texts


async def connected(url: str) -> MysqlConnection:
    return await connect(location_of(url), "test", autocommit=False)


@pytest.fixture
async def connection(url: str) -> AsyncIterator[MysqlConnection]:
    """Return a connection, and a table to insert into."""
    connection = await connected(url)
    await connection.run(
        """CREATE TEMPORARY TABLE cargo (id BIGINT PRIMARY KEY, number BIGINT, text LONGTEXT NOT NULL)
        CHARACTER SET utf8mb4"""
    )
    yield connection
    connection.abandon()


def end(connection: MysqlConnection) -> None:
    """Have the server end a connection."""
    shared_server().execute(f"KILL {connection._raw.thread_id()}")


async def cargo(connection: MysqlConnection) -> dict[int, str]:
    return dict(await connection.rows("SELECT id, text FROM cargo ORDER BY id"))


async def test_pipelining_is_available(connection: MysqlConnection) -> None:
    """With other private parts of the driver it would be off, and only the benchmark would notice."""
    assert connection.can_pipeline


async def test_all_that_was_sent_is_done_and_the_question_answered(connection: MysqlConnection) -> None:
    connection.defer("SET @text = %(text)s", {"text": "said once"})
    found = await connection.pipeline("SELECT 7, 'seven'", [batch((1, "one"), (2, "two")), (PUT_ID, [3, 4], None)])
    assert found == ((7, "seven"),)
    assert await cargo(connection) == {1: "one", 2: "two", 3: "said once", 4: "said once"}


async def test_a_pipeline_may_have_no_query_and_no_rows(connection: MysqlConnection) -> None:
    assert await connection.pipeline(None, [batch((1, "one"))]) == ()
    assert await connection.pipeline("SELECT 7", []) == ((7,),)
    assert await connection.pipeline(None, []) == ()
    assert await cargo(connection) == {1: "one"}


@pytest.mark.parametrize("length", [0, 1, 250, 251, 255, 256, 65_535, 65_536, 300_000])
async def test_texts_of_any_length_arrive_as_they_were(connection: MysqlConnection, length: int) -> None:
    texts = {1: "x" * length, 2: ("né\\'\"\0%s😀" * length)[:length], -(2**63): "least", 2**63 - 1: "last"}
    await connection.pipeline(None, [batch(*texts.items())])
    assert await cargo(connection) == texts


def test_lengths_are_written_as_the_protocol_has_them() -> None:
    for length, written in {
        250: b"\xfa",
        251: b"\xfc\xfb\x00",
        2**16: b"\xfd\x00\x00\x01",
        2**24 - 1: b"\xfd\xff\xff\xff",
        2**24: b"\xfe" + (2**24).to_bytes(8, "little"),
    }.items():
        assert pipeline._length(length) == written


async def test_more_batches_than_may_be_in_flight(connection: MysqlConnection) -> None:
    numbers = range(10 * MAX_IN_FLIGHT)
    assert await connection.pipeline("SELECT 7", [batch((number, str(number))) for number in numbers]) == ((7,),)
    assert await cargo(connection) == {number: str(number) for number in numbers}


@pytest.mark.parametrize("place", [*range(MAX_IN_FLIGHT + 2), 20])
async def test_after_a_refusal_anywhere_every_question_has_its_own_answer(
    connection: MysqlConnection, place: int
) -> None:
    """An answer that was left unread would be taken for that of the next question."""
    await connection.pipeline(None, [batch((999, "taken"))])
    await connection.commit()
    rows = [[(number, "fresh")] for number in range(21)]
    rows[place] = [(999, "again")]
    with pytest.raises(ConstraintViolated, match="999"):
        await connection.pipeline("SELECT 7", [batch(*some) for some in rows])
    assert await connection.rows("SELECT 8") == ((8,),)
    await connection.rollback()
    assert await cargo(connection) == {999: "taken"}


@pytest.mark.parametrize("number_of_others", [1, 50])
async def test_the_first_of_several_refusals_is_told_and_nothing_is_sent_after_it(
    connection: MysqlConnection, number_of_others: int
) -> None:
    made: list[int] = []

    def batches() -> Iterator[RowBatch]:
        yield batch((7, "seven"), (8, "eight"))
        yield batch((7, "refused first"))
        for number in range(number_of_others):
            made.append(number)
            yield batch((8, "refused later"))

    with pytest.raises(ConstraintViolated, match="'7'"):
        await connection.pipeline("SELECT 7", batches())
    assert len(made) <= 2 * MAX_IN_FLIGHT
    assert await connection.rows("SELECT 8") == ((8,),)


async def test_a_question_that_is_refused_is_told(connection: MysqlConnection) -> None:
    connection.defer("SET @text = 'x'", {})
    with pytest.raises(RetryTransaction):
        await connection.pipeline("SIGNAL SQLSTATE '40001' SET MYSQL_ERRNO = 1213", [batch((1, "one"))])
    await connection.rollback()
    assert await cargo(connection) == {}


async def test_what_goes_wrong_on_our_side_leaves_the_connection_understandable(connection: MysqlConnection) -> None:
    def batches() -> Iterator[RowBatch]:
        yield batch((1, "one"), (2, "two"))
        yield batch((3, "three"), (4, "\ud800"))

    with pytest.raises(UnicodeEncodeError):
        await connection.pipeline("SELECT 7", batches())
    assert await connection.rows("SELECT 8") == ((8,),)
    await connection.rollback()
    assert await cargo(connection) == {}


async def test_what_would_have_to_be_cut_is_not_sent(connection: MysqlConnection) -> None:
    with pytest.raises(ValueError, match="too long for one packet"):
        await connection.pipeline("SELECT 7", [batch((1, "one")), batch((2, "x" * 2**24))])
    assert await connection.rows("SELECT 8") == ((8,),)


async def test_a_connection_that_ends_in_the_middle_is_lost(connection: MysqlConnection) -> None:
    def batches() -> Iterator[RowBatch]:
        yield batch((1, "one"))
        yield batch((2, "two"))
        end(connection)
        for number in range(3, 30):
            yield batch((number, "too late"))

    with pytest.raises(ConnectionLost):
        await connection.pipeline("SELECT 7", batches())
    with pytest.raises(ConnectionLost):
        await connection.rows("SELECT 8")


async def test_a_server_that_falls_silent_in_the_middle_is_given_up(connection: MysqlConnection) -> None:
    connection._response_seconds = 0.1
    with pytest.raises(ConnectionLost, match="no response"):
        await connection.pipeline("SELECT sleep(30)", [batch((1, "one"))])
    with pytest.raises(ConnectionLost):
        await connection.rows("SELECT 8")


@pytest.mark.parametrize("is_carried", [True, False])
async def test_a_server_that_falls_silent_while_a_statement_is_prepared_is_given_up(
    connection: MysqlConnection, monkeypatch: pytest.MonkeyPatch, *, is_carried: bool
) -> None:
    await connection.pipeline(None, [batch((1, "one"))])
    connection._pipeline._statement_ids.clear()
    connection._response_seconds = 0.1
    monkeypatch.setattr(connection._pipeline, "_raw", NoResponse(connection._pipeline._raw))
    if is_carried:
        carry(connection, [2])
        # Nothing was sent that could have been done.
        with pytest.raises(NothingSent):
            await connection.commit()
    else:
        with pytest.raises(ConnectionLost, match="no response"):
            await connection.pipeline(None, [batch((2, "two"))])


class NoResponse:
    """A connection whose server says nothing when something is to be prepared."""

    def __init__(self, raw: object) -> None:
        self._raw = raw

    def __getattr__(self, name: str) -> object:
        return getattr(self._raw, name)

    async def prepare(self, _sql: str) -> None:
        await asyncio.Event().wait()


async def test_pipelining_is_off_where_no_statement_can_be_prepared(connection: MysqlConnection) -> None:
    with pytest.raises(RetryTransaction):
        await connection.pipeline("SELECT 7", [batch((1, "one")), ("INSERT INTO nowhere VALUES (%s)", [1], None)])
    assert not connection.can_pipeline
    assert await connection.rows("SELECT 8") == ((8,),)


@pytest.mark.parametrize("number", [1, 2, 300])
async def test_a_change_of_many_rows_of_which_some_are_not_made_fails(connection: MysqlConnection, number: int) -> None:
    """MariaDB says that all is well where it was ended in the midst; how many it has changed is all there is to see."""
    await connection.pipeline(None, [batch(*[(one, "old") for one in range(number)])])
    change = "UPDATE cargo SET text = %s WHERE id = %s"
    await connection.update_each(change, [("new", one) for one in range(number)])
    # As they were: found, and so there.
    await connection.update_each(change, [("new", one) for one in range(number)])
    with pytest.raises(StatementKilled, match=f"{number - 1} of {number}"):
        await connection.update_each(change, [("newer", one) for one in range(1, number + 1)])


# Rows that go ahead of a script


def carry(connection: MysqlConnection, numbers: Sequence[int], text: str = "alike") -> None:
    connection.insert_bulk(PUT_ALIKE, (numbers, [number // 2 for number in numbers]), (text,))


@pytest.mark.parametrize("text", ["", "né\\'\"\0%s😀", "x" * 250, "x" * 251, "x" * 70_000])
async def test_rows_that_have_something_in_common_arrive_as_they_were(connection: MysqlConnection, text: str) -> None:
    numbers = [-(2**63), -1, 0, 7, 2**63 - 1]
    carry(connection, numbers, text)
    found = await connection.rows("SELECT id, number, text FROM cargo ORDER BY id")
    assert found == tuple((number, number // 2, text) for number in numbers)


async def test_what_was_put_off_finds_the_rows_there_and_so_does_the_commit(connection: MysqlConnection) -> None:
    connection.defer("UPDATE cargo SET text = %(text)s WHERE id = 1", {"text": "changed"})
    carry(connection, [1, 2])
    await connection.commit()
    await connection.rollback()
    assert await cargo(connection) == {1: "changed", 2: "alike"}


async def test_whatever_comes_next_finds_the_rows_there(connection: MysqlConnection) -> None:
    carry(connection, [1])
    assert await connection.run("UPDATE cargo SET text = 'changed'") == 1
    carry(connection, [2])
    await connection.many("UPDATE cargo SET text = %s WHERE id = %s", [("second", 2), ("first", 1)])
    carry(connection, [3])
    await connection.pipeline("UPDATE cargo SET text = 'third' WHERE id = 3", [(PUT, [4], ["fourth"])])
    assert await cargo(connection) == {1: "first", 2: "second", 3: "third", 4: "fourth"}


async def test_more_rows_than_a_packet_takes_and_several_kinds_of_them(connection: MysqlConnection) -> None:
    carry(connection, range(2_500))
    carry(connection, range(3_000, 3_010), "x" * 100_000)
    await connection.commit()
    assert await connection.rows("SELECT count(*), max(number) FROM cargo") == ((2_510, 1_504),)


@pytest.mark.parametrize("is_carried", [True, False])
@pytest.mark.parametrize("place", range(6))
async def test_of_many_statements_that_end_with_the_commit_none_is_done_if_one_is_refused(
    connection: MysqlConnection, place: int, *, is_carried: bool
) -> None:
    await connection.many(PUT, [(7, "taken"), (8, "taken")])
    await connection.commit()
    for number in range(10, 16):
        connection.defer(PUT, (7 if number == place + 10 else number, "fresh"))
    if is_carried:
        carry(connection, [1, 2, 3])
    with pytest.raises(ConstraintViolated, match="'7'"):
        await connection.commit()
    assert await connection.rows("SELECT 8") == ((8,),)
    await connection.rollback()
    assert await cargo(connection) == {7: "taken", 8: "taken"}


async def test_a_statement_without_lock_wait_does_not_change_the_wait_of_the_next_ones(
    connection: MysqlConnection, store: MysqlStore, url: str
) -> None:
    assert await store.check() == []
    other = await connected(url)
    await other.run("INSERT INTO rota_queue_lock VALUES ('taken')")
    for name in ("one", "two", "three", "taken"):
        connection.defer(
            "SET STATEMENT innodb_lock_wait_timeout = 0 FOR INSERT INTO rota_queue_lock VALUES (%(name)s)",
            {"name": name},
        )
    with pytest.raises(RetryTransaction):
        await connection.commit()
    await connection.rollback()
    assert await connection.rows("SELECT @@innodb_lock_wait_timeout") == ((LOCK_WAIT_SECONDS,),)
    await other.rollback()
    await other.close()


@pytest.mark.parametrize("number", [1, 2, 10])
async def test_all_that_was_put_off_is_done_with_the_commit(connection: MysqlConnection, number: int) -> None:
    for one in range(number):
        connection.defer(PUT, (one, "né\\'\"; END; %s😀"))
    await connection.commit()
    await connection.rollback()
    assert await cargo(connection) == dict.fromkeys(range(number), "né\\'\"; END; %s😀")


async def test_what_was_undone_is_not_sent(connection: MysqlConnection) -> None:
    carry(connection, [1])
    await connection.rollback()
    assert await cargo(connection) == {}


@pytest.mark.parametrize("numbers", [[7, 8, 9], [9, 8, 7], [*range(2_000), 7]])
@pytest.mark.parametrize("deferred", [1, 5])
async def test_if_a_row_is_refused_nothing_is_committed_that_was_sent_behind_it(
    connection: MysqlConnection, numbers: list[int], deferred: int
) -> None:
    """The commit is under way by then, and the last statement that was answered stored as many."""
    await connection.many(PUT, [(7, "taken"), (8, "taken"), (3_000, "taken")])
    await connection.commit()
    await connection.many(PUT, [(4_000 + place, "not yet") for place in range(len(numbers))])
    for _ in range(deferred):
        connection.defer("DELETE FROM cargo WHERE id = 3000", {})
    carry(connection, numbers)
    with pytest.raises(ConstraintViolated):
        await connection.commit()
    assert await connection.rows("SELECT 8") == ((8,),)
    await connection.rollback()
    assert await cargo(connection) == {7: "taken", 8: "taken", 3_000: "taken"}


async def test_if_a_row_yields_to_others_nothing_is_committed_that_was_sent_behind_it(
    connection: MysqlConnection, store: MysqlStore, url: str
) -> None:
    assert await store.check() == []
    other = await connected(url)
    await connection.run("SET SESSION innodb_lock_wait_timeout = 0")
    await other.run("INSERT INTO rota_pruned VALUES ('completed', 1)")
    await connection.run("INSERT INTO rota_queue_lock VALUES ('before')")
    connection.defer("INSERT INTO rota_queue_lock VALUES ('behind')", {})
    connection.insert_bulk("INSERT INTO rota_pruned (count, state) VALUES (%s, %s)", ([1],), ("completed",))
    with pytest.raises(RetryTransaction):
        await connection.commit()
    await connection.rollback()
    await other.rollback()
    assert await other.rows("SELECT queue FROM rota_queue_lock") == ()
    await other.close()


def test_pipelining_is_off_without_the_private_parts_of_the_driver() -> None:
    class Otherwise:
        _bulk_supported = True
        _write_bytes = None

    assert not Pipeline(Otherwise()).is_available


class HalfDuplexProxy(Proxy):
    """Passes on one command, and reads nothing more from the client until the server has answered it."""

    unheard = 0

    async def _serve(self, raw: socket.socket) -> None:
        client, to_client = await asyncio.open_connection(sock=raw)
        server, to_server = await asyncio.open_connection("127.0.0.1", self.server_port)
        is_answered = asyncio.Event()
        is_answered.set()

        async def answer() -> None:
            while data := await server.read(65_536):
                is_answered.set()
                to_client.write(data)

        answering = asyncio.ensure_future(answer())
        try:
            while True:
                header = await client.readexactly(4)
                packet = header + await client.readexactly(int.from_bytes(header[:3], "little"))
                if is_answered.is_set():
                    is_answered.clear()
                    to_server.write(packet)
                else:
                    self.unheard += 1
        except asyncio.IncompleteReadError:
            pass
        finally:
            answering.cancel()
            to_server.close()
            to_client.close()


async def test_through_a_proxy_that_hears_one_command_at_a_time_all_is_stored_without_pipelining(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pipeline, "SELF_TEST_SECONDS", 0.5)
    with HalfDuplexProxy(shared_server().port) as proxy:
        store = await MysqlStore.open(proxy.through(url))
        for _ in range(3):
            assert {answer.receipt for answer in await store.insert(many())} == {Receipt.CREATED}
        assert proxy.unheard == 1
        assert await total(store) == 3 * len(many())
        await store.close()


class SlowProxy(Proxy):
    """Passes on each answer of the server after a delay."""

    async def _serve(self, raw: socket.socket) -> None:
        client, to_client = await asyncio.open_connection(sock=raw)
        server, to_server = await asyncio.open_connection("127.0.0.1", self.server_port)

        async def answer() -> None:
            while data := await server.read(65_536):
                await asyncio.sleep(0.2)
                to_client.write(data)

        answering = asyncio.ensure_future(answer())
        try:
            while data := await client.read(65_536):
                to_server.write(data)
        finally:
            answering.cancel()
            to_server.close()
            to_client.close()


async def test_the_ping_before_the_test_of_pipelining_has_the_usual_time(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It had the time of the test. On a busy machine the connection seemed to be lost, and the job was not stored."""
    with SlowProxy(shared_server().port) as proxy:
        connection = await connect(location_of(proxy.through(url)), "test", autocommit=False)
        monkeypatch.setattr(pipeline, "SELF_TEST_SECONDS", 0.05)
        with pytest.raises(pipeline.PipeliningBroken):
            await connection._pipeline._test_pipelining(5.0)
        connection.abandon()


async def test_through_a_proxy_that_hears_one_command_at_a_time_jobs_run_without_pipelining(
    url: str, store: MysqlStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is noticed at the commit, when nothing was sent yet: so the transaction is run again."""
    monkeypatch.setattr(pipeline, "SELF_TEST_SECONDS", 0.5)
    jobs = new_jobs(2 * MIN_BULK_ROWS)
    await store.insert(jobs)
    with HalfDuplexProxy(shared_server().port) as proxy:
        hindered = await MysqlStore.open(proxy.through(url))
        await run_all(hindered, jobs)
        assert proxy.unheard == 1
        await hindered.close()


async def test_jobs_run_though_no_statement_can_be_prepared(store: MysqlStore) -> None:
    jobs = new_jobs(2 * MIN_BULK_ROWS)
    await store.insert(jobs)
    server = shared_server()
    server.execute("SET GLOBAL max_prepared_stmt_count = 0")
    try:
        await run_all(store, jobs)
    finally:
        server.execute("SET GLOBAL max_prepared_stmt_count = 16382")


async def run_all(store: MysqlStore, jobs: Sequence[NewJob]) -> None:
    """Claim and complete jobs, all at once."""
    claimed = await store.claim(claim(limit=len(jobs)))
    assert ids_of(claimed) == ids_of(jobs)
    assert set(await store.settle([job.settled(Event.SUCCEED) for job in claimed])) == set(ids_of(jobs))
    assert (await store.census()).total(State.COMPLETED) == len(jobs)
    assert await store.check() == []


# The store


async def total(store: MysqlStore) -> int:
    return (await store.census()).total(State.PENDING)


def many(number: int = FIRST_BATCH + 50) -> list[NewJob]:
    return new_jobs(number, payload='{"of": "any"}')


async def test_jobs_are_stored_though_no_statement_can_be_prepared(store: MysqlStore) -> None:
    server = shared_server()
    server.execute("SET GLOBAL max_prepared_stmt_count = 0")
    try:
        answers = await store.insert(many())
    finally:
        server.execute("SET GLOBAL max_prepared_stmt_count = 16382")
    assert {answer.receipt for answer in answers} == {Receipt.CREATED}
    assert await total(store) == len(answers)


@pytest.mark.parametrize("place", [1, FIRST_BATCH + 20])
async def test_an_id_that_is_taken_is_told_and_all_others_are_stored(store: MysqlStore, place: int) -> None:
    earlier = new_job("other")
    await store.insert([earlier])
    jobs = many()
    jobs[place] = replace(jobs[place], id=earlier.id)
    answers = await store.insert(jobs)
    assert [number for number, answer in enumerate(answers) if answer.receipt is not Receipt.CREATED] == [place]
    assert answers[place].receipt is Receipt.ID_TAKEN
    assert await total(store) == len(jobs)
    assert await store.check() == []


async def test_a_job_that_differs_is_noticed_after_others_were_sent(store: MysqlStore) -> None:
    jobs = many()
    jobs[FIRST_BATCH + 20] = replace(jobs[FIRST_BATCH + 20], priority=9)
    await store.insert(jobs, now=BASE)
    assert [job.priority for job in await store.get(ids_of(jobs))] == [job.priority for job in jobs]
    assert await store.check() == []


async def test_a_whole_piece_that_differs_is_noticed(store: MysqlStore) -> None:
    end = FIRST_BATCH + NEXT_BATCHES
    jobs = many(end + 50)
    jobs[FIRST_BATCH:end] = [replace(job, priority=9) for job in jobs[FIRST_BATCH:end]]
    await store.insert(jobs, now=BASE)
    found = {job.id: job.priority for job in await store.get(ids_of(jobs))}
    assert [found[job.id] for job in jobs] == [job.priority for job in jobs]


async def test_what_is_lost_in_the_middle_is_stored_once(
    store: MysqlStore, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    jobs = many()
    await store.insert(many())
    pieces, losses = insert._batches, [1, 1]

    def lossy(some: Sequence[NewJob]) -> Iterator[Sequence[NewJob]]:
        first, *others = pieces(some)
        yield first
        if losses:
            losses.pop()
            ended = shared_server().execute(
                f"SELECT id FROM information_schema.processlist WHERE db = '{location_of(url).database}'"  # noqa: S608
            )
            shared_server().execute(*(f"KILL {number}" for number in ended.split()))
        yield from others

    monkeypatch.setattr(insert, "_batches", lossy)
    assert {answer.receipt for answer in await store.insert(jobs)} == {Receipt.CREATED}
    assert not losses
    assert await total(store) == 2 * len(jobs)
    assert await store.check() == []


async def test_a_caller_that_goes_away_in_the_middle_leaves_nothing(store: MysqlStore, url: str) -> None:
    other, jobs = await connected(url), many()
    # Not yet committed, so whoever brings the same id has to wait.
    row = plain_job_row(jobs[FIRST_BATCH + 20], 0)
    await other.many(statement("insert_plain_jobs"), [row])
    calling = asyncio.ensure_future(store.insert(jobs))
    while (await other.rows("SHOW GLOBAL STATUS LIKE 'Innodb_row_lock_current_waits'"))[0][1] == "0":  # noqa: ASYNC110 - only the server knows
        await asyncio.sleep(0.005)
    calling.cancel()
    with pytest.raises(asyncio.CancelledError):
        await calling
    await other.rollback()
    assert await total(store) == 0
    assert {answer.receipt for answer in await store.insert(jobs)} == {Receipt.CREATED}
    assert await store.check() == []
    await other.close()


@pytest.mark.parametrize("number", [1, MIN_SHARED_JOBS + 2])
async def test_a_bound_set_by_another_process_holds_from_then_on(store: MysqlStore, url: str, number: int) -> None:
    """The bounds are read again with every submission."""
    beside = await MysqlStore.open(url)

    async def created() -> int:
        answers = await store.insert(new_jobs(number))
        return [answer.receipt for answer in answers].count(Receipt.CREATED)

    assert await created() == number
    assert await beside.put_queue(Queue("default", max_depth=number + 1))
    assert await created() == 1
    assert await created() == 0
    assert await beside.put_queue(Queue("default", version=1))
    assert await created() == number
    assert await created() == number
    assert await total(store) == 3 * number + 1
    assert await store.check() == []
    await beside.close()


async def test_what_is_large_together_but_not_each_is_stored_on_a_server_that_takes_little(url: str) -> None:
    server = shared_server()
    before = server.execute("SELECT @@GLOBAL.max_allowed_packet").strip()
    server.execute("SET GLOBAL max_allowed_packet = 1048576")
    try:
        store = await MysqlStore.open(url)
        jobs = new_jobs(MIN_SHARED_JOBS, payload=f'"{"😀" * 150_000}"')
        assert {answer.receipt for answer in await store.insert(jobs)} == {Receipt.CREATED}
        assert [job.payload for job in await store.get(ids_of(jobs[-1:]))] == [jobs[-1].payload]
        await store.close()
    finally:
        server.execute(f"SET GLOBAL max_allowed_packet = {before}")


async def test_a_payload_that_is_too_large_is_not_pipelined(store: MysqlStore) -> None:
    jobs = many()
    jobs[FIRST_BATCH + 20] = replace(jobs[FIRST_BATCH + 20], payload=f'"{"x" * 3_000_000}"')
    assert {answer.receipt for answer in await store.insert(jobs)} == {Receipt.CREATED}
    assert await total(store) == len(jobs)
