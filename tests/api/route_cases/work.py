"""Cases of the worker protocol, and of the legacy worker protocol."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

from api.environment import ApiEnvironment, body_of, until
from api.route_cases.route_case import RouteClient, ledger_actions, of, stored
from rota.core.ids import JobId, to_number


@of("POST /v1/leases:claim")
async def claim(env: ApiEnvironment, send: RouteClient) -> None:
    job = await env.submit()
    (lease,) = (await send(json={"worker_id": "ada", "boot_id": "b", "lease": 30}))["jobs"]
    held = await stored(env, job["id"])
    assert (held.state, held.worker, held.fence) == ("running", "ada", lease["fence"])
    assert held.lease_until == env.clock() + timedelta(seconds=30)


@of("POST /v1/leases:renew")
async def renew(env: ApiEnvironment, send: RouteClient) -> None:
    job = await env.submit()
    (lease,) = await env.claim()
    env.clock.move(timedelta(seconds=5))
    answer = await send(json={"renewals": [{"id": job["id"], "fence": lease["fence"], "lease": 60}]})
    assert ([one["id"] for one in answer["renewed"]], answer["lost"]) == ([job["id"]], [])
    assert (await stored(env, job["id"])).lease_until == env.clock() + timedelta(seconds=60)


@of("POST /v1/leases:watch")
async def watch(env: ApiEnvironment, send: RouteClient) -> None:
    job = await env.submit()
    (lease,) = await env.claim()
    assert (await send(json={"worker_id": "ada"}))["cancel"] == []
    watching = asyncio.create_task(send(json={"worker_id": "ada", "wait": 20}))
    await until(lambda: env.api.context.cancel_watch._waiting or watching.done())
    await env.client.post(f"/v1/jobs/{job['id']}/cancel")
    assert (await watching)["cancel"] == [{"id": job["id"], "fence": lease["fence"]}]


@of("POST /v1/leases:settle")
async def settle(env: ApiEnvironment, send: RouteClient) -> None:
    job = await env.submit()
    (lease,) = await env.claim()
    late = {"id": job["id"], "fence": lease["fence"] + 1, "outcome": "succeeded"}
    assert await send(json={"reports": [late]}) == {"settled": [], "refused": [job["id"]]}
    report = {"id": job["id"], "fence": lease["fence"], "outcome": "succeeded", "result": 7}
    assert await send(json={"reports": [report]}) == {"settled": [job["id"]], "refused": []}
    done = await stored(env, job["id"])
    assert (done.state, done.result) == ("completed", "7")


@of("POST /v1/leases:step")
async def step(env: ApiEnvironment, send: RouteClient) -> None:
    job = await env.submit()
    (lease,) = await env.claim()
    asked = {"id": job["id"], "fence": lease["fence"], "key": "pay"}
    assert (await send(json={**asked, "act": "intend"}))["is_new"] is True
    assert (await send(json={**asked, "act": "conclude", "outcome": "1"}))["holds"] is True
    (kept,) = await env.store.steps(JobId(to_number(job["id"])))
    assert (kept.key, kept.outcome) == ("pay", "1")
    await _waits(env, send, {**asked, "act": "wait"})


async def _waits(env: ApiEnvironment, send: RouteClient, asked: dict[str, Any]) -> None:
    """Wait in every way; what does not fit together is refused."""
    slept = (await send(json={**asked, "key": "nap", "kind": "sleep", "span": "1h"}))["step"]
    assert (slept["kind"], slept["ended_at"]) == ("sleep", None)
    called = (await send(json={**asked, "key": "call", "kind": "call", "child": {"type": "echo", "payload": 7}}))[
        "step"
    ]
    child = await stored(env, called["subject"])
    assert (child.type, child.payload, child.parent_id) == ("echo", "7", to_number(asked["id"]))
    awaited = (await send(json={**asked, "key": "paid", "kind": "event", "event": "paid:7", "span": 60}))["step"]
    assert (awaited["subject"], awaited["ended_at"]) == ("paid:7", None)
    await env.client.post("/v1/events/paid:7", json={"payload": {"amount": 3}})
    over = (await send(json={**asked, "key": "paid", "kind": "event", "event": "paid:7"}))["step"]
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
        await send(422, json={**asked, "key": "wrong", **wrong})
    assert "kind" in str(await send(422, json={**asked, "key": "nap", "kind": "event", "event": "e"}))
    report = {"id": asked["id"], "fence": asked["fence"], "outcome": "suspended", "key": "nap"}
    assert (await env.client.post("/v1/leases:settle", json={"reports": [report]})).json()["settled"] == [asked["id"]]
    asleep = await stored(env, asked["id"])
    assert (asleep.state, asleep.attempts) == ("scheduled", 0)


@of("POST /v1/leases:input")
async def read_input(env: ApiEnvironment, send: RouteClient) -> None:
    parent = await env.submit()
    (lease,) = await env.claim()
    child = await env.submit(after=[{"id": parent["id"], "need": "end"}], takes="result")
    await env.settle(lease, "succeeded", result={"rows": 3})
    (lease,) = await env.claim()
    assert lease["id"] == child["id"]
    asked = {"id": child["id"], "fence": lease["fence"]}
    assert await send(json=asked) == {"holds": True, "value": {"rows": 3}}
    assert await send(json={**asked, "fence": lease["fence"] + 1}) == {"holds": False, "value": None}


async def _begun_step(env: ApiEnvironment) -> dict[str, Any]:
    await env.submit(max_attempts=1)
    (lease,) = await env.claim()
    asked = {"id": lease["id"], "fence": lease["fence"], "key": "pay", "act": "intend"}
    body_of(await env.client.post("/v1/leases:step", json=asked))
    return lease


@of("GET /v1/jobs/{id}/steps")
async def steps(env: ApiEnvironment, send: RouteClient) -> None:
    lease = await _begun_step(env)
    (shown,) = (await send(name=lease["id"]))["items"]
    assert (shown["key"], shown["began_under"], shown["ended_at"]) == ("pay", lease["fence"], None)


@of("POST /v1/jobs/{id}/steps:resolve")
async def resolve(env: ApiEnvironment, send: RouteClient) -> None:
    lease = await _begun_step(env)
    await env.settle(lease, "unknown", error={"kind": "OutcomeUnknown", "message": "who knows"})
    await send(name=lease["id"], json={"key": "pay", "happened": True, "result": "receipt"})
    (kept,) = await env.store.steps(JobId(to_number(lease["id"])))
    assert kept.outcome == '"receipt"'
    assert (await ledger_actions(env))[0] == ("steps.resolve", lease["id"])


@of("GET /next-job")
async def next_job(env: ApiEnvironment, send: RouteClient) -> None:
    await send(204)
    job = await env.submit(type="mail")
    answer = await send(params={"worker_id": "ada", "type": "mail", "lease": 9})
    held = await stored(env, job["id"])
    assert (answer["id"], held.worker, held.lease_until) == (job["id"], "ada", env.clock() + timedelta(seconds=9))


@of("POST /jobs/{id}/complete")
async def complete(env: ApiEnvironment, send: RouteClient) -> None:
    job = await env.submit()
    await env.claim("ada")
    answer = await send(name=job["id"], json={"worker_id": "ada", "success": True, "result": 7})
    assert answer["status"] == "completed"
    done = await stored(env, job["id"])
    assert (done.state, done.result) == ("completed", "7")
