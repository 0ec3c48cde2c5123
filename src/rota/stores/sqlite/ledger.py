"""Ledger: the audit log, whose entries are chained by digests, and the API tokens."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from rota.core.access import Token
from rota.core.ledger import GENESIS, LedgerEntry
from rota.core.time import from_micros
from rota.stores.rows import entry_of, token_of, token_row
from rota.stores.sqlite.driver import SqliteConnection
from rota.stores.sqlite.statements import statement

T = TypeVar("T")


def record(connection: SqliteConnection, entries: Sequence[LedgerEntry], now: int) -> None:
    """Append audit entries, each with a digest over the one before it."""
    last = connection.rows(statement("last_ledger_entry"))
    number, digest = last[0] if last else (0, GENESIS)
    for entry in entries:
        number += 1
        chained = entry.chained(number, from_micros(now), digest)
        digest = chained.digest
        row = (number, now, entry.actor, entry.action, entry.target, entry.origin, entry.detail, digest, entry.surface)
        connection.run(statement("insert_ledger_entry"), row)


def ledger(connection: SqliteConnection, before: int, limit: int) -> list[LedgerEntry]:
    """Return audit entries, newest first."""
    return [entry_of(row) for row in connection.rows(statement("ledger_entries_before"), (before, limit))]


def put_tokens(connection: SqliteConnection, tokens_: Sequence[Token]) -> None:
    connection.many(statement("save_token"), [token_row(token) for token in tokens_])


def tokens(connection: SqliteConnection, ids: Sequence[str]) -> list[Token]:
    """Return tokens by id, or all."""
    parameters = {"ids": json.dumps(ids) if ids else None}
    return [token_of(row) for row in connection.rows(statement("tokens_by_id"), parameters)]


def recorded(
    verb: Callable[..., T], connection: SqliteConnection, subject: object, entry: LedgerEntry | None, now: int
) -> T:
    """Run a verb and, if it changed anything, record an audit entry in the same transaction."""
    result = verb(connection, subject, now)
    # By identity: an id may be 0, which is not False.
    has_changed = any(one is not False for one in result) if isinstance(result, list) else result is not False
    if entry is not None and has_changed:
        record(connection, [entry], now)
    return result


def untimed(verb: Callable[[SqliteConnection, Any], T]) -> Callable[..., T]:
    """Return a verb that takes the time, as `recorded` passes it, and ignores it."""

    def run(connection: SqliteConnection, subject: Any, now: int) -> T:  # noqa: ANN401, ARG001 - as the verb takes
        return verb(connection, subject)

    return run
