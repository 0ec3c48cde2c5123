"""Run long proofs: all of them, or those that are named."""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from journeys.stage import Stage, staged
from proofs import (
    breaker,
    cluster,
    document,
    limits,
    measured,
    memory,
    nasty,
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
    parser.add_argument("--times", type=int, default=50, help="workers told to go")
    parser.add_argument("--seconds", type=float, default=120, help="how long schedules fire while processes are killed")
    parser.add_argument("--blows", type=int, default=10, help="how often a database dies under load")
    parser.add_argument("--groups", type=int, default=1_000, help="groups of 100 jobs while workers are killed")
    parser.add_argument("--stores", help="stores of the groups, as in sqlite,postgres; all three without")
    parser.add_argument("--minutes", type=float, default=60, help="how long memory is watched under steady load")
    options = parser.parse_args()
    proofs: dict[str, Callable[[Stage], str]] = {
        "stopped-http": lambda stage: stopped.prove(stage, trials=options.trials, in_process=False),
        "stopped-store": lambda stage: stopped.prove(stage, trials=options.trials, in_process=True),
        "recurring": lambda stage: recurring.prove(stage, seconds=options.seconds),
        "terminated": lambda stage: terminated.prove(stage, times=options.times),
        "workflows": lambda stage: workflows.on_each_store(stage, groups=options.groups, stores=options.stores),
        "nasty": lambda stage: nasty.prove(stage, seconds=60),
        "postgres-dies": lambda stage: outage.postgres_dies(stage.folder, times=options.blows),
        "postgres-cuts-off": lambda stage: outage.postgres_cuts_off(stage.folder, times=options.blows),
        "mariadb-dies": lambda stage: outage.mariadb_dies(stage.folder, times=options.blows),
        "leader-killed": lambda stage: cluster.leader_killed(stage, times=options.blows),
        "leader-stopped": lambda stage: cluster.leader_stopped(stage, times=options.blows),
        "leader-killed-store": lambda stage: cluster.leader_killed(stage, times=options.blows, nodes=0),
        "one-leader": lambda stage: trust.prove(stage, seconds=options.seconds),
        "etcd-nodes": lambda stage: cluster.etcd_nodes(stage, times=min(options.blows, 3)),
        "breaker": lambda stage: breaker.on_each_store(stage, breaker.Scale()),
        "limits": lambda stage: limits.on_each_store(stage, limits.Scale(options.seconds / 2)),
        "redis-dies": lambda stage: redis.redis_dies(stage.folder, times=options.blows),
        "fifth-document": document.prove,
        "lateness": lambda stage: measured.lateness(stage, seconds=60),
        "idle": lambda stage: measured.idle(stage, seconds=60),
        "memory": lambda stage: memory.steady_load(stage, seconds=options.minutes * 60),
        "throughput": lambda stage: measured.throughput(stage, jobs=50_000),
    }
    for name in options.names or proofs:
        begun = time.monotonic()
        with tempfile.TemporaryDirectory() as folder, staged(Path(folder)) as stage:
            told = proofs[name](stage)
        print(f"{name}: {told} ({time.monotonic() - begun:.0f} s, load {os.getloadavg()[0]:.1f})", flush=True)  # noqa: T201


if __name__ == "__main__":
    main()
