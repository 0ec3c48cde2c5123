"""Links: a connection to Rota, either in process on a store and its broker, or over HTTP to an API.

Callers cannot tell which: both have the same verbs (`Control`, `WorkSource`). A driver that is an optional extra is
imported only when a URL names its server.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from rota.brokers.in_store import InStoreBroker
from rota.core.cluster import Member
from rota.core.errors import InvalidRequest
from rota.core.ids import JobId
from rota.core.redaction import redacted
from rota.core.submission import NewJob
from rota.core.worker_orders import NO_ORDERS, WorkerOrders
from rota.engine import Engine
from rota.engine.ids import IdMaker
from rota.ports.broker import Broker
from rota.ports.caller_tx import CallerTxConfig
from rota.ports.client import Control, InputSource, StepKeeper, WorkSource
from rota.ports.clock import wall_clock
from rota.ports.coordinator import Coordinator, LockSource
from rota.ports.store import Inserted, Store
from rota.runtime.caller_tx import CALLER_TX_FACTORY
from rota.runtime.coordinator import open_coordinator
from rota.runtime.encryption import with_encryption
from rota.runtime.namespace_stores import exists, require_store
from rota.runtime.plain_text import warn_of_plain_text
from rota.runtime.store import open_store
from rota.settings import Settings
from rota.telemetry import RelayedTelemetry, Telemetry
from rota.telemetry.events import BrokerCalled
from rota.tls import NO_FILES, ClientFiles

if TYPE_CHECKING:
    from rota.encryption import Cipher

Submit = Callable[[Sequence[NewJob]], Coroutine[Any, Any, Sequence[Inserted]]]


@dataclass(frozen=True, slots=True)
class BrokerChoice:
    """Where a broker is, and the names of its stream and group. Without a URL the store itself is the broker."""

    url: str = ""
    stream: str = "jobs"
    group: str = "workers"


@dataclass(frozen=True, slots=True)
class DirectSubmit:
    """Submitting without the event loop on which a link was opened."""

    #: On any loop.
    submit: Submit
    #: On a thread without a loop: it writes on that thread and never suspends.
    submit_blocking: Submit


@dataclass(frozen=True, slots=True)
class Link:
    """The verbs of jobs and of workers, a maker of ids, and the engine behind them if the store is opened here."""

    control: Control
    source: WorkSource
    steps: StepKeeper
    inputs: InputSource
    fresh_id: IdMaker
    close: Callable[[], Awaitable[None]]
    #: Records that a process is alive, and returns the orders for it, unless they reach it otherwise.
    announce_member: Callable[[Member], Awaitable[WorkerOrders | None]]
    #: Removes a process that has ended from the members, by its boot.
    remove_member: Callable[[str], Awaitable[None]]
    #: Records the payload schemas of task types.
    register_schemas: Callable[[Mapping[str, str]], Awaitable[None]]
    engine: Engine | None = None
    #: The store for steps on a handler's own connection; None over HTTP.
    caller_tx: CallerTxConfig | None = None
    #: Waits for cancellations of a worker's jobs, over HTTP.
    cancels: Callable[[str], Awaitable[Sequence[tuple[JobId, int]]]] | None = None
    #: Gives the tokens of leases, over HTTP, for the lease keeper.
    lease_tokens: Callable[[Iterable[tuple[JobId, int]]], Mapping[tuple[JobId, int], str]] | None = None
    #: None where jobs can be submitted only on the loop on which the link was opened.
    direct_submit: DirectSubmit | None = None
    #: Gives the named locks; opened when first needed. None where the settings are unknown.
    locks: Callable[[], LockSource] | None = None
    #: Encrypts and decrypts for a worker on this link; None without keys.
    cipher: Cipher | None = None


async def connect(
    url: str,
    *others: str,
    token: str = "",
    tls: ClientFiles = NO_FILES,
    queue_bound: int | None = None,
    broker: BrokerChoice | None = None,
    hand_over: bool = True,
    namespace: str = "",
    few_connections: bool = False,
) -> Link:
    """Open a link to the store or API at a URL; several URLs are addresses of one API.

    `queue_bound` is how many jobs may wait in a queue that has no bound of its own; `hand_over` says whether a new job
    may be leased to a waiting worker at once. An API has its own settings. The URL of a store is already that of the
    namespace.
    """
    if url.startswith(("http://", "https://")):
        return _over_http((url, *others), token, tls, namespace)
    warn_of_plain_text("store", url)
    store = await open_store(url, hand_over=hand_over, few_connections=few_connections)
    telemetry = Telemetry()
    try:
        opened = await open_broker(broker or BrokerChoice(), store, telemetry)
    except BaseException:
        await store.close()
        raise
    if opened.rate_counter is not None:
        store.count_rates_with(opened.rate_counter)
    caller_tx = CallerTxConfig(CALLER_TX_FACTORY, url)
    link = link_of(
        store, queue_bound=queue_bound, caller_tx=caller_tx, broker=opened, telemetry=telemetry, namespace=namespace
    )
    # Redis can be used only on the loop of the link. The broker in the store can be notified on any thread.
    return link if broker is not None else replace(link, direct_submit=_direct_submit(store, link, queue_bound))


async def open_link(settings: Settings, url: str, *others: str, few_connections: bool = False) -> Link:
    """Connect to a store with the broker and the queue bound of the settings, or to an API.

    The URL of a store is already that of the settings' namespace (`store_url`).
    """
    namespace = settings.namespace
    if namespace and not url.startswith(("http://", "https://")):
        await require_store(url, namespace)
    # Streams of two namespaces in one Redis have different names.
    stream = f"{settings.redis_stream}@{namespace}" if namespace else settings.redis_stream
    broker = BrokerChoice(settings.broker, stream, settings.redis_group) if settings.broker else None
    link = await connect(
        url,
        *others,
        token=settings.token,
        tls=settings.client_tls,
        queue_bound=settings.queue_size or None,
        broker=broker,
        hand_over=settings.hand_over,
        namespace=namespace,
        few_connections=few_connections,
    )
    link = with_encryption(link, settings.encryption_keys)
    return link if link.engine is None else _with_locks(link, link.engine.store, settings)


def _with_locks(link: Link, store: Store, settings: Settings) -> Link:
    """Add the locks of the coordinator that a setting names, which is closed with the link."""
    opened: list[Coordinator] = []

    def locks() -> Coordinator:
        if not opened:
            opened.append(open_coordinator(settings.coordinator, store, settings.namespace))
        return opened[0]

    async def close() -> None:
        for one in opened:
            await one.close()
        await link.close()

    return replace(link, locks=locks, close=close)


@asynccontextmanager
async def work_source(argument: Any) -> AsyncIterator[WorkSource]:  # noqa: ANN401 - JSON
    """Open the store that `{"url": …}` names: the work source of a lease-keeper process.

    The worker has opened it before. If it is gone by now, with its namespace, it is not made again.
    """
    url = argument["url"]
    if not await exists(url):
        raise InvalidRequest(f"store: {redacted(url)} holds no store any more", field="store")
    link = await connect(url)
    try:
        yield link.source
    finally:
        await link.close()


async def open_broker(choice: BrokerChoice, store: Store, telemetry: Telemetry) -> Broker:
    """Open a broker. Its server need not be up: jobs run without it."""
    if not choice.url:
        return InStoreBroker(store)
    warn_of_plain_text("broker", choice.url)
    try:
        from rota.brokers.redis_streams import RedisStreamsBroker  # noqa: PLC0415 - an extra
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "redis":
            raise
        raise InvalidRequest(
            "broker: redis is needed for this broker and is not installed; pip install 'rota[redis]'", field="broker"
        ) from None

    def observe(operation: str, seconds: float) -> None:
        telemetry.emit(BrokerCalled(operation, seconds))

    return await RedisStreamsBroker.open(store, choice.url, stream=choice.stream, group=choice.group, observe=observe)


def _direct_submit(store: Store, link: Link, queue_bound: int | None) -> DirectSubmit | None:
    if store.blocking is None or link.engine is None:
        return None
    broker = link.engine.broker
    telemetry = RelayedTelemetry(link.engine.telemetry, asyncio.get_running_loop())

    def submit_to(place: Store) -> Submit:
        return Engine(place, broker, telemetry=telemetry, queue_bound=queue_bound).jobs.submit

    return DirectSubmit(submit_to(store), submit_to(store.blocking))


def link_of(
    store: Store,
    *,
    queue_bound: int | None = None,
    caller_tx: CallerTxConfig | None = None,
    broker: Broker | None = None,
    telemetry: Telemetry | None = None,
    namespace: str = "",
) -> Link:
    """Make a link to a store that is open already."""
    used = broker or InStoreBroker(store)
    engine = Engine(store, used, queue_bound=queue_bound, telemetry=telemetry, namespace=namespace)

    async def close() -> None:
        await used.close()
        await store.close()

    async def announce(member: Member) -> WorkerOrders:
        return (await store.beat([member])).get(member.boot, NO_ORDERS)

    async def remove(boot: str) -> None:
        await store.leave([boot])

    async def register(schemas: Mapping[str, str]) -> None:
        await store.register_schemas(schemas)

    return Link(
        engine,
        engine,
        engine.steps,
        engine.inputs,
        engine.fresh_id,
        close,
        announce,
        remove,
        register,
        engine,
        caller_tx,
    )


def _over_http(urls: Sequence[str], token: str, tls: ClientFiles, namespace: str) -> Link:
    # Imported when needed: a process on a file does not load an HTTP client.
    from rota.client import connect as connect_over_http  # noqa: PLC0415

    client = connect_over_http(urls, token=token, tls=tls, namespace=namespace)
    fresh_id = IdMaker(wall_clock, random.random)
    close, announce, remove = client.close, client.announce_member, client.leave
    link = Link(client, client, client, client, fresh_id, close, announce, remove, client.register_schemas)
    return replace(link, cancels=client.cancels, lease_tokens=client.lease_tokens, locks=lambda: client)
