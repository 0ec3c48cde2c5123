"""The worker of webhook deliveries: part of every scheduler, started once there is a webhook.

It runs beside the store, since it reads addresses and secrets there. Its handlers run on the store's own loop: they are
Rota's, and never block.
"""

from __future__ import annotations

import asyncio
import logging
from datetime import timedelta
from typing import Final

from rota.core.webhook import QUEUE, TYPE, Webhook
from rota.engine import Engine
from rota.ports.client import Actor
from rota.settings import Settings
from rota.telemetry.outage import Outage
from rota.version import __version__
from rota.worker import Handlers, Worker, WorkerOptions
from rota.worker.builtin import webhook_handler
from rota.worker.worker import Announce

#: How often to look for a first webhook.
LOOK_SECONDS: Final = 5.0
SLOTS: Final = 8
POLL: Final = timedelta(seconds=5)
_ROTA: Final = Actor("rota", surface="scheduler")
_log = logging.getLogger("rota.webhooks")


class WebhookDelivery:
    """Runs the delivery worker while there are webhooks."""

    def __init__(self, engine: Engine, settings: Settings, name: str, announce: Announce) -> None:
        self._engine = engine
        self._settings = settings
        self._name = name
        self._announce = announce
        self._worker: Worker | None = None

    @property
    def boot(self) -> str | None:
        """The boot of the worker, once it has started."""
        return None if self._worker is None else self._worker.options.boot

    async def run(self) -> None:
        """Wait for a first webhook, and then deliver until cancelled."""
        outage = Outage(_log, "looking for webhooks")
        while True:
            try:
                is_needed = bool(await self._engine.webhook_events.active())
                outage.worked()
            except Exception as error:  # noqa: BLE001 - whatever a driver raises, the loop goes on
                outage.failed(error)
                is_needed = False
            if is_needed:
                break
            await asyncio.sleep(LOOK_SECONDS)
        self._worker = self._build()
        await self._worker.run()

    def _build(self) -> Worker:
        handler = webhook_handler(self._settings.allow_hosts, self._find, self._disable)
        options = WorkerOptions(
            name=f"{self._name}-webhooks",
            queues=(QUEUE,),
            concurrency=SLOTS,
            lease=self._settings.lease,
            poll_interval=POLL,
            beat=self._settings.lease / 3,
            drain_timeout=self._settings.drain_timeout,
            version=__version__,
            own_loop=False,
        )
        _log.info("delivering webhooks: jobs of type %s", TYPE)
        return Worker(self._engine, Handlers([handler]), options, announce_member=self._announce)

    async def _find(self, webhook_id: str) -> Webhook | None:
        webhooks = [one for one in await self._engine.webhooks.all() if one.id == webhook_id]
        return webhooks[0] if webhooks else None

    async def _disable(self, webhook_id: str, reason: str) -> object:
        _log.warning("webhook %s is disabled: %s", webhook_id, reason)
        return await self._engine.webhooks.disable(webhook_id, reason, _ROTA)
