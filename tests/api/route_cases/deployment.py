"""Cases of dead letters, queues, workers and the deployment."""

from __future__ import annotations

import json
from datetime import timedelta

from api.environment import ApiEnvironment, body_of
from api.route_cases.route_case import RouteClient, ledger_actions, of, state, stream_lines
from builders import HOUR
from rota.core.cluster import Leadership, Member, Role
from rota.core.ids import JobId, to_number
from rota.core.saved_view import SavedView
from rota.ports.store import DeadNote
from rota.runtime.history import HistoryWriter
from rota.telemetry.events import LeaderChanged


@of("GET /v1/dead-letters")
async def letters(env: ApiEnvironment, send: RouteClient) -> None:
    dead, _ = await env.dead(), await env.submit()
    assert [one["id"] for one in (await send())["items"]] == [dead["id"]]


@of("GET /v1/dead-letters/groups")
async def groups(env: ApiEnvironment, send: RouteClient) -> None:
    for number in (1, 2):
        await env.dead(f"port {number} is closed")
    assert [(group["type"], group["count"]) for group in (await send())["items"]] == [("mail", 2)]


@of("PUT /v1/dead-letters/groups/note")
async def set_note(env: ApiEnvironment, send: RouteClient) -> None:
    await env.dead()
    (group,) = body_of(await env.client.get("/v1/dead-letters/groups"))["items"]
    note = await send(json={"type": "mail", "fingerprint": group["fingerprint"], "text": "ask Bob"})
    assert [one.text for one in await env.store.dead_notes()] == [note["text"]] == ["ask Bob"]


@of("DELETE /v1/dead-letters/groups/note")
async def remove_note(env: ApiEnvironment, send: RouteClient) -> None:
    await env.store.put_dead_note(DeadNote("mail", "0af1", "ask Bob", "ann"))
    await send(204, params={"type": "mail", "fingerprint": "0af1"})
    assert await env.store.dead_notes() == []


@of("GET /v1/dead-letters/export")
async def export(env: ApiEnvironment, send: RouteClient) -> None:
    dead = await env.dead()
    send.count += 1
    response = await send.client.get(send.path())
    assert [json.loads(line)["id"] for line in response.text.splitlines()] == [dead["id"]]


@of("POST /v1/dead-letters:retry")
async def retry_letters(env: ApiEnvironment, send: RouteClient) -> None:
    dead = await env.dead()
    assert (await send(json={"all": True}))["done"] == 1
    assert await state(env, dead["id"]) == "pending"


@of("DELETE /v1/dead-letters/{id}")
async def discard_letter(env: ApiEnvironment, send: RouteClient) -> None:
    dead = await env.dead()
    await send(204, name=dead["id"])
    assert await env.store.get([JobId(to_number(dead["id"]))]) == []


@of("POST /v1/dead-letters:discard")
async def discard_letters(env: ApiEnvironment, send: RouteClient) -> None:
    dead = await env.dead()
    assert (await send(json={"ids": [dead["id"]]}))["done"] == 1
    assert await env.store.get([JobId(to_number(dead["id"]))]) == []


# The history of counts.


@of("GET /v1/stats/history")
async def history(env: ApiEnvironment, send: RouteClient) -> None:
    writer = HistoryWriter(env.engine)
    await env.submit(queue="slow")
    await writer.tick()
    writer.stop_listening()
    shown = await send()
    assert [bucket["submitted"] for bucket in shown["buckets"]] == [1]
    assert (shown["total"]["submitted"], shown["total"]["started"]) == (1, 0)


@of("GET /v1/types")
async def types(env: ApiEnvironment, send: RouteClient) -> None:
    writer = HistoryWriter(env.engine)
    await env.submit(type="mail", queue="slow")
    await writer.tick()
    writer.stop_listening()
    (one,) = (await send())["items"]
    assert (one["type"], one["queues"], one["submitted"], one["failure_rate"]) == ("mail", ["slow"], 1, None)


@of("GET /v1/types/{name}")
async def one_type(env: ApiEnvironment, send: RouteClient) -> None:
    await env.store.register_schemas({"mail": '{"type":"object"}'})
    shown = await send(name="mail")
    assert (shown["type"], shown["payload_schema"]) == ("mail", {"type": "object"})


