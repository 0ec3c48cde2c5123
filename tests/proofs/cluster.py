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
class ProcessCluster:
    """Schedulers that serve the API, workers straight on the store, and the etcd that they all use."""

    systems: list[System]
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
        return self.systems[0]

    def start_scheduler(self, place: int) -> subprocess.Popen[bytes]:
        system = self.systems[place]
        process = system.start(
            "scheduler", "--store", system.store, "--port", str(system.port), environment=self.environment
        )
        system.until_up()
        return process

    def start(self, *, workers: int) -> None:
        self.processes = [self.start_scheduler(place) for place in range(len(self.systems))]
        names = {f"worker-{number}" for number in range(workers)}
        for name in names:
            where = ("--store", self.first.store, "--worker-id", name)
            self.first.start("worker", *where, environment=self.environment)
        self.first.until(lambda: alive(self.first), lambda seen: seen == names)

    def claims(self) -> list[int]:
        """Return the processes that report that they lead; one that does not answer does not."""
        return [place for place, system in enumerate(self.systems) if response_of(system, "/leader").get("is_leader")]

    def leader(self, but: int | None = None) -> int:
        """Wait until exactly one leads, and it is another than before."""
        (place,) = self.first.until(self.claims, lambda seen: len(seen) == 1 and seen != [but])
        return place

    def health(self) -> set[str]:
        return {response_of(system, "/health").get("status", "silent") for system in self.systems}


def response_of(system: System, path: str) -> dict[str, Any]:
    """Send a request; None without an answer. A stopped process takes connections and says nothing."""
    with suppress(urllib.error.URLError, TimeoutError, ConnectionError):
        answer: dict[str, Any] = replace(system, answer_within=2.0).ask("GET", path)
        return answer
    return {}


@contextmanager
def process_cluster(system: System, *, schedulers: int, nodes: int = 3) -> Iterator[ProcessCluster]:
    """Bring a cluster on the system's store; a file means: on a PostgreSQL of our own."""
    with asyncio.Runner() as runner:
        lent = migrated_database(shared_server())
        store = runner.run(lent.__aenter__()) if "://" not in system.store else system.store
        etcd = EtcdCluster(require_binary(), nodes) if nodes else None
        systems = [System(system.folder, store, started=system.started) for _ in range(schedulers)]
        try:
            yield ProcessCluster(systems, etcd)
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
    with process_cluster(system, schedulers=3, nodes=nodes) as running:
        running.start(workers=2)
        tick(running.first)
        took: list[float] = []
        for _ in range(times):
            old = running.leader()
            living = running.systems[(old + 1) % len(running.systems)]
            with Load(living) as load:
                kill(running.processes[old])
                begun = time.monotonic()
                running.leader(but=old)
                took.append(time.monotonic() - begun)
            assert load.acknowledged
            running.processes[old] = running.start_scheduler(old)
        fired = judge(running.first)
    told_ = f"{times} leaders killed, the next led after at most {max(took):.1f} s (median {percentile(took, 0.5):.1f})"
    assert max(took) <= FAILOVER_SECONDS, told_
    return f"{told_}; {fired} occurrences, each exactly once"


def leader_stopped(system: System, *, times: int) -> str:
    """Stop the leader past its term, and let it go on."""
    with process_cluster(system, schedulers=3) as running:
        running.start(workers=2)
        tick(running.first)
        for _ in range(times):
            old = running.leader()
            os.killpg(running.processes[old].pid, signal.SIGSTOP)
            new = running.leader(but=old)
            os.killpg(running.processes[old].pid, signal.SIGCONT)
            seen = running.systems[old].until(lambda: response_of(running.systems[old], "/leader"), bool)  # noqa: B023 - at once
            assert not seen["is_leader"], f"stopped past its term, it still believes to lead: {seen}"
            assert running.leader() == new
        fired = judge(running.first)
    return f"{times} leaders stopped past their term; none led on; {fired} occurrences, each exactly once"


def etcd_nodes(system: System, *, times: int) -> str:
    """Kill one node of three, then two, then bring them back, under load."""
    with process_cluster(system, schedulers=2) as running:
        running.start(workers=2)
        tick(running.first)
        shares: list[float] = []
        heals: list[float] = []
        with Load(running.first) as load:
            completed_per_second(running.first, 3.0)
            for turn in range(times):
                leader, before = running.leader(), completed_per_second(running.first, 4.0)
                one, two = running.nodes.nodes[turn % 3], running.nodes.nodes[(turn + 1) % 3]
                running.nodes.kill(one)
                end = time.monotonic() + 15
                while time.monotonic() < end:
                    assert running.health() == {"healthy"}, "the loss of one node of three was noticed"
                    time.sleep(0.2)
                assert running.leader() == leader, "the loss of one node of three cost a leader its lead"
                running.nodes.kill(two)
                running.first.until(running.health, lambda seen: seen == {"degraded"})
                shares.append(completed_per_second(running.first, 6.0) / before)
                running.nodes.start(one)
                running.nodes.start(two)
                begun = time.monotonic()
                running.first.until(running.health, lambda seen: seen == {"healthy"})
                running.leader()
                heals.append(time.monotonic() - begun)
        assert all(process.poll() is None for process in system.started), f"a process ended\n{system.logs()}"
        assert not load.refusals, f"{load.refusals} submissions were refused"
        fired = judge(running.first)
    said = (
        f"{times} times one node, then two of three killed: {len(load.acknowledged):,} jobs, none refused; rate without"
        f" a quorum as a share of the former at least {min(shares):.2f}; healed after at most {max(heals):.1f} s;"
        f" {fired} occurrences, each exactly once"
    )
    assert min(shares) >= 0.9, said
    return said
