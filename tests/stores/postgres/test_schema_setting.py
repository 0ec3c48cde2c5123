"""A schema named by the store's URL, which is on no search_path; and a database with tables of the user's own."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from importlib.resources import files

import asyncpg
import psycopg
import pytest

from builders import DAY, ManualClock, claim, means, new_job, new_jobs
from rota import Rota
from rota.cli.exits import Exit
from rota.cli.main import main
from rota.core.decision import decide
from rota.core.errors import InvalidRequest
from rota.core.lifecycle import State
from rota.core.outcome import Succeeded
from rota.ports.store import JobQuery, Retention
from rota.stores.postgres import PostgresStore, partitions
from rota.stores.postgres.connection import split_schema
from rota.stores.postgres.statements import qualifier_of, statement

SCHEMA = "jobs_of_rota"
RELATIONS = """
SELECT relnamespace::regnamespace::text, count(*) FROM pg_class
WHERE relnamespace::regnamespace::text !~ '^(pg_|information_schema)' GROUP BY 1
"""


@pytest.fixture
async def url(blank: str) -> str:
    return f"{blank}?schema={SCHEMA}"


@pytest.fixture
async def store(url: str) -> AsyncIterator[PostgresStore]:
    store = await PostgresStore.open(url)
    yield store
    await store.close()


async def test_all_tables_are_in_the_schema_and_nothing_is_elsewhere(store: PostgresStore, blank: str) -> None:
    del store
    connection = await asyncpg.connect(blank)
    schemas = [row[0] for row in await connection.fetch(RELATIONS)]
    await connection.close()
    assert schemas == [SCHEMA]


async def test_jobs_are_submitted_claimed_settled_and_listed(store: PostgresStore) -> None:
    later = new_job(run_at=datetime.now(UTC) + timedelta(hours=1))
    jobs = [new_job(tags=("t",)), *new_jobs(3), later]
    await store.insert(jobs)
    await store.insert([new_job()])
    held = await store.claim(claim(limit=10))
    assert len(held) == 5
    await store.settle([decide(job, Succeeded(), means(datetime.now(UTC))) for job in held])
    (tagged,) = await store.find(JobQuery(tag="t"))
    assert (tagged.id, tagged.state) == (jobs[0].id, State.COMPLETED)
    assert len(await store.find(JobQuery(states=(State.COMPLETED,)))) == 5
    assert [job.id for job in await store.find(JobQuery(states=(State.SCHEDULED,)))] == [later.id]
    assert (await store.census()).total() == 6


async def test_another_process_hears_of_jobs(store: PostgresStore, url: str) -> None:
    other = await PostgresStore.open(url)
    other.watch_for_work()
    while await other.watch(timedelta(milliseconds=50)) or not other._listener.is_listening:
        pass
    watching = asyncio.create_task(other.watch(timedelta(seconds=20)))
    await store.insert(new_jobs(2))
    assert "default" in await watching
    await other.close()


async def test_a_day_is_added_and_dropped(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(partitions, "MIN_DROPPED", 10)
    clock = ManualClock()
    store = await PostgresStore.open(url, clock=clock)
    await store.insert(new_jobs(30))
    held = await store.claim(claim(limit=30))
    await store.settle([decide(job, Succeeded(), means(clock())) for job in held])
    clock.move(3 * DAY)
    assert await store.prune(Retention(completed=DAY, cancelled=DAY, dead=DAY), 1) == 30
    await store.close()


async def test_a_job_is_submitted_in_the_transaction_of_asyncpg(store: PostgresStore, url: str, blank: str) -> None:
    connection = await asyncpg.connect(blank)
    app = Rota(url)
    task = app.task(ship)
    for outcome in ("ROLLBACK", "COMMIT"):
        await connection.execute("BEGIN")
        await task.using(tx=connection, tags=("tx",), idempotency_key="k").asubmit(1)
        await connection.execute(outcome)
    await connection.close()
    app.close()
    assert [job.idempotency_key for job in await store.find(JobQuery(tag="tx"))] == ["k"]


async def test_a_job_is_submitted_in_the_transaction_of_psycopg(store: PostgresStore, url: str, blank: str) -> None:
    app = Rota(url)
    task = app.task(ship)

    def submit() -> None:
        with psycopg.connect(blank) as connection:
            task.using(tx=connection).submit(1)

    await asyncio.to_thread(submit)
    app.close()
    assert (await store.census()).total() == 1


async def test_a_transaction_on_a_database_without_the_schema_is_refused(url: str, blank: str) -> None:
    connection = await asyncpg.connect(blank)
    app = Rota(url)
    task = app.task(ship)
    async with connection.transaction():
        with pytest.raises(InvalidRequest, match=f"Rota's tables.*are not in .*, in schema {SCHEMA}"):
            await task.using(tx=connection).asubmit(1)
    await connection.close()
    app.close()


async def test_the_database_is_migrated_and_checked_from_the_command_line(
    url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert await asyncio.to_thread(main, ["db", "migrate", "--store", url]) == Exit.OK
    # The server of the tests runs without fsync, which is all there is to find.
    assert await asyncio.to_thread(main, ["db", "check", "--store", url]) == Exit.PROBLEMS_FOUND
    findings = capsys.readouterr().out.splitlines()
    assert [line for line in findings if "setting" not in line] == []


async def test_every_statement_is_qualified(store: PostgresStore, blank: str) -> None:
    """Prepared where no table can be found but by its schema."""
    del store
    connection = await asyncpg.connect(blank, server_settings={"search_path": "pg_catalog"})
    folder = files("rota.stores.postgres").joinpath("sql")
    texts = [file.read_text() for file in folder.iterdir() if file.name != "fragments.sql"]
    names = [name for text in texts for name in re.findall(r"^-- name: (\w+)$", text, re.MULTILINE)]
    assert len(names) > 100
    for name in names:
        await connection.prepare(statement(name, qualifier_of(SCHEMA)))
    await connection.close()


@pytest.mark.parametrize(
    "name",
    ["", "Rota", "1st", "a-b", 'a"b', "a.b", "pg_rota", "information_schema", "x" * 64, "é", "a&schema=b", "a%20b"],
)
async def test_a_name_that_is_none_is_refused(name: str) -> None:
    with pytest.raises(InvalidRequest, match="is not a schema name; write one name") as refusal:
        await PostgresStore.open(f"postgresql://rota:s3cret@127.0.0.1:1/none?schema={name}")
    assert "s3cret" not in str(refusal.value)
    assert refusal.value.field == "store"


@pytest.mark.parametrize(
    ("url", "rest", "schema"),
    [
        ("postgresql://db/x", "postgresql://db/x", None),
        ("postgresql://db/x?schema=a", "postgresql://db/x", "a"),
        ("postgresql:///x?host=/run&schema=a&sslmode=disable", "postgresql:///x?host=/run&sslmode=disable", "a"),
        ("postgresql://db/x?options=-cschema%3Da", "postgresql://db/x?options=-cschema%3Da", None),
    ],
)
def test_the_driver_gets_the_url_without_the_schema(url: str, rest: str, schema: str | None) -> None:
    assert split_schema(url) == (rest, schema)


def ship(number: int) -> int:
    return number


OWN = {
    "job": 'CREATE TABLE "job" (id bigint PRIMARY KEY, title text)',
    "tag": 'CREATE TABLE "tag" (name text)',
    "queue": 'CREATE TABLE "queue" (patient text)',
    "token": 'CREATE TABLE "token" (secret text)',
}


async def test_a_database_with_tables_of_the_same_names_takes_rota(blank: str) -> None:
    connection = await asyncpg.connect(blank)
    for sql in OWN.values():
        await connection.execute(sql)
    await connection.execute('INSERT INTO "job" VALUES (1)')
    before = await _columns(connection)
    store = await PostgresStore.open(blank)
    app = Rota(blank)
    task = app.task(ship)
    async with connection.transaction():
        await connection.execute('INSERT INTO "job" VALUES (2)')
        await task.using(tx=connection, tags=("own",)).asubmit(1)
    (job,) = await store.claim(claim(types=(task.name,)))
    await store.settle([decide(job, Succeeded(), means(datetime.now(UTC)))])
    assert [one.state for one in await store.find(JobQuery(tag="own"))] == [State.COMPLETED]
    app.close()
    await store.close()
    assert await _columns(connection) == before
    counts = [await connection.fetchval(f'SELECT count(*) FROM "{table}"') for table in OWN]  # noqa: S608 - constants
    await connection.close()
    assert counts == [2, 0, 0, 0]


async def _columns(connection: asyncpg.Connection) -> list[tuple[str, str]]:
    rows = await connection.fetch(
        "SELECT table_name, column_name FROM information_schema.columns WHERE table_name = ANY($1) ORDER BY 1, 2",
        list(OWN),
    )
    return [tuple(row) for row in rows]
