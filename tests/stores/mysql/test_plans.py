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
from rota.stores.mysql.driver import Connection, connect
from rota.stores.mysql.location import location_of
from rota.stores.mysql.migrations import migrate
from rota.stores.mysql.settling import _COMMON
from rota.stores.mysql.statements import statement
from rota.stores.rows import Row
from servers.databases import fresh_database

pytestmark = pytest.mark.asyncio(loop_scope="module")

ROWS = 100_000
STATES = "elt(1 + seq MOD 5, 'pending', 'scheduled', 'pending', 'completed', 'retrying')"
#: The jobs, and then the places where they stand.
CROWD = (
    """INSERT INTO job (
        id, type, queue, priority, state, turn, run_at, created_at, updated_at, max_attempts, delivery, payload, fence,
        attempts, finished_at, expires_at
    )
    SELECT seq, concat('type-', seq MOD 7), 'default', 5, {state}, seq, seq, seq, seq, 3, 'at_least_once', 'null', 1, 1,
        if({state} = 'completed', seq, NULL), if(seq MOD 10 = 0, seq, NULL)
    FROM seq_1_to_{rows}""",
    """INSERT INTO ready
    SELECT queue, type, turn, id, run_at, expires_at FROM job WHERE state = 'pending' AND id MOD 5 = 0""",
    """INSERT INTO lease (id, fence, worker, boot, lease_until, started_at, updated_at)
    SELECT id, 2, 'w', 'b', id, id, id FROM job WHERE state = 'pending' AND id MOD 5 = 2""",
    "INSERT INTO scheduled SELECT run_at, id, state, queue, type FROM job WHERE state IN ('scheduled', 'retrying')",
    "INSERT INTO finished SELECT state, finished_at, id, NULL FROM job WHERE finished_at IS NOT NULL",
    "INSERT INTO expiry SELECT expires_at, id FROM job WHERE expires_at IS NOT NULL AND finished_at IS NULL",
    "INSERT INTO dependency (parent, child, need) SELECT id, id + 1, 'success' FROM job",
    "INSERT INTO tag SELECT concat('t', id MOD 9), id FROM job",
    "INSERT INTO fired SELECT id MOD 10, id FROM job",
    "INSERT INTO claim SELECT concat('c', id), id, '[]' FROM job",
    "INSERT INTO idempotency SELECT 's', concat('k', id), 'r', id, id FROM job",
    "INSERT INTO occurrence SELECT id MOD 10, id, 'made', id, id FROM job",
    """INSERT INTO schedule (
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
    "next_type": ("ready", "PRIMARY", {"queue": "default", "floor": "", "now": 0}),
    "take_places": ("ready", "PRIMARY", {"keys": json.dumps(KEYS), "now": 0, "limit": 10}),
    "leave_places": ("ready", "PRIMARY", {"keys": json.dumps(KEYS)}),
    "leased_places": ("job", "PRIMARY", {"ids": IDS, "now": 1}),
    "take_pending": ("ready", "PRIMARY", {**BEHIND, "now": 0, "limit": 10}),
    "leased_stretch": ("ready", "PRIMARY", {"queue": "default", "type": "type-1", **STRETCH, "now": 0, "limit": 1000}),
    "leave_ready": ("ready", "PRIMARY", {"queue": "default", "type": "type-1", "keys": json.dumps(PAIRS)}),
    "count_ready": ("ready", "PRIMARY", {"queue": "default", "type": "type-1", **STRETCH}),
    "leave_ready_range": ("ready", "PRIMARY", {"queue": "default", "type": "type-1", **STRETCH, "ids": IDS}),
    "leave_ready_one": ("ready", "PRIMARY", {"queue": "default", "type": "type-5", "first_turn": 5, "first_id": 5}),
    "own_ready": ("ready", "PRIMARY", {"queue": "default", "type": "type-1", "keys": json.dumps(PAIRS)}),
    "dispatch": ("job", "PRIMARY", {"ids": IDS, "now": 1}),
    "recall": ("job", "PRIMARY", {"ids": IDS, "now": 1}),
    "queued": ("held", "PRIMARY", {"after": -1, "before": 1, "limit": 10}),
    "due_jobs": ("scheduled", "PRIMARY", {"now": ROWS, "limit": 10}),
    "soon": (
        "scheduled",
        "PRIMARY",
        {"now": 500, "until": 600, "queues": ("default",), "takes_all": True, "types": ("",), "limit": 10},
    ),
    "lost": ("lease", "lease_end", {"now": ROWS, "limit": 10}),
    "expired": ("expiry", "PRIMARY", {"now": ROWS, "limit": 10}),
    "finished_before": ("finished", "PRIMARY", {"state": "completed", "before": ROWS, "limit": 10, "now": 0}),
    "due_schedules": ("schedule", "schedule_due", {"now": 10, "limit": 10}),
    "hold_schedules": ("schedule", "PRIMARY", {"ids": IDS}),
    "known_occurrences": ("occurrence", "PRIMARY", {"fire_times": PAIRS}),
    "forget_claims": ("claim", "claim_at", {"before": 10, "limit": 10}),
    "forgettable_keys": ("idempotency", "idempotency_expiry", {"before": 10, "limit": 10}),
    "forget_occurrences": ("occurrence", "occurrence_at", {"before": 10, "limit": 10}),
    "drop_tags": ("tag", "tag_job", {"keys": json.dumps(IDS)}),
    "drop_fired": ("fired", "fired_job", {"keys": json.dumps(IDS)}),
    "drop_keys": ("idempotency", "idempotency_job", {"keys": json.dumps(IDS)}),
    "drop_waits": ("dependency", "dependency_child", {"keys": json.dumps(IDS)}),
    "drop_dependencies": ("dependency", "PRIMARY", {"keys": json.dumps(IDS)}),
    "have_waiters": ("dependency", "PRIMARY", {"first": 500, "last": 1000}),
    "waiters": ("dependency", "PRIMARY", {"ids": IDS}),
    "meet": ("dependency", "PRIMARY", {"waits": PAIRS}),
    "claim": ("job", "PRIMARY", {"ids": IDS, "worker": "w", "boot": "b", "lease_until": 1, "now": 1}),
    "get": ("job", "PRIMARY", {"ids": IDS}),
    "states": ("job", "PRIMARY", {"ids": IDS}),
    "lock_jobs": ("job", "PRIMARY", {"ids": IDS}),
    "lock_free_jobs": ("job", "PRIMARY", {"ids": IDS}),
    "lock_leases": ("lease", "PRIMARY", {"ids": IDS}),
    "hold_leases": ("lease", "PRIMARY", {"ids": IDS}),
    "leased": ("lease", "PRIMARY", {"ids": IDS}),
    "take_leases": ("lease", "PRIMARY", {"ids": IDS, "fence": 2}),
    "leave_lease": ("lease", "PRIMARY", {"keys": json.dumps(IDS)}),
    "leave_scheduled": ("scheduled", "PRIMARY", {"keys": json.dumps(PAIRS)}),
    "leave_expiry": ("expiry", "PRIMARY", {"keys": json.dumps(PAIRS)}),
    "leave_finished": ("finished", "PRIMARY", {"state": "completed", "keys": json.dumps(PAIRS)}),
    "leave_held": ("held", "PRIMARY", {"keys": json.dumps(IDS)}),
    "renew": ("lease", "PRIMARY", {"ids": IDS, "lease_until": 1}),
    "complete": ("job", "PRIMARY", {"ids": IDS, "now": 1, **dict.fromkeys(_COMMON, 1)}),
    "drop_jobs": ("job", "PRIMARY", {"keys": json.dumps(IDS)}),
}
#: The most rows of its first table that a statement may expect to read.
MOST_ROWS = 2 * len(IDS)
UNBOUNDED = {"next_type", "take_pending", "due_jobs", "lost", "expired", "finished_before", "queued"}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def crowded() -> AsyncIterator[Connection]:
    async for connection in filled(ROWS):
        yield connection


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def few() -> AsyncIterator[Connection]:
    async for connection in filled(10):
        yield connection


async def filled(rows: int) -> AsyncIterator[Connection]:
    async with fresh_database() as url:
        connection = await connect(location_of(url), "test", autocommit=True)
        await migrate(connection, 0)
        for part in CROWD:
            await connection.run(part.replace("{rows}", str(rows)).replace("{state}", STATES))
        tables = ", ".join(f"`{name}`" for (name,) in await connection.rows("SHOW TABLES"))
        await connection.rows(f"ANALYZE TABLE {tables}")
        yield connection
        await connection.close()


async def plan(connection: Connection, name: str, parameters: dict[str, Any]) -> list[dict[str, Any]]:
    return await plan_of(connection, statement(name).replace(":collation", connection.collation), parameters)


async def plan_of(connection: Connection, sql: str, parameters: dict[str, Any] | Row) -> list[dict[str, Any]]:
    names = ("id", "select", "table", "type", "possible", "key", "length", "ref", "rows", "extra")
    rows = await connection.rows(f"EXPLAIN {sql}", parameters)
    return [dict(zip(names, row, strict=True)) for row in rows]


@pytest.mark.parametrize("name", SERVED)
async def test_the_query_is_served_by_its_key(crowded: Connection, name: str) -> None:
    table, key, parameters = SERVED[name]
    steps = await plan(crowded, name, parameters)
    first = next(step for step in steps if step["table"] == table)
    assert first["key"] == key, steps
    assert first["type"] in {"range", "ref", "eq_ref", "const"}, steps
    assert name in UNBOUNDED or int(first["rows"]) <= MOST_ROWS, steps
    assert all(step["type"] != "ALL" for step in steps if "json_table" not in str(step["extra"])), steps


@pytest.mark.parametrize("name", sorted(UNBOUNDED | {"due_schedules"}))
async def test_the_order_comes_from_the_key(crowded: Connection, name: str) -> None:
    """Sorting would mean that every claim reads the whole backlog."""
    steps = await plan(crowded, name, SERVED[name][2])
    assert not any("filesort" in str(step["extra"]) or "temporary" in str(step["extra"]) for step in steps), steps


async def test_of_several_lanes_each_is_read_by_its_key_and_in_its_order(crowded: Connection) -> None:
    values = tuple(value for number in range(5) for value in ("default", f"type-{number}", 5, 5, 5, ROWS, 0, 0, 10))
    steps = await plan_of(crowded, lanes._lanes_statement(5), values)
    read = [step for step in steps if step["table"] == "ready"]
    assert [(step["key"], step["type"]) for step in read] == [("PRIMARY", "range")] * 5, steps
    assert not any("filesort" in str(step["extra"]) or "temporary" in str(step["extra"]) for step in steps), steps


#: Whoever runs these has rows locked, and others have rows locked beside them.
BESIDE_OTHERS = [
    "take_pending", "take_places", "leave_places", "leave_ready", "leave_ready_range", "leave_ready_one", "own_ready",
    "lock_jobs", "lock_free_jobs", "lock_leases",
    "hold_leases", "take_leases", "leave_lease", "leave_scheduled", "leave_expiry", "leave_finished",
    "leave_held", "renew", "complete", "waiters", "meet", "drop_jobs", "drop_tags", "drop_fired", "hold_schedules",
]  # fmt: skip


@pytest.mark.parametrize("name", BESIDE_OTHERS)
async def test_a_small_table_is_not_scanned_either(few: Connection, name: str) -> None:
    """A scan looks cheaper there, and would wait for rows that others have locked."""
    table, key, parameters = SERVED[name]
    steps = await plan(few, name, parameters)
    first = next(step for step in steps if step["table"] == table)
    assert (first["key"], first["type"] in {"range", "ref", "eq_ref", "const"}) == (key, True), steps


async def test_the_time_of_the_next_upkeep_is_read_off_the_edges(crowded: Connection) -> None:
    steps = await plan(crowded, "timetable", {})
    keys = {step["table"]: (step["key"], step["type"]) for step in steps}
    assert keys["scheduled"][0] == keys["expiry"][0] == "PRIMARY"
    assert keys["lease"][0] in {"lease_end", "PRIMARY"}
    assert keys["schedule"][0] == "schedule_due"
    assert not any("filesort" in str(step["extra"]) for step in steps), steps


async def test_what_is_past_its_time_is_read_off_the_edges(crowded: Connection) -> None:
    steps = await plan(crowded, "past_time", {})
    keys = {step["table"]: step["key"] for step in steps}
    assert (keys["finished"], keys["claim"], keys["idempotency"]) == ("PRIMARY", "claim_at", "idempotency_expiry")
    assert keys["occurrence"] == "occurrence_at"
    assert keys.get("ledger") in {None, "PRIMARY"}, "an empty one is not read at all"
    assert not any("filesort" in str(step["extra"]) for step in steps), steps


@pytest.mark.parametrize("takes_all", [True, False])
async def test_whether_there_is_work_is_seen_without_reading_other_lanes(
    crowded: Connection, *, takes_all: bool
) -> None:
    types = ("type-1", "type-3", "unknown")
    parameters = {"queues": ("default", "quiet"), "takes_all": takes_all, "types": types}
    steps = [step for step in await plan(crowded, "has_work", parameters) if step["table"] == "ready"]
    assert [(step["key"], step["type"]) for step in steps] == [("PRIMARY", "range")], steps
    await crowded.run("FLUSH STATUS")
    await crowded.rows(statement("has_work"), {**parameters, "types": ("unknown", "zzz"), "takes_all": False})
    read = await crowded.rows("SHOW SESSION STATUS WHERE Variable_name IN ('Handler_read_next', 'Handler_read_key')")
    assert sum(int(value) for _, value in read) <= 10, read


async def test_the_lanes_are_counted_without_reading_finished_jobs(crowded: Connection) -> None:
    steps = await plan(crowded, "census_lanes", {"aging": 1})
    assert [step["type"] for step in steps if step["table"] == "job"] == ["eq_ref"] * 3, steps


async def test_of_each_lane_only_the_first_job_is_read_to_say_since_when_it_is_due(crowded: Connection) -> None:
    steps = await plan(crowded, "census_lanes", {"aging": 1})
    (first,) = [step for step in steps if step["table"] == "next"]
    assert (first["key"], first["type"]) == ("PRIMARY", "ref"), steps
    assert not any("filesort" in str(step["extra"]) for step in steps if step["id"] == first["id"]), steps
