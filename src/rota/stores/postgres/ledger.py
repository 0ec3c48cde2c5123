"""The audit ledger, a chain of digests, and API tokens."""

from __future__ import annotations

from collections.abc import Sequence

from rota.core.access import Token
from rota.core.ledger import GENESIS, LedgerEntry
from rota.core.time import from_micros
from rota.stores.postgres.session import Session
from rota.stores.rows import entry_of, token_of, token_row
from rota.stores.text_codec import decode_row, encode_text


async def record(session: Session, entries: Sequence[LedgerEntry], now: int) -> None:
    """Append entries, each with a digest that covers the one before it."""
    await session.run("lock_ledger")
    last = await session.rows("last_entry")
    number, digest = last[0] if last else (0, GENESIS)
    for entry in entries:
        number += 1
        digest = entry.chained(number, from_micros(now), digest).digest
        texts = (entry.actor, entry.action, entry.target, entry.origin, entry.detail)
        await session.run("append_entry", number, now, *map(encode_text, texts), digest, entry.surface)


async def ledger(session: Session, before: int, limit: int) -> list[LedgerEntry]:
    """Return entries, newest first."""
    return [entry_of(decode_row(row)) for row in await session.rows("ledger_entries", before, limit)]


async def put_tokens(session: Session, tokens_: Sequence[Token], now: int) -> None:  # noqa: ARG001 - as all recorded
    """Create or change tokens by id; a revocation is never undone."""
    for token in sorted(tokens_, key=lambda one: one.id):
        await session.run("upsert_token", *token_row(token))


async def tokens(session: Session, ids: Sequence[str]) -> list[Token]:
    """Return tokens by id; without ids, all of them."""
    return [token_of(row) for row in await session.rows("tokens", list(ids) if ids else None)]
