"""etcd behind a network that fails: the coordinator reports it in time, and is used again afterwards."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import timedelta

import pytest

from rota.coordination.etcd import EtcdCoordinator, location_of
from rota.coordination.etcd.gateway import CALL_SECONDS
from rota.core.errors import CoordinatorUnavailable
from servers.etcd import shared_cluster
from servers.proxies import Proxy

TERM = timedelta(seconds=30)
#: What a busy machine may add.
SLACK_SECONDS = 2.0


def coordinator_behind(proxy: Proxy) -> EtcdCoordinator:
    return EtcdCoordinator(location_of(f"etcd://127.0.0.1:{proxy.port}/odd-{proxy.port}"))


@pytest.mark.parametrize("fail", [Proxy.reset, Proxy.swallow, Proxy.one_way], ids=["reset", "swallow", "one way"])
async def test_an_etcd_that_cannot_be_reached_is_away_within_seconds_and_back_again(
    fail: Callable[[Proxy], None],
) -> None:
    with Proxy(shared_cluster().nodes[0].client_port) as proxy:
        coordinator = coordinator_behind(proxy)
        assert (await coordinator.campaign("lead", "ada", TERM)).holder == "ada"
        fail(proxy)
        begun = time.monotonic()
        with pytest.raises(CoordinatorUnavailable):
            await coordinator.leader("lead")
        assert time.monotonic() - begun < CALL_SECONDS + SLACK_SECONDS
        proxy.forward()
        found = await coordinator.leader("lead")
        assert found is not None
        assert found.holder == "ada"
        await coordinator.close()


@pytest.mark.parametrize("fail", [Proxy.cut, Proxy.lose_all], ids=["cut", "half-open"])
async def test_connections_to_etcd_that_are_gone_are_replaced_unnoticed(fail: Callable[[Proxy], None]) -> None:
    with Proxy(shared_cluster().nodes[0].client_port) as proxy:
        coordinator = coordinator_behind(proxy)
        await coordinator.campaign("lead", "ada", TERM)
        fail(proxy)
        assert await coordinator.leader("lead") is not None
        await coordinator.close()


async def test_a_slow_etcd_is_not_away() -> None:
    with Proxy(shared_cluster().nodes[0].client_port) as proxy:
        proxy.delay(0.05)
        coordinator = coordinator_behind(proxy)
        assert (await coordinator.campaign("lead", "ada", TERM)).holder == "ada"
        await coordinator.close()
