"""Cancel, retry, run now: on every path, one and many, for jobs and schedules."""

from __future__ import annotations

import pytest

from api.environment import ApiEnvironment, body_of, problem_of

ROOTS = ["/v1/jobs", "/jobs", "/tasks"]


@pytest.mark.parametrize("root", ROOTS)
async def test_a_waiting_job_is_cancelled_either_way(env: ApiEnvironment, root: str) -> None:
    first, second = await env.submit(), await env.submit()
    assert body_of(await env.client.post(f"{root}/{first['id']}/cancel"))["status"] == "cancelled"
    assert body_of(await env.client.delete(f"{root}/{second['id']}"))["status"] == "cancelled"
    again = problem_of(await env.client.delete(f"{root}/{second['id']}"), 409)
    assert "already ended" in again["detail"]


async def test_a_running_job_is_asked_to_stop(env: ApiEnvironment) -> None:
    job = await env.submit()
    (claimed,) = await env.claim()
    asked = body_of(await env.client.post(f"/v1/jobs/{job['id']}/cancel"), 202)
    assert asked["cancel_requested_at"] is not None
    renewal = {"renewals": [{"id": job["id"], "fence": claimed["fence"]}]}
    (renewed,) = body_of(await env.client.post("/v1/leases:renew", json=renewal))["renewed"]
    assert renewed["cancel"] is True
    await env.settle(claimed, "stopped")
    assert (await env.get(job["id"]))["status"] == "cancelled"


@pytest.mark.parametrize(
    ("outcome", "state"), [("failed", "cancelled"), ("released", "cancelled"), ("succeeded", "completed")]
)
async def test_a_job_that_was_asked_to_stop_is_not_attempted_again(
    env: ApiEnvironment, outcome: str, state: str
) -> None:
    """The worker has not received the cancel when the handler begins, as 202 allows."""
    job = await env.submit(max_attempts=5)
    (claimed,) = await env.claim()
    body_of(await env.client.delete(f"/v1/jobs/{job['id']}"), 202)
    error = {"error": {"kind": "OSError", "message": "no"}} if outcome == "failed" else {}
    await env.settle(claimed, outcome, **error)
    assert (await env.get(job["id"]))["status"] == state
    assert await env.claim() == []


async def test_the_document_says_what_202_means(env: ApiEnvironment) -> None:
    paths = (await env.client.get("/openapi.json")).json()["paths"]
    for root in ROOTS:
        for operation in (paths[f"{root}/{{id}}/cancel"]["post"], paths[f"{root}/{{id}}"]["delete"]):
            assert "may yet start" in operation["responses"]["202"]["description"]


@pytest.mark.parametrize("root", ROOTS)
async def test_a_dead_job_is_retried_and_a_completed_one_is_not(env: ApiEnvironment, root: str) -> None:
    dead = await env.dead()
    assert body_of(await env.client.post(f"{root}/{dead['id']}/retry"))["status"] == "pending"
    (claimed,) = await env.claim()
    await env.settle(claimed, "succeeded")
    refused = problem_of(await env.client.post(f"{root}/{dead['id']}/retry"), 409)
    assert "submit a new one" in refused["detail"]


@pytest.mark.parametrize("root", ROOTS)
async def test_a_scheduled_job_is_run_now(env: ApiEnvironment, root: str) -> None:
    job = await env.submit(delay="1h")
    assert body_of(await env.client.post(f"{root}/{job['id']}/run-now"))["status"] == "pending"
    problem_of(await env.client.post(f"{root}/{job['id']}/run-now"), 409)


@pytest.mark.parametrize("deed", ["cancel", "retry", "run-now"])
async def test_many_are_answered_one_by_one(env: ApiEnvironment, deed: str) -> None:
    job = await env.submit(delay="1h")
    unknown = "0000000000001"
    ids = [job["id"], unknown]
    items = body_of(await env.client.post(f"/v1/jobs:{deed}", json={"ids": ids}))["items"]
    assert [(item["id"], item["status"]) for item in items] == [(job["id"], 200), (unknown, 404)]


@pytest.mark.parametrize("deed", ["cancel", "retry", "run-now"])
@pytest.mark.parametrize("root", ROOTS)
async def test_an_unknown_job_is_not_found(env: ApiEnvironment, root: str, deed: str) -> None:
    problem_of(await env.client.post(f"{root}/0000000000001/{deed}"), 404)


async def test_a_schedule_under_the_paths_of_jobs_obeys_too(env: ApiEnvironment) -> None:
    schedule = body_of(await env.client.post("/tasks", json={"cron": "@daily", "type": "report"}), 201)
    job = body_of(await env.client.post(f"/tasks/{schedule['id']}/run-now"))
    assert (job["type"], job["schedule_id"]) == ("report", schedule["id"])
    problem_of(await env.client.post(f"/tasks/{schedule['id']}/retry"), 409)
    assert body_of(await env.client.delete(f"/tasks/{schedule['id']}"))["id"] == schedule["id"]
    problem_of(await env.client.get(f"/tasks/{schedule['id']}"), 404)


async def test_what_operators_do_stands_in_the_ledger(env: ApiEnvironment) -> None:
    job = await env.submit()
    await env.client.delete(f"/v1/jobs/{job['id']}")
    await env.client.post(f"/v1/jobs/{job['id']}/retry")
    await env.client.post("/v1/queues/default/pause")
    first = body_of(await env.client.get("/v1/events?limit=2"))
    assert [entry["action"] for entry in first["items"]] == ["queues.pause", "jobs.retry"]
    second = body_of(await env.client.get(f"/v1/events?limit=2&cursor={first['next_cursor']}"))
    (entry,) = second["items"]
    assert (entry["action"], entry["target"], entry["actor"]) == ("jobs.cancel", job["id"], "anonymous")
    assert (entry["origin"], second["next_cursor"]) == ("127.0.0.1", None)
