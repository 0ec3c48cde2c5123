"""Queues, workers, and statistics."""

from __future__ import annotations

from pathlib import Path

import msgspec

from api.environment import ApiEnvironment, api_environment, body_of, fields_of, problem_of
from builders import MINUTE, SECOND, at
from rota.api import ApiSettings
from rota.core.cluster import Member, Role
from rota.wire.cluster import HeartbeatForm, heartbeat_form, member_of
from rota.wire.system import Stats, census_of

BEAT = {"worker_id": "ada", "boot_id": "b1", "queues": ["mail"], "types": ["send"], "slots": 4, "busy": 1}


async def test_queues_tell_what_is_in_them(env: ApiEnvironment) -> None:
    await env.submit(type="send", queue="mail")
    await env.submit(type="send", queue="mail", delay=60)
    await env.submit(type="scan", queue="files")
    await env.client.post("/v1/workers:beat", json={"workers": [BEAT]})
    items = {one["name"]: one for one in body_of(await env.client.get("/v1/queues"))["items"]}
    assert set(items) == {"mail", "files"}
    assert (items["mail"]["depth"], items["mail"]["live_workers"]) == (2, 1)
    assert items["mail"]["states"] == {"pending": 1, "scheduled": 1}
    assert items["files"]["types"] == [{"type": "scan", "states": {"pending": 1}}]


async def test_a_queue_is_paused_and_resumed(env: ApiEnvironment) -> None:
    await env.submit(queue="mail")
    until = "2026-03-01T13:00:00Z"
    paused = body_of(
        await env.client.post("/v1/queues/mail/pause", json={"reason": "provider down", "resume_at": until})
    )
    assert (paused["is_paused"], paused["pause_reason"], paused["resume_at"]) == (True, "provider down", until)
    assert await env.claim(queues=["mail"]) == []
    assert body_of(await env.client.post("/v1/queues/mail/resume"))["is_paused"] is False
    assert len(await env.claim(queues=["mail"])) == 1


async def test_a_queue_that_nobody_used_is_empty(env: ApiEnvironment) -> None:
    assert body_of(await env.client.get("/v1/queues/new"))["depth"] == 0
    problem_of(await env.client.get("/v1/queues/a%20b"), 422)


async def test_a_queue_that_nobody_used_cannot_be_resumed_but_paused(env: ApiEnvironment) -> None:
    """A typing error had created a queue and answered that it was resumed."""
    problem = problem_of(await env.client.post("/v1/queues/typo/resume"), 404)
    assert problem["detail"] == "queue 'typo': unknown, it has neither settings nor unfinished jobs"
    assert await env.store.queues() == []
    assert body_of(await env.client.post("/v1/queues/new/pause"))["is_paused"] is True
    assert body_of(await env.client.post("/v1/queues/new/resume"))["is_paused"] is False
    await env.submit(queue="mail")
    assert body_of(await env.client.post("/v1/queues/mail/resume"))["is_paused"] is False


async def test_workers_make_themselves_known_and_say_goodbye(env: ApiEnvironment) -> None:
    assert (await env.client.post("/v1/workers:beat", json={"workers": [BEAT]})).status_code == 200
    (worker,) = body_of(await env.client.get("/v1/workers"))["items"]
    assert (worker["worker_id"], worker["slots"], worker["is_alive"]) == ("ada", 4, True)
    assert body_of(await env.client.get("/stats"))["worker_utilization"] == 0.25
    env.clock.move(MINUTE)
    assert body_of(await env.client.get("/v1/workers"))["items"] == []
    (gone,) = body_of(await env.client.get("/v1/workers?all=true"))["items"]
    assert gone["is_alive"] is False
    assert (await env.client.post("/v1/workers:leave", json={"boot_ids": ["b1"]})).status_code == 204
    assert body_of(await env.client.get("/v1/workers?all=true"))["items"] == []


async def test_only_a_live_worker_takes_orders_and_only_a_gone_one_is_forgotten(env: ApiEnvironment) -> None:
    problem = problem_of(await env.client.post("/v1/workers/ada/quiet"), 404)
    assert "rota workers list --all" in problem["detail"]
    await env.client.post("/v1/workers:beat", json={"workers": [BEAT]})
    assert "stop it first" in problem_of(await env.client.delete("/v1/workers/ada"), 409)["detail"]
    env.clock.move(MINUTE)
    assert "forget it" in problem_of(await env.client.post("/v1/workers/b1/stop"), 409)["detail"]
    assert (await env.client.delete("/v1/workers/ada")).status_code == 204
    problem_of(await env.client.delete("/v1/workers/ada"), 404)


async def test_an_order_is_for_the_worker_that_was_seen_last_or_the_one_whose_boot_is_named(
    env: ApiEnvironment,
) -> None:
    await env.client.post("/v1/workers:beat", json={"workers": [BEAT]})
    env.clock.move(SECOND)
    await env.client.post("/v1/workers:beat", json={"workers": [{**BEAT, "boot_id": "b0"}]})
    assert body_of(await env.client.post("/v1/workers/ada/quiet"), 202)["boot_id"] == "b0"
    assert body_of(await env.client.post("/v1/workers/b1/stop"), 202)["orders"]["stop"] is True
    # An order that holds already is not recorded again.
    await env.client.post("/v1/workers/ada/quiet")
    assert [one.target for one in await env.store.ledger()] == ["ada", "ada"]


