"""Plans: the statements that run all the time are served by the index made for them, on a table of 100,000 jobs.

A plan that falls back to a scan passes every other test and ruins every production. Looked at as the store itself would
have them: on its own connections, generic, without knowing the values.
"""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime
from typing import Any

import pytest
import pytest_asyncio

from rota.stores.postgres import PostgresStore
from rota.stores.postgres.connection import AsyncpgConnection, Connector
from rota.stores.postgres.partitions import partition_of
from rota.stores.postgres.statements import id_range, statement
from servers.postgres import new_database, shared_server

ROWS = 100_000

CROWD = """
INSERT INTO rota_job (
    id, type, queue, priority, state, turn, run_at, created_at, updated_at, max_attempts, delivery, payload, fence,
    attempts, lease_until, expires_at
)
SELECT value, 'type-' || (value % 7), 'default', 5, state, value, value, value, value, 3, 'at_least_once', 'null', 1,
    1, CASE WHEN state = 'running' THEN value END, CASE WHEN value % 10 = 0 THEN value END
FROM generate_series(1, $1::bigint) AS value,
    LATERAL (SELECT (ARRAY['pending', 'scheduled', 'running', 'retrying'])[1 + value % 4] AS state) AS stated
"""
FINISHED = """
INSERT INTO rota_job_done (
    id, type, queue, priority, state, turn, run_at, created_at, updated_at, max_attempts, delivery, payload, fence,
    attempts, finished_at
)
SELECT value, 'type', 'default', 5, (ARRAY['completed', 'dead', 'cancelled'])[1 + value % 3], value, value, value,
    value, 3, 'at_least_once', 'null', 1, 1, value
FROM generate_series($1::bigint + 1, 2 * $1::bigint) AS value
"""
TAGS = """
INSERT INTO rota_tag (tag, job_id)
SELECT 'tag-' || (value % 500), value FROM generate_series(1, $1::bigint) AS value
"""
KEYS = """
INSERT INTO rota_idempotency (scope, key, request, job_id, expires_at)
SELECT '', value, '', value, value FROM generate_series(1, $1::bigint) AS value
"""
SCHEDULES = """
INSERT INTO rota_schedule (
    id, name, rule, template, created_at, updated_at, zone, catch_up, catch_up_limit, grace, overlap, jitter,
    next_fire_at, version
)
SELECT value, value, '', '', 0, 0, '', '', 0, 0, '', 0, value, 1 FROM generate_series(1, $1::bigint) AS value
"""

#: Statements, and the indexes that alone may lead to the rows of jobs.
SERVED = {
    "insert_jobs": {"rota_job_pkey", "rota_job_done_pkey"},
    "insert_one": {"rota_job_pkey", "rota_job_done_pkey"},
    "insert_for_open_claim": {"rota_job_pkey", "rota_job_done_pkey"},
    "insert_due": {"rota_job_pkey", "rota_job_done_pkey"},
    "insert_plain": {"rota_job_pkey", "rota_job_done_pkey"},
    "insert_bulk": {"rota_job_pkey", "rota_job_done_pkey"},
    "claim_lane": {"rota_job_turn"},
    "claim_lanes": {"rota_job_turn"},
    "claim_by_id": {"rota_job_pkey"},
    "claim_ahead": {"rota_job_time"},
    "dispatch_jobs": {"rota_job_turn"},
    "recall_jobs": {"rota_job_pkey"},
    "queued_jobs": {"rota_job_queued"},
    "busy_lanes": {"rota_job_turn"},
    "next_types": {"rota_job_turn"},
    "renew_leases": {"rota_job_pkey"},
    "complete_jobs": {"rota_job_pkey"},
    "settle_to_waiting": {"rota_job_pkey"},
    "settle_to_finished": {"rota_job_pkey"},
    "settle_finished": {"rota_job_done_pkey"},
    "cancel_waiting": {"rota_job_pkey"},
    "meet_dependencies": {"rota_job_pkey"},
    "lock_parents": {"rota_job_pkey"},
    "job_states": {"rota_job_pkey", "rota_job_done_pkey"},
    "jobs_by_id": {"rota_job_pkey", "rota_job_done_pkey"},
    "job_types": {"rota_job_pkey"},
    "lock_lease_with_fence": {"rota_job_pkey"},
    "request_cancel": {"rota_job_pkey"},
    "request_cancel_any_fence": {"rota_job_pkey"},
    "save_progress": {"rota_job_pkey"},
    "promote_jobs": {"rota_job_time"},
    "lapsed_leases": {"rota_job_lease"},
    "expired_jobs": {"rota_job_expiry"},
    "timetable": {"rota_job_time", "rota_job_lease", "rota_job_expiry", "rota_schedule_due"},
    "oldest_prunable": {"rota_job_done_finished", "rota_job_pkey"},
    "prunable_jobs": {"rota_job_done_finished", "rota_job_pkey"},
    "is_anything_prunable": {
        "rota_job_done_finished",
        "rota_claim_at",
        "rota_idempotency_expiry",
        "rota_occurrence_at",
    },
    "census_failed": {"rota_job_done_finished"},
    "completed_ends": {"rota_job_done_finished"},
    "count_completed": {"rota_job_done_finished"},
    "discardable_jobs": {"rota_job_done_pkey", "rota_job_pkey"},
    "delete_jobs": {"rota_job_done_pkey"},
    "queue_depth": {"rota_job_turn", "rota_job_key", "rota_job_queued"},
    "delete_old_claims": {"rota_claim_at", "rota_claim_pkey"},
    "delete_old_keys": {"rota_idempotency_expiry", "rota_job_pkey", "rota_job_done_pkey"},
    "delete_old_occurrences": {"rota_occurrence_at"},
    "delete_tags": {"rota_tag_job"},
    "delete_keys": {"rota_idempotency_job"},
    "history_totals": {"rota_history_total"},
    "history_by_lane": {"rota_history_pkey"},
    "history_bucket": {"rota_history_pkey"},
    "due_schedules": {"rota_schedule_due"},
    "lock_schedules": {"rota_schedule_pkey"},
    "advance_schedules": {"rota_schedule_pkey"},
}
#: These take the first rows of an index; sorting would mean that they read all of it.
ORDERED = ["next_types", "promote_jobs", "lapsed_leases", "expired_jobs", "due_schedules"]


