"""A link to Rota: straight to a store, or over HTTP to an API. Whoever holds one cannot tell which."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from dataclasses import dataclass, replace
from typing import Any

from rota.brokers.in_store import InStoreBroker
from rota.core.fleet import Member
from rota.core.identity import JobId
from rota.core.submission import NewJob
from rota.engine import Engine
from rota.engine.engine import wall_clock
from rota.engine.ids import IdMaker
from rota.ports.broker import Broker
from rota.ports.faces import Control, StepKeeper, WorkSource
from rota.ports.guest import House
from rota.ports.store import Inserted, Store
from rota.runtime.broker import BrokerChoice, open_broker
from rota.runtime.guests import HOUSE
from rota.runtime.store import open_store
from rota.settings import Settings
from rota.telemetry import RelayedTelemetry, Telemetry

Submit = Callable[[Sequence[NewJob]], Coroutine[Any, Any, Sequence[Inserted]]]


@dataclass(frozen=True, slots=True)
class SideDoor:
    """Submitting past the loop on which a link lives: nobody has to wait for that loop to come round."""

    #: On any loop.
    submit: Submit
    #: On a thread without a loop: it does the work itself, and never suspends.
    submit_by_hand: Submit


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
    #: Removes a process that has ended from those that are known, by its boot.
    remove_member: Callable[[str], Awaitable[None]]
    engine: Engine | None = None
    #: Where the store is, for a connection of a handler's own; None where it is out of reach.
    house: House | None = None
    #: Waits for cancels of a worker's jobs, where the engine is elsewhere.
    cancels: Callable[[str], Awaitable[Sequence[tuple[JobId, int]]]] | None = None
    #: None where only the loop may submit on which the link lives.
    side_door: SideDoor | None = None


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
    link = link_of(store, queue_bound=queue_bound, house=House(HOUSE, url), broker=opened, telemetry=telemetry)
    # Another broker lives on the loop. The one in the store may be told of work on any thread.
    return link if broker is not None else replace(link, side_door=_side_door(store, link, queue_bound))


async def open_link(settings: Settings, url: str, *others: str) -> Link:
    """Connect to a store, with the broker and the bound of the settings, or to an API."""
    broker = BrokerChoice(settings.broker, settings.redis_stream, settings.redis_group) if settings.broker else None
    return await connect(url, *others, token=settings.token, queue_bound=settings.queue_size or None, broker=broker)


def _side_door(store: Store, link: Link, queue_bound: int | None) -> SideDoor | None:
    if store.by_hand is None or link.engine is None:
        return None
    broker = link.engine.broker
    telemetry = RelayedTelemetry(link.engine.telemetry, asyncio.get_running_loop())

    def submit_to(place: Store) -> Submit:
        return Engine(place, broker, telemetry=telemetry, queue_bound=queue_bound).jobs.submit

    return SideDoor(submit_to(store), submit_to(store.by_hand))


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

    async def remove(boot: str) -> None:
        await store.leave([boot])

    return Link(engine, engine, engine.steps, engine.fresh_id, close, announce, remove, engine, house)


def _over_http(urls: Sequence[str], token: str) -> Link:
    # Imported when needed: who works on a file need not load an HTTP client.
    from rota.client import connect as connect_over_http  # noqa: PLC0415

    client = connect_over_http(urls, token=token)
    fresh_id = IdMaker(wall_clock, random.random)
    close, announce, remove = client.close, client.announce_member, client.leave
    return Link(client, client, client, fresh_id, close, announce, remove, cancels=client.cancels)
