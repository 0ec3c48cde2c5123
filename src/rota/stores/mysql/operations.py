"""Operations: one action on all jobs of a selection."""

from __future__ import annotations

from rota.core.operation import Operation
from rota.stores.mysql.driver import ConstraintViolated, MysqlConnection
from rota.stores.mysql.statements import statement
from rota.stores.operation_rows import operation_of, operation_row


async def put_operation(connection: MysqlConnection, operation: Operation) -> bool:
    """Write an operation if its version still holds."""
    verb = "create_operation" if operation.version == 0 else "replace_operation"
    try:
        return bool(await connection.run(statement(verb), operation_row(operation)))
    except ConstraintViolated:
        return False


async def operation(connection: MysqlConnection, number: int) -> Operation | None:
    rows = await connection.rows(statement("operation_by_id"), {"id": number})
    return operation_of(rows[0]) if rows else None


async def operations(connection: MysqlConnection, before: int, limit: int) -> list[Operation]:
    rows = await connection.rows(statement("operations_before"), {"before": before, "limit": limit})
    return [operation_of(row) for row in rows]


async def due_operations(connection: MysqlConnection, limit: int, now: int) -> list[Operation]:
    rows = await connection.rows(statement("due_operations"), {"now": now, "limit": limit})
    return [operation_of(row) for row in rows]