@pytest_asyncio.fixture(scope="module", loop_scope="module", params=["crowded", "new"])
async def planned_dsn(request: pytest.FixtureRequest) -> AsyncIterator[str]:
    """A plan is made when the tables are new and kept when they are not: it must be right in both cases."""
    # Not a shared database: a test whose clock ran ahead may have dropped today's partition there.
    async with new_database(shared_server()) as dsn:
        await (await PostgresStore.open(dsn)).close()
        if request.param == "crowded":
            await crowd(dsn)
        yield dsn


async def crowd(dsn: str) -> None:
    connection = await Connector(dsn)()
    await connection.execute(CROWD, ROWS)
    await connection.execute(FINISHED, ROWS)
    await connection.execute(SCHEDULES, ROWS)
    # What is empty has no plan worth the name: any index will do.
    await connection.execute(TAGS, ROWS)
    await connection.execute(KEYS, ROWS)
    await connection.execute("ANALYZE")
    await connection.close()


@pytest.mark.parametrize("index", ["rota_job_turn", "rota_job_time"])
async def test_no_claim_can_be_served_by_an_index_of_lists(planned_dsn: str, index: str) -> None:
    """The planner chose the index of lists once, after statistics were taken in the midst of a load.

    Claims then read all pending jobs for each lane: 90 ms of CPU instead of 3 with 10,000 jobs. The statistics that led
    to it could not be made again, so this is about the index: without that of claims, that of lists must not do.
    """
    names = [name for name, indexes in SERVED.items() if indexes == {index}]
    assert names
    connection = await Connector(planned_dsn)()
    try:
        transaction = connection.transaction()
        await transaction.start()
        await connection.execute(f"DROP INDEX {index}")
        used = {name: indexes_of_jobs(await plan_on(connection, name)) for name in names}
        await transaction.rollback()
    finally:
        await connection.close()
    assert not [name for name, indexes in used.items() if "rota_job_waiting" in indexes], used


def indexes_of_jobs(tree: dict[str, Any]) -> set[str]:
    used = {family(step["Index Name"]) for step in nodes(tree) if "Index Name" in step}
    return {index for index in used if index.startswith(("rota_job", "rota_schedule"))}


@pytest.mark.parametrize("name", ["insert_due", "insert_one", "insert_for_open_claim", "insert_plain", "insert_bulk"])
async def test_inserting_jobs_of_a_day_reads_no_other_partition(planned_dsn: str, name: str) -> None:
    """Each part of the archive that is in a plan is locked at every job, whether it is then looked at or not."""
    today = partition_of(datetime.now(UTC))
    found = list(nodes(await plan(planned_dsn, name + id_range(today.lowest, today.beyond - 1))))
    looks = [step["Index Name"] for step in found if step.get("Relation Name", "").startswith("rota_job_done")]
    assert looks == [f"{today.name}_pkey"]
    assert not [step for step in found if step["Node Type"] == "Append"]


async def plan(dsn: str, name: str) -> dict[str, Any]:
    """Return the plan of a statement as the store would have it."""
    connection = await Connector(dsn)()
    try:
        return await plan_on(connection, name)
    finally:
        await connection.close()


async def plan_on(connection: AsyncpgConnection, name: str) -> dict[str, Any]:
    sql = statement(name)
    count = max((int(number) for number in re.findall(r"\$(\d+)", sql)), default=0)
    await connection.execute(f"PREPARE planned AS {sql}")
    values = f"({', '.join(['NULL'] * count)})" if count else ""
    text = await connection.fetchval(f"EXPLAIN (FORMAT JSON) EXECUTE planned{values}")
    await connection.execute("DEALLOCATE planned")
    found: dict[str, Any] = json.loads(text)[0]["Plan"]
    return found


