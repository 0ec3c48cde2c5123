"""Events for webhooks: the jobs that deliver them, made in the transaction that ends a job.

The webhooks are read at most every five seconds, and not at all while nothing ends. Without webhooks a settlement is
left as it is.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, Final

from rota.core.ids import to_text
from rota.core.job import Job
from rota.core.settlement import Settlement
from rota.core.submission import NewJob
from rota.core.webhook import BACKOFF, MAX_ATTEMPTS, QUEUE, TYPE, Webhook, event_of, job_message, message_of
from rota.engine.ids import IdMaker
from rota.ports.clock import Clock
from rota.ports.store import Store

#: How long webhooks are used without reading them again.
CACHE: Final = timedelta(seconds=5)
_TIMEOUT: Final = timedelta(minutes=1)


class WebhookEvents:
    """Makes delivery jobs for the webhooks that subscribe to an event."""

    def __init__(self, store: Store, fresh_id: IdMaker, clock: Clock) -> None:
        self._store = store
        self._fresh_id = fresh_id
        self._clock = clock
        self._active: Sequence[Webhook] = ()
        self._read_at: datetime | None = None

    def forget(self) -> None:
        """Read the webhooks again with the next event."""
        self._read_at = None

    async def active(self) -> Sequence[Webhook]:
        """Return the enabled webhooks, as they were at most five seconds ago."""
        now = self._clock()
        # Also after a step of the clock, in either direction.
        if self._read_at is None or abs(now - self._read_at) >= CACHE:
            self._active = [one for one in await self._store.webhooks() if one.is_active]
            self._read_at = now
        return self._active

    async def attached(self, jobs: Sequence[Job], settlements: Sequence[Settlement]) -> Sequence[Settlement]:
        """Add delivery jobs to the settlements that end jobs."""
        active = await self.active()
        if not active:
            return settlements
        now = self._clock()
        return [self._with_events(active, job, one, now) for job, one in zip(jobs, settlements, strict=True)]

    def _with_events(self, active: Sequence[Webhook], job: Job, settlement: Settlement, now: datetime) -> Settlement:
        event = event_of(settlement)
        # Deliveries are jobs too: an event about each would never end.
        if event is None or job.queue == QUEUE:
            return settlement
        subscribed = [webhook for webhook in active if webhook.wants(event, job.queue)]
        if not subscribed:
            return settlement
        message = job_message(job, settlement, now)
        return replace(settlement, events=tuple(self.delivery(webhook, message) for webhook in subscribed))

    async def emit(
        self, event: str, subject: str, data: dict[str, Any], *, queue: str | None = None, number: str = ""
    ) -> None:
        """Make delivery jobs for an event that is not about a job."""
        subscribed = [webhook for webhook in await self.active() if webhook.wants(event, queue)]
        if subscribed:
            message = message_of(event, number or to_text(self._fresh_id()), subject, data, self._clock())
            await self._store.insert([self.delivery(webhook, message) for webhook in subscribed])

    def delivery(self, webhook: Webhook, message: dict[str, Any]) -> NewJob:
        """Make the job that sends a message to a webhook."""
        return NewJob(
            self._fresh_id(),
            TYPE,
            json.dumps({"webhook": webhook.id, "message": message}, separators=(",", ":")),
            QUEUE,
            max_attempts=MAX_ATTEMPTS,
            backoff=BACKOFF,
            timeout=_TIMEOUT,
            tags=(webhook.id, str(message["type"])),
        )
