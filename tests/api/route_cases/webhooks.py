"""Cases of webhooks."""

from __future__ import annotations

from api.route_cases.asking import Ask, acts, of
from api.staging import Stage
from rota.core.webhook import QUEUE, TYPE, Webhook
from rota.ports.client import Actor
from rota.ports.store import JobQuery


async def made(stage: Stage) -> Webhook:
    return await stage.engine.webhooks.create("ops", "https://example.com", ("job.dead",), (), Actor("ann"))


async def kept(stage: Stage) -> Webhook:
    (webhook,) = await stage.store.webhooks()
    return webhook


@of("POST /v1/webhooks")
async def create(stage: Stage, ask: Ask) -> None:
    body = {"name": "ops", "url": "https://example.com/hook", "events": ["job.dead"], "queues": ["mail"]}
    form = await ask(201, json=body)
    webhook = await kept(stage)
    assert (webhook.name, webhook.events, webhook.queues) == ("ops", ("job.dead",), ("mail",))
    assert form["secret"] == webhook.secret
    assert form["secret"].startswith("whsec_")
    await ask(409, json=body)
    for wrong in ({"url": "ftp://x"}, {"url": "https://u:p@x"}, {"url": "https://x:bad"}, {"events": ["job.born"]}):
        await ask(422, json={**body, "name": "other", **wrong})
    assert await acts(stage) == [("webhooks.create", f"ops {webhook.id}")]


@of("GET /v1/webhooks")
async def list_webhooks(stage: Stage, ask: Ask) -> None:
    webhook = await made(stage)
    listed = await ask()
    assert [(one["id"], one["is_enabled"]) for one in listed["items"]] == [(webhook.id, True)]
    assert webhook.secret not in str(listed)


@of("GET /v1/webhooks/{id}")
async def get(stage: Stage, ask: Ask) -> None:
    webhook = await made(stage)
    assert (await ask(name="ops"))["id"] == (await ask(name=webhook.id))["id"] == webhook.id
    await ask(404, name="unknown")


@of("DELETE /v1/webhooks/{id}")
async def remove(stage: Stage, ask: Ask) -> None:
    await made(stage)
    await ask(name="ops")
    webhook = await kept(stage)
    assert (webhook.removed_at is not None, webhook.secret) == (True, "")
    await ask(404, name="ops")


@of("POST /v1/webhooks/{id}/rotate")
async def rotate(stage: Stage, ask: Ask) -> None:
    old = await made(stage)
    form = await ask(name="ops", json={"overlap": "1h"})
    webhook = await kept(stage)
    assert form["secret"] == webhook.secret != old.secret
    assert webhook.secrets_at(webhook.created_at) == (webhook.secret, old.secret)


@of("POST /v1/webhooks/{id}/enable")
async def enable(stage: Stage, ask: Ask) -> None:
    await made(stage)
    await stage.engine.webhooks.disable("ops", "gone", Actor("rota"))
    assert (await ask(name="ops"))["is_enabled"] is True
    assert (await kept(stage)).is_active


@of("POST /v1/webhooks/{id}/test")
async def test(stage: Stage, ask: Ask) -> None:
    webhook = await made(stage)
    await ask(202, name="ops")
    (job,) = await stage.store.find(JobQuery(queues=(QUEUE,)))
    assert (job.type, job.tags) == (TYPE, (webhook.id, "webhook.test"))
    assert webhook.secret not in job.payload


@of("GET /v1/webhooks/{id}/deliveries")
async def deliveries(stage: Stage, ask: Ask) -> None:
    await made(stage)
    job = await stage.dead(queue="mail")
    (delivery,) = (await ask(name="ops", params={"limit": 5}))["items"]
    assert (delivery["event"], delivery["subject"], delivery["status"]) == ("job.dead", job["id"], "pending")
