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
from rota.stores.postgres.connecting import Connection, Connector
from rota.stores.postgres.retiring import day_of
from rota.stores.postgres.statements import among, statement
from servers.postgres import migrated_database, new_database, shared_server

ROWS = 100_000

CROWD = """
INSERT INTO job (
    id, type, queue, priority, state, turn, run_at, created_at, updated_at, max_attempts, delivery, payload, fence,
    attempts, lease_until, expires_at
)
SELECT value, 'type-' || (value % 7), 'default', 5, state, value, value, value, value, 3, 'at_least_once', 'null', 1,
    1, CASE WHEN state = 'running' THEN value END, CASE WHEN value % 10 = 0 THEN value END
FROM generate_series(1, $1::bigint) AS value,
    LATERAL (SELECT (ARRAY['pending', 'scheduled', 'running', 'retrying'])[1 + value % 4] AS state) AS stated
"""
FINISHED = """
INSERT INTO job_done (
    id, type, queue, priority, state, turn, run_at, created_at, updated_at, max_attempts, delivery, payload, fence,
    attempts, finished_at
)
SELECT value, 'type', 'default', 5, (ARRAY['completed', 'dead', 'cancelled'])[1 + value % 3], value, value, value,
    value, 3, 'at_least_once', 'null', 1, 1, value
FROM generate_series($1::bigint + 1, 2 * $1::bigint) AS value
"""
TAGS = (
    "INSERT INTO tag (tag, job_id) SELECT 'tag-' || (value % 500), value FROM generate_series(1, $1::bigint) AS value"
)
KEYS = """
INSERT INTO idempotency (scope, key, request, job_id, expires_at)
SELECT '', value, '', value, value FROM generate_series(1, $1::bigint) AS value
"""
SCHEDULES = """
INSERT INTO schedule (
    id, name, rule, template, created_at, updated_at, zone, catch_up, catch_up_limit, grace, overlap, jitter,
    next_fire_at, version
)
SELECT value, value, '', '', 0, 0, '', '', 0, 0, '', 0, value, 1 FROM generate_series(1, $1::bigint) AS value
"""

#: Statements, and the indexes that alone may lead to the rows of jobs.
SERVED = {
    "insert": {"job_pkey", "job_done_pkey"},
    "insert_one": {"job_pkey", "job_done_pkey"},
    "insert_answering": {"job_pkey", "job_done_pkey"},
    "insert_now": {"job_pkey", "job_done_pkey"},
    "insert_plain": {"job_pkey", "job_done_pkey"},
    "insert_alike": {"job_pkey", "job_done_pkey"},
    "claim": {"job_turn"},
    "claim_lanes": {"job_turn"},
    "claim_handed_over": {"job_pkey"},
    "claim_ahead": {"job_time"},
    "dispatch": {"job_turn"},
    "recall": {"job_pkey"},
    "queued": {"job_queued"},
    "busy_lanes": {"job_turn"},
    "next_types": {"job_turn"},
    "renew": {"job_pkey"},
    "complete": {"job_pkey"},
    "settle_back": {"job_pkey"},
    "settle_end": {"job_pkey"},
    "settle_again": {"job_done_pkey"},
    "withdraw": {"job_pkey"},
    "unblock": {"job_pkey"},
    "await_parents": {"job_pkey"},
    "states": {"job_pkey", "job_done_pkey"},
    "get": {"job_pkey", "job_done_pkey"},
    "types": {"job_pkey"},
    "holds": {"job_pkey"},
    "ask_cancel": {"job_pkey"},
    "ask_stop": {"job_pkey"},
    "note_attempts": {"job_pkey"},
    "promote": {"job_time"},
    "lost": {"job_lease"},
    "expired": {"job_expiry"},
    "timetable": {"job_time", "job_lease", "job_expiry", "schedule_due"},
    "finished_before": {"job_done_finished", "job_pkey"},
    "past_time": {"job_done_finished", "claim_at", "idempotency_expiry", "occurrence_at"},
    "discardable": {"job_done_pkey", "job_pkey"},
    "drop_jobs": {"job_done_pkey"},
    "queue_depth": {"job_turn", "job_queued"},
    "forget_claims": {"claim_at", "claim_pkey"},
    "forget_keys": {"idempotency_expiry", "job_pkey", "job_done_pkey"},
    "forget_occurrences": {"occurrence_at"},
    "drop_tags": {"tag_job"},
    "drop_keys": {"idempotency_job"},
    "due_schedules": {"schedule_due"},
    "hold_schedules": {"schedule_pkey"},
    "advance_schedules": {"schedule_pkey"},
}
#: These take the first rows of an index; sorting would mean that they read all of it.
ORDERED = ["next_types", "promote", "lost", "expired", "due_schedules"]


