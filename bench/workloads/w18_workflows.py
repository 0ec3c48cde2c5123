"""W18: a worker drains chains of five jobs that pass results on, and groups of 1,000 with a fan-in."""

from __future__ import annotations

from typing import Final

from bench.drain import PAYLOAD, drain, engine_on, start_worker, system_for
from bench.fresh_stores import FreshStores
from bench.measure import Sample
from bench.workloads.results import Line, at_least, rate
from rota.core.graph import NewNode, NodeParent, WorkflowId, planned
from rota.core.submission import TAKES, NewJob, Takes
from rota.engine import Engine

SLOTS: Final = 200
CHAIN: Final = 5
GROUP: Final = 1000
TYPE: Final = "suspends"
FOLLOWER: Final = "passes_on"


async def workflows(fresh_stores: FreshStores, *, jobs: int, rounds: int) -> list[Line]:
    """Drain single jobs, chains and groups, in turn; as many jobs each."""
    number = max(jobs // GROUP, 1) * GROUP
    kinds = {"single": None, "chain": _submit_chains, "group": _submit_groups}
    rates: dict[str, list[float]] = {name: [] for name in kinds}
    for _ in range(rounds):
        for kind, found in rates.items():
            url = await fresh_stores.fresh()
            async with system_for(url) as system, engine_on(url) as engine:
                start_worker(system, "w", "--concurrency", str(SLOTS))
                found.append(await drain(engine, number, TYPE, ["w"], kinds[kind]))
    samples = {name: Sample(tuple(found)) for name, found in rates.items()}
    single = samples["single"].median
    chains, groups = samples["chain"], samples["group"]
    return [
        Line(f"single jobs, {SLOTS} slots", rate(samples["single"])),
        Line(f"chains of {CHAIN}", rate(chains), "single jobs", chains.median / single, at_least(0.8)),
        Line(f"groups of {GROUP:,} with a fan-in", rate(groups), "single jobs", groups.median / single, at_least(0.7)),
    ]


async def _submit_chains(engine: Engine, number: int, job_type: str) -> None:
    for _ in range(number // CHAIN):
        first = NewNode("1", NewJob(engine.fresh_id(), job_type, PAYLOAD))
        rest = [
            NewNode(str(position + 1), _follower(engine, Takes.RESULT), (NodeParent(position - 1),))
            for position in range(1, CHAIN)
        ]
        await engine.workflows.submit(planned(WorkflowId(engine.fresh_id()), "chain", [first, *rest]))


async def _submit_groups(engine: Engine, number: int, job_type: str) -> None:
    """Submit groups whose callbacks count among the jobs."""
    for _ in range(number // GROUP):
        parts = [NewNode(str(position), NewJob(engine.fresh_id(), job_type, PAYLOAD)) for position in range(GROUP - 1)]
        callback = NewNode("end", _follower(engine, Takes.RESULTS), tuple(map(NodeParent, range(GROUP - 1))))
        await engine.workflows.submit(planned(WorkflowId(engine.fresh_id()), "group", [*parts, callback]))


def _follower(engine: Engine, takes: Takes) -> NewJob:
    return NewJob(engine.fresh_id(), FOLLOWER, PAYLOAD, meta={TAKES: takes.value})
