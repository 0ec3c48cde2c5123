"""Lists on 100,000 jobs: each filter is served by its index, or by the primary key, and reads no more than a slice."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator, Iterator, Sequence
from typing import Any

import pytest
import pytest_asyncio

from rota.stores.listing import slice_of
from rota.stores.postgres import PostgresStore
from rota.stores.postgres.connection import AsyncpgConnection, Connector
from rota.stores.postgres.listing import PostgresDialect
from rota.stores.postgres.statements import statement
from servers.postgres import new_database, shared_server
from stores.list_queries import LISTS, ROWS, statements

pytestmark = pytest.mark.asyncio(loop_scope="module")

UNFINISHED = """
INSERT INTO rota_job (
    id, type, queue, priority, state, turn, run_at, created_at, updated_at, max_attempts, delivery, payload, fence,
    attempts, lease_until, worker, schedule_id
)
SELECT value, 'type-' || (value % 7), 'default', 5, state, value, value, value, value, 3, 'at_least_once', 'null', 1,
    1, CASE WHEN state = 'running' THEN value END, 'w', value % 10
FROM generate_series(1, $1::bigint, 2) AS value, LATERAL (
    SELECT (ARRAY['pending', 'scheduled', 'running', 'retrying', 'blocked', 'queued'])[1 + value / 2 % 6] AS state
) AS stated
"""
FINISHED = """
INSERT INTO rota_job_done (
    id, type, queue, priority, state, turn, run_at, created_at, updated_at, max_attempts, delivery, payload, fence,
    attempts, finished_at, worker, schedule_id, fingerprint
)
SELECT value, 'type-' || (value % 7), 'default', 5, state, value, value, value,
    value, 3, 'at_least_once', 'null', 1, 1, value, 'w', value % 10,
    CASE WHEN state = 'dead' THEN 'f' || (value % 5) END
FROM generate_series(2, $1::bigint, 2) AS value, LATERAL (
    SELECT (ARRAY['completed', 'dead', 'cancelled'])[1 + value / 2 % 3] AS state
) AS stated
"""
TAGS = "INSERT INTO rota_tag SELECT 't' || (id % 9), id FROM rota_any_job"
#: The indexes by which the candidates of a list are found; where none are named, the primary keys.
KEYS = ("rota_job_pkey", "rota_job_done_pkey")
FINISH = ("rota_job_done_state_finished_at_idx",)
INDEXES = {
    **dict.fromkeys(("pending", "scheduled", "retrying", "blocked", "queued", "waiting"), ("rota_job_waiting",)),
    **dict.fromkeys(("completed", "dead", "cancelled", "completed, further on", "ended"), FINISH),
    **dict.fromkeys(("tag", "tag, further on", "dead of a tag"), ("rota_tag_pkey",)),
    **dict.fromkeys(("schedule", "schedule, further on"), ("rota_job_schedule", "rota_job_done_schedule_id_id_idx")),
    **dict.fromkeys(("running", "running of a worker"), ("rota_job_lease",)),
    "pending of a type": ("rota_job_waiting",),
    "fingerprint": ("rota_job_done_fingerprint_id_idx",),
    "completed of a type since": FINISH,
}


@pytest_asyncio.fixture(scope="module", loop_scope="module", params=["analyzed", "filled again"])
async def crowded(request: pytest.FixtureRequest) -> AsyncIterator[AsyncpgConnection]:
    # A new one: statistics that other tests left behind would decide on the plans.
    async with new_database(shared_server()) as dsn:
        await (await PostgresStore.open(dsn)).close()
        connector = Connector(dsn)
        connection = await connector()
        await _fill(connection)
        await connection.execute("ANALYZE")
        if request.param == "filled again":
            # A truncated table has no size until it is analyzed again.
            await connection.execute("TRUNCATE rota_job, rota_job_done, rota_tag")
            await _fill(connection)
        yield connection
        await connection.close()


async def _fill(connection: AsyncpgConnection) -> None:
    for crowd in (UNFINISHED, FINISHED):
        await connection.execute(crowd, ROWS)
    await connection.execute(TAGS)


def nodes(tree: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield tree
    for child in tree.get("Plans", ()):
        yield from nodes(child)


@pytest.mark.parametrize("name", LISTS)
async def test_a_list_is_served_by_its_index(crowded: AsyncpgConnection, name: str) -> None:
    async def rows(sql: str, values: list[Any]) -> Sequence[Any]:
        found: Sequence[Any] = await crowded.fetch(sql, *values)
        return found

    asked, _ = await statements(slice_of(PostgresDialect(), LISTS[name], 100), rows)
    plans = [await _plan(crowded, sql, values) for sql, values in asked]
    *candidates, last = plans
    assert _indexes(candidates) <= set(INDEXES.get(name, KEYS)), plans
    assert _indexes([last]) <= {*KEYS, "rota_tag_pkey", "rota_tag_job"}, last
    steps = [step for plan in plans for step in nodes(plan)]
    assert not any("Seq Scan" in step["Node Type"] or "Bitmap" in step["Node Type"] for step in steps), plans
    sorts = {step["Node Type"] for plan in candidates for step in nodes(plan)} & {"Sort", "Incremental Sort"}
    # Of finished jobs those of one time are sorted, and of running ones all: there are never many.
    assert sorts <= ({"Sort"} if "running" in name else {"Incremental Sort"}), plans


@pytest.mark.parametrize("name", ["dead_groups", "dead_trend"])
async def test_dead_jobs_are_grouped_from_their_index_alone(crowded: AsyncpgConnection, name: str) -> None:
    # As autovacuum does after many inserts: an index alone serves a query where all is visible to everybody.
    await crowded.execute("VACUUM ANALYZE rota_job_done")
    values = [500] if name == "dead_groups" else [1, 3_600_000_000]
    steps = list(nodes(await _plan(crowded, statement(name), values)))
    reads = [step for step in steps if "Relation Name" in step]
    assert {step["Node Type"] for step in reads} == {"Index Only Scan"}, reads
    assert _indexes([{"Plans": reads}]) == {"rota_job_done_fingerprint_type_finished_at_id_idx"}, reads


async def _plan(connection: AsyncpgConnection, sql: str, values: list[Any]) -> dict[str, Any]:
    text = await connection.fetchval(f"EXPLAIN (FORMAT JSON) {sql}", *values)
    found: dict[str, Any] = json.loads(text)[0]["Plan"]
    return found


def _indexes(plans: Sequence[dict[str, Any]]) -> set[str]:
    """Name the indexes; those of a part of the archive as those of the whole."""
    names = {step["Index Name"] for plan in plans for step in nodes(plan) if "Index Name" in step}
    return {re.sub(r"^rota_job_done_(rest|\d{8})_", "rota_job_done_", name) for name in names}
