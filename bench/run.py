"""A run: every workload on every system, one system after the other, again and again.

The systems alternate within each repetition, and the ceilings with them: a neighbour that makes the machine slow for a
minute makes all of them slow, and not only one.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from bench.ceilings.measure import ceiling_of
from bench.environment import BenchEnvironment
from bench.peer_environments import EnvironmentMissing
from bench.results import Results
from bench.servers import ServerMissing
from bench.systems.registry import Candidate
from bench.systems.session import SystemFailed, session
from bench.workloads.protocol import Workload


def run(env: BenchEnvironment, contenders: Sequence[Candidate], workloads: Sequence[Workload], repeats: int) -> Results:
    """Measure all of it, and give what was found, also when it is interrupted.

    A system that fails is reported and skipped from then on.
    """
    results = Results()
    try:
        _run(results, env, contenders, workloads, repeats)
    except KeyboardInterrupt:
        results.failures.append("the rest: the run was interrupted")
    say("")
    return results


def _run(
    results: Results,
    env: BenchEnvironment,
    contenders: Sequence[Candidate],
    workloads: Sequence[Workload],
    repeats: int,
) -> None:
    able = [candidate for candidate in contenders if _describe(results, candidate, env)]
    for repeat in range(repeats):
        for store in dict.fromkeys(candidate.store for candidate in able):
            say(f"{repeat + 1}/{repeats} ceilings of {store}")
            ceiling = ceiling_of(store, env)
            if ceiling is not None:
                results.ceilings.setdefault(store, []).append(ceiling)
        for workload in workloads:
            for candidate in list(able):
                if not workload.suits(candidate) or (repeat and not workload.is_repeated):
                    continue
                say(f"{repeat + 1}/{repeats} {workload.name} {candidate.name}")
                try:
                    for reading in workload.measure(candidate, env):
                        results.add(candidate, workload.name, reading)
                except SystemFailed as failure:
                    results.failures.append(f"{workload.name}: {failure}")
                    able.remove(candidate)


def _describe(results: Results, candidate: Candidate, env: BenchEnvironment) -> bool:
    """Read the description of a system; return whether it can be measured here."""
    say(f"starting {candidate.name}")
    try:
        with session(candidate, env, "submit") as system:
            results.described[candidate.name] = system.description
    except (EnvironmentMissing, ServerMissing, SystemFailed) as reason:
        results.failures.append(f"{candidate.name} is skipped: {reason}")
        return False
    return True


def say(what: str) -> None:
    """Show where the run is, on a terminal only."""
    if sys.stderr.isatty():
        print(f"\r\x1b[K{what}", end="", file=sys.stderr, flush=True)
