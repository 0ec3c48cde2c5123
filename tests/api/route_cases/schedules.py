"""The routes of schedules."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from api.route_cases.asking import Ask, of, stored
from api.staging import Stage, body_of
from rota.core.schedule import Schedule

NIGHTLY: dict[str, Any] = {"name": "nightly", "cron": "0 3 * * *", "job": {"type": "report", "payload": {"n": 1}}}


async def nightly(stage: Stage) -> Schedule:
    """Put a schedule up."""
    body_of(await stage.client.post("/v1/schedules", json=NIGHTLY), 201)
    return await the_schedule(stage)


async def the_schedule(stage: Stage) -> Schedule:
    (schedule,) = await stage.store.schedules()
    return schedule


@of("POST /v1/schedules")
async def create_schedule(stage: Stage, ask: Ask) -> None:
    told = await ask(201, json={**NIGHTLY, "zone": "Europe/Berlin"})
    schedule = await the_schedule(stage)
    assert (schedule.name, schedule.zone, schedule.template.type) == ("nightly", "Europe/Berlin", "report")
    assert told["next_run_at"] == "2026-03-02T02:00:00Z"


@of("GET /v1/schedules")
async def list_schedules(stage: Stage, ask: Ask) -> None:
    await nightly(stage)
    assert [one["name"] for one in (await ask())["items"]] == ["nightly"]


@of("GET /v1/schedules/{id}")
async def get_schedule(stage: Stage, ask: Ask) -> None:
    await nightly(stage)
    shown = await ask(name="nightly")
    assert (shown["cron"], shown["job"]["type"], shown["status"]) == ("0 3 * * *", "report", "active")


@of("PATCH /v1/schedules/{id}")
async def change_schedule(stage: Stage, ask: Ask) -> None:
    await nightly(stage)
    assert (await ask(name="nightly", json={"cron": "0 4 * * *"}))["cron"] == "0 4 * * *"
    assert (await the_schedule(stage)).rule == "0 4 * * *"


@of("DELETE /v1/schedules/{id}")
async def drop_schedule(stage: Stage, ask: Ask) -> None:
    await nightly(stage)
    await ask(204, name="nightly")
    assert await stage.store.schedules() == []


@of("POST /v1/schedules/{id}/pause")
async def pause_schedule(stage: Stage, ask: Ask) -> None:
    await nightly(stage)
    assert (await ask(name="nightly", json={"reason": "holiday"}))["status"] == "paused"
    paused = await the_schedule(stage)
    assert (paused.paused_at, paused.pause_reason) == (stage.clock(), "holiday")


@of("POST /v1/schedules/{id}/resume")
async def resume_schedule(stage: Stage, ask: Ask) -> None:
    await nightly(stage)
    body_of(await stage.client.post("/v1/schedules/nightly/pause"))
    assert (await ask(name="nightly"))["status"] == "active"
    assert (await the_schedule(stage)).paused_at is None


@of("POST /v1/schedules/{id}/run-now")
async def run_schedule_now(stage: Stage, ask: Ask) -> None:
    schedule = await nightly(stage)
    told = await ask(201, name="nightly")
    job = await stored(stage, told["id"])
    assert (job.type, job.state, job.schedule_id) == ("report", "pending", schedule.id)


@of("POST /v1/schedules/{id}/skip")
async def skip_schedule(stage: Stage, ask: Ask) -> None:
    before = (await nightly(stage)).next_fire_at
    assert before is not None
    told = await ask(name="nightly")
    after = (await the_schedule(stage)).next_fire_at
    assert after == before + timedelta(days=1)
    assert told["next_run_at"] == after.isoformat().replace("+00:00", "Z")
    (occurrence,) = await stage.store.occurrences((await the_schedule(stage)).id)
    assert (occurrence.fire_time, occurrence.fate, occurrence.job_id) == (before, "skipped", None)
    assert [one.action for one in await stage.store.ledger(limit=1)] == ["schedules.skip"]


@of("POST /v1/schedules/{id}/backfill")
async def backfill(stage: Stage, ask: Ask) -> None:
    await nightly(stage)
    told = await ask(name="nightly", json={"from": "2026-02-01T00:00:00Z", "to": "2026-02-03T00:00:00Z"})
    times = [(await stored(stage, job_id)).fire_time for job_id in told["jobs"]]
    assert [f"{moment:%m-%d %H:%M}" for moment in times if moment] == ["02-01 03:00", "02-02 03:00"]


@of("GET /v1/schedules/{id}/occurrences")
async def occurrences(stage: Stage, ask: Ask) -> None:
    await nightly(stage)
    stretch = {"from": "2026-02-01T00:00:00Z", "to": "2026-02-02T00:00:00Z"}
    made = body_of(await stage.client.post("/v1/schedules/nightly/backfill", json=stretch))["jobs"]
    (told,) = (await ask(name="nightly"))["items"]
    assert ([told["job_id"]], told["fire_time"]) == (made, "2026-02-01T03:00:00Z")


@of("GET /v1/schedules/{id}/next")
async def coming(stage: Stage, ask: Ask) -> None:
    await nightly(stage)
    told = await ask(name="nightly", params={"count": 2})
    assert told["times"] == ["2026-03-02T03:00:00Z", "2026-03-03T03:00:00Z"]


@of("POST /v1/schedules:preview")
async def preview(_stage: Stage, ask: Ask) -> None:
    told = await ask(json={"cron": "0 3 * * *", "zone": "Europe/Berlin", "count": 1})
    assert told["times"] == ["2026-03-02T02:00:00Z"]


@of("GET /v1/schedules:recent")
async def recent(stage: Stage, ask: Ask) -> None:
    await nightly(stage)
    stretch = {"from": "2026-02-01T00:00:00Z", "to": "2026-02-02T00:00:00Z"}
    made = body_of(await stage.client.post("/v1/schedules/nightly/backfill", json=stretch))["jobs"]
    (found,) = (await ask(params={"count": 5}))["items"]
    (run,) = found["runs"]
    assert (found["name"], run["fate"], run["state"], [run["job_id"]]) == ("nightly", "fired", "pending", made)


@of("GET /v1/schedules/forecast")
async def forecast(stage: Stage, ask: Ask) -> None:
    await nightly(stage)
    told = await ask(params={"hours": 24})
    assert [(one["name"], one["at"]) for one in told["items"]] == [("nightly", "2026-03-02T03:00:00Z")]
