"""W5: nothing to do. Memory of the workers and what runs beside them, CPU of these and of the servers, and how many
statements each process sends: BEGIN and COMMIT are such.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

from bench.environment import BenchEnvironment
from bench.systems.processes import cpu_seconds, memory_of
from bench.systems.protocol import Role
from bench.systems.registry import Candidate
from bench.systems.session import session
from bench.workloads.protocol import Reading, at_most


class Idle:
    name = "w5"
    title = "W5 idle"
    is_repeated = False

    def suits(self, candidate: Candidate) -> bool:
        return candidate.name != "sqlite-one"

    def measure(self, candidate: Candidate, env: BenchEnvironment) -> Iterator[Reading]:
        yield from self._watch(candidate, env, "idle", f"{env.sizes.processes} workers")
        # Over HTTP it would be the same process as on SQLite.
        if not candidate.is_peer and not candidate.is_http:
            yield from self._watch(candidate, env, "alone", "all in one process")

    def _watch(self, candidate: Candidate, env: BenchEnvironment, role: Role, name: str) -> Iterator[Reading]:
        is_alone = role == "alone"
        with session(candidate, env, role, is_counted=True) as system:
            if not system.start_workers():
                return
            system.warm_up()
            # Who has just worked looks more often for a while whether there is more.
            time.sleep(env.sizes.settling_seconds)
            ours, servers = system.worker_pids(), system.server_pids()
            memory = memory_of(ours)
            asked = env.servers.asked(candidate.store)
            before, theirs, begun = cpu_seconds(ours), cpu_seconds(servers), time.monotonic()
            time.sleep(env.sizes.idle_seconds)
            took = (time.monotonic() - begun) / 100
            # What processes share counts once, by PSS; one by itself is held to all that it maps.
            yield Reading(f"{name}: memory", memory.proportional, "MB")
            yield Reading(f"{name}: resident", memory.resident, "MB", (at_most(70),) if is_alone else ())
            # The servers' own work in the background is no less for those who ask them for nothing.
            targets = (at_most(1),) if is_alone else ()
            yield Reading(f"{name}: CPU", (cpu_seconds(ours) - before) / took, "%", targets)
            yield Reading(f"{name}: servers' CPU", (cpu_seconds(servers) - theirs) / took, "%")
            yield Reading(f"{name}: processes", memory.processes, "x")
            if asked is not None:
                sent = (env.servers.asked(candidate.store) or 0) - asked
                each = sent / (100 * took) / len((*system.workers, *system.services))
                wanted = () if candidate.is_peer else (at_most(1),)
                yield Reading(f"{name}: queries of a process", each, "queries/s", wanted)
