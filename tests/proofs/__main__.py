"""Run long proofs: all of them, or the named ones."""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from journeys.system import System, open_system
from proofs import (
    breaker,
    cluster,
    figures,
    full_deployment,
    limits,
    memory,
    misbehaving_handlers,
    outage,
    recurring,
    redis,
    stopped,
    terminated,
    trust,
    workflows,
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="which proofs; all without")
    parser.add_argument("--trials", type=int, default=200, help="workers stopped past their lease")
    parser.add_argument("--times", type=int, default=50, help="how often workers get SIGTERM")
    parser.add_argument("--seconds", type=float, default=120, help="how long schedules fire while processes are killed")
    parser.add_argument("--blows", type=int, default=10, help="how often a database dies under load")
    parser.add_argument("--groups", type=int, default=1_000, help="groups of 100 jobs while workers are killed")
    parser.add_argument("--stores", help="stores of the groups, as in sqlite,postgres; all three without")
    parser.add_argument("--minutes", type=float, default=60, help="how long memory is watched under steady load")
    options = parser.parse_args()
    proofs: dict[str, Callable[[System], str]] = {
        "stopped-http": lambda system: stopped.prove(system, trials=options.trials, in_process=False),
        "stopped-store": lambda system: stopped.prove(system, trials=options.trials, in_process=True),
        "recurring": lambda system: recurring.prove(system, seconds=options.seconds),
        "terminated": lambda system: terminated.prove(system, times=options.times),
        "workflows": lambda system: workflows.on_each_store(system, groups=options.groups, stores=options.stores),
        "nasty": lambda system: misbehaving_handlers.prove(system, seconds=60),
        "postgres-dies": lambda system: outage.postgres_dies(system.folder, times=options.blows),
        "postgres-cuts-off": lambda system: outage.postgres_cuts_off(system.folder, times=options.blows),
        "mariadb-dies": lambda system: outage.mariadb_dies(system.folder, times=options.blows),
        "leader-killed": lambda system: cluster.leader_killed(system, times=options.blows),
        "leader-stopped": lambda system: cluster.leader_stopped(system, times=options.blows),
        "leader-killed-store": lambda system: cluster.leader_killed(system, times=options.blows, nodes=0),
        "one-leader": lambda system: trust.prove(system, seconds=options.seconds),
        "etcd-nodes": lambda system: cluster.etcd_nodes(system, times=min(options.blows, 3)),
        "breaker": lambda system: breaker.on_each_store(system, breaker.Scale()),
        "limits": lambda system: limits.on_each_store(system, limits.Scale(options.seconds / 2)),
        "redis-dies": lambda system: redis.redis_dies(system.folder, times=options.blows),
        "full-deployment": full_deployment.prove,
        "lateness": lambda system: figures.lateness(system, seconds=60),
        "idle": lambda system: figures.idle(system, seconds=60),
        "memory": lambda system: memory.steady_load(system, seconds=options.minutes * 60),
        "throughput": lambda system: figures.throughput(system, jobs=50_000),
    }
    for name in options.names or proofs:
        begun = time.monotonic()
        with tempfile.TemporaryDirectory() as folder, open_system(Path(folder)) as system:
            result = proofs[name](system)
        print(f"{name}: {result} ({time.monotonic() - begun:.0f} s, load {os.getloadavg()[0]:.1f})", flush=True)  # noqa: T201


if __name__ == "__main__":
    main()
