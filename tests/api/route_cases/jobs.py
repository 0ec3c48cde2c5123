"""The routes of jobs."""

from __future__ import annotations

import asyncio
import json
from datetime import timedelta

from api.environment import ApiEnvironment
from api.route_cases.route_case import RouteClient, ledger_actions, of, of_jobs, state, stored, stream_lines


@of_jobs("POST", "")
async def submit(env: ApiEnvironment, send: RouteClient) -> None:
    answer = await send(201, json={"type": "mail", "payload": {"to": "ada"}, "priority": 7})
    job = await stored(env, answer["id"])
    assert (job.type, json.loads(job.payload), job.priority, job.state) == ("mail", {"to": "ada"}, 7, "pending")


@of("POST /v1/jobs:batch")
async def submit_many(env: ApiEnvironment, send: RouteClient) -> None:
    answer = await send(json={"jobs": [{"type": "a"}, {"type": "b"}]})
    assert (answer["created"], answer["refused"]) == (2, 0)
    assert [(await stored(env, item["id"])).type for item in answer["items"]] == ["a", "b"]


@of_jobs("GET", "/{id}")
async def get(env: ApiEnvironment, send: RouteClient) -> None:
    job = await env.submit(type="mail", payload=[1, 2])
    shown = await send(name=job["id"])
    assert (shown["id"], shown["type"], shown["payload"], shown["status"]) == (job["id"], "mail", [1, 2], "pending")


@of("GET /v1/jobs")
async def list_jobs(env: ApiEnvironment, send: RouteClient) -> None:
    jobs = [await env.submit(type=name) for name in ("mail", "mail", "report")]
    first = await send(params={"type": "mail", "limit": 1})
    assert [one["id"] for one in first["items"]] == [jobs[1]["id"]]
    second = await send(params={"type": "mail", "limit": 1, "cursor": first["next_cursor"]})
    assert ([one["id"] for one in second["items"]], second["next_cursor"]) == ([jobs[0]["id"]], None)


@of("GET /v1/jobs:count")
async def count_jobs(env: ApiEnvironment, send: RouteClient) -> None:
    for name in ("mail.send", "mail.read", "report"):
        await env.submit(type=name)
    assert await send(params={"q": "type:mail.*"}) == {"count": 2, "is_exact": True, "text": "2"}


@of("GET /v1/jobs:histogram")
async def histogram(env: ApiEnvironment, send: RouteClient) -> None:
    for name in ("mail.send", "mail.read", "report"):
        await env.submit(type=name)
    answer = await send(params={"q": "type:mail.*"})
    assert (sum(answer["counts"]), answer["by"], answer["partial"]) == (2, "created", False)


@of("GET /v1/suggest")
async def suggest(env: ApiEnvironment, send: RouteClient) -> None:
    await env.submit(type="mail", tags=["red", "blue"])
    assert (await send(params={"field": "tag", "prefix": "r"}))["items"] == ["red"]
    assert (await send(params={"field": "type"}))["items"] == ["mail"]


@of("POST /v1/operations")
async def create_operation(env: ApiEnvironment, send: RouteClient) -> None:
    dead = await env.dead()
    counted = await send(json={"action": "retry", "q": "status:dead", "dry_run": True})
    assert (counted["matched"], counted["id"], await state(env, dead["id"])) == (1, None, "dead")
    made = await send(202, json={"action": "retry", "q": "status:dead", "arguments": {"rate": 5}})
    assert (made["state"], made["matched"], made["rate"]) == ("waiting", 1, 5)
    while await env.engine.operations.tick():
        env.clock.move(timedelta(seconds=1))
    assert await state(env, dead["id"]) == "pending"
    assert await ledger_actions(env) == [("operations.create", made["id"])]