@pytest_asyncio.fixture(scope="module", loop_scope="module", params=["crowded", "new"])
async def planned_dsn(request: pytest.FixtureRequest) -> AsyncIterator[str]:
    """A plan is made when the tables are new and kept when they are not: it must be right in both cases."""
    if request.param == "new":
        async with new_database(shared_server()) as dsn:
            await (await PostgresStore.open(dsn)).close()
            yield dsn
        return
    async with migrated_database(shared_server()) as dsn:
        connection = await Connector(dsn)()
        await connection.execute(CROWD, ROWS)
        await connection.execute(FINISHED, ROWS)
        await connection.execute(SCHEDULES, ROWS)
        # What is empty has no plan worth the name: any index will do.
        await connection.execute(TAGS, ROWS)
        await connection.execute(KEYS, ROWS)
        await connection.execute("ANALYZE")
        await connection.close()
        yield dsn


@pytest.mark.parametrize("name", ["insert_now", "insert_one", "insert_answering", "insert_plain", "insert_alike"])
async def test_who_stores_jobs_of_a_day_looks_at_no_other_day(planned_dsn: str, name: str) -> None:
    """Each part of the archive that is in a plan is locked at every job, whether it is then looked at or not."""
    today = day_of(datetime.now(UTC))
    found = list(nodes(await plan(planned_dsn, name + among(today.lowest, today.beyond - 1))))
    looks = [step["Index Name"] for step in found if step.get("Relation Name", "").startswith("job_done")]
    assert looks == [f"{today.name}_pkey"]
    assert not [step for step in found if step["Node Type"] == "Append"]


async def plan(dsn: str, name: str) -> dict[str, Any]:
    """Give the plan of a statement as the store would have it."""
    sql = statement(name)
    connector = Connector(dsn)
    connection: Connection = await connector()
    try:
        count = max((int(number) for number in re.findall(r"\$(\d+)", sql)), default=0)
        await connection.execute(f"PREPARE planned AS {sql}")
        values = f"({', '.join(['NULL'] * count)})" if count else ""
        text = await connection.fetchval(f"EXPLAIN (FORMAT JSON) EXECUTE planned{values}")
        found: dict[str, Any] = json.loads(text)[0]["Plan"]
        return found
    finally:
        await connection.close()


