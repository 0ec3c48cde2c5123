"""User verbs: add, list, remove, change the password, and check one.

A user is stored as a token that a password opens instead of a secret: it has a role, actions and queues as tokens have,
and its sessions end within seconds when it is removed. A new password makes a new token, so that all sessions end.
"""

from __future__ import annotations

import asyncio
import re
import secrets
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from rota.core.access import USER_PREFIX, Token, TokenDraft, check_draft
from rota.core.errors import IllegalTransition, InvalidRequest, TokenNotFound, TooManyLogins
from rota.core.ledger import LedgerEntry
from rota.core.passwords import NO_PASSWORD, SALT_BYTES, check_password, digest_of_password, is_password_of
from rota.engine.deps import EngineDeps
from rota.engine.tokens import random_id
from rota.ports.client import Actor

_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@+-]{0,99}", re.ASCII)
#: How many passwords are hashed at once, since each takes 32 MB and a processor; and how many may wait for it.
_AT_ONCE: Final = 1
_MOST_WAITING: Final = 20


class Users:
    """Add, list, remove, change the password, check one. A user is found by its name."""

    def __init__(self, deps: EngineDeps) -> None:
        self._deps = deps
        self._hashing = asyncio.Semaphore(_AT_ONCE)
        self._waiting = 0

    async def add(self, draft: TokenDraft, password: str | None, by: Actor) -> Token:
        """Add a user; without a password it can log in through a proxy only."""
        now = await self._deps.store.time()
        if not _NAME.fullmatch(draft.name):
            raise InvalidRequest(
                f"name: {draft.name[:60]!r} is not a user's name; use letters, digits and . _ @ + -", field="name"
            )
        check_draft(draft, now)
        if any(one.name == draft.name and one.is_live(now) for one in await self._deps.store.tokens()):
            raise IllegalTransition(f"user {draft.name!r}: a live user or token has this name; choose another")
        user = Token(
            id=USER_PREFIX + random_id(),
            name=draft.name,
            digest=await self._digest(password),
            created_at=now,
            role=draft.role,
            actions=draft.actions,
            queues=draft.queues,
            limits=draft.limits,
            expires_at=draft.expires_at,
        )
        await self._deps.store.put_tokens([user], entry=_entry(by, "add", user))
        return user

    async def all(self) -> Sequence[Token]:
        """Return all users that can log in, by name."""
        now = await self._deps.store.time()
        users = [one for one in await self._deps.store.tokens() if one.is_user and one.is_live(now)]
        return sorted(users, key=lambda user: user.name)

    async def one(self, name: str) -> Token:
        user = await self.find(name)
        if user is None:
            raise TokenNotFound(f"user {name[:60]!r}: unknown; `rota users list` lists the users")
        return user

    async def find(self, name: str) -> Token | None:
        """Return a user by name; None if there is none."""
        return next((user for user in await self.all() if user.name == name), None)

    async def remove(self, name: str, by: Actor) -> Token:
        """Remove a user for good; its sessions end."""
        user = await self.one(name)
        removed = replace(user, revoked_at=await self._deps.store.time())
        await self._deps.store.put_tokens([removed], entry=_entry(by, "remove", removed))
        return removed

    async def change_password(self, name: str, password: str, by: Actor) -> Token:
        """Give a user another password; its sessions end."""
        old = await self.one(name)
        digest = await self._digest(password)
        now = await self._deps.store.time()
        user = replace(old, id=USER_PREFIX + random_id(), digest=digest)
        await self._deps.store.put_tokens([user, replace(old, revoked_at=now)], entry=_entry(by, "passwd", user))
        return user

    async def check(self, name: str, password: str) -> Token | None:
        """Return the user with this name and password; None, after as much work, if one of them is wrong."""
        if self._waiting >= _MOST_WAITING:
            raise TooManyLogins("too many people log in at once; try again in a few seconds")
        self._waiting += 1
        try:
            user = await self.find(name)
            async with self._hashing:
                is_right = await asyncio.to_thread(is_password_of, b"" if user is None else user.digest, password)
        finally:
            self._waiting -= 1
        return user if is_right else None

    async def _digest(self, password: str | None) -> bytes:
        if password is None:
            return NO_PASSWORD
        check_password(password)
        async with self._hashing:
            return await asyncio.to_thread(digest_of_password, password, secrets.token_bytes(SALT_BYTES))


def _entry(by: Actor, action: str, user: Token) -> LedgerEntry:
    granted = " ".join(part for part in (user.role, *user.actions) if part)
    limits = f" on {','.join(user.queues)}" if user.queues else ""
    return LedgerEntry(by.name, f"users.{action}", user.name, by.origin, f"{granted}{limits}", surface=by.surface)