@of("GET /v1/operations")
async def list_operations(env: ApiEnvironment, send: RouteClient) -> None:
    job = await env.submit()
    body = {"action": "cancel", "ids": [job["id"]]}
    made = [(await env.client.post("/v1/operations", json=body)).json()["id"] for _ in range(2)]
    first = await send(params={"limit": 1})
    assert [one["id"] for one in first["items"]] == [made[1]]
    second = await send(params={"limit": 1, "cursor": first["next_cursor"]})
    assert ([one["id"] for one in second["items"]], second["next_cursor"]) == ([made[0]], None)


@of("GET /v1/operations/{id}")
async def get_operation(env: ApiEnvironment, send: RouteClient) -> None:
    job = await env.submit()
    made = (await env.client.post("/v1/operations", json={"action": "cancel", "ids": [job["id"]]})).json()
    while await env.engine.operations.tick():
        pass
    shown = await send(name=made["id"])
    assert (shown["state"], shown["done"], shown["id_count"]) == ("completed", 1, 1)


@of("POST /v1/operations/{id}/cancel")
async def cancel_operation(env: ApiEnvironment, send: RouteClient) -> None:
    job = await env.submit()
    body = {"action": "cancel", "ids": [job["id"]], "start_after": "10s"}
    made = (await env.client.post("/v1/operations", json=body)).json()
    assert (await send(name=made["id"]))["state"] == "cancelled"
    env.clock.move(timedelta(seconds=11))
    assert await env.engine.operations.tick() == 0
    assert await state(env, job["id"]) == "pending"


@of("GET /jobs", "GET /tasks")
async def list_tasks(env: ApiEnvironment, send: RouteClient) -> None:
    jobs = [await env.submit(type=name) for name in ("mail", "mail", "report")]
    assert [one["id"] for one in await send(params={"type": "mail"})] == [jobs[1]["id"], jobs[0]["id"]]
    assert [one["id"] for one in await send(params={"limit": 1})] == [jobs[2]["id"]]


@of("GET /v1/jobs/{id}/attempts")
async def attempts(env: ApiEnvironment, send: RouteClient) -> None:
    dead = await env.dead("disk full")
    (attempt,) = (await send(name=dead["id"]))["items"]
    assert (attempt["worker_id"], attempt["event"], attempt["error"]["message"]) == ("ada", "exhaust", "disk full")
    assert (attempt["number"], attempt["outcome"], attempt["duration"]) == (1, "failed, last attempt", 0.0)


@of("GET /v1/jobs/{id}/logs")
async def logs(env: ApiEnvironment, send: RouteClient) -> None:
    await env.submit()
    (claimed,) = await env.claim("ada")
    await env.settle(claimed, "succeeded", log_tail="one\ntwo")
    log = await send(name=claimed["id"], params={"attempt": 1, "after": 1})
    assert [(line["number"], line["message"]) for line in log["items"]] == [(2, "two")]
    assert (log["attempt"], log["attempts"], log["is_running"]) == (1, 1, False)


@of("GET /v1/jobs/{id}/explain")
async def explain(env: ApiEnvironment, send: RouteClient) -> None:
    job = await env.submit(delay=60)
    answer = await send(name=job["id"])
    assert (answer["state"], answer["reasons"][0]["code"]) == ("scheduled", "scheduled_future")


@of("GET /v1/jobs/{id}/result")
async def result(env: ApiEnvironment, send: RouteClient) -> None:
    job = await env.submit()
    assert (await send(202, name=job["id"]))["is_finished"] is False
    (claimed,) = await env.claim()
    waiting = asyncio.create_task(send(name=job["id"], params={"wait": 20}))
    await env.settle(claimed, "succeeded", result={"sent": 3})
    answer = await waiting
    assert (answer["is_finished"], answer["status"], answer["result"]) == (True, "completed", {"sent": 3})


@of("GET /v1/jobs/{id}/events")
async def job_events(env: ApiEnvironment, send: RouteClient) -> None:
    job = await env.submit(type="mail")
    answer = json.loads((await stream_lines(send, job["id"]))[-1].removeprefix("data: "))
    assert (answer["id"], answer["status"]) == (job["id"], "pending")


