"""Operations: one action on all jobs of a selection."""

from __future__ import annotations

from rota.core.operation import Operation
from rota.stores.operation_rows import operation_of, operation_row
from rota.stores.postgres.session import Session


async def put_operation(session: Session, operation: Operation, now: int) -> bool:  # noqa: ARG001 - as all recorded verbs
    """Store an operation if its version still holds."""
    verb = "create_operation" if operation.version == 0 else "replace_operation"
    row = operation_row(operation)
    return bool(await session.run(verb, row["id"], row["due_at"], row["version"], row["body"]))


async def operation(session: Session, number: int) -> Operation | None:
    rows = await session.rows("operation_by_id", number)
    return operation_of(rows[0]) if rows else None


async def operations(session: Session, before: int, limit: int) -> list[Operation]:
    return [operation_of(row) for row in await session.rows("operations_before", before, limit)]


async def due_operations(session: Session, limit: int, now: int) -> list[Operation]:
    return [operation_of(row) for row in await session.rows("due_operations", now, limit)]
