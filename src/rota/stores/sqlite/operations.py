"""Operations: one action on all jobs of a selection."""

from __future__ import annotations

from rota.core.operation import Operation
from rota.stores.operation_rows import operation_of, operation_row
from rota.stores.sqlite.driver import SqliteConnection
from rota.stores.sqlite.statements import statement


def put_operation(connection: SqliteConnection, operation: Operation) -> bool:
    """Store an operation if it still has the version that was read."""
    row = operation_row(operation)
    if operation.version == 0:
        del row["version"]
        return bool(connection.run(statement("insert_operation"), row))
    return bool(connection.run(statement("update_operation"), row))


def operation(connection: SqliteConnection, number: int) -> Operation | None:
    rows = connection.rows(statement("operation_by_id"), (number,))
    return operation_of(rows[0]) if rows else None


def operations(connection: SqliteConnection, before: int, limit: int) -> list[Operation]:
    return [operation_of(row) for row in connection.rows(statement("operations_before"), (before, limit))]


def due_operations(connection: SqliteConnection, limit: int, now: int) -> list[Operation]:
    return [operation_of(row) for row in connection.rows(statement("due_operations"), (now, limit))]
