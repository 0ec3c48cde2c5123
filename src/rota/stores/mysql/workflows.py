"""Workflows: graphs of jobs, stored as a whole; which job belongs to which, and nodes that run again."""

from __future__ import annotations

import json
from collections.abc import Sequence

from rota.core.graph import NewWorkflow, Rerun
from rota.core.ids import JobId
from rota.core.ledger import LedgerEntry
from rota.ports.store import Inserted, Receipt
from rota.stores.base.ledger import record
from rota.stores.base.workflows import node_rows, rerun_rows
from rota.stores.mysql.driver import MysqlConnection, Runner, chunks
from rota.stores.mysql.errors import ConstraintViolated, RetryTransaction
from rota.stores.mysql.insert import insert
from rota.stores.mysql.settle import cancel_replaced
from rota.stores.mysql.statements import statement
from rota.stores.rows import Row


async def put_workflow(
    connection: MysqlConnection, workflow: NewWorkflow, bound: int | None, entry: LedgerEntry | None, now: int
) -> Sequence[Inserted]:
    """Store a workflow with all its jobs, or nothing if one of them is refused."""
    receipts = await insert(connection, workflow.jobs, bound, now, may_be_full=False)
    if any(one.receipt is not Receipt.CREATED for one in receipts):
        await _undo(connection)
        return receipts
    await insert_nodes(connection, workflow, now)
    if entry is not None:
        await record(connection, [entry], now)
    return receipts


async def _undo(connection: MysqlConnection) -> None:
    await connection.rollback()
    connection.has_made_work = False


async def insert_nodes(connection: Runner, workflow: NewWorkflow, now: int) -> None:
    """Store a workflow whose jobs are stored."""
    header = {"id": workflow.id, "name": workflow.name, "policy": workflow.policy.value, "nodes": len(workflow.nodes)}
    try:
        await connection.run(statement("insert_workflow"), {**header, "now": now})
        await connection.many(statement("insert_workflow_node"), [_row(row) for row in node_rows(workflow)])
    except ConstraintViolated as error:
        raise RetryTransaction("another process took the id at the same time") from error


def _row(row: Row) -> Row:
    return (*row[:-1], int(row[-1]))


async def rerun(connection: MysqlConnection, again: Rerun, now: int) -> bool:
    """Let nodes run again with new jobs; False, and nothing done, if one of them was replaced meanwhile.

    The jobs come first: if an id is taken, inserting rolls the transaction back.
    """
    receipts = await insert(connection, again.jobs, None, now, may_be_full=False) if again.jobs else ()
    if all(one.receipt is Receipt.CREATED for one in receipts) and await _replace_nodes(connection, again):
        await cancel_replaced(connection, again.replaces, now)
        return True
    await _undo(connection)
    return False


async def _replace_nodes(connection: MysqlConnection, again: Rerun) -> bool:
    locked: set[JobId] = set()
    for chunk in chunks(sorted(again.replaces)):
        parameters = {"ids": chunk, "workflow_id": again.workflow_id}
        locked.update(job_id for (job_id,) in await connection.rows(statement("lock_current_nodes"), parameters))
    if len(locked) < len(again.replaces):
        return False
    pairs = [(job.id, old) for old, job in zip(again.replaces, again.jobs, strict=True)]
    if pairs:
        await connection.update_each(statement("replace_workflow_node"), pairs)
        await connection.many(statement("insert_workflow_node"), [_row(row) for row in rerun_rows(again)])
    if not again.skipped:
        return True
    skipped = {"workflow_id": again.workflow_id, "positions": tuple(again.skipped)}
    return await connection.run(statement("skip_workflow_nodes"), skipped) == len(again.skipped)


async def keep_ends(connection: MysqlConnection, ids: Sequence[JobId]) -> set[int]:
    """Note how jobs ended that are about to be deleted; return the workflows to which they belong."""
    workflow_ids: set[int] = set()
    for chunk in chunks(sorted(ids)):
        rows = await connection.rows(statement("workflows_of_jobs"), {"ids": chunk})
        if rows:
            workflow_ids.update(number for (number,) in rows)
            await connection.run(statement("keep_ends_of_nodes"), {"keys": json.dumps(chunk)})
    return workflow_ids


async def delete_empty(connection: MysqlConnection, ids: set[int]) -> None:
    """Delete those of some workflows whose jobs have all been deleted."""
    for chunk in chunks(sorted(ids)):
        empty = tuple(number for (number,) in await connection.rows(statement("empty_workflows"), {"ids": chunk}))
        if empty:
            await connection.run(statement("delete_workflows"), {"ids": empty})
            await connection.run(statement("delete_workflow_nodes"), {"ids": empty})