async def test_the_worker_of_webhooks_takes_no_orders(env: ApiEnvironment) -> None:
    """It belongs to a scheduler, which passes no orders on: an order would be accepted and ignored."""
    await env.client.post("/v1/workers:beat", json={"workers": [{**BEAT, "queues": ["rota.webhooks"]}]})
    assert "takes no orders" in problem_of(await env.client.post("/v1/workers/ada/quiet"), 409)["detail"]


async def test_the_clock_of_a_worker_is_compared_with_the_stores(env: ApiEnvironment) -> None:
    sent_at = (env.clock() + 3 * SECOND).isoformat()
    await env.client.post("/v1/workers:beat", json={"workers": [{**BEAT, "facts": {"sent_at": sent_at}}]})
    assert body_of(await env.client.get("/v1/workers/ada"))["clock_offset"] == 3.0


async def test_a_wrong_beat_is_named(env: ApiEnvironment) -> None:
    problem = problem_of(await env.client.post("/v1/workers:beat", json={"workers": [{**BEAT, "slots": -1}]}), 422)
    assert fields_of(problem) == {"workers"}
    problem_of(await env.client.get("/v1/workers?role=cook"), 422)


def test_a_member_survives_the_wire() -> None:
    for types in ((), ("a",), None):
        member = Member(
            Role.WORKER, "w", "b", "h", 7, "1", "a", ("q",), types, 4, 2, is_draining=True, started_at=at(0)
        )
        assert member_of(msgspec.json.decode(msgspec.json.encode(heartbeat_form(member)), type=HeartbeatForm)) == member


async def test_the_census_survives_the_wire(env: ApiEnvironment) -> None:
    await env.submit(queue="a")
    await env.dead()
    (await env.client.delete(f"/jobs/{(await env.submit())['id']}")).raise_for_status()
    shown = msgspec.json.decode((await env.client.get("/v1/stats")).content, type=Stats)
    answer, known = census_of(shown), await env.engine.census()
    assert set(answer.lanes) == set(known.lanes)
    assert {state: count for state, count in known.finished.items() if count} == answer.finished


async def test_the_system_tells_what_it_is() -> None:
    settings = ApiSettings(
        instance_id="me", version="1.2.3", store_name="sqlite", is_leader=lambda: True, current_leader=lambda: "me"
    )
    async with api_environment(settings) as env:
        await env.store.beat([Member(Role.SCHEDULER, "s1", "b1")])
        env.clock.move(MINUTE / 6)
        answer = body_of(await env.client.get("/v1/system"))
        leader = body_of(await env.client.get("/leader"))
    assert (answer["version"], answer["store"], answer["schedulers"], answer["uptime"]) == (
        "1.2.3",
        "sqlite",
        ["s1"],
        10,
    )
    assert leader == {"current_leader": "me", "is_leader": True, "instance_id": "me"}


async def test_without_a_store_nothing_is_lost_and_health_says_so(tmp_path: Path) -> None:
    """A closed store stands for one that is away: it raises what a store that is away raises."""
    async with api_environment(location=str(tmp_path / "rota.db")) as env:
        await env.store.close()
        for method, path, body in (
            ("POST", "/jobs", {}),
            ("POST", "/v1/jobs:batch", {"jobs": [{}]}),
            ("GET", "/jobs", None),
            ("GET", "/v1/stats", None),
            ("GET", "/v1/events/stream", None),
            ("POST", "/v1/leases:claim", {"worker_id": "a", "boot_id": "b"}),
        ):
            response = await env.client.request(method, path, json=body)
            assert problem_of(response, 503)["code"] == "store_unavailable"
            assert response.headers["retry-after"]
        assert (await env.client.get("/livez")).status_code == 200
        for path in ("/readyz", "/healthz", "/health"):
            assert (await env.client.get(path)).status_code == 503


async def test_a_closed_queue_stays_closed_when_its_limit_is_taken_away(env: ApiEnvironment) -> None:
    body_of(await env.client.patch("/v1/queues/mail", json={"max_running": 5}))
    body_of(await env.client.post("/v1/limits/queue:mail/close", json={}))
    body_of(await env.client.patch("/v1/queues/mail", json={"max_running": None}))
    limit = body_of(await env.client.get("/v1/limits/queue:mail"))
    assert limit["max_running"] is None
    assert limit["closed_until"] is not None


async def test_only_workers_report_over_http(env: ApiEnvironment) -> None:
    """A scheduler that only a worker's token has reported would hide that there is none."""
    for role in ("scheduler", "api"):
        beat = {"workers": [{"worker_id": "w", "boot_id": "b", "role": role}]}
        problem = problem_of(await env.client.post("/v1/workers:beat", json=beat), 422)
        assert fields_of(problem) == {"workers[0].role"}
    assert await env.store.members() == []