@of("POST /v1/types:register")
async def register_types(env: ApiEnvironment, send: RouteClient) -> None:
    await send(204, json={"schemas": {"mail": "{}"}})
    schema = await env.store.payload_schema("mail")
    assert schema is not None
    assert schema.body == "{}"


@of("GET /v1/overview")
async def overview(env: ApiEnvironment, send: RouteClient) -> None:
    await env.submit(queue="slow")
    shown = await send()
    assert (shown["due"], shown["is_idle"], shown["last_ended_at"]) == (1, False, None)
    assert [(queue["name"], queue["due"]) for queue in shown["queues"]] == [("slow", 1)]


@of("GET /v1/attention")
async def attention(env: ApiEnvironment, send: RouteClient) -> None:
    await env.submit(queue="slow")
    (item,) = [one for one in (await send())["items"] if one["code"] == "no_worker_for_queue"]
    assert (item["severity"], item["link"], item["evidence"]) == ("critical", "/workers", {"queue": "slow", "due": 1})


# Queues and workers.


@of("GET /v1/queues")
async def list_queues(env: ApiEnvironment, send: RouteClient) -> None:
    await env.submit(queue="slow")
    assert [(one["name"], one["depth"]) for one in (await send())["items"]] == [("slow", 1)]


@of("GET /v1/queues/{name}")
async def get_queue(env: ApiEnvironment, send: RouteClient) -> None:
    await env.submit(queue="slow")
    shown = await send(name="slow")
    assert (shown["name"], shown["depth"], shown["due"]) == ("slow", 1, 1)


@of("POST /v1/queues/{name}/pause")
async def pause_queue(env: ApiEnvironment, send: RouteClient) -> None:
    await env.submit(queue="slow")
    assert (await send(name="slow", json={"reason": "drill"}))["is_paused"] is True
    (queue,) = await env.store.queues()
    assert (queue.paused_at, queue.pause_reason) == (env.clock(), "drill")
    assert await env.claim(queues=["slow"]) == []


@of("POST /v1/queues/{name}/resume")
async def resume_queue(env: ApiEnvironment, send: RouteClient) -> None:
    await env.submit(queue="slow")
    body_of(await env.client.post("/v1/queues/slow/pause"))
    assert (await send(name="slow"))["is_paused"] is False
    assert len(await env.claim(queues=["slow"])) == 1


@of("PATCH /v1/queues/{name}")
async def limit_queue(env: ApiEnvironment, send: RouteClient) -> None:
    assert (await send(name="slow", json={"max_depth": 1}))["max_depth"] == 1
    await env.submit(queue="slow")
    refused = await env.client.post("/v1/jobs", json={"queue": "slow"})
    assert refused.status_code == 429, refused.text


BEAT = {"worker_id": "ada", "boot_id": "b1", "queues": ["mail"], "types": ["send"], "slots": 4, "busy": 1}


@of("POST /v1/workers:beat")
async def beat(env: ApiEnvironment, send: RouteClient) -> None:
    assert await send(json={"workers": [BEAT]}) == {"orders": []}
    (member,) = await env.store.members()
    assert (member.name, member.boot, member.slots, member.seen_at) == ("ada", "b1", 4, env.clock())


@of("GET /v1/workers")
async def list_workers(env: ApiEnvironment, send: RouteClient) -> None:
    await env.client.post("/v1/workers:beat", json={"workers": [BEAT]})
    assert [(one["worker_id"], one["slots"]) for one in (await send())["items"]] == [("ada", 4)]
    env.clock.move(HOUR)
    assert (await send())["items"] == []


@of("GET /v1/workers/{name}")
async def get_worker(env: ApiEnvironment, send: RouteClient) -> None:
    facts = {"cpu": 0.5, "rss": 1000, "fds": 3, "jobs": ["0000000000001"], "stacks": "thread main"}
    await env.client.post("/v1/workers:beat", json={"workers": [{**BEAT, "facts": facts}]})
    worker = await send(name="ada")
    assert {name: worker[name] for name in facts} == facts
    assert worker["orders"] == {"quiet": False, "stop": False, "stacks": 0}


