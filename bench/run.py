"""A run: every workload on every system, one system after the other, again and again.

The systems alternate within each repetition, and the ceilings with them: a neighbour that makes the machine slow for a
minute makes all of them slow, and not only one.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from bench.ceilings.measured import ceiling_of
from bench.environments import EnvironmentMissing
from bench.ground import Ground
from bench.results import Results
from bench.servers import ServerMissing
from bench.systems.catalogue import Contender
from bench.systems.session import SystemFailed, session
from bench.workloads.protocol import Workload


def run(ground: Ground, contenders: Sequence[Contender], workloads: Sequence[Workload], repeats: int) -> Results:
    """Measure all of it, and give what was found, also when it is interrupted.

    A system that fails is told of and left out from there on.
    """
    results = Results()
    try:
        _run(results, ground, contenders, workloads, repeats)
    except KeyboardInterrupt:
        results.failures.append("the rest: the run was interrupted")
    say("")
    return results


def _run(
    results: Results, ground: Ground, contenders: Sequence[Contender], workloads: Sequence[Workload], repeats: int
) -> None:
    able = [contender for contender in contenders if _describe(results, contender, ground)]
    for repeat in range(repeats):
        for store in dict.fromkeys(contender.store for contender in able):
            say(f"{repeat + 1}/{repeats} ceilings of {store}")
            ceiling = ceiling_of(store, ground)
            if ceiling is not None:
                results.ceilings.setdefault(store, []).append(ceiling)
        for workload in workloads:
            for contender in list(able):
                if not workload.suits(contender) or (repeat and not workload.is_repeated):
                    continue
                say(f"{repeat + 1}/{repeats} {workload.name} {contender.name}")
                try:
                    for reading in workload.measure(contender, ground):
                        results.add(contender, workload.name, reading)
                except SystemFailed as failure:
                    results.failures.append(f"{workload.name}: {failure}")
                    able.remove(contender)


def _describe(results: Results, contender: Contender, ground: Ground) -> bool:
    """Ask a system what it is; say whether it can be measured here."""
    say(f"starting {contender.name}")
    try:
        with session(contender, ground, "submit") as system:
            results.described[contender.name] = system.description
    except (EnvironmentMissing, ServerMissing, SystemFailed) as reason:
        results.failures.append(f"{contender.name} is skipped: {reason}")
        return False
    return True


def say(what: str) -> None:
    """Show where the run is, on a terminal only."""
    if sys.stderr.isatty():
        print(f"\r\x1b[K{what}", end="", file=sys.stderr, flush=True)
