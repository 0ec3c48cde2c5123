"""Cases of dead letters, queues, workers and the deployment."""

from __future__ import annotations

import json
from datetime import timedelta

from api.route_cases.asking import Ask, acts, lines, of, state
from api.staging import Stage, body_of
from building import HOUR
from rota.core.cluster import Leadership, Member, Role
from rota.core.ids import JobId, to_number
from rota.core.saved_view import SavedView
from rota.ports.store import DeadNote
from rota.runtime.history import HistoryWriter
from rota.telemetry.events import LeaderChanged


@of("GET /v1/dead-letters")
async def letters(stage: Stage, ask: Ask) -> None:
    dead, _ = await stage.dead(), await stage.submit()
    assert [one["id"] for one in (await ask())["items"]] == [dead["id"]]


@of("GET /v1/dead-letters/groups")
async def groups(stage: Stage, ask: Ask) -> None:
    for number in (1, 2):
        await stage.dead(f"port {number} is closed")
    assert [(group["type"], group["count"]) for group in (await ask())["items"]] == [("mail", 2)]


@of("PUT /v1/dead-letters/groups/note")
async def set_note(stage: Stage, ask: Ask) -> None:
    await stage.dead()
    (group,) = body_of(await stage.client.get("/v1/dead-letters/groups"))["items"]
    note = await ask(json={"type": "mail", "fingerprint": group["fingerprint"], "text": "ask Bob"})
    assert [one.text for one in await stage.store.dead_notes()] == [note["text"]] == ["ask Bob"]


@of("DELETE /v1/dead-letters/groups/note")
async def remove_note(stage: Stage, ask: Ask) -> None:
    await stage.store.put_dead_note(DeadNote("mail", "0af1", "ask Bob", "ann"))
    await ask(204, params={"type": "mail", "fingerprint": "0af1"})
    assert await stage.store.dead_notes() == []


@of("GET /v1/dead-letters/export")
async def export(stage: Stage, ask: Ask) -> None:
    dead = await stage.dead()
    ask.count += 1
    response = await ask.client.get(ask.path())
    assert [json.loads(line)["id"] for line in response.text.splitlines()] == [dead["id"]]


@of("POST /v1/dead-letters:retry")
async def retry_letters(stage: Stage, ask: Ask) -> None:
    dead = await stage.dead()
    assert (await ask(json={"all": True}))["done"] == 1
    assert await state(stage, dead["id"]) == "pending"


@of("DELETE /v1/dead-letters/{id}")
async def discard_letter(stage: Stage, ask: Ask) -> None:
    dead = await stage.dead()
    await ask(204, name=dead["id"])
    assert await stage.store.get([JobId(to_number(dead["id"]))]) == []


@of("POST /v1/dead-letters:discard")
async def discard_letters(stage: Stage, ask: Ask) -> None:
    dead = await stage.dead()
    assert (await ask(json={"ids": [dead["id"]]}))["done"] == 1
    assert await stage.store.get([JobId(to_number(dead["id"]))]) == []


# The history of counts.


@of("GET /v1/stats/history")
async def history(stage: Stage, ask: Ask) -> None:
    writer = HistoryWriter(stage.engine)
    await stage.submit(queue="slow")
    await writer.tick()
    writer.stop_listening()
    shown = await ask()
    assert [bucket["submitted"] for bucket in shown["buckets"]] == [1]
    assert (shown["total"]["submitted"], shown["total"]["started"]) == (1, 0)


@of("GET /v1/types")
async def types(stage: Stage, ask: Ask) -> None:
    writer = HistoryWriter(stage.engine)
    await stage.submit(type="mail", queue="slow")
    await writer.tick()
    writer.stop_listening()
    (one,) = (await ask())["items"]
    assert (one["type"], one["queues"], one["submitted"], one["failure_rate"]) == ("mail", ["slow"], 1, None)


@of("GET /v1/types/{name}")
async def one_type(stage: Stage, ask: Ask) -> None:
    await stage.store.register_schemas({"mail": '{"type":"object"}'})
    shown = await ask(name="mail")
    assert (shown["type"], shown["payload_schema"]) == ("mail", {"type": "object"})


