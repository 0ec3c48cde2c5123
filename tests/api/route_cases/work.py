"""Cases of the worker protocol, and of the legacy worker protocol."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

from api.route_cases.asking import Ask, acts, of, stored
from api.staging import Stage, body_of, until
from rota.core.ids import JobId, to_number


@of("POST /v1/leases:claim")
async def claim(stage: Stage, ask: Ask) -> None:
    job = await stage.submit()
    (lease,) = (await ask(json={"worker_id": "ada", "boot_id": "b", "lease": 30}))["jobs"]
    held = await stored(stage, job["id"])
    assert (held.state, held.worker, held.fence) == ("running", "ada", lease["fence"])
    assert held.lease_until == stage.clock() + timedelta(seconds=30)


@of("POST /v1/leases:renew")
async def renew(stage: Stage, ask: Ask) -> None:
    job = await stage.submit()
    (lease,) = await stage.claim()
    stage.clock.move(timedelta(seconds=5))
    told = await ask(json={"renewals": [{"id": job["id"], "fence": lease["fence"], "lease": 60}]})
    assert ([one["id"] for one in told["renewed"]], told["lost"]) == ([job["id"]], [])
    assert (await stored(stage, job["id"])).lease_until == stage.clock() + timedelta(seconds=60)


@of("POST /v1/leases:watch")
async def watch(stage: Stage, ask: Ask) -> None:
    job = await stage.submit()
    (lease,) = await stage.claim()
    assert (await ask(json={"worker_id": "ada"}))["cancel"] == []
    watching = asyncio.create_task(ask(json={"worker_id": "ada", "wait": 20}))
    await until(lambda: stage.api.context.cancel_watch._waiting or watching.done())
    await stage.client.post(f"/v1/jobs/{job['id']}/cancel")
    assert (await watching)["cancel"] == [{"id": job["id"], "fence": lease["fence"]}]


@of("POST /v1/leases:settle")
async def settle(stage: Stage, ask: Ask) -> None:
    job = await stage.submit()
    (lease,) = await stage.claim()
    late = {"id": job["id"], "fence": lease["fence"] + 1, "outcome": "succeeded"}
    assert await ask(json={"reports": [late]}) == {"settled": [], "refused": [job["id"]]}
    report = {"id": job["id"], "fence": lease["fence"], "outcome": "succeeded", "result": 7}
    assert await ask(json={"reports": [report]}) == {"settled": [job["id"]], "refused": []}
    done = await stored(stage, job["id"])
    assert (done.state, done.result) == ("completed", "7")


@of("POST /v1/leases:step")
async def step(stage: Stage, ask: Ask) -> None:
    job = await stage.submit()
    (lease,) = await stage.claim()
    asked = {"id": job["id"], "fence": lease["fence"], "key": "pay"}
    assert (await ask(json={**asked, "act": "intend"}))["is_new"] is True
    assert (await ask(json={**asked, "act": "conclude", "outcome": "1"}))["holds"] is True
    (kept,) = await stage.store.steps(JobId(to_number(job["id"])))
    assert (kept.key, kept.outcome) == ("pay", "1")
    await _waits(stage, ask, {**asked, "act": "wait"})


async def _waits(stage: Stage, ask: Ask, asked: dict[str, Any]) -> None:
    """Wait in every way; what does not fit together is refused."""
    slept = (await ask(json={**asked, "key": "nap", "kind": "sleep", "span": "1h"}))["step"]
    assert (slept["kind"], slept["ended_at"]) == ("sleep", None)
    called = (await ask(json={**asked, "key": "call", "kind": "call", "child": {"type": "echo", "payload": 7}}))["step"]
    child = await stored(stage, called["subject"])
    assert (child.type, child.payload, child.parent_id) == ("echo", "7", to_number(asked["id"]))
    awaited = (await ask(json={**asked, "key": "paid", "kind": "event", "event": "paid:7", "span": 60}))["step"]
    assert (awaited["subject"], awaited["ended_at"]) == ("paid:7", None)
    await stage.client.post("/v1/events/paid:7", json={"payload": {"amount": 3}})
    over = (await ask(json={**asked, "key": "paid", "kind": "event", "event": "paid:7"}))["step"]
    assert over["result"] == {"amount": 3}
    for wrong in (
        {},
        {"kind": "sleep"},
        {"kind": "sleep", "span": "1h", "event": "e"},
        {"kind": "event"},
        {"kind": "event", "event": "a/b"},
        {"kind": "call"},
        {"kind": "call", "child": {"type": "echo"}, "span": 1},
    ):
        await ask(422, json={**asked, "key": "wrong", **wrong})
    assert "kind" in str(await ask(422, json={**asked, "key": "nap", "kind": "event", "event": "e"}))
    report = {"id": asked["id"], "fence": asked["fence"], "outcome": "suspended", "key": "nap"}
    assert (await stage.client.post("/v1/leases:settle", json={"reports": [report]})).json()["settled"] == [asked["id"]]
    asleep = await stored(stage, asked["id"])
    assert (asleep.state, asleep.attempts) == ("scheduled", 0)


@of("POST /v1/leases:input")
async def read_input(stage: Stage, ask: Ask) -> None:
    parent = await stage.submit()
    (lease,) = await stage.claim()
    child = await stage.submit(after=[{"id": parent["id"], "need": "end"}], takes="result")
    await stage.settle(lease, "succeeded", result={"rows": 3})
    (lease,) = await stage.claim()
    assert lease["id"] == child["id"]
    asked = {"id": child["id"], "fence": lease["fence"]}
    assert await ask(json=asked) == {"holds": True, "value": {"rows": 3}}
    assert await ask(json={**asked, "fence": lease["fence"] + 1}) == {"holds": False, "value": None}


async def _begun_step(stage: Stage) -> dict[str, Any]:
    await stage.submit(max_attempts=1)
    (lease,) = await stage.claim()
    asked = {"id": lease["id"], "fence": lease["fence"], "key": "pay", "act": "intend"}
    body_of(await stage.client.post("/v1/leases:step", json=asked))
    return lease


@of("GET /v1/jobs/{id}/steps")
async def steps(stage: Stage, ask: Ask) -> None:
    lease = await _begun_step(stage)
    (shown,) = (await ask(name=lease["id"]))["items"]
    assert (shown["key"], shown["began_under"], shown["ended_at"]) == ("pay", lease["fence"], None)


@of("POST /v1/jobs/{id}/steps:resolve")
async def resolve(stage: Stage, ask: Ask) -> None:
    lease = await _begun_step(stage)
    await stage.settle(lease, "unknown", error={"kind": "OutcomeUnknown", "message": "who knows"})
    await ask(name=lease["id"], json={"key": "pay", "happened": True, "result": "receipt"})
    (kept,) = await stage.store.steps(JobId(to_number(lease["id"])))
    assert kept.outcome == '"receipt"'
    assert (await acts(stage))[0] == ("steps.resolve", lease["id"])


@of("GET /next-job")
async def next_job(stage: Stage, ask: Ask) -> None:
    await ask(204)
    job = await stage.submit(type="mail")
    told = await ask(params={"worker_id": "ada", "type": "mail", "lease": 9})
    held = await stored(stage, job["id"])
    assert (told["id"], held.worker, held.lease_until) == (job["id"], "ada", stage.clock() + timedelta(seconds=9))


@of("POST /jobs/{id}/complete")
async def complete(stage: Stage, ask: Ask) -> None:
    job = await stage.submit()
    await stage.claim("ada")
    told = await ask(name=job["id"], json={"worker_id": "ada", "success": True, "result": 7})
    assert told["status"] == "completed"
    done = await stored(stage, job["id"])
    assert (done.state, done.result) == ("completed", "7")
