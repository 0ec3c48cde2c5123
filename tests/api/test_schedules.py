"""Schedules over HTTP."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from api.environment import ApiEnvironment, body_of, fields_of, problem_of
from builders import DAY, HOUR, MINUTE, SECOND, schedule
from rota.core.schedule import Blackout, CatchUp, Overlap
from rota.core.submission import Template
from rota.wire.schedules import ScheduleForm, schedule_form, schedule_of

NIGHTLY: dict[str, Any] = {"name": "nightly", "cron": "0 3 * * *", "job": {"type": "report", "payload": {"n": 1}}}


async def create(env: ApiEnvironment, **fields: Any) -> dict[str, Any]:  # noqa: ANN401 - any field
    return body_of(await env.client.post("/v1/schedules", json={**NIGHTLY, **fields}), 201)


async def test_a_schedule_is_put_up_shown_and_deleted(env: ApiEnvironment) -> None:
    made = await create(env, zone="Europe/Berlin", overlap="skip", jitter="5s")
    assert (made["status"], made["next_run_at"], made["version"]) == ("active", "2026-03-02T02:00:00Z", 1)
    assert (made["job"]["type"], made["job"]["payload"], made["jitter"]) == ("report", {"n": 1}, 5)
    assert body_of(await env.client.get(f"/v1/schedules/{made['id']}")) == made
    assert body_of(await env.client.get("/v1/schedules/nightly")) == made
    assert (await env.client.delete("/v1/schedules/nightly")).status_code == 204
    problem_of(await env.client.get(f"/v1/schedules/{made['id']}"), 404)
    problem_of(await env.client.delete("/v1/schedules/nightly"), 404)


async def test_a_name_belongs_to_one(env: ApiEnvironment) -> None:
    await create(env)
    problem_of(await env.client.post("/v1/schedules", json=NIGHTLY), 409)


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"cron": "* * *"}, "cron"),
        ({"cron": "5/10 * * * *"}, "cron"),
        ({"zone": "Nowhere"}, "zone"),
        ({"job": {"priority": 0}}, "job.priority"),
        ({"overlap": "maybe"}, "overlap"),
        ({"catch_up_limit": 1001}, "catch_up_limit"),
        ({"blackouts": [{"lasting": "1h"}]}, "blackouts"),
        ({"start_at": "2026-05-01T00:00:00Z", "end_at": "2026-04-01T00:00:00Z"}, "end_at"),
        ({"crn": "x"}, "crn"),
        ({"job": {"type": "report", "delay": 5}}, "job.delay"),
        ({"job": {"type": "report", "takes": "result"}}, "job.takes"),
        ({"grace": 5}, "grace"),
        ({"grace": 5, "catch_up": "all"}, "grace"),
        ({"catch_up_limit": 5}, "catch_up_limit"),
        ({"catch_up_limit": 5, "catch_up": "skip"}, "catch_up_limit"),
    ],
)
async def test_a_wrong_schedule_is_named(env: ApiEnvironment, change: dict[str, Any], field: str) -> None:
    problem = problem_of(await env.client.post("/v1/schedules", json={**NIGHTLY, **change}), 422)
    assert field in fields_of(problem)


async def test_what_belongs_to_a_policy_needs_it_also_in_a_change(env: ApiEnvironment) -> None:
    """A grace and a limit that the policy does not use were stored and shown, and did nothing."""
    await create(env, catch_up="skip", grace=300)
    for change, field in (({"catch_up_limit": 5}, "catch_up_limit"), ({"job": {"delay": 5}}, "job.delay")):
        problem = problem_of(await env.client.patch("/v1/schedules/nightly", json=change), 422)
        assert fields_of(problem) == {field}
    # What was set for another policy may stay.
    after = body_of(await env.client.patch("/v1/schedules/nightly", json={"catch_up": "all", "catch_up_limit": 5}))
    assert (after["catch_up_limit"], after["grace"]) == (5, 300)


async def test_a_change_leaves_the_rest(env: ApiEnvironment) -> None:
    made = await create(env, overlap="queue")
    response = await env.client.patch("/v1/schedules/nightly", json={"cron": "0 4 * * *", "jitter": 1})
    after = body_of(response)
    assert (after["cron"], after["jitter"], after["overlap"], after["job"]) == ("0 4 * * *", 1, "queue", made["job"])
    assert (after["next_run_at"], after["version"]) == ("2026-03-02T04:00:00Z", 2)
    assert response.headers["etag"] == '"2"'


async def test_a_change_of_something_that_changed_meanwhile_is_refused(env: ApiEnvironment) -> None:
    await create(env)
    tag = (await env.client.get("/v1/schedules/nightly")).headers["etag"]
    for expected in (200, 412):
        response = await env.client.patch("/v1/schedules/nightly", json={"jitter": 1}, headers={"If-Match": tag})
        assert response.status_code == expected


async def test_a_schedule_is_paused_and_resumed(env: ApiEnvironment) -> None:
    await create(env)
    paused = body_of(await env.client.post("/v1/schedules/nightly/pause", json={"reason": "holiday"}))
    assert (paused["status"], paused["pause_reason"]) == ("paused", "holiday")
    assert body_of(await env.client.post("/v1/schedules/nightly/pause"))["version"] == paused["version"]
    assert body_of(await env.client.post("/v1/schedules/nightly/resume"))["status"] == "active"


async def test_the_same_key_runs_a_schedule_once(env: ApiEnvironment) -> None:
    """The header was ignored: a request that was repeated after a lost reply made a second job."""
    await create(env, cron="0 * * * *")
    first = await env.client.post("/v1/schedules/nightly/run-now", headers={"Idempotency-Key": "a"})
    again = await env.client.post("/v1/schedules/nightly/run-now", headers={"Idempotency-Key": '"a"'})
    assert body_of(first, 201)["id"] == body_of(again)["id"]
    assert again.headers["idempotent-replayed"] == "true"
    entries = body_of(await env.client.get("/v1/events"))["items"]
    assert [one["action"] for one in entries] == ["schedules.run_now", "schedules.create"]
    body_of(await env.client.post("/v1/schedules", json={"name": "other", "cron": "@daily", "job": {}}), 201)
    reused = await env.client.post("/v1/schedules/other/run-now", headers={"Idempotency-Key": "a"})
    assert problem_of(reused, 422)["code"] == "key_reused"


async def test_a_schedule_is_run_now_and_its_fire_times_are_remembered(env: ApiEnvironment) -> None:
    made = await create(env, cron="0 * * * *")
    response = await env.client.post("/v1/schedules/nightly/run-now")
    job = body_of(response, 201)
    assert (job["type"], job["schedule_id"], response.headers["location"]) == (
        "report",
        made["id"],
        f"/v1/jobs/{job['id']}",
    )
    for _ in range(3):
        env.clock.move(HOUR)
        assert await env.engine.schedules.fire(10) == 1
    first = body_of(await env.client.get("/v1/schedules/nightly/occurrences?limit=2"))
    assert [one["fire_time"] for one in first["items"]] == ["2026-03-01T15:00:00Z", "2026-03-01T14:00:00Z"]
    rest = body_of(await env.client.get(f"/v1/schedules/nightly/occurrences?limit=2&cursor={first['next_cursor']}"))
    assert [one["fire_time"] for one in rest["items"]] == ["2026-03-01T13:00:00Z"]
    listed = body_of(await env.client.get(f"/v1/jobs?schedule_id={made['id']}"))["items"]
    assert len(listed) == 4


async def test_a_past_stretch_is_made_up_for_once(env: ApiEnvironment) -> None:
    await create(env)
    span = {"from": "2026-02-01T00:00:00Z", "to": "2026-02-03T12:00:00Z"}
    assert len(body_of(await env.client.post("/v1/schedules/nightly/backfill", json=span))["jobs"]) == 3
    assert body_of(await env.client.post("/v1/schedules/nightly/backfill", json=span))["jobs"] == []
    wrong = {"from": span["to"], "to": span["from"]}
    problem_of(await env.client.post("/v1/schedules/nightly/backfill", json=wrong), 422)


async def test_a_rule_is_shown_before_it_is_put_up(env: ApiEnvironment) -> None:
    request = {"cron": "30 2 * * *", "zone": "Europe/Berlin", "count": 2, "after": "2026-03-28T12:00:00Z"}
    shown = body_of(await env.client.post("/v1/schedules:preview", json=request))
    assert shown["times"] == ["2026-03-29T01:00:00Z", "2026-03-30T00:30:00Z"]
    assert shown["local_times"] == ["2026-03-29T03:00:00+02:00", "2026-03-30T02:30:00+02:00"]
    problem_of(await env.client.post("/v1/schedules:preview", json={"cron": "@daily", "count": 1001}), 422)
    far = {"cron": "@daily", "after": "9999-12-31T00:00:00Z"}
    problem_of(await env.client.post("/v1/schedules:preview", json=far), 422)


async def test_the_next_fire_times_and_the_forecast(env: ApiEnvironment) -> None:
    await create(env)
    await create(env, name="busy", cron="@every 10m")
    await create(env, name="asleep", cron="@every 1s")
    await env.client.post("/v1/schedules/asleep/pause")
    times = body_of(await env.client.get("/v1/schedules/nightly/next?count=2"))["times"]
    assert times == ["2026-03-02T03:00:00Z", "2026-03-03T03:00:00Z"]
    forecast = body_of(await env.client.get("/v1/schedules/forecast?hours=1"))
    assert {item["name"] for item in forecast["items"]} == {"busy"}
    assert (len(forecast["items"]), forecast["is_complete"]) == (6, True)
    await env.client.post("/v1/schedules/asleep/resume")
    forecast = body_of(await env.client.get("/v1/schedules/forecast?hours=1"))
    assert (len(forecast["items"]), forecast["is_complete"]) == (506, False)


async def test_schedules_are_listed_by_name(env: ApiEnvironment) -> None:
    for name in ("b", "c", "a"):
        await create(env, name=name)
    first = body_of(await env.client.get("/v1/schedules?limit=2"))
    second = body_of(await env.client.get(f"/v1/schedules?limit=2&cursor={first['next_cursor']}"))
    assert [one["name"] for one in first["items"] + second["items"]] == ["a", "b", "c"]
    assert second["next_cursor"] is None


def test_a_schedule_survives_the_wire() -> None:
    full = schedule(
        template=Template(type="a", payload='{"x":12345678901234567890123}', tags=("t",), meta={"k": "v"}),
        catch_up=CatchUp.ALL,
        overlap=Overlap.CANCEL_PREVIOUS,
        jitter=HOUR,
        blackouts=(Blackout(HOUR, rule="@daily"),),
        version=3,
    )
    text = msgspec.json.encode(schedule_form(full))
    assert schedule_of(msgspec.json.decode(text, type=ScheduleForm)) == full


async def test_what_was_missed_is_shown(env: ApiEnvironment) -> None:
    await create(env, name="often", cron="@every 2s")
    env.clock.move(20 * SECOND)
    await env.engine.schedules.fire(10)
    items = body_of(await env.client.get("/v1/schedules/often/occurrences"))["items"]
    assert [one["fate"] for one in items] == ["fired", *["missed"] * 9]


async def test_the_next_run_is_not_one_in_a_blackout(env: ApiEnvironment) -> None:
    """Now is 12:00 on the first of March."""
    shown = await create(env, name="dark", cron="0 * * * *", blackouts=[{"cron": "0 13 * * *", "lasting": "2h"}])
    assert shown["next_run_at"] == "2026-03-01T15:00:00Z"
    assert body_of(await env.client.get("/v1/schedules/dark"))["next_run_at"] == "2026-03-01T15:00:00Z"


async def test_a_backfill_can_be_listed_before_it_is_made(env: ApiEnvironment) -> None:
    body_of(await env.client.post("/v1/schedules", json=NIGHTLY), 201)
    now = env.clock()
    span = {"from": (now - 4 * DAY).isoformat(), "to": (now - 2 * DAY).isoformat()}
    address = "/v1/schedules/nightly/backfill"
    listed = body_of(await env.client.post(address, json={**span, "dry_run": True}))
    assert (len(listed["times"]), listed["jobs"]) == (2, [])
    assert len(body_of(await env.client.post(address, json=span))["jobs"]) == 2
    wider = {"from": (now - 5 * DAY).isoformat(), "to": (now - 2 * DAY).isoformat(), "dry_run": True}
    assert len(body_of(await env.client.post(address, json=wider))["times"]) == 1


async def test_a_skipped_fire_time_makes_no_job_even_if_the_next_fire_time_is_computed_anew(
    env: ApiEnvironment,
) -> None:
    body_of(await env.client.post("/v1/schedules", json=NIGHTLY), 201)
    schedule = await env.engine.schedules.named("nightly")
    assert schedule.next_fire_at is not None
    body_of(await env.client.post("/v1/schedules/nightly/skip"))
    skipped = await env.engine.schedules.named("nightly")
    # As after a clock that was set back.
    assert await env.engine.schedules.rearm() == 1
    assert (await env.engine.schedules.named("nightly")).next_fire_at == schedule.next_fire_at
    env.clock.move(schedule.next_fire_at - env.clock() + MINUTE)
    await env.engine.schedules.fire(10)
    assert (await env.engine.schedules.named("nightly")).next_fire_at == skipped.next_fire_at
    assert body_of(await env.client.get("/v1/jobs"))["items"] == []


async def test_what_cannot_be_skipped_is_refused(env: ApiEnvironment) -> None:
    body_of(await env.client.post("/v1/schedules", json=NIGHTLY), 201)
    body_of(await env.client.post("/v1/schedules/nightly/pause"))
    assert "is paused" in problem_of(await env.client.post("/v1/schedules/nightly/skip"), 409)["detail"]
    body_of(await env.client.post("/v1/schedules/nightly/resume"))
    env.clock.move(2 * DAY)
    assert "due already" in problem_of(await env.client.post("/v1/schedules/nightly/skip"), 409)["detail"]


async def test_a_backfill_from_too_long_ago_names_its_field(env: ApiEnvironment) -> None:
    await create(env)
    span = {"from": "2020-02-01T00:00:00Z", "to": "2020-02-03T12:00:00Z"}
    problem = problem_of(await env.client.post("/v1/schedules/nightly/backfill", json=span), 422)
    assert [one["field"] for one in problem["errors"]] == ["from"]


async def test_a_job_that_its_schedule_replaced_is_not_said_to_be_cancelled_by_somebody(env: ApiEnvironment) -> None:
    await create(env, name="often", cron="@every 2s", overlap="cancel_previous")
    env.clock.move(2 * SECOND)
    await env.engine.schedules.fire(10)
    (held,) = await env.claim()
    env.clock.move(2 * SECOND)
    await env.engine.schedules.fire(10)
    await env.settle(held, "stopped")
    explained = body_of(await env.client.get(f"/v1/jobs/{held['id']}/explain"))
    assert "another job replaced it: the next one of its schedule" in explained["reasons"][0]["text"]
    (second,) = await env.claim()
    await env.client.post(f"/v1/jobs/{second['id']}/cancel")
    await env.settle(second, "stopped")
    explained = body_of(await env.client.get(f"/v1/jobs/{second['id']}/explain"))
    assert "someone cancelled it" in explained["reasons"][0]["text"]