@of("POST /v1/types:register")
async def register_types(stage: Stage, ask: Ask) -> None:
    await ask(204, json={"schemas": {"mail": "{}"}})
    schema = await stage.store.payload_schema("mail")
    assert schema is not None
    assert schema.body == "{}"


@of("GET /v1/overview")
async def overview(stage: Stage, ask: Ask) -> None:
    await stage.submit(queue="slow")
    shown = await ask()
    assert (shown["due"], shown["is_idle"], shown["last_ended_at"]) == (1, False, None)
    assert [(queue["name"], queue["due"]) for queue in shown["queues"]] == [("slow", 1)]


@of("GET /v1/attention")
async def attention(stage: Stage, ask: Ask) -> None:
    await stage.submit(queue="slow")
    (item,) = [one for one in (await ask())["items"] if one["code"] == "no_worker_for_queue"]
    assert (item["severity"], item["link"], item["evidence"]) == ("critical", "/workers", {"queue": "slow", "due": 1})


# Queues and workers.


@of("GET /v1/queues")
async def list_queues(stage: Stage, ask: Ask) -> None:
    await stage.submit(queue="slow")
    assert [(one["name"], one["depth"]) for one in (await ask())["items"]] == [("slow", 1)]


@of("GET /v1/queues/{name}")
async def get_queue(stage: Stage, ask: Ask) -> None:
    await stage.submit(queue="slow")
    shown = await ask(name="slow")
    assert (shown["name"], shown["depth"], shown["due"]) == ("slow", 1, 1)


@of("POST /v1/queues/{name}/pause")
async def pause_queue(stage: Stage, ask: Ask) -> None:
    await stage.submit(queue="slow")
    assert (await ask(name="slow", json={"reason": "drill"}))["is_paused"] is True
    (queue,) = await stage.store.queues()
    assert (queue.paused_at, queue.pause_reason) == (stage.clock(), "drill")
    assert await stage.claim(queues=["slow"]) == []


@of("POST /v1/queues/{name}/resume")
async def resume_queue(stage: Stage, ask: Ask) -> None:
    await stage.submit(queue="slow")
    body_of(await stage.client.post("/v1/queues/slow/pause"))
    assert (await ask(name="slow"))["is_paused"] is False
    assert len(await stage.claim(queues=["slow"])) == 1


@of("PATCH /v1/queues/{name}")
async def limit_queue(stage: Stage, ask: Ask) -> None:
    assert (await ask(name="slow", json={"max_depth": 1}))["max_depth"] == 1
    await stage.submit(queue="slow")
    refused = await stage.client.post("/v1/jobs", json={"queue": "slow"})
    assert refused.status_code == 429, refused.text


BEAT = {"worker_id": "ada", "boot_id": "b1", "queues": ["mail"], "types": ["send"], "slots": 4, "busy": 1}


@of("POST /v1/workers:beat")
async def beat(stage: Stage, ask: Ask) -> None:
    assert await ask(json={"workers": [BEAT]}) == {"orders": []}
    (member,) = await stage.store.members()
    assert (member.name, member.boot, member.slots, member.seen_at) == ("ada", "b1", 4, stage.clock())


@of("GET /v1/workers")
async def list_workers(stage: Stage, ask: Ask) -> None:
    await stage.client.post("/v1/workers:beat", json={"workers": [BEAT]})
    assert [(one["worker_id"], one["slots"]) for one in (await ask())["items"]] == [("ada", 4)]
    stage.clock.move(HOUR)
    assert (await ask())["items"] == []


@of("GET /v1/workers/{name}")
async def get_worker(stage: Stage, ask: Ask) -> None:
    facts = {"cpu": 0.5, "rss": 1000, "fds": 3, "jobs": ["0000000000001"], "stacks": "thread main"}
    await stage.client.post("/v1/workers:beat", json={"workers": [{**BEAT, "facts": facts}]})
    worker = await ask(name="ada")
    assert {name: worker[name] for name in facts} == facts
    assert worker["orders"] == {"quiet": False, "stop": False, "stacks": 0}


