"""Plans: the queries that run all the time go by the key made for them, on 100,000 jobs.

A plan that falls back to a scan passes every other test and ruins every production.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from rota.stores.mysql import lanes
from rota.stores.mysql.driver import MysqlConnection, connect
from rota.stores.mysql.location import location_of
from rota.stores.mysql.migrations import migrate
from rota.stores.mysql.settle import COMMON
from rota.stores.mysql.statements import statement
from rota.stores.rows import Row
from servers.databases import fresh_database

pytestmark = pytest.mark.asyncio(loop_scope="module")

ROWS = 100_000
STATES = "elt(1 + seq MOD 5, 'pending', 'scheduled', 'pending', 'completed', 'retrying')"
#: The jobs, and then their state tables.
CROWD = (
    """INSERT INTO rota_job (
        id, type, queue, priority, state, turn, run_at, created_at, updated_at, max_attempts, delivery, payload, fence,
        attempts, finished_at, expires_at
    )
    SELECT seq, concat('type-', seq MOD 7), 'default', 5, {state}, seq, seq, seq, seq, 3, 'at_least_once', 'null', 1, 1,
        if({state} = 'completed', seq, NULL), if(seq MOD 10 = 0, seq, NULL)
    FROM seq_1_to_{rows}""",
    """INSERT INTO rota_ready
    SELECT queue, type, '', turn, id, run_at, expires_at FROM rota_job WHERE state = 'pending' AND id MOD 5 = 0""",
    """INSERT INTO rota_lease (id, fence, worker, boot, lease_until, started_at, updated_at)
    SELECT id, 2, 'w', 'b', id, id, id FROM rota_job WHERE state = 'pending' AND id MOD 5 = 2""",
    """INSERT INTO rota_scheduled
    SELECT run_at, id, state, queue, type FROM rota_job WHERE state IN ('scheduled', 'retrying')""",
    "INSERT INTO rota_finished SELECT state, finished_at, id, NULL, NULL FROM rota_job WHERE finished_at IS NOT NULL",
    "INSERT INTO rota_expiry SELECT expires_at, id FROM rota_job WHERE expires_at IS NOT NULL AND finished_at IS NULL",
    "INSERT INTO rota_dependency (parent, child, need) SELECT id, id + 1, 'success' FROM rota_job",
    "INSERT INTO rota_tag SELECT concat('t', id MOD 9), id FROM rota_job",
    "INSERT INTO rota_fired SELECT id MOD 10, id FROM rota_job",
    "INSERT INTO rota_claim SELECT concat('c', id), id, '[]' FROM rota_job",
    "INSERT INTO rota_idempotency SELECT 's', concat('k', id), 'r', id, id FROM rota_job",
    "INSERT INTO rota_occurrence SELECT id MOD 10, id, 'made', id, id FROM rota_job",
    """INSERT INTO rota_schedule (
        id, name, rule, template, created_at, updated_at, zone, catch_up, catch_up_limit, grace, overlap, jitter,
        next_fire_at, version
    )
    SELECT seq, seq, '', '', 0, 0, '', '', 0, 0, '', 0, seq, 1 FROM seq_1_to_{rows}""",
)

IDS = tuple(range(500, 1000))
PAIRS = tuple((number, number + 1) for number in IDS)
KEYS = tuple(("default", f"type-{number % 7}", number, number) for number in IDS)
STRETCH = {"first_turn": 500, "first_id": 500, "last_turn": 1000, "last_id": 1000}
BEHIND = {"queue": "default", "type": "type-1", "after_turn": 500, "after_id": 500}
#: The key that serves each statement, by the table that it reads first.
SERVED: dict[str, tuple[str, str, dict[str, Any]]] = {
    "history_totals": ("history", "rota_history_total", {"step": 60, "since": 0, "until": 9, "limit": 10}),
    "history_by_lane": ("history", "PRIMARY", {"step": 60, "since": 0, "until": 9, "limit": 10}),
    "history_bucket": ("history", "PRIMARY", {"step": 60, "at": 0}),
    "next_type_with_work": ("ready", "PRIMARY", {"queue": "default", "from_type": "", "now": 0}),
    "lock_in_lanes": ("ready", "PRIMARY", {"keys": json.dumps(KEYS), "now": 0, "limit": 10}),
    "delete_ready_in_lanes": ("ready", "PRIMARY", {"keys": json.dumps(KEYS)}),
    "read_claimed_by_id": ("job", "PRIMARY", {"ids": IDS, "now": 1}),
    "lock_lane": ("ready", "PRIMARY", {**BEHIND, "now": 0, "limit": 10}),
    "read_claimed_range": (
        "ready",
        "PRIMARY",
        {"queue": "default", "type": "type-1", **STRETCH, "now": 0, "limit": 1000},
    ),
    "delete_ready": (
        "ready",
        "PRIMARY",
        {"queue": "default", "type": "type-1", "concurrency_key": "", "keys": json.dumps(PAIRS)},
    ),
    "count_ready_range": ("ready", "PRIMARY", {"queue": "default", "type": "type-1", **STRETCH}),
    "delete_ready_range": ("ready", "PRIMARY", {"queue": "default", "type": "type-1", **STRETCH, "ids": IDS}),
    "delete_ready_one": ("ready", "PRIMARY", {"queue": "default", "type": "type-5", "first_turn": 5, "first_id": 5}),
    "lock_ready": (
        "ready",
        "PRIMARY",
        {"queue": "default", "type": "type-1", "concurrency_key": "", "keys": json.dumps(PAIRS)},
    ),
    "set_queued": ("job", "PRIMARY", {"ids": IDS, "now": 1}),
    "set_pending": ("job", "PRIMARY", {"ids": IDS, "now": 1}),
    "queued_jobs": ("held", "PRIMARY", {"after": -1, "before": 1, "limit": 10}),
    "due_jobs": ("scheduled", "PRIMARY", {"now": ROWS, "limit": 10}),
    "due_soon": (
        "scheduled",
        "PRIMARY",
        {"now": 500, "until": 600, "queues": ("default",), "takes_all": True, "types": ("",), "limit": 10},
    ),
    "lapsed_leases": ("lease", "rota_lease_end", {"now": ROWS, "limit": 10}),
    "expired_jobs": ("expiry", "PRIMARY", {"now": ROWS, "limit": 10}),
    "prunable_jobs": ("finished", "PRIMARY", {"state": "completed", "before": ROWS, "limit": 10, "now": 0}),
    "census_failed": ("finished", "PRIMARY", {}),
    "count_completed": ("finished", "PRIMARY", {"after": ROWS - 100, "until": ROWS}),
    "due_schedules": ("schedule", "rota_schedule_due", {"now": 10, "limit": 10}),
    "lock_schedules": ("schedule", "PRIMARY", {"ids": IDS}),
    "known_occurrences": ("occurrence", "PRIMARY", {"fire_times": PAIRS}),
    "prune_claims": ("claim", "rota_claim_at", {"before": 10, "limit": 10}),
    "prunable_keys": ("idempotency", "rota_idempotency_expiry", {"before": 10, "limit": 10}),
    "prune_occurrences": ("occurrence", "rota_occurrence_at", {"before": 10, "limit": 10}),
    "delete_tags": ("tag", "rota_tag_job", {"keys": json.dumps(IDS)}),
    "delete_fired": ("fired", "rota_fired_job", {"keys": json.dumps(IDS)}),
    "delete_keys": ("idempotency", "rota_idempotency_job", {"keys": json.dumps(IDS)}),
    "delete_dependencies_of_children": ("dependency", "rota_dependency_child", {"keys": json.dumps(IDS)}),
    "delete_dependencies_of_parents": ("dependency", "PRIMARY", {"keys": json.dumps(IDS)}),
    "has_dependents": ("dependency", "PRIMARY", {"first": 500, "last": 1000}),
    "unmet_dependencies": ("dependency", "PRIMARY", {"ids": IDS}),
    "mark_dependencies_met": ("dependency", "PRIMARY", {"pairs": PAIRS}),
    "insert_leases": ("job", "PRIMARY", {"ids": IDS, "worker": "w", "boot": "b", "lease_until": 1, "now": 1}),
    "jobs_by_id": ("job", "PRIMARY", {"keys": IDS}),
    "job_states": ("job", "PRIMARY", {"ids": IDS}),
    "lock_jobs": ("job", "PRIMARY", {"ids": IDS}),
    "lock_jobs_skip_locked": ("job", "PRIMARY", {"ids": IDS}),
    "lock_running_jobs": ("lease", "PRIMARY", {"ids": IDS}),
    "lock_leases": ("lease", "PRIMARY", {"ids": IDS}),
    "read_leased": ("lease", "PRIMARY", {"ids": IDS}),
    "delete_unchanged_leases": ("lease", "PRIMARY", {"ids": IDS, "fence": 2}),
    "delete_lease": ("lease", "PRIMARY", {"keys": json.dumps(IDS)}),
    "delete_scheduled": ("scheduled", "PRIMARY", {"keys": json.dumps(PAIRS)}),
    "delete_expiry": ("expiry", "PRIMARY", {"keys": json.dumps(PAIRS)}),
    "delete_finished": ("finished", "PRIMARY", {"state": "completed", "keys": json.dumps(PAIRS)}),
    "delete_held": ("held", "PRIMARY", {"keys": json.dumps(IDS)}),
    "renew_leases": ("lease", "PRIMARY", {"ids": IDS, "lease_until": 1}),
    "complete_jobs": ("job", "PRIMARY", {"ids": IDS, "now": 1, **dict.fromkeys(COMMON, 1)}),
    "delete_jobs": ("job", "PRIMARY", {"keys": json.dumps(IDS)}),
}
#: The most rows of its first table that a statement may expect to read.
MAX_ROWS = 2 * len(IDS)
UNBOUNDED = {
    "next_type_with_work",
    "lock_lane",
    "due_jobs",
    "lapsed_leases",
    "expired_jobs",
    "prunable_jobs",
    "queued_jobs",
}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def crowded() -> AsyncIterator[MysqlConnection]:
    async for connection in filled(ROWS):
        yield connection


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def few() -> AsyncIterator[MysqlConnection]:
    async for connection in filled(10):
        yield connection


async def filled(rows: int) -> AsyncIterator[MysqlConnection]:
    async with fresh_database() as url:
        connection = await connect(location_of(url), "test", autocommit=True)
        await migrate(connection, 0)
        for part in CROWD:
            await connection.run(part.replace("{rows}", str(rows)).replace("{state}", STATES))
        tables = ", ".join(f"`{name}`" for (name,) in await connection.rows("SHOW TABLES"))
        await connection.rows(f"ANALYZE TABLE {tables}")
        yield connection
        await connection.close()


async def plan(connection: MysqlConnection, name: str, parameters: dict[str, Any]) -> list[dict[str, Any]]:
    return await plan_of(connection, statement(name).replace(":collation", connection.collation), parameters)


async def plan_of(connection: MysqlConnection, sql: str, parameters: dict[str, Any] | Row) -> list[dict[str, Any]]:
    names = ("id", "select", "table", "type", "possible", "key", "length", "ref", "rows", "extra")
    rows = await connection.rows(f"EXPLAIN {sql}", parameters)
    steps = [dict(zip(names, row, strict=True)) for row in rows]
    return [{**step, "table": str(step["table"]).removeprefix("rota_")} for step in steps]


@pytest.mark.parametrize("name", SERVED)
async def test_the_query_is_served_by_its_key(crowded: MysqlConnection, name: str) -> None:
    table, key, parameters = SERVED[name]
    steps = await plan(crowded, name, parameters)
    first = next(step for step in steps if step["table"] == table)
    assert first["key"] == key, steps
    assert first["type"] in {"range", "ref", "eq_ref", "const"}, steps
    assert name in UNBOUNDED or int(first["rows"]) <= MAX_ROWS, steps
    assert all(step["type"] != "ALL" for step in steps if "json_table" not in str(step["extra"])), steps


@pytest.mark.parametrize("name", sorted(UNBOUNDED | {"due_schedules"}))
async def test_the_order_comes_from_the_key(crowded: MysqlConnection, name: str) -> None:
    """Sorting would mean that every claim reads the whole backlog."""
    steps = await plan(crowded, name, SERVED[name][2])
    assert not any("filesort" in str(step["extra"]) or "temporary" in str(step["extra"]) for step in steps), steps


async def test_late_retention_is_read_off_the_edge(crowded: MysqlConnection) -> None:
    steps = await plan(crowded, "oldest_prunable", {"state": "completed", "before": ROWS, "limit": 10, "now": 0})
    assert [(step["key"], step["type"]) for step in steps if step["table"] == "finished"] == [("PRIMARY", "range")]
    assert all(step["type"] != "ALL" or step["table"].startswith("<derived") for step in steps), steps
    assert not any("filesort" in str(step["extra"]) for step in steps), steps


async def test_of_several_lanes_each_is_read_by_its_key_and_in_its_order(crowded: MysqlConnection) -> None:
    values = tuple(value for number in range(5) for value in ("default", f"type-{number}", 5, 5, 5, ROWS, 0, 0, 10))
    steps = await plan_of(crowded, lanes.peek_statement(5), values)
    read = [step for step in steps if step["table"] == "ready"]
    assert [(step["key"], step["type"]) for step in read] == [("PRIMARY", "range")] * 5, steps
    assert not any("filesort" in str(step["extra"]) or "temporary" in str(step["extra"]) for step in steps), steps


#: Transactions that run these hold row locks, and others hold locks beside them.
BESIDE_OTHERS = [
    "lock_lane", "lock_in_lanes", "delete_ready_in_lanes", "delete_ready", "delete_ready_range", "delete_ready_one",
    "lock_ready", "lock_jobs", "lock_jobs_skip_locked", "lock_running_jobs", "lock_leases",
    "delete_unchanged_leases", "delete_lease", "delete_scheduled", "delete_expiry", "delete_finished",
    "delete_held", "renew_leases", "complete_jobs", "unmet_dependencies", "mark_dependencies_met", "delete_jobs",
    "delete_tags", "delete_fired", "lock_schedules",
]  # fmt: skip


@pytest.mark.parametrize("name", BESIDE_OTHERS)
async def test_a_small_table_is_not_scanned_either(few: MysqlConnection, name: str) -> None:
    """A scan looks cheaper there, and would wait for rows that others have locked."""
    table, key, parameters = SERVED[name]
    steps = await plan(few, name, parameters)
    first = next(step for step in steps if step["table"] == table)
    assert (first["key"], first["type"] in {"range", "ref", "eq_ref", "const"}) == (key, True), steps


async def test_the_time_of_the_next_upkeep_is_read_off_the_edges(crowded: MysqlConnection) -> None:
    steps = await plan(crowded, "timetable", {})
    keys = {step["table"]: (step["key"], step["type"]) for step in steps}
    assert keys["scheduled"][0] == keys["expiry"][0] == "PRIMARY"
    assert keys["lease"][0] in {"rota_lease_end", "PRIMARY"}
    assert keys["schedule"][0] == "rota_schedule_due"
    assert not any("filesort" in str(step["extra"]) for step in steps), steps


async def test_what_is_past_its_time_is_read_off_the_edges(crowded: MysqlConnection) -> None:
    steps = await plan(crowded, "oldest_of_each_kind", {})
    keys = {step["table"]: step["key"] for step in steps}
    assert (keys["finished"], keys["claim"]) == ("PRIMARY", "rota_claim_at")
    assert keys["idempotency"] == "rota_idempotency_expiry"
    assert keys["occurrence"] == "rota_occurrence_at"
    assert keys.get("ledger") in {None, "PRIMARY"}, "an empty one is not read at all"
    assert not any("filesort" in str(step["extra"]) for step in steps), steps


@pytest.mark.parametrize("takes_all", [True, False])
async def test_whether_there_is_work_is_seen_without_reading_other_lanes(
    crowded: MysqlConnection, *, takes_all: bool
) -> None:
    types = ("type-1", "type-3", "unknown")
    parameters = {"queues": ("default", "quiet"), "takes_all": takes_all, "types": types}
    steps = [step for step in await plan(crowded, "has_work", parameters) if step["table"] == "ready"]
    assert [(step["key"], step["type"]) for step in steps] == [("PRIMARY", "range")], steps
    await crowded.run("FLUSH STATUS")
    await crowded.rows(statement("has_work"), {**parameters, "types": ("unknown", "zzz"), "takes_all": False})
    read = await crowded.rows("SHOW SESSION STATUS WHERE Variable_name IN ('Handler_read_next', 'Handler_read_key')")
    assert sum(int(value) for _, value in read) <= 10, read


async def test_the_lanes_are_counted_without_reading_finished_jobs(crowded: MysqlConnection) -> None:
    steps = await plan(crowded, "census_lanes", {"aging": 1})
    assert [step["type"] for step in steps if step["table"] == "job"] == ["eq_ref"] * 4, steps


async def test_the_lanes_are_counted_in_the_order_of_keys(crowded: MysqlConnection) -> None:
    """Groups by names without it are made in a table on disk."""
    steps = await plan(crowded, "census_lanes", {"aging": 1})
    (later,) = [step for step in steps if step["table"] == "scheduled"]
    assert (later["key"], later["type"]) == ("rota_scheduled_lane", "index"), later
    assert "temporary" not in str(later["extra"]), later
    ready = [(step["key"], step["type"]) for step in steps if step["table"] == "ready"]
    # All are counted once; then the lanes are found, and in each of them the jobs with a key.
    assert ready == [("PRIMARY", "index"), ("PRIMARY", "ref"), ("PRIMARY", "range")], steps


async def test_the_ends_of_the_completed_jobs_are_read_from_the_key(crowded: MysqlConnection) -> None:
    (step,) = await plan(crowded, "completed_ends", {})
    assert "optimized away" in str(step["extra"]), step


@pytest.mark.parametrize("name", ["dead_groups", "dead_trend"])
async def test_dead_jobs_are_grouped_without_a_read_of_jobs(crowded: MysqlConnection, name: str) -> None:
    (step,) = await plan(crowded, name, {"limit": 10} if name == "dead_groups" else {"since": 1, "step": 1})
    assert (step["table"], step["key"], step["type"] in {"range", "ref"}) == ("finished", "PRIMARY", True), step


async def test_of_each_lane_only_the_first_job_is_read_to_say_since_when_it_is_due(crowded: MysqlConnection) -> None:
    steps = await plan(crowded, "census_lanes", {"aging": 1})
    (first,) = [step for step in steps if step["table"] == "next"]
    assert (first["key"], first["type"]) == ("PRIMARY", "ref"), steps
    assert not any("filesort" in str(step["extra"]) for step in steps if step["id"] == first["id"]), steps
