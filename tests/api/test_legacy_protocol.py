"""Requests of older systems on the legacy paths (`/tasks`, `/jobs`, `/next-job`), and the responses they expect."""

from __future__ import annotations

import httpx
import pytest

from api.environment import ApiEnvironment, body_of, fields_of, problem_of
from builders import SECOND

JSON = {"Content-Type": "application/json"}


async def test_tasks_paths_submit_show_retry_and_count(env: ApiEnvironment) -> None:
    text = '{"type":"send_email","payload":{"to":"user@example.com"},"max_attempts":3}'
    task = body_of(await env.client.post("/tasks", content=text, headers=JSON), 201)
    assert (task["type"], task["status"], task["attempts"], task["max_attempts"]) == ("send_email", "pending", 0, 3)
    assert body_of(await env.client.get(f"/tasks/{task['id']}"))["payload"] == {"to": "user@example.com"}
    stats = body_of(await env.client.get("/stats"))
    assert (stats["queue_depth"], stats["worker_utilization"], stats["dlq_size"]) == (1, 0.0, 0)
    dead = await env.dead(queue="other")
    retried = body_of(await env.client.post(f"/tasks/{dead['id']}/retry"))
    assert retried["status"] == "pending"


async def test_tasks_path_submits_a_recurring_task(env: ApiEnvironment) -> None:
    request = {"type": "gen_report", "cron": "0 8 * * MON", "max_attempts": 1}
    task = body_of(await env.client.post("/tasks", json=request), 201)
    assert (task["schedule"], task["next_run_at"]) == ("0 8 * * MON", "2026-03-02T08:00:00Z")
    shown = body_of(await env.client.get(f"/tasks/{task['id']}"))
    assert (shown["type"], shown["schedule"], shown["max_attempts"]) == ("gen_report", "0 8 * * MON", 1)


async def test_next_job_hands_out_a_job_and_complete_settles_it(env: ApiEnvironment) -> None:
    text = '{\n    "type": "sleep",\n    "payload": {"duration": 5},\n    "priority": 7\n  }'
    job = body_of(await env.client.post("/jobs", content=text, headers=JSON), 201)
    assert (job["type"], job["priority"], job["payload"]) == ("sleep", 7, {"duration": 5})
    assert body_of(await env.client.get(f"/jobs/{job['id']}"))["status"] == "pending"
    handed = body_of(await env.client.get("/next-job?worker_id=worker-1"))
    assert (handed["id"], handed["fence"], handed["worker_id"]) == (job["id"], 1, "worker-1")
    done = await env.client.post(f"/jobs/{job['id']}/complete", json={"worker_id": "worker-1", "success": True})
    assert body_of(done)["status"] == "completed"
    assert (await env.client.get("/next-job")).status_code == 204
    assert body_of(await env.client.get("/health"))["status"] == "healthy"


async def test_tasks_path_submits_a_task_for_a_time(env: ApiEnvironment) -> None:
    text = """{
           "due_at": "2026-01-20T12:00:00Z",
           "payload": {"action": "email_user", "user_id": 42}
         }"""
    past = body_of(await env.client.post("/tasks", content=text, headers=JSON), 201)
    assert (past["type"], past["status"], past["due_at"]) == ("default", "pending", "2026-01-20T12:00:00Z")
    later = body_of(await env.client.post("/tasks", json={"due_at": "2026-03-01T12:00:10Z"}), 201)
    assert later["status"] == "scheduled"


async def test_jobs_path_creates_a_job_with_an_idempotency_key(env: ApiEnvironment) -> None:
    assert (await env.client.get("/healthz")).status_code == 200
    text = '{\n    "type": "demo",\n    "payload": {"msg": "hello"},\n    "max_attempts": 3\n  }'
    headers = {**JSON, "Idempotency-Key": "demo-1"}
    job = body_of(await env.client.post("/jobs", content=text, headers=headers), 201)
    again = await env.client.post("/jobs", content=text, headers=headers)
    assert body_of(again)["id"] == job["id"]
    assert again.headers["Idempotent-Replayed"] == "true"
    shown = body_of(await env.client.get(f"/jobs/{job['id']}"))
    assert {"id", "type", "status", "attempts", "max_attempts", "payload", "created_at", "updated_at"} <= set(shown)