def nodes(tree: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield tree
    for child in tree.get("Plans", ()):
        yield from nodes(child)


def family(name: str) -> str:
    """Name an index of a part of the archive as that of the whole."""
    return re.sub(r"^rota_job_done_(?:rest|\d{8})_(?:(pkey)|(state_finished_at)_idx|.*)$", _of_the_whole, name)


def _of_the_whole(found: re.Match[str]) -> str:
    return "rota_job_done_pkey" if found[1] else "rota_job_done_finished" if found[2] else found[0]


@pytest.mark.parametrize("name", SERVED)
async def test_the_statement_is_served_by_its_indexes(planned_dsn: str, name: str) -> None:
    steps = list(nodes(await plan(planned_dsn, name)))
    used = {family(step["Index Name"]) for step in steps if "Index Name" in step}
    assert indexes_of_jobs(steps[0]) <= SERVED[name], used
    # What is looked for is nothing here, so the archive's parts may have been left out altogether.
    assert used & SERVED[name] or any("Subplans Removed" in step for step in steps)
    # Without a condition an index is read from one end to the other; only a statement of its first rows may.
    unconditional = [step for step in steps if "Index Name" in step and "Index Cond" not in step]
    assert not unconditional or name in {"timetable", "is_anything_prunable"}, unconditional
    scanned = {step.get("Relation Name", "") for step in steps if step["Node Type"] == "Seq Scan"}
    assert not {relation for relation in scanned if relation.startswith(("rota_job", "rota_schedule"))}, scanned


@pytest.mark.parametrize("name", SERVED)
async def test_no_table_is_hashed_merged_or_copied(planned_dsn: str, name: str) -> None:
    """Each would read a whole index for a handful of jobs."""
    kinds = {step["Node Type"] for step in nodes(await plan(planned_dsn, name))}
    assert not kinds & {"Hash Join", "Merge Join", "Materialize"}


@pytest.mark.parametrize("name", ORDERED)
async def test_the_order_comes_from_the_index(planned_dsn: str, name: str) -> None:
    kinds = {step["Node Type"] for step in nodes(await plan(planned_dsn, name))}
    assert not kinds & {"Sort", "Incremental Sort"}


@pytest.mark.parametrize("name", ["claim_lane", "claim_lanes", "dispatch_jobs"])
async def test_a_claim_sorts_nothing_but_what_it_takes(planned_dsn: str, name: str) -> None:
    """The one sort writes down the leases; the jobs come from the index in their order."""
    tree = await plan(planned_dsn, name)
    (locking,) = [step for step in nodes(tree) if step["Node Type"] == "LockRows"]
    assert not {step["Node Type"] for step in nodes(locking)} & {"Sort", "Incremental Sort"}


async def test_the_oldest_open_claim_is_found_by_the_index(planned_dsn: str) -> None:
    """Of the last seconds only: with an old transaction open, all former open claims are before them."""
    (locking,) = [
        step for step in nodes(await plan(planned_dsn, "insert_for_open_claim")) if step["Node Type"] == "LockRows"
    ]
    kinds = {step["Node Type"] for step in nodes(locking)}
    assert not kinds & {"Sort", "Incremental Sort"}
    (found,) = [step for step in nodes(locking) if step.get("Relation Name") == "rota_open_claim"]
    assert found["Index Name"] == "rota_open_claim_since"
    assert "since" in found["Index Cond"]


async def test_a_claim_ahead_sorts_only_those_of_one_time(planned_dsn: str) -> None:
    """The index gives the times in order: no more is read than what is given and the rest of its last time."""
    tree = await plan(planned_dsn, "claim_ahead")
    (locking,) = [step for step in nodes(tree) if step["Node Type"] == "LockRows"]
    (sort,) = [step for step in nodes(locking) if "Sort" in step["Node Type"]]
    assert (sort["Node Type"], sort.get("Presorted Key")) == ("Incremental Sort", ["job.run_at"])


@pytest.mark.parametrize(
    "name", ["claim_lane", "claim_lanes", "claim_by_id", "busy_lanes", "dispatch_jobs", "renew_leases", "complete_jobs"]
)
async def test_the_driver_knows_every_type_without_asking(dsn: str, name: str) -> None:
    """Of a type that it does not know it asks on every new connection, which costs as much as hundreds of jobs."""
    connection = await Connector(dsn)()
    try:
        prepared = await connection.prepare(statement(name))
        kinds = {one.name for one in prepared.get_parameters()}
    finally:
        await connection.close()
    assert kinds <= {"int8", "text", "text[]"}


async def test_the_census_reads_only_the_first_job_of_each_lane(planned_dsn: str) -> None:
    steps = nodes(await plan(planned_dsn, "census_lanes"))
    (first,) = [step for step in steps if step.get("Parent Relationship") == "SubPlan"]
    assert (first["Node Type"], [step["Node Type"] for step in first["Plans"]]) == ("Limit", ["Index Scan"]), first
    (read,) = first["Plans"]
    assert read["Index Name"] == "rota_job_turn"
    assert "queue" in read["Index Cond"]
    assert "type" in read["Index Cond"]
