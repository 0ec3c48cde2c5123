"""Forms of webhooks."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct

from rota.core.ids import to_text
from rota.core.job import Job
from rota.core.lifecycle import State
from rota.core.webhook import Webhook
from rota.wire.jobs import ErrorForm, error_form
from rota.wire.scalars import Count, Duration, Identifier, Moment, Name, QueueName


class WebhookRequest(Struct, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """A webhook to create: its address, the events it subscribes to, and the queues whose jobs count; left out, all."""

    name: Name
    url: Annotated[str, Meta(min_length=1, max_length=2_000)]
    events: Annotated[list[Annotated[str, Meta(max_length=100)]], Meta(min_length=1, max_length=100)]
    queues: Annotated[list[QueueName], Meta(min_length=1, max_length=100)] = []


class WebhookRotateRequest(Struct, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """For how long messages are signed with the old secret as well."""

    overlap: Duration = "24h"


class WebhookForm(Struct, kw_only=True):
    """A webhook without its secret. A disabled one is sent nothing until it is enabled."""

    id: str
    name: str
    url: str
    events: list[str]
    queues: list[str]
    created_at: Moment
    is_enabled: bool
    disabled_at: Moment | None
    disabled_reason: str


class NewWebhookForm(WebhookForm, kw_only=True):
    """A webhook with a new secret, which is shown this once."""

    secret: str


class WebhookList(Struct, kw_only=True):
    """All webhooks, the newest first."""

    items: list[WebhookForm]


class DeliveryForm(Struct, kw_only=True):
    """One message to a webhook: the job that delivers it. `message_id` is the header `webhook-id`."""

    id: Identifier
    message_id: str
    event: str
    subject: str
    status: State
    attempts: Count
    created_at: Moment
    next_attempt_at: Moment | None
    ended_at: Moment | None
    error: ErrorForm | None


class DeliveryList(Struct, kw_only=True):
    """The deliveries of a webhook, the newest first."""

    items: list[DeliveryForm]


class TestReply(Struct, kw_only=True):
    """The job that delivers a test message."""

    id: Identifier


def webhook_form(webhook: Webhook) -> WebhookForm:
    return WebhookForm(**_fields(webhook))


def new_webhook_form(webhook: Webhook) -> NewWebhookForm:
    return NewWebhookForm(**_fields(webhook), secret=webhook.secret)


def _fields(webhook: Webhook) -> dict[str, Any]:
    return {
        "id": webhook.id,
        "name": webhook.name,
        "url": webhook.url,
        "events": list(webhook.events),
        "queues": list(webhook.queues),
        "created_at": webhook.created_at,
        "is_enabled": webhook.is_active,
        "disabled_at": webhook.disabled_at,
        "disabled_reason": webhook.disabled_reason,
    }


def delivery_form(job: Job) -> DeliveryForm:
    message: dict[str, Any] = msgspec.json.decode(job.payload)["message"]
    waits = job.state in {State.SCHEDULED, State.RETRYING}
    return DeliveryForm(
        id=to_text(job.id),
        message_id=message["id"],
        event=message["type"],
        subject=message["subject"],
        status=job.state,
        attempts=job.attempts,
        created_at=job.created_at,
        next_attempt_at=job.run_at if waits else None,
        ended_at=job.finished_at,
        error=None if job.error is None else error_form(job.error),
    )
