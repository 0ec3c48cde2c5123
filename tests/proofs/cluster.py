"""A cluster on PostgreSQL and three etcd nodes, whose leaders and nodes are killed and stopped again and again.

Schedules fire every second all the while, and jobs come at a steady rate. In the end every fire time has made exactly
one job, and every job has run to its end.
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import time
import urllib.error
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import Any

from journeys.system import System
from proofs.outage import Load, completed_per_second
from proofs.processes import alive, kill, percentile
from proofs.recurring import judge, tick
from servers.etcd import EtcdCluster, require_binary
from servers.postgres import migrated_database, shared_server

#: The documented bound: how soon another process leads after the leader's death.
FAILOVER_SECONDS = 10.0
TERM_SECONDS = 6.0


@dataclass
class Troop:
    """Schedulers that serve the API, workers straight on the store, and the etcd that they all use."""

    stages: list[System]
    etcd: EtcdCluster | None
    processes: list[subprocess.Popen[bytes]] = field(default_factory=list)

    @property
    def environment(self) -> dict[str, str]:
        return {} if self.etcd is None else {"ETCD_ENDPOINTS": self.etcd.endpoints}

    @property
    def nodes(self) -> EtcdCluster:
        """The etcd, where there is one."""
        assert self.etcd is not None
        return self.etcd

    @property
    def first(self) -> System:
        return self.stages[0]

    def start_scheduler(self, place: int) -> subprocess.Popen[bytes]:
        system = self.stages[place]
        process = system.start(
            "scheduler", "--store", system.store, "--port", str(system.port), environment=self.environment
        )
        system.until_up()
        return process

    def start(self, *, workers: int) -> None:
        self.processes = [self.start_scheduler(place) for place in range(len(self.stages))]
        names = {f"worker-{number}" for number in range(workers)}
        for name in names:
            where = ("--store", self.first.store, "--worker-id", name)
            self.first.start("worker", *where, environment=self.environment)
        self.first.until(lambda: alive(self.first), lambda seen: seen == names)

    def claims(self) -> list[int]:
        """Return the processes that report that they lead; one that does not answer does not."""
        return [place for place, system in enumerate(self.stages) if response_of(system, "/leader").get("is_leader")]

    def leader(self, but: int | None = None) -> int:
        """Wait until exactly one leads, and it is another than before."""
        (place,) = self.first.until(self.claims, lambda seen: len(seen) == 1 and seen != [but])
        return place

    def health(self) -> set[str]:
        return {response_of(system, "/health").get("status", "silent") for system in self.stages}


def response_of(system: System, path: str) -> dict[str, Any]:
    """Send a request; None without an answer. A stopped process takes connections and says nothing."""
    with suppress(urllib.error.URLError, TimeoutError, ConnectionError):
        answer: dict[str, Any] = replace(system, answer_within=2.0).ask("GET", path)
        return answer
    return {}


@contextmanager
def troop(system: System, *, schedulers: int, nodes: int = 3) -> Iterator[Troop]:
    """Bring a cluster on the system's store; a file means: on a PostgreSQL of our own."""
    with asyncio.Runner() as runner:
        lent = migrated_database(shared_server())
        store = runner.run(lent.__aenter__()) if "://" not in system.store else system.store
        etcd = EtcdCluster(require_binary(), nodes) if nodes else None
        stages = [System(system.folder, store, started=system.started) for _ in range(schedulers)]
        try:
            yield Troop(stages, etcd)
        finally:
            for process in system.started:
                with suppress(ProcessLookupError):
                    kill(process)
            if etcd is not None:
                etcd.remove()
            if store != system.store:
                runner.run(lent.__aexit__(None, None, None))


def leader_killed(system: System, *, times: int, nodes: int = 3) -> str:
    """Kill the leader with -9 under load, again and again. Without nodes of etcd the store elects the leader."""
    with troop(system, schedulers=3, nodes=nodes) as cast:
        cast.start(workers=2)
        tick(cast.first)
        took: list[float] = []
        for _ in range(times):
            old = cast.leader()
            living = cast.stages[(old + 1) % len(cast.stages)]
            with Load(living) as load:
                kill(cast.processes[old])
                begun = time.monotonic()
                cast.leader(but=old)
                took.append(time.monotonic() - begun)
            assert load.acknowledged
            cast.processes[old] = cast.start_scheduler(old)
        fired = judge(cast.first)
    told_ = f"{times} leaders killed, the next led after at most {max(took):.1f} s (median {percentile(took, 0.5):.1f})"
    assert max(took) <= FAILOVER_SECONDS, told_
    return f"{told_}; {fired} occurrences, each exactly once"


def leader_stopped(system: System, *, times: int) -> str:
    """Stop the leader past its term, and let it go on."""
    with troop(system, schedulers=3) as cast:
        cast.start(workers=2)
        tick(cast.first)
        for _ in range(times):
            old = cast.leader()
            os.killpg(cast.processes[old].pid, signal.SIGSTOP)
            new = cast.leader(but=old)
            os.killpg(cast.processes[old].pid, signal.SIGCONT)
            seen = cast.stages[old].until(lambda: response_of(cast.stages[old], "/leader"), bool)  # noqa: B023 - at once
            assert not seen["is_leader"], f"stopped past its term, it still believes to lead: {seen}"
            assert cast.leader() == new
        fired = judge(cast.first)
    return f"{times} leaders stopped past their term; none led on; {fired} occurrences, each exactly once"


def etcd_nodes(system: System, *, times: int) -> str:
    """Kill one node of three, then two, then bring them back, under load."""
    with troop(system, schedulers=2) as cast:
        cast.start(workers=2)
        tick(cast.first)
        shares: list[float] = []
        heals: list[float] = []
        with Load(cast.first) as load:
            completed_per_second(cast.first, 3.0)
            for turn in range(times):
                leader, before = cast.leader(), completed_per_second(cast.first, 4.0)
                one, two = cast.nodes.nodes[turn % 3], cast.nodes.nodes[(turn + 1) % 3]
                cast.nodes.kill(one)
                end = time.monotonic() + 15
                while time.monotonic() < end:
                    assert cast.health() == {"healthy"}, "the loss of one node of three was noticed"
                    time.sleep(0.2)
                assert cast.leader() == leader, "the loss of one node of three cost a leader its lead"
                cast.nodes.kill(two)
                cast.first.until(cast.health, lambda seen: seen == {"degraded"})
                shares.append(completed_per_second(cast.first, 6.0) / before)
                cast.nodes.start(one)
                cast.nodes.start(two)
                begun = time.monotonic()
                cast.first.until(cast.health, lambda seen: seen == {"healthy"})
                cast.leader()
                heals.append(time.monotonic() - begun)
        assert all(process.poll() is None for process in system.started), f"a process ended\n{system.logs()}"
        assert not load.refusals, f"{load.refusals} submissions were refused"
        fired = judge(cast.first)
    said = (
        f"{times} times one node, then two of three killed: {len(load.acknowledged):,} jobs, none refused; rate without"
        f" a quorum as a share of the former at least {min(shares):.2f}; healed after at most {max(heals):.1f} s;"
        f" {fired} occurrences, each exactly once"
    )
    assert min(shares) >= 0.9, said
    return said