async def test_jobs_paths_create_show_and_list(env: ApiEnvironment) -> None:
    text = """{
  "payload": "task data",
  "priority": 5,
  "dedupe_key": "unique-key",
  "schedule_at": "2024-12-25T10:00:00Z"
}"""
    job = body_of(await env.client.post("/jobs", content=text, headers=JSON), 201)
    assert (job["payload"], job["status"], job["schedule_at"]) == ("task data", "pending", "2024-12-25T10:00:00Z")
    (claimed,) = await env.claim("worker-1")
    env.clock.move(SECOND)
    await env.settle(claimed, "succeeded")
    shown = body_of(await env.client.get(f"/jobs/{job['id']}"))
    assert (shown["status"], shown["worker_id"]) == ("completed", "worker-1")
    assert shown["created_at"] <= shown["started_at"] < shown["completed_at"]
    assert (await env.client.get("/jobs?status=pending")).json() == []
    assert [one["id"] for one in (await env.client.get("/jobs?status=SUCCESS")).json()] == [job["id"]]


async def test_health_metrics_and_leader_as_json(env: ApiEnvironment) -> None:
    await env.submit()
    health = body_of(await env.client.get("/health"))
    expected = {"status": "degraded", "instance_id": "here", "is_leader": False, "coordinator_health": True}
    assert {name: health[name] for name in expected} == expected
    assert isinstance(health["timestamp"], int)
    metrics = body_of(await env.client.get("/metrics"))
    assert set(metrics) == {
        "timestamp",
        "pending_jobs",
        "queued_jobs",
        "running_jobs",
        "completed_jobs",
        "failed_jobs",
        "jobs_dispatched",
        "last_dispatch",
    }
    assert metrics["pending_jobs"] == 1
    leader = body_of(await env.client.get("/leader"))
    assert leader == {"current_leader": None, "is_leader": False, "instance_id": "here"}


@pytest.mark.parametrize("accept", ["text/plain", "application/openmetrics-text; version=1.0.0, text/plain;q=0.5"])
async def test_a_scraper_gets_text(env: ApiEnvironment, accept: str) -> None:
    await env.submit(type='odd"type')
    response = await env.client.get("/metrics", headers={"Accept": accept})
    assert response.headers["content-type"].startswith(accept.split(";", maxsplit=1)[0])
    (line,) = (line for line in response.text.splitlines() if line.startswith("rota_jobs{"))
    assert 'type="odd\\"type"' in line
    assert line.endswith("} 1.0")
    assert response.text.endswith("# EOF\n") == ("openmetrics" in accept)


@pytest.mark.parametrize("path", ["/jobs/123", "/tasks/7dab128f237ee00ce17961b4963b31b7", "/v1/jobs/0000000000000"])
async def test_an_id_that_names_no_job_is_not_found(client: httpx.AsyncClient, path: str) -> None:
    assert problem_of(await client.get(path), 404)["code"] == "not_found"


async def test_the_fields_of_a_lease_may_be_sent_back(env: ApiEnvironment) -> None:
    """A client that sent back the fields it had received was refused for unknown fields."""
    await env.submit()
    given = body_of(await env.client.get("/next-job?worker_id=w1&boot_id=b1"))
    lease = {name: given[name] for name in ("id", "worker_id", "boot_id", "fence", "lease_until", "attempts")}
    path = f"/jobs/{given['id']}/complete"
    other = {**lease, "boot_id": "b2", "success": True}
    assert problem_of(await env.client.post(path, json=other), 409)["code"] == "stale_lease"
    wrong = {**lease, "id": "0000000000001", "success": True}
    assert fields_of(problem_of(await env.client.post(path, json=wrong), 422)) == {"id"}
    assert body_of(await env.client.post(path, json={**lease, "success": True}))["status"] == "completed"
    assert body_of(await env.client.post(path, json={**lease, "success": True}))["status"] == "completed"


async def test_a_recurring_task_is_cancelled_when_it_was_cancelled(env: ApiEnvironment) -> None:
    """The answer said that it was active, though it was gone."""
    made = body_of(await env.client.post("/tasks", json={"cron": "@hourly"}), 201)
    answer = body_of(await env.client.post(f"/tasks/{made['id']}/cancel"))
    assert (answer["status"], answer["next_run_at"]) == ("cancelled", None)
    problem_of(await env.client.get(f"/tasks/{made['id']}"), 404)
