"""The audit log, a chain of digests, and API tokens."""

from __future__ import annotations

from collections.abc import Sequence

from rota.core.access import Token
from rota.core.ledger import GENESIS, LedgerEntry
from rota.core.time import from_micros
from rota.stores.mysql.driver import ConstraintViolated, MysqlConnection, RetryTransaction, chunks
from rota.stores.mysql.statements import statement
from rota.stores.rows import Row, entry_of, token_of, token_row


async def record(connection: MysqlConnection, entries: Sequence[LedgerEntry], now: int) -> None:
    """Append audit entries; the digest of each covers the entry before it."""
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
            "surface": entry.surface,
        }
        try:
            await connection.run(statement("append_entry"), row)
        except ConstraintViolated as error:
            raise RetryTransaction("another process wrote to the audit log at the same time") from error


async def ledger(connection: MysqlConnection, before: int, limit: int) -> list[LedgerEntry]:
    rows = await connection.rows(statement("ledger"), {"before": before, "limit": limit})
    return [entry_of(row) for row in rows]


async def put_tokens(connection: MysqlConnection, tokens_: Sequence[Token]) -> None:
    if tokens_:
        await connection.many(statement("upsert_token"), [token_row(token) for token in tokens_])


async def tokens(connection: MysqlConnection, ids: Sequence[str]) -> list[Token]:
    """Return tokens by id; without ids, all of them."""
    rows: list[Row] = []
    if not ids:
        rows += await connection.rows(statement("tokens"))
    for chunk in chunks(ids):
        rows += await connection.rows(statement("tokens_by_id"), {"ids": chunk})
    return [token_of(row) for row in rows]