def _order_of(verb: str, **expected: object) -> None:
    @of(f"POST /v1/workers/{{name}}/{verb}")
    async def order(stage: Stage, ask: Ask) -> None:
        await stage.client.post("/v1/workers:beat", json={"workers": [BEAT]})
        if verb == "resume":
            await stage.client.post("/v1/workers/ada/quiet")
        worker = await ask(202, name="ada")
        wanted = {"quiet": False, "stop": False, "stacks": 0, **expected}
        assert worker["orders"] == wanted
        reply = (await stage.client.post("/v1/workers:beat", json={"workers": [BEAT]})).json()
        assert reply["orders"] == ([{"boot_id": "b1", **wanted}] if expected else [])
        assert (await stage.store.ledger())[0].action == f"workers.{verb}"


_order_of("quiet", quiet=True)
_order_of("resume")
_order_of("stop", stop=True)
_order_of("stacks", stacks=1)


@of("DELETE /v1/workers/{name}")
async def forget_worker(stage: Stage, ask: Ask) -> None:
    await stage.client.post("/v1/workers:beat", json={"workers": [BEAT]})
    stage.clock.move(HOUR)
    await ask(204, name="ada")
    assert await stage.store.members() == []
    assert (await stage.store.ledger())[0].action == "workers.forget"


@of("POST /v1/workers:leave")
async def leave(stage: Stage, ask: Ask) -> None:
    await stage.client.post("/v1/workers:beat", json={"workers": [BEAT]})
    await ask(204, json={"boot_ids": ["b1"]})
    assert await stage.store.members() == []


# The whole.


@of("GET /v1/stats", "GET /stats")
async def stats(stage: Stage, ask: Ask) -> None:
    await stage.submit(queue="slow")
    told = await ask()
    assert (told["queue_depth"], told["due"], told["states"]["pending"]) == (1, 1, 1)
    assert [(one["queue"], one["count"]) for one in told["lanes"]] == [("slow", 1)]


@of("GET /metrics")
async def metrics(stage: Stage, ask: Ask) -> None:
    await stage.submit()
    assert (await ask())["pending_jobs"] == 1
    text = await ask(headers={"Accept": "text/plain"})
    assert 'rota_queue_depth{queue="default"} 1' in text


@of("GET /v1/events")
async def ledger(stage: Stage, ask: Ask) -> None:
    job = await stage.submit()
    await stage.client.post(f"/v1/jobs/{job['id']}/cancel")
    (entry,) = (await ask())["items"]
    assert (entry["action"], entry["target"]) == ("jobs.cancel", job["id"])


@of("GET /v1/events:export")
async def export_ledger(stage: Stage, ask: Ask) -> None:
    await stage.client.post("/v1/queues/mail/pause", json={"reason": "maintenance"})
    ask.count += 1
    response = await ask.client.get(ask.path(), params={"action": "queues.*"})
    assert [json.loads(line)["action"] for line in response.text.splitlines()] == ["queues.pause"]


@of("GET /v1/events:verify")
async def verify_ledger(stage: Stage, ask: Ask) -> None:
    await stage.client.post("/v1/queues/mail/pause", json={"reason": "maintenance"})
    told = await ask()
    assert (told["is_intact"], told["is_complete"], told["count"], told["last_number"]) == (True, True, 1, 1)


@of("GET /v1/system/store")
async def store_sizes(stage: Stage, ask: Ask) -> None:
    await stage.submit()
    told = await ask()
    assert (told["kind"], told["missing_migrations"]) == ("sqlite", [])
    assert sum(table["bytes"] for table in told["tables"]) > 0


@of("GET /v1/system/config")
async def effective_settings(_stage: Stage, ask: Ask) -> None:
    assert (await ask())["instance_id"] == "here"


@of("GET /v1/system/doctor")
async def doctor(stage: Stage, ask: Ask) -> None:
    await stage.submit()
    # A process that has just started does not know the schedulers yet.
    stage.clock.move(timedelta(minutes=1))
    checks = {check["code"]: check["status"] for check in (await ask())["items"]}
    assert checks["store_not_writable"] == "ok"
    assert checks["no_scheduler"] != "ok"


