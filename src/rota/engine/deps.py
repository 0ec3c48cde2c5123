"""Dependencies of the engine's verbs, passed to each family of verbs as one object."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from rota.engine.ids import IdMaker
from rota.engine.store_clock import StoreClock, steady_clock
from rota.engine.waiting_limit import WaitingLimit
from rota.engine.webhook_events import WebhookEvents
from rota.ports.broker import Broker
from rota.ports.clock import Clock, Rng
from rota.ports.store import Store
from rota.telemetry import Telemetry


@dataclass(frozen=True, slots=True)
class EngineDeps:
    """The store, the broker, telemetry, and what the core cannot provide itself: time, random numbers, ids."""

    store: Store
    broker: Broker
    telemetry: Telemetry
    clock: Clock
    rng: Rng
    fresh_id: IdMaker
    store_clock: StoreClock
    webhook_events: WebhookEvents
    waiting_limit: WaitingLimit
    #: How many jobs may wait in a queue that has no bound of its own.
    queue_bound: int | None = None
    #: The namespace whose store this is; empty for the default one.
    namespace: str = ""
    #: Seconds of a monotonic clock.
    steady: Callable[[], float] = steady_clock
