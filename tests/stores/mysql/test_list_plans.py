"""Lists on 100,000 jobs: each filter goes by its key, or by the primary key, and reads no more than a slice."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Any

import pytest
import pytest_asyncio

from rota.stores.listing import slice_of
from rota.stores.mysql.driver import MysqlConnection, connect
from rota.stores.mysql.listing import MysqlDialect
from rota.stores.mysql.location import location_of
from rota.stores.mysql.migrations import migrate
from servers.databases import fresh_database
from stores.list_queries import LISTS, ROWS, statements

pytestmark = pytest.mark.asyncio(loop_scope="module")

STATES = """elt(1 + seq MOD 9, 'pending', 'scheduled', 'pending', 'completed', 'dead', 'cancelled', 'blocked', 'queued',
    'retrying')"""
CROWD = (
    f"""INSERT INTO rota_job (
        id, type, queue, priority, state, turn, run_at, created_at, updated_at, max_attempts, delivery, payload, fence,
        attempts, finished_at, worker, fingerprint, schedule_id, blockers
    )
    SELECT seq, concat('type-', seq MOD 7), 'default', 5, {STATES}, seq, seq, seq, seq, 3, 'at_least_once', 'null', 1,
        1, if({STATES} IN ('completed', 'dead', 'cancelled'), seq, NULL), 'w',
        if({STATES} = 'dead', concat('f', seq MOD 5), NULL), seq MOD 10, 1
    FROM seq_1_to_{ROWS}""",  # noqa: S608 - constants
    """INSERT INTO rota_ready
    SELECT queue, type, '', turn, id, run_at, expires_at FROM rota_job WHERE state = 'pending' AND id MOD 9 = 0""",
    """INSERT INTO rota_lease (id, fence, worker, boot, lease_until, started_at, updated_at)
    SELECT id, 2, 'w', 'b', id, id, id FROM rota_job WHERE state = 'pending' AND id MOD 9 = 2""",
    """INSERT INTO rota_scheduled
    SELECT run_at, id, state, queue, type FROM rota_job WHERE state IN ('scheduled', 'retrying')""",
    "INSERT INTO rota_held SELECT id, state, queue, type FROM rota_job WHERE state IN ('blocked', 'queued')",
    """INSERT INTO rota_finished
    SELECT state, finished_at, id, fingerprint, if(state = 'dead', type, NULL) FROM rota_job
    WHERE finished_at IS NOT NULL""",
    "INSERT INTO rota_tag SELECT concat('t', id MOD 9), id FROM rota_job",
    "INSERT INTO rota_fired SELECT schedule_id, id FROM rota_job",
)
#: The table and key by which the candidates of a list are found; where none are named, all jobs by primary key.
KEYS = {
    **dict.fromkeys(("scheduled", "retrying"), ("scheduled", "rota_scheduled_state")),
    **dict.fromkeys(("blocked", "queued"), ("held", "PRIMARY")),
    **dict.fromkeys(("completed", "dead", "cancelled", "completed, further on", "ended"), ("finished", "PRIMARY")),
    **dict.fromkeys(("tag", "tag, further on", "dead of a tag"), ("tag", "PRIMARY")),
    **dict.fromkeys(("schedule", "schedule, further on"), ("fired", "PRIMARY")),
    **dict.fromkeys(("pending", "pending of a type"), ("ready", "rota_ready_id")),
    **dict.fromkeys(("running", "running of a worker"), ("lease", "PRIMARY")),
    **dict.fromkeys(("fingerprint", "completed of a type since"), ("finished", "PRIMARY")),
}
#: A list of several states takes the key of each.
WAITING = {KEYS["pending"], KEYS["scheduled"]}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def crowded() -> AsyncIterator[MysqlConnection]:
    async with fresh_database() as url:
        connection = await connect(location_of(url), "test", autocommit=True)
        await migrate(connection, 0)
        for sql in CROWD:
            await connection.run(sql)
        tables = ", ".join(f"`{name}`" for (name,) in await connection.rows("SHOW TABLES"))
        await connection.rows(f"ANALYZE TABLE {tables}")
        yield connection
        await connection.close()


@pytest.mark.parametrize("name", LISTS)
async def test_a_list_goes_by_its_key(crowded: MysqlConnection, name: str) -> None:
    async def rows(sql: str, values: list[Any]) -> Sequence[Any]:
        return await crowded.rows(sql, _named(values))

    asked, _ = await statements(slice_of(MysqlDialect(), LISTS[name], 100), rows)
    *candidates, last = [await _plan(crowded, sql, values) for sql, values in asked]
    keys = {(step["table"], step["key"]) for plan in candidates for step in plan}
    assert keys == (WAITING if name == "waiting" else {KEYS.get(name, ("job", "PRIMARY"))})
    for step in (step for plan in candidates for step in plan):
        assert step["type"] in {"range", "ref", "const", "index"}, step
        # Dead jobs of a cause are sorted: they have no key of their own.
        assert name == "fingerprint" or "filesort" not in str(step["extra"]), step
    assert {(step["table"], step["key"], step["type"]) for step in last if step["table"] == "job"} <= {
        ("job", "PRIMARY", "range"),
        ("job", "PRIMARY", "const"),
    }, last


def _named(values: list[Any]) -> dict[str, Any]:
    return {f"value_{number}": value for number, value in enumerate(values)}


async def _plan(connection: MysqlConnection, sql: str, values: list[Any]) -> list[dict[str, Any]]:
    names = ("id", "select", "table", "type", "possible", "key", "length", "ref", "rows", "extra")
    return [dict(zip(names, row, strict=True)) for row in await connection.rows(f"EXPLAIN {sql}", _named(values))]