@of("GET /v1/system/leaders")
async def leaders(stage: Stage, ask: Ask) -> None:
    stage.engine.telemetry.emit(LeaderChanged(Leadership("lead", "ada", 7, stage.engine.clock())))
    assert [(one["name"], one["term"]) for one in (await ask())["items"]] == [("ada", 7)]


@of("GET /v1/events/stream")
async def live(stage: Stage, ask: Ask) -> None:
    await stage.submit(queue="slow")
    snapshot = json.loads((await lines(ask))[-1].removeprefix("data: "))
    assert [queue["name"] for queue in snapshot["queues"]] == ["slow"]


@of("GET /livez", "GET /readyz", "GET /healthz")
async def alive(stage: Stage, ask: Ask) -> None:
    assert await ask() == {"status": "ok"}
    if ask.route.path != "/livez":
        stage.api.close()
        assert await ask(503) == {"status": "stopping"}


@of("GET /health")
async def health(stage: Stage, ask: Ask) -> None:
    await stage.submit()
    told = await ask()
    assert (told["status"], told["instance_id"], told["store_writable"]) == ("degraded", "here", True)
    assert "no_worker_for_queue" in [problem["code"] for problem in told["problems"]]


@of("GET /leader")
async def leader(_stage: Stage, ask: Ask) -> None:
    assert await ask() == {"current_leader": None, "is_leader": False, "instance_id": "here"}


@of("GET /v1/system")
async def system(_stage: Stage, ask: Ask) -> None:
    told = await ask()
    assert (told["version"], told["instance_id"]) == ("1.2.3", "here")


@of("GET /v1/cluster")
async def cluster(_stage: Stage, ask: Ask) -> None:
    await ask.coordinator.campaign("scheduler", "ada", timedelta(seconds=60))
    told = await ask()
    assert (told["coordinator"], told["current_leader"]) == ("local", "ada")


@of("GET /v1/views")
async def views(stage: Stage, ask: Ask) -> None:
    await stage.store.put_view(SavedView("", "late", "q=late%3A%3E30s", "ann"))
    (view,) = (await ask())["items"]
    assert (view["name"], view["query"], view["is_shared"], view["saved_by"]) == (
        "late",
        "q=late%3A%3E30s",
        True,
        "ann",
    )


@of("PUT /v1/views/{name}")
async def save_view(stage: Stage, ask: Ask) -> None:
    view = await ask(name="late", json={"query": "status=dead", "is_shared": True})
    assert [(one.name, one.query) for one in await stage.store.views([""])] == [(view["name"], "status=dead")]
    assert await acts(stage) == [("views.save", "late")]
    assert "query" in str(await ask(422, name="late", json={"query": "a b"}))
    assert "name" in str(await ask(422, name="l" * 101, json={"query": "status=dead"}))


@of("DELETE /v1/views/{name}")
async def remove_view(stage: Stage, ask: Ask) -> None:
    await stage.store.put_view(SavedView("", "late", "status=dead", "ann"))
    await ask(204, name="late", params={"is_shared": "true"})
    assert await stage.store.views([""]) == []
    assert "there is no such shared view" in str(await ask(404, name="late", params={"is_shared": "true"}))


@of("POST /v1/cluster/leader:transfer")
async def transfer(stage: Stage, ask: Ask) -> None:
    assert (await ask(409, json={}))["code"] == "no_leader"
    await ask.coordinator.campaign("scheduler", "ada", timedelta(seconds=60))
    await ask.coordinator.register([Member(Role.SCHEDULER, name, name) for name in ("ada", "bob")])
    assert await ask(json={"to": "bob"}) == {"current_leader": "bob", "term": 2, "previous_leader": "ada"}
    assert await acts(stage) == [("cluster.transfer_lead", "bob")]


