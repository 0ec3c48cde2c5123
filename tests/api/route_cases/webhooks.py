"""Cases of webhooks."""

from __future__ import annotations

from api.environment import ApiEnvironment
from api.route_cases.route_case import RouteClient, ledger_actions, of
from rota.core.webhook import QUEUE, TYPE, Webhook
from rota.ports.client import Actor
from rota.ports.store import JobQuery


async def made(env: ApiEnvironment) -> Webhook:
    return await env.engine.webhooks.create("ops", "https://example.com", ("job.dead",), (), Actor("ann"))


async def kept(env: ApiEnvironment) -> Webhook:
    (webhook,) = await env.store.webhooks()
    return webhook


@of("POST /v1/webhooks")
async def create(env: ApiEnvironment, send: RouteClient) -> None:
    body = {"name": "ops", "url": "https://example.com/hook", "events": ["job.dead"], "queues": ["mail"]}
    form = await send(201, json=body)
    webhook = await kept(env)
    assert (webhook.name, webhook.events, webhook.queues) == ("ops", ("job.dead",), ("mail",))
    assert form["secret"] == webhook.secret
    assert form["secret"].startswith("whsec_")
    await send(409, json=body)
    for wrong in ({"url": "ftp://x"}, {"url": "https://u:p@x"}, {"url": "https://x:bad"}, {"events": ["job.born"]}):
        await send(422, json={**body, "name": "other", **wrong})
    assert await ledger_actions(env) == [("webhooks.create", f"ops {webhook.id}")]


@of("GET /v1/webhooks")
async def list_webhooks(env: ApiEnvironment, send: RouteClient) -> None:
    webhook = await made(env)
    listed = await send()
    assert [(one["id"], one["is_enabled"]) for one in listed["items"]] == [(webhook.id, True)]
    assert webhook.secret not in str(listed)


@of("GET /v1/webhooks/{id}")
async def get(env: ApiEnvironment, send: RouteClient) -> None:
    webhook = await made(env)
    assert (await send(name="ops"))["id"] == (await send(name=webhook.id))["id"] == webhook.id
    await send(404, name="unknown")


@of("DELETE /v1/webhooks/{id}")
async def remove(env: ApiEnvironment, send: RouteClient) -> None:
    await made(env)
    await send(name="ops")
    webhook = await kept(env)
    assert (webhook.removed_at is not None, webhook.secret) == (True, "")
    await send(404, name="ops")


@of("POST /v1/webhooks/{id}/rotate")
async def rotate(env: ApiEnvironment, send: RouteClient) -> None:
    old = await made(env)
    form = await send(name="ops", json={"overlap": "1h"})
    webhook = await kept(env)
    assert form["secret"] == webhook.secret != old.secret
    assert webhook.secrets_at(webhook.created_at) == (webhook.secret, old.secret)


@of("POST /v1/webhooks/{id}/enable")
async def enable(env: ApiEnvironment, send: RouteClient) -> None:
    await made(env)
    await env.engine.webhooks.disable("ops", "gone", Actor("rota"))
    assert (await send(name="ops"))["is_enabled"] is True
    assert (await kept(env)).is_active


@of("POST /v1/webhooks/{id}/test")
async def test(env: ApiEnvironment, send: RouteClient) -> None:
    webhook = await made(env)
    await send(202, name="ops")
    (job,) = await env.store.find(JobQuery(queues=(QUEUE,)))
    assert (job.type, job.tags) == (TYPE, (webhook.id, "webhook.test"))
    assert webhook.secret not in job.payload


@of("GET /v1/webhooks/{id}/deliveries")
async def deliveries(env: ApiEnvironment, send: RouteClient) -> None:
    await made(env)
    job = await env.dead(queue="mail")
    (delivery,) = (await send(name="ops", params={"limit": 5}))["items"]
    assert (delivery["event"], delivery["subject"], delivery["status"]) == ("job.dead", job["id"], "pending")
