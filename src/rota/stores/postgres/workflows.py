"""Workflows: graphs of jobs, stored as a whole; which job belongs to which, and nodes that run again."""

from __future__ import annotations

from collections.abc import Sequence

from rota.core.graph import NewWorkflow, Rerun
from rota.core.ids import JobId
from rota.core.ledger import LedgerEntry
from rota.ports.store import Inserted, Receipt
from rota.stores.base.ledger import record
from rota.stores.base.workflows import node_rows, rerun_rows
from rota.stores.postgres.insert import insert
from rota.stores.postgres.session import Session
from rota.stores.postgres.settle import replace_jobs
from rota.stores.postgres.statements import StatementRunner
from rota.stores.rows import Row


async def put_workflow(
    session: Session, workflow: NewWorkflow, bound: int | None, entry: LedgerEntry | None, now: int
) -> Sequence[Inserted]:
    """Store a workflow with all its jobs, or nothing if one of them is refused."""
    await session.execute("SAVEPOINT workflow")
    receipts = await insert(session, workflow.jobs, bound, now, may_be_full=False)
    if all(one.receipt is Receipt.CREATED for one in receipts):
        await insert_nodes(session, workflow, now)
        if entry is not None:
            await record(session, [entry], now)
    else:
        await session.execute("ROLLBACK TO SAVEPOINT workflow")
    return receipts


async def insert_nodes(session: StatementRunner, workflow: NewWorkflow, now: int) -> None:
    """Store a workflow whose jobs are stored."""
    await session.run("insert_workflow", workflow.id, workflow.name, workflow.policy.value, len(workflow.nodes), now)
    await _insert_rows(session, node_rows(workflow))


async def _insert_rows(session: StatementRunner, rows: Sequence[Row]) -> None:
    await session.run("insert_workflow_nodes", *map(list, zip(*rows, strict=True)))


async def rerun(session: Session, again: Rerun, now: int) -> bool:
    """Let nodes run again with new jobs; False, and nothing done, if one of them was replaced meanwhile."""
    await session.execute("SAVEPOINT rerun")
    if await _replace_nodes(session, again) and await _run_again(session, again, now):
        return True
    await session.execute("ROLLBACK TO SAVEPOINT rerun")
    return False


async def _replace_nodes(session: Session, again: Rerun) -> bool:
    new = [job.id for job in again.jobs]
    replaced = await session.run("replace_workflow_nodes", again.workflow_id, list(again.replaces), new)
    skipped = await session.run("skip_workflow_nodes", again.workflow_id, list(again.skipped)) if again.skipped else 0
    return replaced == len(new) and skipped == len(again.skipped)


async def _run_again(session: Session, again: Rerun, now: int) -> bool:
    await replace_jobs(session, again.replaces, now)
    receipts = await insert(session, again.jobs, None, now, may_be_full=False)
    if again.jobs:
        await _insert_rows(session, rerun_rows(again))
    return all(one.receipt is Receipt.CREATED for one in receipts)


async def keep_ends(session: Session, ids: Sequence[JobId]) -> list[int]:
    """Note how jobs ended that are about to be deleted; return the workflows to which they belong."""
    workflow_ids = await session.values("workflows_of_jobs", list(ids))
    if workflow_ids:
        await session.run("keep_ends_of_nodes", list(ids))
    return workflow_ids


async def keep_ends_between(
    session: Session, lowest: int, beyond: int, kept: Sequence[JobId], seconds: float
) -> list[int]:
    """Note how the jobs of a range of ids ended, except some; return the workflows to which they belong."""
    rows = await session.rows("workflows_of_jobs_between", lowest, beyond, kept, seconds=seconds)
    if rows:
        await session.run("keep_ends_of_nodes_between", lowest, beyond, kept, seconds=seconds)
    return [row[0] for row in rows]


async def delete_empty(session: Session, ids: Sequence[int]) -> None:
    """Delete those of some workflows whose jobs have all been deleted."""
    if ids:
        await session.run("delete_empty_workflows", list(ids))