@of("PUT /v1/cluster/configuration/{key}")
async def configure(stage: Stage, ask: Ask) -> None:
    await ask(204, name="log_level", json={"value": "debug"})
    assert (await ask.coordinator.configuration()).values == {"log_level": "debug"}
    assert await acts(stage) == [("cluster.configure", "log_level")]


@of("DELETE /v1/cluster/configuration/{key}")
async def forget(stage: Stage, ask: Ask) -> None:
    await stage.client.put("/v1/cluster/configuration/log_level", json={"value": "debug"})
    await ask(204, name="log_level")
    assert (await ask.coordinator.configuration()).values == {}


@of("GET /v1/locks")
async def locks(_stage: Stage, ask: Ask) -> None:
    lock = await ask.coordinator.lock("report", "ada", timedelta(seconds=60))
    assert lock is not None
    told = await ask()
    try:
        assert [(one["name"], one["holder"], one["fence"]) for one in told["items"]] == [("report", "ada", lock.fence)]
        assert told["items"][0]["since"] < told["items"][0]["until"]
        assert told["is_complete"]
    finally:
        await ask.coordinator.unlock("report", "ada")


@of("POST /v1/locks:acquire")
async def acquire(_stage: Stage, ask: Ask) -> None:
    wanted = {"name": "report", "holder": "ada", "hold": "1m"}
    first = (await ask(json=wanted))["lock"]
    assert (first["name"], first["holder"]) == ("report", "ada")
    assert (await ask(json=wanted))["lock"]["fence"] == first["fence"]
    assert await ask(json={**wanted, "holder": "bob"}) == {"lock": None}
    assert "hold" in str(await ask(422, json={**wanted, "hold": "0.5s"}))
    assert "name" in str(await ask(422, json={**wanted, "name": "a b"}))
    await ask.coordinator.unlock("report", "ada")


@of("POST /v1/locks:release")
async def release(_stage: Stage, ask: Ask) -> None:
    await ask.coordinator.lock("report", "ada", timedelta(seconds=60))
    assert await ask(json={"name": "report", "holder": "bob"}) == {"lock": None}
    assert (await ask(json={"name": "report", "holder": "ada"}))["lock"]["holder"] == "ada"
    assert await ask.coordinator.locks() == []


@of("DELETE /v1/locks/{name}")
async def unlock(stage: Stage, ask: Ask) -> None:
    await ask(404, name="report")
    await ask.coordinator.lock("report", "ada", timedelta(seconds=60))
    await ask(204, name="report")
    assert await ask.coordinator.locks() == []
    assert await acts(stage) == [("cluster.unlock", "report")]


@of("POST /v1/events/{name}", "GET /v1/events/{name}")
async def events(stage: Stage, ask: Ask) -> None:
    if ask.route.method == "GET":
        assert "not emitted" in str(await ask(404, name="paid:7"))
        await stage.client.post("/v1/events/paid:7", json={"payload": {"amount": 3}})
        told = await ask(name="paid:7")
        assert (told["name"], told["payload"]) == ("paid:7", {"amount": 3})
        return
    first = await ask(201, name="paid:7", json={"payload": {"amount": 3}, "keep": "1h"})
    assert (first["is_new"], first["woken"], first["payload"]) == (True, 0, {"amount": 3})
    again = await ask(name="paid:7", json={"payload": "other"})
    assert (again["is_new"], again["payload"], again["at"]) == (False, {"amount": 3}, first["at"])
    assert await acts(stage) == [("events.emit", "paid:7")]
    assert (await ask(201, name="bare"))["payload"] is None
    await ask(422, name="x" * 201)
    await ask(422, name="big", json={"payload": "x" * 70_000})
    await ask(422, name="short", json={"keep": 0})


@of("GET /openapi.json")
async def document(_stage: Stage, ask: Ask) -> None:
    told = await ask()
    assert told["openapi"].startswith("3.1")
    assert "post" in told["paths"]["/v1/jobs"]


@of("GET /docs", "GET /")
async def page(_stage: Stage, ask: Ask) -> None:
    text = await ask()
    assert text.startswith("<!doctype html>")
    assert "/v1/jobs" in text