def nodes(tree: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield tree
    for child in tree.get("Plans", ()):
        yield from nodes(child)


def family(name: str) -> str:
    """Name an index of a part of the archive as that of the whole."""
    return re.sub(r"^job_done_(?:rest|\d{8})_(?:(pkey)|(state_finished_at)_idx|.*)$", _of_the_whole, name)


def _of_the_whole(found: re.Match[str]) -> str:
    return "job_done_pkey" if found[1] else "job_done_finished" if found[2] else found[0]


@pytest.mark.parametrize("name", SERVED)
async def test_the_statement_is_served_by_its_indexes(planned_dsn: str, name: str) -> None:
    steps = list(nodes(await plan(planned_dsn, name)))
    used = {family(step["Index Name"]) for step in steps if "Index Name" in step}
    assert {index for index in used if index.startswith(("job", "schedule"))} <= SERVED[name], used
    # What is looked for is nothing here, so the archive's parts may have been left out altogether.
    assert used & SERVED[name] or any("Subplans Removed" in step for step in steps)
    # Without a condition an index is read from one end to the other; only those who take its first rows may do that.
    unconditional = [step for step in steps if "Index Name" in step and "Index Cond" not in step]
    assert not unconditional or name in {"timetable", "past_time"}, unconditional
    scanned = {step.get("Relation Name", "") for step in steps if step["Node Type"] == "Seq Scan"}
    assert not {relation for relation in scanned if relation.startswith(("job", "schedule"))}, scanned


@pytest.mark.parametrize("name", SERVED)
async def test_no_table_is_hashed_merged_or_copied(planned_dsn: str, name: str) -> None:
    """Each would read a whole index for a handful of jobs."""
    kinds = {step["Node Type"] for step in nodes(await plan(planned_dsn, name))}
    assert not kinds & {"Hash Join", "Merge Join", "Materialize"}


@pytest.mark.parametrize("name", ORDERED)
async def test_the_order_comes_from_the_index(planned_dsn: str, name: str) -> None:
    kinds = {step["Node Type"] for step in nodes(await plan(planned_dsn, name))}
    assert not kinds & {"Sort", "Incremental Sort"}


@pytest.mark.parametrize("name", ["claim", "claim_lanes", "dispatch"])
async def test_a_claim_sorts_nothing_but_what_it_takes(planned_dsn: str, name: str) -> None:
    """The one sort writes down the leases; the jobs come from the index in their order."""
    tree = await plan(planned_dsn, name)
    (locking,) = [step for step in nodes(tree) if step["Node Type"] == "LockRows"]
    assert not {step["Node Type"] for step in nodes(locking)} & {"Sort", "Incremental Sort"}


async def test_who_has_waited_longest_is_found_by_the_index(planned_dsn: str) -> None:
    """Of the last seconds only: with an old transaction open, all who ever waited lie before them."""
    (locking,) = [
        step for step in nodes(await plan(planned_dsn, "insert_answering")) if step["Node Type"] == "LockRows"
    ]
    kinds = {step["Node Type"] for step in nodes(locking)}
    assert not kinds & {"Sort", "Incremental Sort"}
    (found,) = [step for step in nodes(locking) if step.get("Relation Name") == "open_claim"]
    assert found["Index Name"] == "open_claim_since"
    assert "since" in found["Index Cond"]


async def test_a_claim_ahead_sorts_only_those_of_one_time(planned_dsn: str) -> None:
    """The index gives the times in order: no more is read than what is given and the rest of its last time."""
    tree = await plan(planned_dsn, "claim_ahead")
    (locking,) = [step for step in nodes(tree) if step["Node Type"] == "LockRows"]
    (sort,) = [step for step in nodes(locking) if "Sort" in step["Node Type"]]
    assert (sort["Node Type"], sort.get("Presorted Key")) == ("Incremental Sort", ["job.run_at"])


@pytest.mark.parametrize(
    "name", ["claim", "claim_lanes", "claim_handed_over", "busy_lanes", "dispatch", "renew", "complete"]
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


async def test_of_each_lane_only_the_first_job_is_read_to_say_since_when_it_is_due(planned_dsn: str) -> None:
    steps = nodes(await plan(planned_dsn, "census_lanes"))
    (first,) = [step for step in steps if step.get("Parent Relationship") == "SubPlan"]
    assert (first["Node Type"], [step["Node Type"] for step in first["Plans"]]) == ("Limit", ["Index Scan"]), first
    (read,) = first["Plans"]
    assert read["Index Name"] == "job_turn"
    assert "queue" in read["Index Cond"]
    assert "type" in read["Index Cond"]