def _order_of(verb: str, **expected: object) -> None:
    @of(f"POST /v1/workers/{{name}}/{verb}")
    async def order(env: ApiEnvironment, send: RouteClient) -> None:
        await env.client.post("/v1/workers:beat", json={"workers": [BEAT]})
        if verb == "resume":
            await env.client.post("/v1/workers/ada/quiet")
        worker = await send(202, name="ada")
        wanted = {"quiet": False, "stop": False, "stacks": 0, **expected}
        assert worker["orders"] == wanted
        reply = (await env.client.post("/v1/workers:beat", json={"workers": [BEAT]})).json()
        assert reply["orders"] == ([{"boot_id": "b1", **wanted}] if expected else [])
        assert (await env.store.ledger())[0].action == f"workers.{verb}"


_order_of("quiet", quiet=True)
_order_of("resume")
_order_of("stop", stop=True)
_order_of("stacks", stacks=1)


@of("DELETE /v1/workers/{name}")
async def forget_worker(env: ApiEnvironment, send: RouteClient) -> None:
    await env.client.post("/v1/workers:beat", json={"workers": [BEAT]})
    env.clock.move(HOUR)
    await send(204, name="ada")
    assert await env.store.members() == []
    assert (await env.store.ledger())[0].action == "workers.forget"


@of("POST /v1/workers:leave")
async def leave(env: ApiEnvironment, send: RouteClient) -> None:
    await env.client.post("/v1/workers:beat", json={"workers": [BEAT]})
    await send(204, json={"boot_ids": ["b1"]})
    assert await env.store.members() == []


# The whole.


@of("GET /v1/stats", "GET /stats")
async def stats(env: ApiEnvironment, send: RouteClient) -> None:
    await env.submit(queue="slow")
    answer = await send()
    assert (answer["queue_depth"], answer["due"], answer["states"]["pending"]) == (1, 1, 1)
    assert [(one["queue"], one["count"]) for one in answer["lanes"]] == [("slow", 1)]


@of("GET /metrics")
async def metrics(env: ApiEnvironment, send: RouteClient) -> None:
    await env.submit()
    assert (await send())["pending_jobs"] == 1
    text = await send(headers={"Accept": "text/plain"})
    assert 'rota_queue_depth{queue="default"} 1' in text


@of("GET /v1/events")
async def ledger(env: ApiEnvironment, send: RouteClient) -> None:
    job = await env.submit()
    await env.client.post(f"/v1/jobs/{job['id']}/cancel")
    (entry,) = (await send())["items"]
    assert (entry["action"], entry["target"]) == ("jobs.cancel", job["id"])


@of("GET /v1/events:export")
async def export_ledger(env: ApiEnvironment, send: RouteClient) -> None:
    await env.client.post("/v1/queues/mail/pause", json={"reason": "maintenance"})
    send.count += 1
    response = await send.client.get(send.path(), params={"action": "queues.*"})
    assert [json.loads(line)["action"] for line in response.text.splitlines()] == ["queues.pause"]


@of("GET /v1/events:verify")
async def verify_ledger(env: ApiEnvironment, send: RouteClient) -> None:
    await env.client.post("/v1/queues/mail/pause", json={"reason": "maintenance"})
    answer = await send()
    assert (answer["is_intact"], answer["is_complete"], answer["count"], answer["last_number"]) == (True, True, 1, 1)


@of("GET /v1/system/store")
async def store_sizes(env: ApiEnvironment, send: RouteClient) -> None:
    await env.submit()
    answer = await send()
    assert (answer["kind"], answer["missing_migrations"]) == ("sqlite", [])
    assert sum(table["bytes"] for table in answer["tables"]) > 0


@of("GET /v1/system/config")
async def effective_settings(_stage: ApiEnvironment, send: RouteClient) -> None:
    assert (await send())["instance_id"] == "here"


@of("GET /v1/system/doctor")
async def doctor(env: ApiEnvironment, send: RouteClient) -> None:
    await env.submit()
    # A process that has just started does not know the schedulers yet.
    env.clock.move(timedelta(minutes=1))
    checks = {check["code"]: check["status"] for check in (await send())["items"]}
    assert checks["store_not_writable"] == "ok"
    assert checks["no_scheduler"] != "ok"


