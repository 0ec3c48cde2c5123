"""Webhooks: addresses that are notified of events. Id and version are columns, all else is JSON text."""

from __future__ import annotations

import json
from typing import Any, Final

from rota.core.time import from_micros
from rota.core.webhook import Webhook
from rota.stores.base.session import StoreSession
from rota.stores.rows import Row, micros

_PLAIN: Final = ("name", "url", "secret", "old_secret", "disabled_reason")
_LISTS: Final = ("events", "queues")
_TIMES: Final = ("created_at", "old_until", "disabled_at", "removed_at")


async def put_webhook(session: StoreSession, webhook: Webhook, now: int) -> bool:  # noqa: ARG001 - as all recorded verbs
    """Write a webhook if its version still holds."""
    name = "create_webhook" if webhook.version == 0 else "replace_webhook"
    return await session.put(name, **webhook_row(webhook))


async def webhooks(session: StoreSession) -> list[Webhook]:
    return [webhook_of(row) for row in await session.select("all_webhooks")]


def webhook_row(webhook: Webhook) -> dict[str, Any]:
    """Write a webhook as columns."""
    body: dict[str, Any] = {name: getattr(webhook, name) for name in (*_PLAIN, *_LISTS)}
    body |= {name: micros(getattr(webhook, name)) for name in _TIMES}
    return {"id": webhook.id, "version": webhook.version, "body": json.dumps(body, separators=(",", ":"))}


def webhook_of(row: Row) -> Webhook:
    """Read a webhook from the columns id, version, body."""
    number, version, text = row
    body = json.loads(text)
    fields: dict[str, Any] = {name: body[name] for name in _PLAIN}
    fields |= {name: tuple(body[name]) for name in _LISTS}
    fields |= {name: None if body[name] is None else from_micros(body[name]) for name in _TIMES}
    return Webhook(id=number, version=version, **fields)
