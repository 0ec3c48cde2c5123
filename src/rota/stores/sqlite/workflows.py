"""Workflows: graphs of jobs, stored as a whole; which job belongs to which, and nodes that run again."""

from __future__ import annotations

from collections.abc import Sequence

from rota.core.graph import NewWorkflow, Rerun
from rota.core.ids import JobId
from rota.core.ledger import LedgerEntry
from rota.ports.store import Inserted, Receipt
from rota.stores.base.workflows import node_rows, rerun_rows
from rota.stores.rows import ids_text
from rota.stores.sqlite.driver import SqliteConnection
from rota.stores.sqlite.insert import insert
from rota.stores.sqlite.session import record
from rota.stores.sqlite.settle import cancel_replaced
from rota.stores.sqlite.statements import statement


def put_workflow(
    connection: SqliteConnection, workflow: NewWorkflow, bound: int | None, entry: LedgerEntry | None, now: int
) -> Sequence[Inserted]:
    """Store a workflow with all its jobs, or nothing if one of them is refused."""
    connection.run("SAVEPOINT workflow")
    receipts = insert(connection, workflow.jobs, bound, now, may_be_full=False)
    if all(one.receipt is Receipt.CREATED for one in receipts):
        insert_nodes(connection, workflow, now)
        if entry is not None:
            record(connection, [entry], now)
    else:
        connection.run("ROLLBACK TO workflow")
    connection.run("RELEASE workflow")
    return receipts


def insert_nodes(connection: SqliteConnection, workflow: NewWorkflow, now: int) -> None:
    """Store a workflow whose jobs are stored."""
    row = (workflow.id, workflow.name, workflow.policy.value, len(workflow.nodes), now)
    connection.run(statement("insert_workflow"), row)
    connection.many(statement("insert_workflow_node"), node_rows(workflow))


def rerun(connection: SqliteConnection, again: Rerun, now: int) -> bool:
    """Let nodes run again with new jobs; False, and nothing done, if one of them was replaced meanwhile."""
    connection.run("SAVEPOINT rerun")
    is_done = _replace_nodes(connection, again) and _run_again(connection, again, now)
    if not is_done:
        connection.run("ROLLBACK TO rerun")
    connection.run("RELEASE rerun")
    return is_done


def _replace_nodes(connection: SqliteConnection, again: Rerun) -> bool:
    for old, job in zip(again.replaces, again.jobs, strict=True):
        parameters = {"by": job.id, "job_id": old, "workflow_id": again.workflow_id}
        if not connection.run(statement("replace_workflow_node"), parameters):
            return False
    return all(
        connection.run(statement("skip_workflow_node"), {"workflow_id": again.workflow_id, "position": position})
        for position in again.skipped
    )


def _run_again(connection: SqliteConnection, again: Rerun, now: int) -> bool:
    cancel_replaced(connection, again.replaces, now)
    receipts = insert(connection, again.jobs, None, now, may_be_full=False)
    connection.many(statement("insert_workflow_node"), rerun_rows(again))
    return all(one.receipt is Receipt.CREATED for one in receipts)


def keep_ends(connection: SqliteConnection, ids: Sequence[JobId]) -> list[int]:
    """Note how jobs ended that are about to be deleted; return the workflows to which they belong."""
    text = ids_text(ids)
    workflow_ids = [number for (number,) in connection.rows(statement("workflows_of_jobs"), (text,))]
    if workflow_ids:
        connection.run(statement("keep_ends_of_nodes"), (text,))
    return workflow_ids


def delete_empty(connection: SqliteConnection, ids: Sequence[int]) -> None:
    """Delete those of some workflows whose jobs have all been deleted."""
    if ids and connection.run(statement("delete_empty_workflows"), (ids_text(ids),)):
        connection.run(statement("delete_nodes_without_workflow"), (ids_text(ids),))
