"""A job that is run again after the jobs before it were pruned: it fails with an error that says so, and never runs
with fewer results.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from builders import DAY, HOUR, ManualClock, after, claim, fresh_id, new_job
from conformance.stores.adapters import SHARED, Adapter, opened
from rota.brokers.in_store import InStoreBroker
from rota.core.errors import InvalidRequest
from rota.core.graph import NewNode, NodeParent, WorkflowId, planned
from rota.core.ids import JobId
from rota.core.job import Job
from rota.core.outcome import Failed, Outcome, Succeeded
from rota.core.settlement import JobError
from rota.core.submission import TAKES, Need, NewJob, Takes, Template
from rota.engine import Engine
from rota.ports.client import Actor, AttemptReport
from rota.ports.store import Retention, Store

BROKEN = Failed(JobError("E", "no"), permanent=True)
FORGET_COMPLETED = Retention(completed=HOUR, dead=30 * DAY)

on_each_store = pytest.mark.parametrize("adapter", SHARED, ids=lambda adapter: adapter.name)


async def run(engine: Engine, job_type: str, outcome: Outcome) -> None:
    for job in await engine.claim(claim(types=(job_type,))):
        await engine.settle([AttemptReport(job.id, job.fence, outcome)])


async def run_again(engine: Engine, store: Store, clock: ManualClock, job_id: JobId) -> Job:
    """Retry a dead job after the completed ones before it were pruned."""
    clock.move(2 * DAY)
    assert await store.prune(FORGET_COMPLETED, 100)
    (answer,) = await engine.retry([job_id], Actor("olga"))
    assert answer.refusal is None
    (held,) = await engine.claim(claim())
    return held


def callback(**fields: object) -> NewJob:
    return new_job("callback", meta={TAKES: Takes.RESULTS.value}, **fields)


@on_each_store
async def test_a_callback_never_runs_with_the_results_of_some_parts_only(adapter: Adapter, tmp_path: Path) -> None:
    clock = ManualClock()
    async with opened(adapter, tmp_path, clock) as store:
        engine = Engine(store, InStoreBroker(store), clock=clock)
        parts = [NewNode("good", new_job("good")), NewNode("bad", new_job("bad"))]
        parents = (NodeParent(0), NodeParent(1, Need.END))
        made = planned(WorkflowId(fresh_id()), "group", [*parts, NewNode("end", callback(), parents)])
        await engine.submit_workflow(made)
        await run(engine, "good", Succeeded("1"))
        await run(engine, "bad", BROKEN)
        await run(engine, "callback", BROKEN)
        held = await run_again(engine, store, clock, made.jobs[2].id)
        with pytest.raises(InvalidRequest, match=r"1 of the 2 jobs before .* was pruned"):
            await engine.inputs.input_of(held.id, held.fence)


@on_each_store
async def test_a_callback_without_a_workflow_never_runs_with_no_results(adapter: Adapter, tmp_path: Path) -> None:
    clock = ManualClock()
    async with opened(adapter, tmp_path, clock) as store:
        engine = Engine(store, InStoreBroker(store), clock=clock)
        part = new_job("part")
        made = callback(after=after(part))
        await engine.submit([part, made])
        await run(engine, "part", Succeeded("1"))
        await run(engine, "callback", BROKEN)
        held = await run_again(engine, store, clock, made.id)
        with pytest.raises(InvalidRequest, match="was pruned"):
            await engine.inputs.input_of(held.id, held.fence)


@on_each_store
async def test_a_follow_up_never_takes_nothing_for_the_result_of_a_pruned_job(adapter: Adapter, tmp_path: Path) -> None:
    clock = ManualClock()
    async with opened(adapter, tmp_path, clock) as store:
        engine = Engine(store, InStoreBroker(store), clock=clock)
        following = Template("following", meta={TAKES: Takes.RESULT.value})
        await engine.submit([new_job("first", on_success=following)])
        await run(engine, "first", Succeeded("1"))
        (made,) = await engine.claim(claim(types=("following",)))
        await engine.settle([AttemptReport(made.id, made.fence, BROKEN)])
        held = await run_again(engine, store, clock, made.id)
        with pytest.raises(InvalidRequest, match="was pruned"):
            await engine.inputs.input_of(held.id, held.fence)
