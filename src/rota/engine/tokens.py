"""Token verbs: create, read, revoke and rotate API tokens. A secret is returned once and never stored."""

from __future__ import annotations

import base64
import secrets
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from rota.core.access import (
    ID_BYTES,
    SECRET_BYTES,
    Token,
    TokenDraft,
    check_draft,
    digest_of_secret,
    qualified_id,
    secret_of,
)
from rota.core.errors import IllegalTransition, TokenNotFound
from rota.core.ledger import LedgerEntry
from rota.engine.deps import EngineDeps
from rota.ports.client import Actor


class Tokens:
    """Create, read, revoke, rotate. A token is found by its id or by its name."""

    def __init__(self, deps: EngineDeps) -> None:
        self._deps = deps

    async def create(self, draft: TokenDraft, by: Actor) -> tuple[Token, str]:
        """Create a token, and return it with its secret; the name must not be that of a live token."""
        now = await self._deps.store.time()
        check_draft(draft, now)
        if any(token.name == draft.name and token.is_live(now) for token in await self._deps.store.tokens()):
            raise IllegalTransition(
                f"token {draft.name!r}: a live token or user has this name; rotate or revoke it, or choose another name"
            )
        token, secret = self._make(draft, now)
        await self._deps.store.put_tokens([token], entry=_entry(by, "create", token))
        return token, secret

    async def all(self) -> Sequence[Token]:
        """Return all tokens, the newest first."""
        tokens = [token for token in await self._deps.store.tokens() if not token.is_user]
        return sorted(tokens, key=lambda token: (token.created_at, token.id), reverse=True)

    async def one(self, id_or_name: str) -> Token:
        """Return a token by id, or the newest one with a name."""
        return (await self._named(id_or_name))[0]

    async def revoke(self, id_or_name: str, by: Actor) -> Token:
        """Revoke a token for good; by name, every token with this name."""
        now = await self._deps.store.time()
        matches = await self._named(id_or_name)
        revoked = [replace(token, revoked_at=token.revoked_at or now) for token in matches]
        await self._deps.store.put_tokens(revoked, entry=_entry(by, "revoke", revoked[0]))
        return revoked[0]

    async def rotate(self, id_or_name: str, overlap: timedelta, by: Actor) -> tuple[Token, str]:
        """Replace a live token by a new one that grants the same; the old one stays valid for `overlap`."""
        now = await self._deps.store.time()
        old = await self.one(id_or_name)
        if not old.is_live(now):
            raise IllegalTransition(f"token {old.name!r}: it is revoked or expired; create a new one")
        draft = TokenDraft(old.name, old.role, old.actions, old.queues, old.limits, old.expires_at)
        token, secret = self._make(draft, now)
        end = now + overlap
        ended = replace(old, expires_at=end if old.expires_at is None else min(old.expires_at, end))
        await self._deps.store.put_tokens([token, ended], entry=_entry(by, "rotate", token))
        return token, secret

    async def _named(self, id_or_name: str) -> Sequence[Token]:
        known = await self.all()
        matches = [token for token in known if token.id == id_or_name]
        matches = matches or [token for token in known if token.name == id_or_name]
        if not matches:
            raise TokenNotFound(f"token {id_or_name[:60]!r}: unknown; `rota token list` lists the tokens")
        return matches

    def _make(self, draft: TokenDraft, now: datetime) -> tuple[Token, str]:
        token_id = random_id()
        qualified = qualified_id(self._deps.namespace, token_id)
        secret = secret_of(qualified, _base32(secrets.token_bytes(SECRET_BYTES)))
        token = Token(
            id=token_id,
            name=draft.name,
            digest=digest_of_secret(secret.encode()),
            created_at=now,
            role=draft.role,
            actions=draft.actions,
            queues=draft.queues,
            limits=draft.limits,
            expires_at=draft.expires_at,
        )
        return token, secret


def random_id() -> str:
    return _base32(secrets.token_bytes(ID_BYTES))


def _base32(random: bytes) -> str:
    return base64.b32encode(random).decode().lower()


def _entry(by: Actor, action: str, token: Token) -> LedgerEntry:
    granted = " ".join(part for part in (token.role, *token.actions) if part)
    limits = f" on {','.join(token.queues)}" if token.queues else ""
    limits += "".join(f", {name} {limit}" for name, limit in token.limits.given.items())
    return LedgerEntry(
        by.name, f"tokens.{action}", f"{token.name} {token.id}", by.origin, f"{granted}{limits}", surface=by.surface
    )
