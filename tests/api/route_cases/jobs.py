"""The routes of jobs."""

from __future__ import annotations

import asyncio
import json
from datetime import timedelta

from api.route_cases.asking import Ask, acts, lines, of, of_jobs, state, stored
from api.staging import Stage


@of_jobs("POST", "")
async def submit(stage: Stage, ask: Ask) -> None:
    told = await ask(201, json={"type": "mail", "payload": {"to": "ada"}, "priority": 7})
    job = await stored(stage, told["id"])
    assert (job.type, json.loads(job.payload), job.priority, job.state) == ("mail", {"to": "ada"}, 7, "pending")


@of("POST /v1/jobs:batch")
async def submit_many(stage: Stage, ask: Ask) -> None:
    told = await ask(json={"jobs": [{"type": "a"}, {"type": "b"}]})
    assert (told["created"], told["refused"]) == (2, 0)
    assert [(await stored(stage, item["id"])).type for item in told["items"]] == ["a", "b"]


@of_jobs("GET", "/{id}")
async def get(stage: Stage, ask: Ask) -> None:
    job = await stage.submit(type="mail", payload=[1, 2])
    shown = await ask(name=job["id"])
    assert (shown["id"], shown["type"], shown["payload"], shown["status"]) == (job["id"], "mail", [1, 2], "pending")


@of("GET /v1/jobs")
async def list_jobs(stage: Stage, ask: Ask) -> None:
    jobs = [await stage.submit(type=name) for name in ("mail", "mail", "report")]
    first = await ask(params={"type": "mail", "limit": 1})
    assert [one["id"] for one in first["items"]] == [jobs[1]["id"]]
    second = await ask(params={"type": "mail", "limit": 1, "cursor": first["next_cursor"]})
    assert ([one["id"] for one in second["items"]], second["next_cursor"]) == ([jobs[0]["id"]], None)


@of("GET /v1/jobs:count")
async def count_jobs(stage: Stage, ask: Ask) -> None:
    for name in ("mail.send", "mail.read", "report"):
        await stage.submit(type=name)
    assert await ask(params={"q": "type:mail.*"}) == {"count": 2, "is_exact": True, "text": "2"}


@of("GET /v1/jobs:histogram")
async def histogram(stage: Stage, ask: Ask) -> None:
    for name in ("mail.send", "mail.read", "report"):
        await stage.submit(type=name)
    told = await ask(params={"q": "type:mail.*"})
    assert (sum(told["counts"]), told["by"], told["partial"]) == (2, "created", False)


@of("GET /v1/suggest")
async def suggest(stage: Stage, ask: Ask) -> None:
    await stage.submit(type="mail", tags=["red", "blue"])
    assert (await ask(params={"field": "tag", "prefix": "r"}))["items"] == ["red"]
    assert (await ask(params={"field": "type"}))["items"] == ["mail"]


@of("POST /v1/operations")
async def create_operation(stage: Stage, ask: Ask) -> None:
    dead = await stage.dead()
    counted = await ask(json={"action": "retry", "q": "status:dead", "dry_run": True})
    assert (counted["matched"], counted["id"], await state(stage, dead["id"])) == (1, None, "dead")
    made = await ask(202, json={"action": "retry", "q": "status:dead", "arguments": {"rate": 5}})
    assert (made["state"], made["matched"], made["rate"]) == ("waiting", 1, 5)
    while await stage.engine.operations.tick():
        stage.clock.move(timedelta(seconds=1))
    assert await state(stage, dead["id"]) == "pending"
    assert await acts(stage) == [("operations.create", made["id"])]


@of("GET /v1/operations")
async def list_operations(stage: Stage, ask: Ask) -> None:
    job = await stage.submit()
    body = {"action": "cancel", "ids": [job["id"]]}
    made = [(await stage.client.post("/v1/operations", json=body)).json()["id"] for _ in range(2)]
    first = await ask(params={"limit": 1})
    assert [one["id"] for one in first["items"]] == [made[1]]
    second = await ask(params={"limit": 1, "cursor": first["next_cursor"]})
    assert ([one["id"] for one in second["items"]], second["next_cursor"]) == ([made[0]], None)


@of("GET /v1/operations/{id}")
async def get_operation(stage: Stage, ask: Ask) -> None:
    job = await stage.submit()
    made = (await stage.client.post("/v1/operations", json={"action": "cancel", "ids": [job["id"]]})).json()
    while await stage.engine.operations.tick():
        pass
    shown = await ask(name=made["id"])
    assert (shown["state"], shown["done"], shown["id_count"]) == ("completed", 1, 1)


@of("POST /v1/operations/{id}/cancel")
async def cancel_operation(stage: Stage, ask: Ask) -> None:
    job = await stage.submit()
    body = {"action": "cancel", "ids": [job["id"]], "start_after": "10s"}
    made = (await stage.client.post("/v1/operations", json=body)).json()
    assert (await ask(name=made["id"]))["state"] == "cancelled"
    stage.clock.move(timedelta(seconds=11))
    assert await stage.engine.operations.tick() == 0
    assert await state(stage, job["id"]) == "pending"


@of("GET /jobs", "GET /tasks")
async def list_tasks(stage: Stage, ask: Ask) -> None:
    jobs = [await stage.submit(type=name) for name in ("mail", "mail", "report")]
    assert [one["id"] for one in await ask(params={"type": "mail"})] == [jobs[1]["id"], jobs[0]["id"]]
    assert [one["id"] for one in await ask(params={"limit": 1})] == [jobs[2]["id"]]


