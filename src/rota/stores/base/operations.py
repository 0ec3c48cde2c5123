"""Operations: one action on all jobs of a selection. Id, due time and version are columns, all else is JSON text."""

from __future__ import annotations

import json
from typing import Any

from rota.core.ids import JobId
from rota.core.lifecycle import State
from rota.core.operation import (
    Operation,
    OperationAction,
    OperationId,
    OperationState,
    PlannedJob,
    Refusal,
)
from rota.core.time import from_micros
from rota.stores.base.session import StoreSession
from rota.stores.rows import Row, micros

_TIMES = ("created_at", "started_at", "ended_at", "after_finished_at")
_PLAIN = (
    "by", "origin", "q", "rate", "canary", "matched", "is_exact", "done", "refused", "reason", "after_id",
    "is_list_read",
)  # fmt: skip
_LISTS = ("ids", "canary_ids", "refusals", "batch")


async def put_operation(session: StoreSession, operation: Operation, now: int) -> bool:  # noqa: ARG001 - as all recorded verbs
    """Write an operation if its version still holds."""
    name = "create_operation" if operation.version == 0 else "replace_operation"
    return await session.put(name, **operation_row(operation))


async def operation(session: StoreSession, number: int) -> Operation | None:
    rows = await session.select("operation_by_id", id=number)
    return operation_of(rows[0]) if rows else None


async def operations(session: StoreSession, before: int, limit: int) -> list[Operation]:
    return [operation_of(row) for row in await session.select("operations_before", before=before, limit=limit)]


async def due_operations(session: StoreSession, limit: int, now: int) -> list[Operation]:
    return [operation_of(row) for row in await session.select("due_operations", now=now, limit=limit)]


def operation_row(operation: Operation) -> dict[str, Any]:
    """Write an operation as columns."""
    body: dict[str, Any] = {"action": operation.action.value, "state": operation.state.value}
    body |= {name: getattr(operation, name) for name in (*_PLAIN, *_LISTS)}
    body |= {name: micros(getattr(operation, name)) for name in _TIMES}
    return {
        "id": operation.id,
        "due_at": micros(operation.due_at),
        "version": operation.version,
        "body": json.dumps(body, separators=(",", ":")),
    }


def operation_of(row: Row) -> Operation:
    """Read an operation from the columns id, due_at, version, body."""
    number, due_at, version, text = row
    body = json.loads(text)
    times = {name: None if body[name] is None else from_micros(body[name]) for name in _TIMES}
    fields = {
        **{name: body[name] for name in _PLAIN},
        **times,
        "action": OperationAction(body["action"]),
        "state": OperationState(body["state"]),
        "ids": tuple(map(JobId, body["ids"])),
        "canary_ids": tuple(map(JobId, body["canary_ids"])),
        "refusals": tuple(Refusal(*one) for one in body["refusals"]),
        "batch": tuple(PlannedJob(job_id, fence, State(state)) for job_id, fence, state in body["batch"]),
    }
    return Operation(
        id=OperationId(number),
        due_at=None if due_at is None else from_micros(due_at),
        version=version,
        **fields,
    )
