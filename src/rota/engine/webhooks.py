"""Webhook verbs: create, read, rotate, enable, remove, test, and the log of deliveries."""

from __future__ import annotations

import base64
import secrets
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Final

from rota.core.errors import IllegalTransition, WebhookNotFound
from rota.core.ids import JobId
from rota.core.job import Job
from rota.core.ledger import LedgerEntry
from rota.core.webhook import QUEUE, SECRET_BYTES, TEST_EVENT, Webhook, check_webhook, message_of, new_secret
from rota.engine.deps import EngineDeps
from rota.engine.jobs import Jobs
from rota.ports.client import Actor
from rota.ports.store import JobQuery

_MOST_TRIES: Final = 5


class Webhooks:
    """Create, read, rotate, enable, remove, test. A webhook is found by its id or by its name."""

    def __init__(self, deps: EngineDeps, jobs: Jobs) -> None:
        self._deps = deps
        self._jobs = jobs

    async def create(self, name: str, url: str, events: tuple[str, ...], queues: tuple[str, ...], by: Actor) -> Webhook:
        """Store a webhook with a new secret; the name must not be taken."""
        check_webhook(url, events)
        if any(one.name == name for one in await self.all()):
            raise IllegalTransition(f"webhook {name!r}: there is one of this name; remove it, or choose another name")
        webhook = Webhook(
            id=f"wh_{base64.b32encode(secrets.token_bytes(10)).decode().lower()}",
            name=name,
            url=url,
            events=events,
            secret=new_secret(secrets.token_bytes(SECRET_BYTES)),
            created_at=await self._deps.store.time(),
            queues=queues,
        )
        await self._put(webhook, "create", by)
        return webhook

    async def all(self) -> Sequence[Webhook]:
        """Return all webhooks that are not removed, the newest first."""
        there = [one for one in await self._deps.store.webhooks() if one.removed_at is None]
        return sorted(there, key=lambda one: (one.created_at, one.id), reverse=True)

    async def one(self, id_or_name: str) -> Webhook:
        known = await self.all()
        for webhook in known:
            if id_or_name in (webhook.id, webhook.name):
                return webhook
        raise WebhookNotFound(f"webhook {id_or_name[:60]!r}: unknown; `rota webhooks list` lists them", field="id")

    async def rotate(self, id_or_name: str, overlap: timedelta, by: Actor) -> Webhook:
        """Give a webhook a new secret; for `overlap` messages are signed with the old one as well."""
        now = await self._deps.store.time()
        fresh = new_secret(secrets.token_bytes(SECRET_BYTES))

        def rotated(one: Webhook) -> Webhook:
            return replace(one, secret=fresh, old_secret=one.secret, old_until=now + overlap)

        return await self._change(id_or_name, "rotate", rotated, by)

    async def enable(self, id_or_name: str, by: Actor) -> Webhook:
        return await self._change(
            id_or_name, "enable", lambda one: replace(one, disabled_at=None, disabled_reason=""), by
        )

    async def disable(self, id_or_name: str, reason: str, by: Actor) -> Webhook:
        now = await self._deps.store.time()
        return await self._change(
            id_or_name, "disable", lambda one: replace(one, disabled_at=now, disabled_reason=reason), by
        )

    async def remove(self, id_or_name: str, by: Actor) -> Webhook:
        """Remove a webhook for good, with its secrets; messages that are under way are not sent any more."""
        now = await self._deps.store.time()
        return await self._change(
            id_or_name, "remove", lambda one: replace(one, removed_at=now, secret="", old_secret=""), by
        )

    async def test(self, id_or_name: str) -> JobId:
        """Submit the delivery of a test message, and return its job."""
        webhook, now = await self.one(id_or_name), await self._deps.store.time()
        data = {"webhook": webhook.id, "name": webhook.name}
        message = message_of(TEST_EVENT, f"test-{secrets.token_hex(8)}", webhook.id, data, now)
        (inserted,) = await self._jobs.submit([self._deps.webhook_events.delivery(webhook, message)])
        return inserted.job_id

    async def deliveries(self, id_or_name: str, limit: int) -> Sequence[Job]:
        """Return the jobs that deliver to a webhook, the newest first."""
        webhook = await self.one(id_or_name)
        return await self._deps.store.find(JobQuery(queues=(QUEUE,), tag=webhook.id, limit=limit))

    async def _change(self, id_or_name: str, action: str, change: Callable[[Webhook], Webhook], by: Actor) -> Webhook:
        for _ in range(_MOST_TRIES):
            webhook = change(await self.one(id_or_name))
            if await self._put(webhook, action, by):
                return webhook
        raise IllegalTransition(f"webhook {id_or_name[:60]!r}: keeps changing; try again")

    async def _put(self, webhook: Webhook, action: str, by: Actor) -> bool:
        entry = LedgerEntry(
            by.name, f"webhooks.{action}", f"{webhook.name} {webhook.id}", by.origin, webhook.url, surface=by.surface
        )
        is_stored = await self._deps.store.put_webhook(webhook, entry=entry)
        self._deps.webhook_events.forget()
        return is_stored
