"""What the verbs work with, given to each of them as one."""

from __future__ import annotations

from dataclasses import dataclass

from rota.engine.ids import IdMaker
from rota.engine.store_clock import StoreClock
from rota.ports.broker import Broker
from rota.ports.clock import Clock, Dice
from rota.ports.store import Store
from rota.telemetry import Telemetry


@dataclass(frozen=True, slots=True)
class Parts:
    """The store, the broker, and what the core must be brought: time, dice, ids."""

    store: Store
    broker: Broker
    telemetry: Telemetry
    clock: Clock
    dice: Dice
    fresh_id: IdMaker
    store_clock: StoreClock
    #: How many jobs may wait in a queue that has no bound of its own.
    queue_bound: int | None = None
