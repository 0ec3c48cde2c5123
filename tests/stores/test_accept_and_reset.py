"""Connections that are accepted and reset, as by a load balancer whose servers are unavailable."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable

import pytest

from rota._loop import new_loop
from rota.core.errors import StoreUnavailable
from rota.stores.mysql import MysqlStore
from rota.stores.mysql.driver import connect
from rota.stores.mysql.errors import ConnectionLost
from rota.stores.mysql.location import location_of
from rota.stores.postgres import PostgresStore
from rota.stores.postgres.connection import AWAY, Connector
from servers.private_server import free_port
from servers.proxies import Proxy

AT_ONCE = 50
ROUNDS = 10


def failures_of(connect_once: Callable[[], Awaitable[object]], expected: tuple[type[Exception], ...]) -> Counter[str]:
    """Connect many times, on the loop that processes use, and count the failures that a store does not know."""

    async def fail() -> str:
        try:
            await connect_once()
        except expected:
            return ""
        except Exception as error:  # noqa: BLE001 - which one it is, is the question
            return repr(error)
        return "connected"

    async def fail_many_times() -> Counter[str]:
        found: Counter[str] = Counter()
        for _ in range(ROUNDS):
            found.update(await asyncio.gather(*(fail() for _ in range(AT_ONCE))))
        return found

    with asyncio.Runner(loop_factory=new_loop) as runner:
        return runner.run(fail_many_times())


def test_mariadb_a_connection_that_is_reset_at_any_moment_is_a_lost_one() -> None:
    """The driver raised a plain RuntimeError: schedulers ended for good, and requests were answered with 500."""
    with Proxy(free_port()) as proxy:
        proxy.reset()
        where = location_of(f"mysql://root@127.0.0.1:{proxy.port}/rota")
        assert failures_of(lambda: connect(where, "test", autocommit=True), (ConnectionLost,)) == {"": AT_ONCE * ROUNDS}


def test_postgresql_a_connection_that_is_reset_at_any_moment_is_a_lost_one() -> None:
    with Proxy(free_port()) as proxy:
        proxy.reset()
        connector = Connector(f"postgresql://rota@127.0.0.1:{proxy.port}/rota")
        assert failures_of(connector, AWAY) == {"": AT_ONCE * ROUNDS}


@pytest.mark.parametrize(
    ("scheme", "open_store"), [("mysql", MysqlStore.open), ("postgresql", PostgresStore.open)], ids=["mariadb", "pg"]
)
async def test_a_store_that_cannot_be_opened_is_unavailable(
    scheme: str, open_store: Callable[[str], Awaitable[object]]
) -> None:
    with Proxy(free_port()) as proxy:
        proxy.reset()
        with pytest.raises(StoreUnavailable):
            await open_store(f"{scheme}://rota@127.0.0.1:{proxy.port}/rota")
