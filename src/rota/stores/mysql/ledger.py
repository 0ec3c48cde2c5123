"""The ledger's chain, and the keys to the API."""

from __future__ import annotations

from collections.abc import Sequence

from rota.core.instant import from_micros
from rota.core.ledger import GENESIS, Entry, Token
from rota.stores.mysql.driver import Again, Clash, Connection, lists
from rota.stores.mysql.statements import statement
from rota.stores.rows import Row, entry_of, token_of, token_row


async def record(connection: Connection, entries: Sequence[Entry], now: int) -> None:
    """Append entries to the ledger, each bound to the one before it."""
    last = await connection.rows(statement("last_entry"))
    number, digest = last[0] if last else (0, GENESIS)
    for entry in entries:
        number += 1
        chained = entry.chained(number, from_micros(now), digest)
        digest = chained.digest
        row = {
            "number": number,
            "at": now,
            "actor": entry.actor,
            "action": entry.action,
            "target": entry.target,
            "origin": entry.origin,
            "detail": entry.detail,
            "digest": digest,
        }
        try:
            await connection.run(statement("append_entry"), row)
        except Clash as error:
            raise Again("somebody else wrote to the ledger at this moment") from error


async def ledger(connection: Connection, before: int, limit: int) -> list[Entry]:
    """Give the ledger's entries, newest first."""
    rows = await connection.rows(statement("ledger"), {"before": before, "limit": limit})
    return [entry_of(row) for row in rows]


async def put_tokens(connection: Connection, tokens_: Sequence[Token]) -> None:
    """Create or replace tokens by id."""
    if tokens_:
        await connection.many(statement("put_token"), [token_row(token) for token in tokens_])


async def tokens(connection: Connection, ids: Sequence[str]) -> list[Token]:
    """Give tokens by id; all of them without."""
    rows: list[Row] = []
    if not ids:
        rows += await connection.rows(statement("tokens"))
    for some in lists(ids):
        rows += await connection.rows(statement("tokens_by_id"), {"ids": some})
    return [token_of(row) for row in rows]
