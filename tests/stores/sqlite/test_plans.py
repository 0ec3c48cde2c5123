"""Plans: the queries that run all the time are served by the index made for them, on a table of 100,000 jobs.

A plan that falls back to a scan passes every other test and ruins every production.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from rota.stores.sqlite.driver import StandardConnection
from rota.stores.sqlite.migrations import migrate
from rota.stores.sqlite.statements import statement

ROWS = 100_000

CROWD = """
WITH RECURSIVE
    number(value) AS (SELECT 1 UNION ALL SELECT value + 1 FROM number WHERE value < ?),
    stated AS (
        SELECT value, CASE value % 5 WHEN 0 THEN 'pending' WHEN 1 THEN 'scheduled' WHEN 2 THEN 'running'
            WHEN 3 THEN 'completed' ELSE 'retrying' END AS state
        FROM number
    )
INSERT INTO rota_job (
    id, type, queue, priority, state, turn, run_at, created_at, updated_at, max_attempts, delivery, payload, fence,
    attempts, lease_until, finished_at, expires_at
)
SELECT value, 'type-' || (value % 7), 'default', 5, state, value, value, value, value, 3, 'at_least_once', 'null', 1,
    1, iif(state = 'running', value, NULL), iif(state = 'completed', value, NULL), iif(value % 10 = 0, value, NULL)
