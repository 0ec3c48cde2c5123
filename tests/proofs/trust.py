"""At no time do two schedulers believe that they lead, whatever fails.

Candidates ask for one lead, each by a connection of its own, at random moments and sometimes after a long absence; now
and then one resigns. Meanwhile nodes of etcd are killed, stopped and brought back, at times two of three at once. Every
answer says from when until when its holder would have trusted its lead; all on one machine, so one clock orders them.
"""

from __future__ import annotations

import asyncio
import random
import signal
import time
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta

from journeys.system import System
from rota.coordination.etcd import EtcdCoordinator, location_of
from rota.core.cluster import trusted_seconds
from rota.core.errors import CoordinatorUnavailable
from servers.etcd import EtcdCluster, Node, require_binary

LASTING = timedelta(seconds=2)
CANDIDATES = 5


@dataclass
class Trust:
    """From when until when a holder assumes that it leads, and in which term."""

    holder: str
    term: int
    since: float
    until: float


def prove(system: System, *, seconds: float, seed: int | None = None) -> str:
    del system
    seed = random.randrange(2**32) if seed is None else seed
    cluster = EtcdCluster(require_binary(), 3)
    try:
        trusts, harm = asyncio.run(_run(cluster, seconds, random.Random(seed)))
    finally:
        cluster.remove()
    _judge(trusts)
    terms = len({trust.term for trust in trusts})
    assert terms > seconds / 30, f"seed {seed}: the lead changed {terms} times only; nothing was proven"
    return f"seed {seed}: {len(trusts)} leads asked for and given in {terms} terms, {harm} blows, never two at once"


async def _run(cluster: EtcdCluster, seconds: float, rng: random.Random) -> tuple[list[Trust], int]:
    trusts: list[Trust] = []
    candidates = [asyncio.create_task(_stand(cluster, f"c{number}", rng, trusts)) for number in range(CANDIDATES)]
    blows, end = 0, time.monotonic() + seconds
    while time.monotonic() < end:
        await asyncio.sleep(rng.uniform(0.5, 3))
        blows += 1
        await _strike(cluster, rng)
    for candidate in candidates:
        candidate.cancel()
    await asyncio.wait(candidates)
    return trusts, blows


async def _stand(cluster: EtcdCluster, name: str, rng: random.Random, trusts: list[Trust]) -> None:
    coordinator = EtcdCoordinator(location_of(cluster.endpoints), timeout=1.5)
    try:
        while True:
            with suppress(CoordinatorUnavailable):
                asked = time.monotonic()
                found = await coordinator.campaign("lead", name, LASTING)
                if found.holder == name:
                    # Known from when the answer came, trusted for a time that counts from the question.
                    trust = Trust(name, found.term, time.monotonic(), asked + trusted_seconds(LASTING))
                    trusts.append(trust)
                    if rng.random() < 0.05:
                        # A holder that resigns stops assuming that it leads before it reports that.
                        trust.until = time.monotonic()
                        await coordinator.resign("lead", name)
            # Mostly a beat; now and then as long as one that was stopped, or at the very end of its time.
            await asyncio.sleep(rng.choice([0.1, 0.5, 0.5, 1.5, 1.9, 2.1, rng.uniform(2, 5)]))
    finally:
        await coordinator.close()


async def _strike(cluster: EtcdCluster, rng: random.Random) -> None:
    victims = rng.sample(cluster.nodes, rng.choice([1, 1, 2]))
    how = rng.choice([_kill, _stop])
    for node in victims:
        how(cluster, node)
    await asyncio.sleep(rng.uniform(0.2, 4))
    for node in victims:
        if node.process is None:
            cluster.start(node)
        else:
            node.process.send_signal(signal.SIGCONT)


def _kill(cluster: EtcdCluster, node: Node) -> None:
    cluster.kill(node)


def _stop(cluster: EtcdCluster, node: Node) -> None:
    del cluster
    assert node.process is not None
    node.process.send_signal(signal.SIGSTOP)


def _judge(trusts: list[Trust]) -> None:
    last = Trust("", 0, 0.0, 0.0)
    # An answer that came too late to be trusted at all says nothing.
    for trust in sorted((one for one in trusts if one.until > one.since), key=lambda one: one.since):
        if trust.holder != last.holder:
            assert trust.since >= last.until, f"two trust their lead: {last} and {trust}"
            assert trust.term > last.term, f"the term did not grow: {last} and {trust}"
        if trust.until > last.until or trust.holder != last.holder:
            last = trust
