"""The dispatcher: keeps the queues of an external broker filled up to their limit.

It is woken by the store, when there is work, and by the broker, when there is room. The leader dispatches; two
dispatchers at once do no harm: each takes what the other left. Every few seconds it checks that jobs in state `queued`
are still in the broker, and dispatches again those that the broker lost. While the broker is unavailable, all queued
jobs are recalled to `pending`, so that workers claim them from the store.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from typing import Final

from rota.backoff import JitteredBackoff
from rota.core.errors import BrokerUnavailable, RotaError
from rota.engine import Engine
from rota.ports.broker import DispatchQueue, Subscription
from rota.ports.clock import Rng
from rota.ports.wakeup import EVERY_QUEUE

_log = logging.getLogger("rota.dispatcher")
AUDIT_SECONDS: Final = 2.0
#: How long to wait for a notification at most: readers treat queues without a heartbeat of a dispatcher as abandoned.
LONGEST_WAIT: Final = timedelta(seconds=1)
#: A pause between passes: jobs that arrive meanwhile share the next one.
PAUSE_SECONDS: Final = 0.002
#: Without a broker: how long a job stays `queued` before it is recalled. Another process may have a broker.
ABANDONED: Final = timedelta(seconds=60)


class Dispatcher:
    """Dispatches until it is cancelled."""

    def __init__(
        self, engine: Engine, *, stands_by: Callable[[], bool] = lambda: False, rng: Rng = random.random
    ) -> None:
        self.engine = engine
        self._stands_by = stands_by
        self._rng = rng

    async def run(self) -> None:
        """Keep the broker filled; without a broker, recall jobs that one has left behind."""
        line = self.engine.broker.dispatch_queue
        if line is None:
            await self._recall_abandoned()
            return
        with self.engine.broker.subscribe((EVERY_QUEUE,)) as subscription:
            await self._fill(line, subscription)

    async def _fill(self, line: DispatchQueue, subscription: Subscription) -> None:
        backoff = JitteredBackoff(self._rng, longest=1.0)
        loop = asyncio.get_running_loop()
        audit_at = loop.time()
        while True:
            if self._stands_by():
                await asyncio.sleep(LONGEST_WAIT.total_seconds())
                continue
            try:
                count = await self.engine.dispatch.dispatch(line)
                if loop.time() >= audit_at:
                    audit_at = loop.time() + AUDIT_SECONDS
                    await self._audit(line)
                backoff.reset()
            except Exception as error:  # noqa: BLE001 - whatever a driver raises, the dispatcher goes on
                await self._recall_all(error)
                audit_at = loop.time()
                await asyncio.sleep(backoff.next())
                continue
            await asyncio.sleep(PAUSE_SECONDS)
            if not count:
                await _wait_for_either(subscription, line)

    async def _audit(self, line: DispatchQueue) -> None:
        recalled = await self.engine.dispatch.audit(line)
        if recalled:
            _log.info("%d queued jobs were missing in the broker and are dispatched again", recalled)

    async def _recall_all(self, error: Exception) -> None:
        """Let workers claim from the store what the broker cannot deliver."""
        if not isinstance(error, BrokerUnavailable):
            is_unexpected = not isinstance(error, RotaError)
            _log.warning("dispatching failed and will be repeated: %s", error, exc_info=is_unexpected)
            return
        with suppress(RotaError):
            recalled = await self.engine.dispatch.recall()
            if recalled:
                _log.warning("%d queued jobs are recalled, because the broker is unavailable: %s", recalled, error)

    async def _recall_abandoned(self) -> None:
        while True:
            await asyncio.sleep(ABANDONED.total_seconds() * (0.75 + self._rng() / 2))
            try:
                recalled = await self.engine.dispatch.recall(ABANDONED)
                if recalled:
                    _log.warning("%d jobs were queued for a broker that is no longer in use; recalled", recalled)
            except Exception as error:  # noqa: BLE001 - as above
                is_unexpected = not isinstance(error, RotaError)
                _log.warning("queued jobs could not be checked: %s", error, exc_info=is_unexpected)


async def _wait_for_either(subscription: Subscription, line: DispatchQueue) -> None:
    """Wait until there is work or room, whichever comes first."""
    waits = [asyncio.ensure_future(subscription.wait(LONGEST_WAIT)), asyncio.ensure_future(line.wait(LONGEST_WAIT))]
    try:
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for wait in waits:
            wait.cancel()
        await asyncio.gather(*waits, return_exceptions=True)
