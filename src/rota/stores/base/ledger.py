"""Ledger: the audit log, whose entries are chained by digests, and the API tokens."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from rota.core.access import Token
from rota.core.ledger import GENESIS, LedgerEntry
from rota.core.time import from_micros
from rota.stores.base.session import Running, StoreSession
from rota.stores.system_rows import entry_of, token_of, token_row

T = TypeVar("T")
S = TypeVar("S")
C = TypeVar("C", bound=StoreSession)


async def record(session: StoreSession, entries: Sequence[LedgerEntry], now: int) -> None:
    """Append audit entries; the digest of each covers the entry before it."""
    await session.lock("lock_ledger")
    last = await session.select("last_entry")
    number, digest = last[0] if last else (0, GENESIS)
    for entry in entries:
        number += 1
        digest = entry.chained(number, from_micros(now), digest).digest
        await session.append(
            "append_entry",
            number=number,
            at=now,
            actor=entry.actor,
            action=entry.action,
            target=entry.target,
            origin=entry.origin,
            detail=entry.detail,
            digest=digest,
            surface=entry.surface,
        )


def has_effect(result: object) -> bool:
    """Whether the result of a verb says that it changed anything."""
    # By identity: an id may be 0, which is not False.
    return any(one is not False for one in result) if isinstance(result, list) else result is not False


async def recorded(
    session: C,
    verb: Callable[[C, S, int], Running[T]],
    subject: S,
    entry: LedgerEntry | None,
    now: int,
) -> T:
    """Run a verb and, if it changed anything, append an audit entry in the same transaction."""
    result = await verb(session, subject, now)
    if entry is not None and has_effect(result):
        await record(session, [entry], now)
    return result


async def ledger(session: StoreSession, before: int, limit: int) -> list[LedgerEntry]:
    """Return audit entries, newest first."""
    return [entry_of(row) for row in await session.select("ledger_entries", before=before, limit=limit)]


async def put_tokens(session: StoreSession, tokens_: Sequence[Token], now: int) -> None:  # noqa: ARG001 - as all recorded verbs
    """Create or change tokens by id; a revocation is never undone."""
    for token in sorted(tokens_, key=lambda one: one.id):
        await session.change("save_token", **token_row(token))


async def tokens(session: StoreSession, ids: Sequence[str]) -> list[Token]:
    """Return tokens by id; without ids, all of them."""
    rows = await session.select_by("tokens_by_id", ids) if ids else await session.select("tokens")
    return [token_of(row) for row in rows]
