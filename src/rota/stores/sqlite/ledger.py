"""The ledger's chain, and the keys to the API."""

from __future__ import annotations

import json
from collections.abc import Sequence

from rota.core.instant import from_micros
from rota.core.ledger import GENESIS, Entry, Token
from rota.stores.rows import entry_of, token_of, token_row
from rota.stores.sqlite.driver import Connection
from rota.stores.sqlite.statements import statement


def record(connection: Connection, entries: Sequence[Entry], now: int) -> None:
    """Append entries to the ledger, each bound to the one before it."""
    last = connection.rows(statement("last_entry"))
    number, digest = last[0] if last else (0, GENESIS)
    for entry in entries:
        number += 1
        chained = entry.chained(number, from_micros(now), digest)
        digest = chained.digest
        row = (number, now, entry.actor, entry.action, entry.target, entry.origin, entry.detail, digest)
        connection.run(statement("append_entry"), row)


def ledger(connection: Connection, before: int, limit: int) -> list[Entry]:
    """Give the ledger's entries, newest first."""
    return [entry_of(row) for row in connection.rows(statement("ledger"), (before, limit))]


def put_tokens(connection: Connection, tokens_: Sequence[Token]) -> None:
    """Create or replace tokens by id."""
    connection.many(statement("put_token"), [token_row(token) for token in tokens_])


def tokens(connection: Connection, ids: Sequence[str]) -> list[Token]:
    """Give tokens by id; all of them without."""
    parameters = {"ids": json.dumps(ids) if ids else None}
    return [token_of(row) for row in connection.rows(statement("tokens"), parameters)]
