"""Delivery of webhook messages: one signed request, to an address that the guard allows, without redirects.

A receiver that answers 2xx has the message. 410 disables the webhook. 429 and 503 with Retry-After put the message off,
everything else fails the attempt, which is repeated for days. A redirect is a failure: it would send the message,
signed, to an address that nobody has configured.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from http import HTTPStatus
from typing import Any, Final

from rota._httpx import httpx
from rota.core.webhook import LONGEST, Webhook, body_of, signature_of
from rota.worker.builtin.addresses import AddressGuard
from rota.worker.builtin.http import Http, HttpFailed, HttpRequest, retry_after
from rota.worker.exceptions import GiveUp, RetryLater

ANSWER_WITHIN: Final = timedelta(seconds=15)

Find = Callable[[str], Awaitable[Webhook | None]]
Disable = Callable[[str, str], Awaitable[object]]


class WebhookSender:
    """Sends messages to webhooks, which it looks up by id: neither address nor secret is in a job's payload."""

    def __init__(self, guard: AddressGuard, find: Find, disable: Disable) -> None:
        self._http = Http(guard)
        self._find = find
        self._disable = disable

    async def __call__(self, payload: Any) -> dict[str, Any]:  # noqa: ANN401 - JSON
        """Send a message once."""
        webhook_id, message = payload["webhook"], payload["message"]
        webhook = await self._find(webhook_id)
        if webhook is None:
            raise GiveUp(f"webhook {webhook_id} was removed")
        if not webhook.is_active:
            raise GiveUp(f"webhook {webhook.name} is disabled: {webhook.disabled_reason}")
        request = _request_of(webhook, message)
        try:
            async with asyncio.timeout(ANSWER_WITHIN.total_seconds()):
                response = await self._http.send_once(request)
        except (TimeoutError, httpx.TimeoutException):
            seconds = ANSWER_WITHIN.total_seconds()
            raise TimeoutError(f"{request.url.host} gave no answer within {seconds:g} s") from None
        if httpx.codes.is_success(response.status):
            return {"status": response.status}
        await self._refuse(webhook, message, response.status, response.headers.get("retry-after"))
        where = f" (to {response.location[:200]}); redirects are not followed" if response.location else ""
        raise HttpFailed(f"{request.url.host} answered {response.status}{where}")

    async def _refuse(self, webhook: Webhook, message: dict[str, Any], status: int, put_off: str | None) -> None:
        if status == HTTPStatus.GONE:
            await self._disable(webhook.id, "the receiver answered 410 Gone")
            raise GiveUp(f"webhook {webhook.name} is disabled: the receiver answered 410 Gone")
        if status in {HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.SERVICE_UNAVAILABLE}:
            delay = retry_after(put_off)
            if delay is not None and datetime.now(UTC) - datetime.fromisoformat(message["time"]) < LONGEST:
                raise RetryLater(delay, f"the receiver answered {status} and asks for a retry later")


def _request_of(webhook: Webhook, message: dict[str, Any]) -> HttpRequest:
    body, timestamp = body_of(message), int(time.time())
    secrets = webhook.secrets_at(datetime.now(UTC))
    return HttpRequest(
        url=httpx.URL(webhook.url),
        method="POST",
        headers={
            "content-type": "application/cloudevents+json",
            "webhook-id": message["id"],
            "webhook-timestamp": str(timestamp),
            "webhook-signature": signature_of(secrets, message["id"], timestamp, body),
        },
        body=body,
        timeout=ANSWER_WITHIN,
    )
