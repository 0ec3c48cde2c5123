"""Lists on 100,000 jobs: each filter is served by its index, or by the primary key, and reads no more than a slice."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from rota.stores.listing import slice_of
from rota.stores.sqlite.driver import StandardConnection
from rota.stores.sqlite.listing import SqliteDialect
from rota.stores.sqlite.migrations import migrate
from stores.list_queries import LISTS, ROWS, statements

CROWD = """
WITH RECURSIVE
    number(value) AS (SELECT 1 UNION ALL SELECT value + 1 FROM number WHERE value < ?),
    stated AS (
        SELECT value, CASE value % 9 WHEN 0 THEN 'pending' WHEN 1 THEN 'scheduled' WHEN 2 THEN 'running'
            WHEN 3 THEN 'completed' WHEN 4 THEN 'dead' WHEN 5 THEN 'cancelled' WHEN 6 THEN 'blocked'
            WHEN 7 THEN 'queued' ELSE 'retrying' END AS state
        FROM number
    )
INSERT INTO rota_job (
    id, type, queue, priority, state, turn, run_at, created_at, updated_at, max_attempts, delivery, payload, fence,
    attempts, lease_until, finished_at, worker, fingerprint, schedule_id, blockers
)
SELECT value, 'type-' || (value % 7), 'default', 5, state, value, value, value, value, 3, 'at_least_once', 'null', 1,
    1, iif(state = 'running', value, NULL), iif(state IN ('completed', 'dead', 'cancelled'), value, NULL),
    'w', iif(state = 'dead', 'f' || (value % 5), NULL), value % 10, 1
FROM stated
"""
TAGS = "INSERT INTO rota_tag SELECT 't' || (id % 9), id FROM rota_job"
#: The index by which the candidates of a list are found; where none is named, the primary key.
INDEXES = {
    **dict.fromkeys(("pending", "scheduled", "retrying", "blocked", "queued", "waiting"), "rota_job_waiting"),
    **dict.fromkeys(("completed", "dead", "cancelled", "completed, further on", "ended"), "rota_job_finished"),
    **dict.fromkeys(("type", "types", "queue", "queue and type", "pending of a type", "unknown type"), "rota_job_lane"),
    **dict.fromkeys(("tag", "tag, further on", "dead of a tag"), "rota_tag"),
    **dict.fromkeys(("schedule", "schedule, further on"), "rota_job_schedule"),
    **dict.fromkeys(("running", "running of a worker"), "rota_job_lease"),
    "fingerprint": "rota_job_dead",
    "completed of a type since": "rota_job_finished",
}


@pytest.fixture(scope="module", params=["surveyed", "unsurveyed"])
def crowded(request: pytest.FixtureRequest) -> Iterator[StandardConnection]:
    connection = StandardConnection(":memory:")
    migrate(connection, 0)
    connection.run(CROWD, (ROWS,))
    connection.run(TAGS)
    if request.param == "surveyed":
        connection.run("ANALYZE")
    yield connection
    connection.close()


@pytest.mark.parametrize("name", LISTS)
async def test_a_list_is_served_by_its_index(crowded: StandardConnection, name: str) -> None:
    async def rows(sql: str, values: list[Any]) -> Sequence[Any]:
        return crowded.rows(sql, values)

    asked, _ = await statements(slice_of(SqliteDialect(), LISTS[name], 100), rows)
    plans = [[str(row[3]) for row in crowded.rows(f"EXPLAIN QUERY PLAN {sql}", values)] for sql, values in asked]
    index = INDEXES.get(name, "INTEGER PRIMARY KEY")
    *candidates, last = plans
    if name == "unknown type":
        candidates = plans
    assert any(index in step for plan in candidates for step in plan), plans
    if name not in {"running", "running of a worker"}:
        assert not any("TEMP B-TREE" in step for plan in candidates for step in plan), plans
    # The rows themselves are read by id.
    assert name == "unknown type" or any("SEARCH rota_job USING INTEGER PRIMARY KEY" in step for step in last), last
    whole = [step for plan in plans for step in plan if step.startswith("SCAN rota_job")]
    assert all("rota_job_lease" in step for step in whole), plans
