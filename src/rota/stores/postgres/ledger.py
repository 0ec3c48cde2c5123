"""The ledger's chain, and the keys to the API."""

from __future__ import annotations

from collections.abc import Sequence

from rota.core.instant import from_micros
from rota.core.ledger import GENESIS, Entry, Token
from rota.stores.postgres.session import Session
from rota.stores.rows import entry_of, token_of, token_row
from rota.stores.texts import readable, writable


async def record(session: Session, entries: Sequence[Entry], now: int) -> None:
    """Append entries to the ledger, each bound to the one before it."""
    await session.run("lock_ledger")
    last = await session.rows("last_entry")
    number, digest = last[0] if last else (0, GENESIS)
    for entry in entries:
        number += 1
        digest = entry.chained(number, from_micros(now), digest).digest
        words = (entry.actor, entry.action, entry.target, entry.origin, entry.detail)
        await session.run("append_entry", number, now, *map(writable, words), digest)


async def ledger(session: Session, before: int, limit: int) -> list[Entry]:
    """Give the ledger's entries, newest first."""
    return [entry_of(readable(row)) for row in await session.rows("ledger", before, limit)]


async def put_tokens(session: Session, tokens_: Sequence[Token], now: int) -> None:  # noqa: ARG001 - as all recorded
    """Create or replace tokens by id."""
    for token in sorted(tokens_, key=lambda one: one.id):
        await session.run("put_token", *token_row(token))


async def tokens(session: Session, ids: Sequence[str]) -> list[Token]:
    """Give tokens by id; all of them without."""
    return [token_of(row) for row in await session.rows("tokens", list(ids) if ids else None)]