@of_jobs("POST", "/{id}/cancel")
@of_jobs("DELETE", "/{id}")
async def cancel(env: ApiEnvironment, send: RouteClient) -> None:
    waiting, running = await env.submit(), await env.submit(queue="b")
    await env.claim(queues=["b"])
    assert (await send(200, name=waiting["id"]))["status"] == "cancelled"
    assert await state(env, waiting["id"]) == "cancelled"
    assert (await send(202, name=running["id"]))["status"] == "running"
    assert (await stored(env, running["id"])).cancel_requested_at == env.clock()
    assert [act for act, _ in await ledger_actions(env)] == ["jobs.cancel", "jobs.cancel"]


@of_jobs("POST", "/{id}/retry")
@of("POST /v1/dead-letters/{id}/retry")
async def retry(env: ApiEnvironment, send: RouteClient) -> None:
    dead = await env.dead()
    assert (await send(name=dead["id"]))["status"] == "pending"
    assert await state(env, dead["id"]) == "pending"
    assert await ledger_actions(env) == [("jobs.retry", dead["id"])]


@of("PATCH /v1/jobs/{id}")
async def edit(env: ApiEnvironment, send: RouteClient) -> None:
    job = await env.submit(type="mail", payload={"to": "ada"})
    answer = await send(name=job["id"], json={"payload": {"to": "bob"}, "priority": 9, "queue": "side", "delay": "1h"})
    assert (answer["payload"], answer["priority"], answer["queue"], answer["status"]) == (
        {"to": "bob"},
        9,
        "side",
        "scheduled",
    )
    found = await stored(env, job["id"])
    assert (json.loads(found.payload), found.priority, found.queue) == ({"to": "bob"}, 9, "side")
    assert await ledger_actions(env) == [("jobs.edit", job["id"])]


@of("POST /v1/jobs/{id}/duplicate")
async def duplicate(env: ApiEnvironment, send: RouteClient) -> None:
    job = await env.submit(type="mail", payload={"to": "ada"}, tags=["red"])
    answer = await send(201, name=job["id"], json={"payload": {"to": "bob"}})
    assert (answer["retried_from"], answer["payload"], answer["tags"]) == (job["id"], {"to": "bob"}, ["red"])
    assert answer["id"] != job["id"]
    assert await ledger_actions(env) == [("jobs.duplicate", job["id"])]


@of("POST /v1/jobs:validate")
async def validate(env: ApiEnvironment, send: RouteClient) -> None:
    answer = await send(json={"type": "mail", "queue": "side", "priority": 7})
    assert (answer["type"], answer["queue"], answer["priority"]) == ("mail", "side", 7)
    assert (await env.store.census()).total() == 0


@of_jobs("POST", "/{id}/run-now")
async def run_now(env: ApiEnvironment, send: RouteClient) -> None:
    job = await env.submit(delay=3600)
    assert (await send(name=job["id"]))["status"] == "pending"
    assert [one["id"] for one in await env.claim()] == [job["id"]]


async def _many(env: ApiEnvironment, send: RouteClient, job_id: str, wanted: str) -> None:
    answer = await send(json={"ids": [job_id, "0000000000001"]})
    assert [(one["id"], one["status"]) for one in answer["items"]] == [(job_id, 200), ("0000000000001", 404)]
    assert await state(env, job_id) == wanted


@of("POST /v1/jobs:cancel")
async def cancel_many(env: ApiEnvironment, send: RouteClient) -> None:
    await _many(env, send, (await env.submit())["id"], "cancelled")


@of("POST /v1/jobs:retry")
async def retry_many(env: ApiEnvironment, send: RouteClient) -> None:
    await _many(env, send, (await env.dead())["id"], "pending")


@of("POST /v1/jobs:run-now")
async def run_many_now(env: ApiEnvironment, send: RouteClient) -> None:
    await _many(env, send, (await env.submit(delay=3600))["id"], "pending")
