"""The routes of schedules."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from api.environment import ApiEnvironment, body_of
from api.route_cases.route_case import RouteClient, of, stored
from rota.core.schedule import Schedule

NIGHTLY: dict[str, Any] = {"name": "nightly", "cron": "0 3 * * *", "job": {"type": "report", "payload": {"n": 1}}}


async def nightly(env: ApiEnvironment) -> Schedule:
    """Put a schedule up."""
    body_of(await env.client.post("/v1/schedules", json=NIGHTLY), 201)
    return await the_schedule(env)


async def the_schedule(env: ApiEnvironment) -> Schedule:
    (schedule,) = await env.store.schedules()
    return schedule


@of("POST /v1/schedules")
async def create_schedule(env: ApiEnvironment, send: RouteClient) -> None:
    answer = await send(201, json={**NIGHTLY, "zone": "Europe/Berlin"})
    schedule = await the_schedule(env)
    assert (schedule.name, schedule.zone, schedule.template.type) == ("nightly", "Europe/Berlin", "report")
    assert answer["next_run_at"] == "2026-03-02T02:00:00Z"


@of("GET /v1/schedules")
async def list_schedules(env: ApiEnvironment, send: RouteClient) -> None:
    await nightly(env)
    assert [one["name"] for one in (await send())["items"]] == ["nightly"]


@of("GET /v1/schedules/{id}")
async def get_schedule(env: ApiEnvironment, send: RouteClient) -> None:
    await nightly(env)
    shown = await send(name="nightly")
    assert (shown["cron"], shown["job"]["type"], shown["status"]) == ("0 3 * * *", "report", "active")


@of("PATCH /v1/schedules/{id}")
async def change_schedule(env: ApiEnvironment, send: RouteClient) -> None:
    await nightly(env)
    assert (await send(name="nightly", json={"cron": "0 4 * * *"}))["cron"] == "0 4 * * *"
    assert (await the_schedule(env)).rule == "0 4 * * *"


@of("DELETE /v1/schedules/{id}")
async def drop_schedule(env: ApiEnvironment, send: RouteClient) -> None:
    await nightly(env)
    await send(204, name="nightly")
    assert await env.store.schedules() == []


@of("POST /v1/schedules/{id}/pause")
async def pause_schedule(env: ApiEnvironment, send: RouteClient) -> None:
    await nightly(env)
    assert (await send(name="nightly", json={"reason": "holiday"}))["status"] == "paused"
    paused = await the_schedule(env)
    assert (paused.paused_at, paused.pause_reason) == (env.clock(), "holiday")


@of("POST /v1/schedules/{id}/resume")
async def resume_schedule(env: ApiEnvironment, send: RouteClient) -> None:
    await nightly(env)
    body_of(await env.client.post("/v1/schedules/nightly/pause"))
    assert (await send(name="nightly"))["status"] == "active"
    assert (await the_schedule(env)).paused_at is None


@of("POST /v1/schedules/{id}/run-now")
async def run_schedule_now(env: ApiEnvironment, send: RouteClient) -> None:
    schedule = await nightly(env)
    answer = await send(201, name="nightly")
    job = await stored(env, answer["id"])
    assert (job.type, job.state, job.schedule_id) == ("report", "pending", schedule.id)


@of("POST /v1/schedules/{id}/skip")
async def skip_schedule(env: ApiEnvironment, send: RouteClient) -> None:
    before = (await nightly(env)).next_fire_at
    assert before is not None
    answer = await send(name="nightly")
    after = (await the_schedule(env)).next_fire_at
    assert after == before + timedelta(days=1)
    assert answer["next_run_at"] == after.isoformat().replace("+00:00", "Z")
    (occurrence,) = await env.store.occurrences((await the_schedule(env)).id)
    assert (occurrence.fire_time, occurrence.fate, occurrence.job_id) == (before, "skipped", None)
    assert [one.action for one in await env.store.ledger(limit=1)] == ["schedules.skip"]


@of("POST /v1/schedules/{id}/backfill")
async def backfill(env: ApiEnvironment, send: RouteClient) -> None:
    await nightly(env)
    answer = await send(name="nightly", json={"from": "2026-02-01T00:00:00Z", "to": "2026-02-03T00:00:00Z"})
    times = [(await stored(env, job_id)).fire_time for job_id in answer["jobs"]]
    assert [f"{moment:%m-%d %H:%M}" for moment in times if moment] == ["02-01 03:00", "02-02 03:00"]


@of("GET /v1/schedules/{id}/occurrences")
async def occurrences(env: ApiEnvironment, send: RouteClient) -> None:
    await nightly(env)
    stretch = {"from": "2026-02-01T00:00:00Z", "to": "2026-02-02T00:00:00Z"}
    made = body_of(await env.client.post("/v1/schedules/nightly/backfill", json=stretch))["jobs"]
    (answer,) = (await send(name="nightly"))["items"]
    assert ([answer["job_id"]], answer["fire_time"]) == (made, "2026-02-01T03:00:00Z")


@of("GET /v1/schedules/{id}/next")
async def coming(env: ApiEnvironment, send: RouteClient) -> None:
    await nightly(env)
    answer = await send(name="nightly", params={"count": 2})
    assert answer["times"] == ["2026-03-02T03:00:00Z", "2026-03-03T03:00:00Z"]


@of("POST /v1/schedules:preview")
async def preview(_stage: ApiEnvironment, send: RouteClient) -> None:
    answer = await send(json={"cron": "0 3 * * *", "zone": "Europe/Berlin", "count": 1})
    assert answer["times"] == ["2026-03-02T02:00:00Z"]


@of("GET /v1/schedules:recent")
async def recent(env: ApiEnvironment, send: RouteClient) -> None:
    await nightly(env)
    stretch = {"from": "2026-02-01T00:00:00Z", "to": "2026-02-02T00:00:00Z"}
    made = body_of(await env.client.post("/v1/schedules/nightly/backfill", json=stretch))["jobs"]
    (found,) = (await send(params={"count": 5}))["items"]
    (run,) = found["runs"]
    assert (found["name"], run["fate"], run["state"], [run["job_id"]]) == ("nightly", "fired", "pending", made)


@of("GET /v1/schedules/forecast")
async def forecast(env: ApiEnvironment, send: RouteClient) -> None:
    await nightly(env)
    answer = await send(params={"hours": 24})
    assert [(one["name"], one["at"]) for one in answer["items"]] == [("nightly", "2026-03-02T03:00:00Z")]