@of("GET /v1/jobs/{id}/attempts")
async def attempts(stage: Stage, ask: Ask) -> None:
    dead = await stage.dead("disk full")
    (attempt,) = (await ask(name=dead["id"]))["items"]
    assert (attempt["worker_id"], attempt["event"], attempt["error"]["message"]) == ("ada", "exhaust", "disk full")
    assert (attempt["number"], attempt["outcome"], attempt["duration"]) == (1, "failed, last attempt", 0.0)


@of("GET /v1/jobs/{id}/logs")
async def logs(stage: Stage, ask: Ask) -> None:
    await stage.submit()
    (claimed,) = await stage.claim("ada")
    await stage.settle(claimed, "succeeded", log_tail="one\ntwo")
    log = await ask(name=claimed["id"], params={"attempt": 1, "after": 1})
    assert [(line["number"], line["message"]) for line in log["items"]] == [(2, "two")]
    assert (log["attempt"], log["attempts"], log["is_running"]) == (1, 1, False)


@of("GET /v1/jobs/{id}/explain")
async def explain(stage: Stage, ask: Ask) -> None:
    job = await stage.submit(delay=60)
    told = await ask(name=job["id"])
    assert (told["state"], told["reasons"][0]["code"]) == ("scheduled", "scheduled_future")


@of("GET /v1/jobs/{id}/result")
async def result(stage: Stage, ask: Ask) -> None:
    job = await stage.submit()
    assert (await ask(202, name=job["id"]))["is_finished"] is False
    (claimed,) = await stage.claim()
    waiting = asyncio.create_task(ask(name=job["id"], params={"wait": 20}))
    await stage.settle(claimed, "succeeded", result={"sent": 3})
    told = await waiting
    assert (told["is_finished"], told["status"], told["result"]) == (True, "completed", {"sent": 3})


@of("GET /v1/jobs/{id}/events")
async def job_events(stage: Stage, ask: Ask) -> None:
    job = await stage.submit(type="mail")
    told = json.loads((await lines(ask, job["id"]))[-1].removeprefix("data: "))
    assert (told["id"], told["status"]) == (job["id"], "pending")


@of_jobs("POST", "/{id}/cancel")
@of_jobs("DELETE", "/{id}")
async def cancel(stage: Stage, ask: Ask) -> None:
    waiting, running = await stage.submit(), await stage.submit(queue="b")
    await stage.claim(queues=["b"])
    assert (await ask(200, name=waiting["id"]))["status"] == "cancelled"
    assert await state(stage, waiting["id"]) == "cancelled"
    assert (await ask(202, name=running["id"]))["status"] == "running"
    assert (await stored(stage, running["id"])).cancel_requested_at == stage.clock()
    assert [act for act, _ in await acts(stage)] == ["jobs.cancel", "jobs.cancel"]


@of_jobs("POST", "/{id}/retry")
@of("POST /v1/dead-letters/{id}/retry")
async def retry(stage: Stage, ask: Ask) -> None:
    dead = await stage.dead()
    assert (await ask(name=dead["id"]))["status"] == "pending"
    assert await state(stage, dead["id"]) == "pending"
    assert await acts(stage) == [("jobs.retry", dead["id"])]


@of("PATCH /v1/jobs/{id}")
async def edit(stage: Stage, ask: Ask) -> None:
    job = await stage.submit(type="mail", payload={"to": "ada"})
    told = await ask(name=job["id"], json={"payload": {"to": "bob"}, "priority": 9, "queue": "side", "delay": "1h"})
    assert (told["payload"], told["priority"], told["queue"], told["status"]) == ({"to": "bob"}, 9, "side", "scheduled")
    found = await stored(stage, job["id"])
    assert (json.loads(found.payload), found.priority, found.queue) == ({"to": "bob"}, 9, "side")
    assert await acts(stage) == [("jobs.edit", job["id"])]


@of("POST /v1/jobs/{id}/duplicate")
async def duplicate(stage: Stage, ask: Ask) -> None:
    job = await stage.submit(type="mail", payload={"to": "ada"}, tags=["red"])
    told = await ask(201, name=job["id"], json={"payload": {"to": "bob"}})
    assert (told["retried_from"], told["payload"], told["tags"]) == (job["id"], {"to": "bob"}, ["red"])
    assert told["id"] != job["id"]
    assert await acts(stage) == [("jobs.duplicate", job["id"])]


@of("POST /v1/jobs:validate")
async def validate(stage: Stage, ask: Ask) -> None:
    told = await ask(json={"type": "mail", "queue": "side", "priority": 7})
    assert (told["type"], told["queue"], told["priority"]) == ("mail", "side", 7)
    assert (await stage.store.census()).total() == 0


@of_jobs("POST", "/{id}/run-now")
async def run_now(stage: Stage, ask: Ask) -> None:
    job = await stage.submit(delay=3600)
    assert (await ask(name=job["id"]))["status"] == "pending"
    assert [one["id"] for one in await stage.claim()] == [job["id"]]


async def _many(stage: Stage, ask: Ask, job_id: str, wanted: str) -> None:
    told = await ask(json={"ids": [job_id, "0000000000001"]})
    assert [(one["id"], one["status"]) for one in told["items"]] == [(job_id, 200), ("0000000000001", 404)]
    assert await state(stage, job_id) == wanted


@of("POST /v1/jobs:cancel")
async def cancel_many(stage: Stage, ask: Ask) -> None:
    await _many(stage, ask, (await stage.submit())["id"], "cancelled")


@of("POST /v1/jobs:retry")
async def retry_many(stage: Stage, ask: Ask) -> None:
    await _many(stage, ask, (await stage.dead())["id"], "pending")


@of("POST /v1/jobs:run-now")
async def run_many_now(stage: Stage, ask: Ask) -> None:
    await _many(stage, ask, (await stage.submit(delay=3600))["id"], "pending")