@of("GET /v1/system/leaders")
async def leaders(env: ApiEnvironment, send: RouteClient) -> None:
    env.engine.telemetry.emit(LeaderChanged(Leadership("lead", "ada", 7, env.engine.clock())))
    assert [(one["name"], one["term"]) for one in (await send())["items"]] == [("ada", 7)]


@of("GET /v1/events/stream")
async def live(env: ApiEnvironment, send: RouteClient) -> None:
    await env.submit(queue="slow")
    snapshot = json.loads((await stream_lines(send))[-1].removeprefix("data: "))
    assert [queue["name"] for queue in snapshot["queues"]] == ["slow"]


@of("GET /livez", "GET /readyz", "GET /healthz")
async def alive(env: ApiEnvironment, send: RouteClient) -> None:
    assert await send() == {"status": "ok"}
    if send.route.path != "/livez":
        env.api.close()
        assert await send(503) == {"status": "stopping"}


@of("GET /health")
async def health(env: ApiEnvironment, send: RouteClient) -> None:
    await env.submit()
    answer = await send()
    assert (answer["status"], answer["instance_id"], answer["store_writable"]) == ("degraded", "here", True)
    assert "no_worker_for_queue" in [problem["code"] for problem in answer["problems"]]


@of("GET /leader")
async def leader(_stage: ApiEnvironment, send: RouteClient) -> None:
    assert await send() == {"current_leader": None, "is_leader": False, "instance_id": "here"}


@of("GET /v1/system")
async def system(_stage: ApiEnvironment, send: RouteClient) -> None:
    answer = await send()
    assert (answer["version"], answer["instance_id"]) == ("1.2.3", "here")


@of("GET /v1/cluster")
async def cluster(_stage: ApiEnvironment, send: RouteClient) -> None:
    await send.coordinator.campaign("scheduler", "ada", timedelta(seconds=60))
    answer = await send()
    assert (answer["coordinator"], answer["current_leader"]) == ("local", "ada")


@of("GET /v1/views")
async def views(env: ApiEnvironment, send: RouteClient) -> None:
    await env.store.put_view(SavedView("", "late", "q=late%3A%3E30s", "ann"))
    (view,) = (await send())["items"]
    assert (view["name"], view["query"], view["is_shared"], view["saved_by"]) == (
        "late",
        "q=late%3A%3E30s",
        True,
        "ann",
    )


@of("PUT /v1/views/{name}")
async def save_view(env: ApiEnvironment, send: RouteClient) -> None:
    view = await send(name="late", json={"query": "status=dead", "is_shared": True})
    assert [(one.name, one.query) for one in await env.store.views([""])] == [(view["name"], "status=dead")]
    assert await ledger_actions(env) == [("views.save", "late")]
    assert "query" in str(await send(422, name="late", json={"query": "a b"}))
    assert "name" in str(await send(422, name="l" * 101, json={"query": "status=dead"}))


@of("DELETE /v1/views/{name}")
async def remove_view(env: ApiEnvironment, send: RouteClient) -> None:
    await env.store.put_view(SavedView("", "late", "status=dead", "ann"))
    await send(204, name="late", params={"is_shared": "true"})
    assert await env.store.views([""]) == []
    assert "there is no such shared view" in str(await send(404, name="late", params={"is_shared": "true"}))


@of("POST /v1/cluster/leader:transfer")
async def transfer(env: ApiEnvironment, send: RouteClient) -> None:
    assert (await send(409, json={}))["code"] == "no_leader"
    await send.coordinator.campaign("scheduler", "ada", timedelta(seconds=60))
    await send.coordinator.register([Member(Role.SCHEDULER, name, name) for name in ("ada", "bob")])
    assert await send(json={"to": "bob"}) == {"current_leader": "bob", "term": 2, "previous_leader": "ada"}
    assert await ledger_actions(env) == [("cluster.transfer_lead", "bob")]


