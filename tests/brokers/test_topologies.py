"""Sentinel follows a failover, a cluster is used like one server, and TLS trusts only the configured authorities."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from brokers.redis_environment import RedisEnvironment, finish, redis_environment, take, until
from rota.core.ids import JobId
from rota.core.lifecycle import State
from rota.ports.store import Dispatched
from servers.private_server import free_port
from servers.valkey import ValkeyServer, require_binary


async def runs_through_streams(env: RedisEnvironment, number: int = 50) -> None:
    """Have jobs submitted, dispatched and done, and see that the streams have carried some."""
    lead = await env.dispatching()
    worker = await env.engine()

    async def is_carried() -> int:
        await env.submit(1)
        await finish(worker, await take(worker, 10))
        return len(handed)

    handed: list[int] = []
    line = env.dispatch_queue(lead)
    hand_over = line.hand_over

    async def counted(jobs: Sequence[Dispatched]) -> Sequence[JobId]:
        handed.append(1)
        return await hand_over(jobs)

    line.hand_over = counted  # type: ignore[method-assign] # to see what passes
    await until(is_carried, bool)
    before = await env.count(State.COMPLETED)
    await env.submit(number)
    async with asyncio.timeout(60):
        while await env.count(State.COMPLETED) < before + number:
            await finish(worker, await take(worker, 10))


@pytest.fixture
def cluster() -> Iterator[ValkeyServer]:
    """A cluster of one node: what must hold of keys and slots holds there as well."""
    server = ValkeyServer(require_binary(), ("--cluster-enabled", "yes", "--cluster-port", str(free_port())))
    server.ask("CLUSTER", "ADDSLOTSRANGE", 0, 16383)
    try:
        yield server
    finally:
        server.remove()


async def test_a_cluster_carries_work(cluster: ValkeyServer) -> None:
    async with redis_environment(cluster, f"redis+cluster://127.0.0.1:{cluster.port}") as env:

        async def is_ready() -> str:
            return str(cluster.ask("CLUSTER", "INFO"))

        await until(is_ready, lambda answer: "ok" in answer)
        await runs_through_streams(env)
        # Two queues lie in different slots; one claim reads both.
        await env.submit(3, queue="a{b}")
        worker = await env.engine()
        done = 0
        async with asyncio.timeout(60):
            while done < 3:
                done += len(await finish(worker, await take(worker, 10, queues=("default", "a{b}"))))


@pytest.fixture
def guarded(tmp_path: Path) -> Iterator[tuple[ValkeyServer, str]]:
    """A primary, a replica, and a sentinel that watches them."""
    first, port = ValkeyServer(require_binary()), free_port()
    second = ValkeyServer(require_binary(), ("--replicaof", f"127.0.0.1 {first.port}"))
    settings = tmp_path / "sentinel.conf"
    settings.write_text(
        f"port {port}\nbind 127.0.0.1\nsentinel monitor mymaster 127.0.0.1 {first.port} 1\n"
        "sentinel down-after-milliseconds mymaster 500\nsentinel failover-timeout mymaster 5000\n",
        encoding="ascii",
    )
    guard = subprocess.Popen(
        [require_binary(), str(settings), "--sentinel"], cwd=tmp_path, stdout=subprocess.DEVNULL, start_new_session=True
    )
    try:
        yield first, f"redis+sentinel://127.0.0.1:{port}/mymaster"
    finally:
        guard.kill()
        guard.wait()
        for server in (first, second):
            server.remove()


async def test_sentinel_follows_a_failover(guarded: tuple[ValkeyServer, str]) -> None:
    first, url = guarded
    async with redis_environment(first, url) as env:
        await runs_through_streams(env)

        async def replicas() -> str:
            return str(first.ask("INFO", "replication"))

        await until(replicas, lambda answer: "online" in answer)
        first.kill()
        # Without a primary jobs still run, and afterwards through the streams of the new one.
        await runs_through_streams(env)
