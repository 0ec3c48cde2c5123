"""Connections without responses: half-open, dropped packets, one-way. On PostgreSQL and MariaDB alike.

The times that a store is patient for are a quarter of the real ones here.
The journeys in test_odd_connections.py have the real ones.
"""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from builders import claim, ids_of, new_job
from rota.core.errors import StoreUnavailable
from rota.sockets import HALF_OPEN_SECONDS
from rota.stores.mysql import MysqlStore
from rota.stores.mysql import driver as mysql_driver
from rota.stores.mysql import pool as mysql_pool
from rota.stores.postgres import PostgresStore, database, session
from rota.stores.postgres import connection as postgres_connection
from rota.stores.postgres import pool as postgres_pool
from servers.databases import empty_database
from servers.mariadb import shared_server as shared_mariadb
from servers.postgres import migrated_database
from servers.postgres import shared_server as shared_postgres
from servers.proxies import Proxy

Stores = PostgresStore | MysqlStore
SHARE = 1 / 4
BUDGET_SECONDS = 10.0 * SHARE
#: What a busy machine may add.
SLACK_SECONDS = 1.5


@pytest.fixture(params=["postgres", "mariadb"])
async def behind(request: pytest.FixtureRequest) -> AsyncIterator[tuple[Stores, Proxy]]:
    """Return a store that reaches its server through a proxy."""
    async with _behind(request.param) as both:
        yield both


@asynccontextmanager
async def _behind(kind: str) -> AsyncIterator[tuple[Stores, Proxy]]:
    store: Stores
    if kind == "postgres":
        async with migrated_database(shared_postgres()) as url:
            with Proxy(shared_postgres().port) as proxy:
                store = await PostgresStore.open(proxy.through(url))
                yield store, proxy
                proxy.forward()
                await store.close()
    else:
        async with empty_database() as url:
            with Proxy(shared_mariadb().port) as proxy:
                store = await MysqlStore.open(proxy.through(url))
                yield store, proxy
                proxy.forward()
                await store.close()


@pytest.fixture
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have everything take a share of its time."""
    for module, name in (
        (mysql_driver, "RESPONSE_SECONDS"),
        (mysql_driver, "CONNECT_SECONDS"),
        (mysql_driver, "PROBE_SECONDS"),
        (session, "COMMAND_SECONDS"),
        (session, "LEAVE_SECONDS"),
        (session, "PROBE_SECONDS"),
        (postgres_connection, "CONNECT_SECONDS"),
        (database, "CONNECT_SECONDS"),
        (database, "LONGEST_TRIAL_SECONDS"),
    ):
        monkeypatch.setattr(module, name, getattr(module, name) * SHARE)


def pools_of(store: Stores) -> list[Any]:
    kind, owner = (
        (postgres_pool.Pool, store._database) if isinstance(store, PostgresStore) else (mysql_pool.Pool, store)
    )
    return [one for one in vars(owner).values() if isinstance(one, kind)]


def sockets_of(store: Stores) -> list[Any]:
    if isinstance(store, PostgresStore):
        transports = [one.connection._transport for pool in pools_of(store) for one in pool._idle]
    else:
        transports = [one._raw._transport for pool in pools_of(store) for one in pool._idle]
    return [transport.get_extra_info("socket") for transport in transports]


async def test_the_kernel_is_told_to_notice_a_silent_server(behind: tuple[Stores, Proxy]) -> None:
    store, _ = behind
    await store.insert([new_job()])
    await store.timetable()
    await store.census()
    sockets = sockets_of(store)
    assert len(sockets) >= 2
    for one in sockets:
        assert one.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1
        assert one.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) == HALF_OPEN_SECONDS * 1000


async def test_a_half_open_connection_that_has_rested_costs_a_probe(
    behind: tuple[Stores, Proxy], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It cost all the time that a statement may take: a minute on MariaDB."""
    for module in (mysql_driver, session):
        monkeypatch.setattr(module, "PROBE_SECONDS", 0.2)
    for module in (mysql_pool, postgres_pool):
        monkeypatch.setattr(module, "REST_SECONDS", -1.0)
    store, proxy = behind
    await store.insert([new_job()])
    proxy.lose_all()
    begun = time.monotonic()
    await store.insert([new_job()])
    assert time.monotonic() - begun < mysql_driver.RESPONSE_SECONDS / 2
    assert (await store.census()).total() == 2


async def test_a_connection_that_is_in_use_is_not_probed(
    behind: tuple[Stores, Proxy], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A probe is a round trip, and must cost no busy caller anything."""
    probes: list[object] = []

    async def probe(connection: object) -> None:
        probes.append(connection)

    monkeypatch.setattr(mysql_driver.MysqlConnection, "ping", probe)
    monkeypatch.setattr(session.Session, "probe", probe)
    store, _ = behind
    probes.clear()
    for _ in range(5):
        await store.insert([new_job()])
        await store.claim(claim())
    assert not probes


@pytest.mark.usefixtures("hasty")
async def test_one_silent_connection_condemns_the_idle_ones_of_all_pools(behind: tuple[Stores, Proxy]) -> None:
    store, proxy = behind
    await asyncio.gather(*(store.insert([new_job()]) for _ in range(3)), store.timetable(), store.census())
    assert sum(bool(pool._idle) for pool in pools_of(store)) >= 2
    before = {one for pool in pools_of(store) for one in pool._idle}
    proxy.lose_all()
    begun = time.monotonic()
    await store.census()
    assert time.monotonic() - begun < BUDGET_SECONDS + SLACK_SECONDS
    assert before.isdisjoint(one for pool in pools_of(store) for one in pool._idle)


@pytest.mark.usefixtures("hasty")
async def test_a_server_that_swallows_everything_is_unavailable_within_the_budget_and_used_again(
    behind: tuple[Stores, Proxy],
) -> None:
    store, proxy = behind
    await store.insert([new_job()])
    proxy.swallow()
    for _ in range(2):
        begun = time.monotonic()
        with pytest.raises(StoreUnavailable):
            await store.census()
        assert time.monotonic() - begun < BUDGET_SECONDS + SLACK_SECONDS
    proxy.forward()
    await store.insert([new_job()])
    assert (await store.census()).total() == 2


@pytest.mark.usefixtures("hasty")
async def test_a_submission_whose_answer_is_lost_is_unavailable_and_may_have_happened(
    behind: tuple[Stores, Proxy],
) -> None:
    """Only the caller knows whether it may be repeated; by its id it can."""
    store, proxy = behind
    await store.insert([new_job()])
    proxy.one_way()
    job = new_job()
    with pytest.raises(StoreUnavailable):
        await store.insert([job])
    proxy.forward()
    await store.insert([job])
    assert len(await store.get([job.id])) == 1
    assert (await store.census()).total() == 2


async def test_a_slow_network_is_no_silent_one(behind: tuple[Stores, Proxy]) -> None:
    store, proxy = behind
    proxy.delay(0.1)
    job = new_job()
    await store.insert([job])
    assert ids_of(await store.claim(claim())) == [job.id]


async def test_connections_that_are_cut_are_made_again_unnoticed(behind: tuple[Stores, Proxy]) -> None:
    store, proxy = behind
    await store.insert([new_job()])
    for _ in range(3):
        proxy.cut()
        assert (await store.census()).total() == 1