@of("PUT /v1/cluster/configuration/{key}")
async def configure(env: ApiEnvironment, send: RouteClient) -> None:
    await send(204, name="log_level", json={"value": "debug"})
    assert (await send.coordinator.configuration()).values == {"log_level": "debug"}
    assert await ledger_actions(env) == [("cluster.configure", "log_level")]


@of("DELETE /v1/cluster/configuration/{key}")
async def forget(env: ApiEnvironment, send: RouteClient) -> None:
    await env.client.put("/v1/cluster/configuration/log_level", json={"value": "debug"})
    await send(204, name="log_level")
    assert (await send.coordinator.configuration()).values == {}


@of("GET /v1/locks")
async def locks(_stage: ApiEnvironment, send: RouteClient) -> None:
    lock = await send.coordinator.lock("report", "ada", timedelta(seconds=60))
    assert lock is not None
    answer = await send()
    try:
        assert [(one["name"], one["holder"], one["fence"]) for one in answer["items"]] == [
            ("report", "ada", lock.fence)
        ]
        assert answer["items"][0]["since"] < answer["items"][0]["until"]
        assert answer["is_complete"]
    finally:
        await send.coordinator.unlock("report", "ada")


@of("POST /v1/locks:acquire")
async def acquire(_stage: ApiEnvironment, send: RouteClient) -> None:
    wanted = {"name": "report", "holder": "ada", "hold": "1m"}
    first = (await send(json=wanted))["lock"]
    assert (first["name"], first["holder"]) == ("report", "ada")
    assert (await send(json=wanted))["lock"]["fence"] == first["fence"]
    assert await send(json={**wanted, "holder": "bob"}) == {"lock": None}
    assert "hold" in str(await send(422, json={**wanted, "hold": "0.5s"}))
    assert "name" in str(await send(422, json={**wanted, "name": "a b"}))
    await send.coordinator.unlock("report", "ada")


@of("POST /v1/locks:release")
async def release(_stage: ApiEnvironment, send: RouteClient) -> None:
    await send.coordinator.lock("report", "ada", timedelta(seconds=60))
    assert await send(json={"name": "report", "holder": "bob"}) == {"lock": None}
    assert (await send(json={"name": "report", "holder": "ada"}))["lock"]["holder"] == "ada"
    assert await send.coordinator.locks() == []


@of("DELETE /v1/locks/{name}")
async def unlock(env: ApiEnvironment, send: RouteClient) -> None:
    await send(404, name="report")
    await send.coordinator.lock("report", "ada", timedelta(seconds=60))
    await send(204, name="report")
    assert await send.coordinator.locks() == []
    assert await ledger_actions(env) == [("cluster.unlock", "report")]


@of("POST /v1/events/{name}", "GET /v1/events/{name}")
async def events(env: ApiEnvironment, send: RouteClient) -> None:
    if send.route.method == "GET":
        assert "not emitted" in str(await send(404, name="paid:7"))
        await env.client.post("/v1/events/paid:7", json={"payload": {"amount": 3}})
        answer = await send(name="paid:7")
        assert (answer["name"], answer["payload"]) == ("paid:7", {"amount": 3})
        return
    first = await send(201, name="paid:7", json={"payload": {"amount": 3}, "keep": "1h"})
    assert (first["is_new"], first["woken"], first["payload"]) == (True, 0, {"amount": 3})
    again = await send(name="paid:7", json={"payload": "other"})
    assert (again["is_new"], again["payload"], again["at"]) == (False, {"amount": 3}, first["at"])
    assert await ledger_actions(env) == [("events.emit", "paid:7")]
    assert (await send(201, name="bare"))["payload"] is None
    await send(422, name="x" * 201)
    await send(422, name="big", json={"payload": "x" * 70_000})
    await send(422, name="short", json={"keep": 0})


@of("GET /openapi.json")
async def document(_stage: ApiEnvironment, send: RouteClient) -> None:
    answer = await send()
    assert answer["openapi"].startswith("3.1")
    assert "post" in answer["paths"]["/v1/jobs"]


@of("GET /docs", "GET /")
async def page(_stage: ApiEnvironment, send: RouteClient) -> None:
    text = await send()
    assert text.startswith("<!doctype html>")
    assert "/v1/jobs" in text