FROM stated
"""

SERVED = {
    "next_type_with_work": ("rota_job_turn", ("default", "")),
    "pending_of_lane": ("rota_job_turn", ("default", "t", 0, 0, 10)),
    "promote_due_jobs": ("rota_job_time", {"now": 0, "limit": 10}),
    "due_soon": ("rota_job_time", {"now": 0, "until": 9, "queues": "[]", "types": None, "limit": 10}),
    "lapsed_leases": ("rota_job_lease", (0, 10)),
    "expired_jobs": ("rota_job_expiry", (0, 10)),
    "oldest_prunable": ("rota_job_finished", {"state": "completed", "before": 0, "limit": 10, "now": 0}),
    "prunable_jobs": ("rota_job_finished", {"state": "completed", "before": 0, "limit": 10, "now": 0}),
    "census_failed": ("rota_job_finished", ()),
    "completed_ends": ("rota_job_finished", ()),
    "count_completed": ("rota_job_finished", {"after": 0, "until": 9}),
    "due_schedules": ("rota_schedule_due", {"now": 0, "limit": 10}),
    "delete_old_claims": ("rota_claim_at", {"before": 0, "limit": 10}),
    "delete_old_keys": ("rota_idempotency_expiry", {"before": 0, "limit": 10}),
    "delete_old_occurrences": ("rota_occurrence_at", {"before": 0, "limit": 10}),
    "delete_tags_of_jobs": ("rota_tag_job", ("[]",)),
    "delete_keys_of_jobs": ("rota_idempotency_job", ("[]",)),
    "queued_jobs": ("rota_job_held", {"after": -1, "before": 0, "limit": 10}),
    "queue_depth": ("rota_job_held", {"queue": "default", "limit": 10}),
    "history_totals": ("rota_history_total", {"step": 60, "since": 0, "until": 9, "limit": 10}),
}

BY_KEY = [
    "claim_jobs",
    "claim_jobs_early",
    "claimable_jobs",
    "mark_queued",
    "return_to_pending",
    "jobs_by_id",
    "job_states",
    "settle_job",
    "complete_jobs",
    "renew_lease",
    "request_cancel",
    "lock_lease_with_fence",
    "unmet_dependencies_on",
    "mark_dependencies_met",
    "unblock_jobs",
    "delete_finished_jobs",
]


@pytest.fixture(scope="module", params=["surveyed", "unsurveyed"])
def crowded(request: pytest.FixtureRequest) -> Iterator[StandardConnection]:
    """Nobody need ever have surveyed (ANALYZE) a database, and somebody may: the plans must be right in both cases."""
    connection = StandardConnection(":memory:")
    migrate(connection, 0)
    connection.run(CROWD, (ROWS,))
    if request.param == "surveyed":
        connection.run("ANALYZE")
    yield connection
    connection.close()


def plan(connection: StandardConnection, name: str, parameters: object) -> list[str]:
    rows = connection.rows(f"EXPLAIN QUERY PLAN {statement(name)}", parameters)  # type: ignore[arg-type]
    return [str(row[3]) for row in rows]


@pytest.mark.parametrize("name", SERVED)
def test_the_query_is_served_by_its_index(crowded: StandardConnection, name: str) -> None:
    index, parameters = SERVED[name]
    steps = plan(crowded, name, parameters)
    assert any(f"INDEX {index}" in step for step in steps), steps
    assert not any(step.startswith("SCAN rota_job") and "INDEX" not in step for step in steps), steps


@pytest.mark.parametrize(
    "name",
    ["next_type_with_work", "pending_of_lane", "promote_due_jobs", "lapsed_leases", "expired_jobs", "due_schedules"],
)
def test_the_order_comes_from_the_index(crowded: StandardConnection, name: str) -> None:
    """Sorting would mean that every claim reads the whole backlog."""
    _, parameters = SERVED[name]
    assert not any("TEMP B-TREE" in step for step in plan(crowded, name, parameters))


def test_of_what_comes_soon_only_those_of_one_time_are_sorted(crowded: StandardConnection) -> None:
    """The index gives the times in order: no more is read than what is given and the rest of its last time."""
    steps = plan(crowded, "due_soon", SERVED["due_soon"][1])
    (sort,) = [step for step in steps if "TEMP B-TREE" in step]
    # SQLite's words for it have changed; of a sort of everything it says "FOR ORDER BY".
    assert "FOR RIGHT PART OF ORDER BY" in sort or "FOR LAST 2 TERMS OF ORDER BY" in sort, steps


class Anything(dict[str, object]):
    """Parameters for a plan, whose values do not matter."""

    def __missing__(self, key: str) -> object:
        return "[]" if key in {"ids", "keys"} else 0


@pytest.mark.parametrize("name", BY_KEY)
def test_the_query_goes_by_key(crowded: StandardConnection, name: str) -> None:
    sql = statement(name)
    parameters: object = Anything() if ":" in sql else tuple("[]" for _ in range(sql.count("?")))
    steps = plan(crowded, name, parameters)
    assert not any(step.startswith(("SCAN rota_job", "SCAN rota_dependency")) for step in steps), steps
    # An index by the state would do, and lead to all jobs of that state.
    assert all("PRIMARY KEY" in step for step in steps if step.startswith("SEARCH rota_job ")), steps


def test_the_time_of_the_next_upkeep_is_read_off_the_edges(crowded: StandardConnection) -> None:
    steps = plan(crowded, "next_upkeep_times", ())
    assert not any(step.startswith("SCAN rota_job") for step in steps), steps
    for index in ("rota_job_time", "rota_job_lease", "rota_job_expiry", "rota_schedule_due"):
        assert any(index in step for step in steps), (index, steps)


def test_the_lanes_are_counted_without_reading_finished_jobs(crowded: StandardConnection) -> None:
    steps = plan(crowded, "census_lanes", {"aging": 1})
    assert all("INDEX" in step for step in steps if " rota_job" in step), steps
    read_in_order = [step for step in steps if "INDEX rota_job_" in step and "rota_job_lease" not in step]
    indexes = [step.split("INDEX ")[1].split()[0] for step in read_in_order]
    assert indexes == [
        "rota_job_turn",
        "rota_job_turn",
        "rota_job_key",
        "rota_job_later",
        "rota_job_held",
        "rota_job_held",
    ], steps
    sorted_ones = [number for number, step in enumerate(steps) if "TEMP B-TREE" in step]
    assert ["rota_job_lease" in steps[number - 1] for number in sorted_ones] == [True], steps


def test_of_each_lane_only_the_first_job_is_read_to_say_since_when_it_is_due(crowded: StandardConnection) -> None:
    steps = plan(crowded, "census_lanes", {"aging": 1})
    (place,) = [number for number, step in enumerate(steps) if step.startswith("CORRELATED SCALAR SUBQUERY")]
    assert steps[place + 1] == "SEARCH rota_job USING INDEX rota_job_turn (queue=? AND type=?)", steps
    assert "TEMP B-TREE" not in "".join(steps[place + 1 : place + 3]), steps


def test_dead_jobs_are_grouped_from_the_index_alone(crowded: StandardConnection) -> None:
    steps = plan(crowded, "dead_groups", {"limit": 10})
    assert "SCAN rota_job USING COVERING INDEX rota_job_cause" in steps, steps


def test_deaths_by_hour_are_counted_from_the_index_alone(crowded: StandardConnection) -> None:
    steps = plan(crowded, "dead_trend", {"since": 1, "step": 1})
    assert any("USING COVERING INDEX rota_job_cause" in step for step in steps), steps
