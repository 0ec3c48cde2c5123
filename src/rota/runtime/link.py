"""A link to Rota: straight to a store, or over HTTP to an API. Whoever holds one cannot tell which."""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from rota.brokers.in_store import InStoreBroker
from rota.core.fleet import Member
from rota.engine import Engine
from rota.engine.engine import wall_clock
from rota.engine.ids import IdMaker
from rota.ports.broker import Broker
from rota.ports.faces import Control, StepKeeper, WorkSource
from rota.ports.guest import House
from rota.ports.store import Store
from rota.runtime.broker import BrokerChoice, open_broker
from rota.runtime.guests import HOUSE
from rota.runtime.store import open_store
from rota.telemetry import Telemetry


@dataclass(frozen=True, slots=True)
class Link:
    """Both faces, a maker of ids, and, where the store is at hand, the engine behind them."""

    control: Control
    source: WorkSource
    steps: StepKeeper
    fresh_id: IdMaker
    close: Callable[[], Awaitable[None]]
    #: Tells the others that a process is alive.
    announce_member: Callable[[Member], Awaitable[None]]
    engine: Engine | None = None
    #: Where the store is, for a connection of a handler's own; None where it is out of reach.
    house: House | None = None


async def connect(
    url: str, *others: str, token: str = "", queue_bound: int | None = None, broker: BrokerChoice | None = None
) -> Link:
    """Link up with what a URL names; with several, all of them are addresses of one API.

    `queue_bound` is how many jobs may wait in a queue that has no bound of its own; an API has its own.
    """
    if url.startswith(("http://", "https://")):
        return _over_http((url, *others), token)
    store, telemetry = await open_store(url), Telemetry()
    try:
        opened = await open_broker(broker or BrokerChoice(), store, telemetry)
    except BaseException:
        await store.close()
        raise
    return link_of(store, queue_bound=queue_bound, house=House(HOUSE, url), broker=opened, telemetry=telemetry)


def link_of(
    store: Store,
    *,
    queue_bound: int | None = None,
    house: House | None = None,
    broker: Broker | None = None,
    telemetry: Telemetry | None = None,
) -> Link:
    """Link up with a store that is open."""
    between = broker or InStoreBroker(store)
    engine = Engine(store, between, queue_bound=queue_bound, telemetry=telemetry)

    async def close() -> None:
        await between.close()
        await store.close()

    async def announce(member: Member) -> None:
        await store.beat([member])

    return Link(engine, engine, engine.steps, engine.fresh_id, close, announce, engine, house)


def _over_http(urls: Sequence[str], token: str) -> Link:
    # Imported when needed: who works on a file need not load an HTTP client.
    from rota.client import connect as connect_over_http  # noqa: PLC0415

    client = connect_over_http(urls, token=token)
    return Link(client, client, client, IdMaker(wall_clock, random.random), client.close, client.announce_member)
