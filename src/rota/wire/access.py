"""Forms of tokens and of the caller's own access."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any

from msgspec import Meta, Struct

from rota.core.access import Token, TokenDraft
from rota.core.duration import parse_duration
from rota.core.errors import InvalidRequest
from rota.wire.scalars import Duration, Moment, Name, QueueName, moment_of

_ActionName = Annotated[str, Meta(min_length=1, max_length=40)]
_Actions = Annotated[list[_ActionName], Meta(max_length=40)]
_Queues = Annotated[list[QueueName], Meta(max_length=100)]


class TokenRequest(Struct, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """A token to create: a role, single actions, or both. `queues` are names, or beginnings such as `mail-*`."""

    name: Name
    role: Annotated[str, Meta(max_length=40)] = ""
    actions: _Actions = []
    queues: _Queues = []
    expires_at: Moment | None = None
    #: Instead of `expires_at`: how long it is valid.
    expires: Duration | None = None


class RotateRequest(Struct, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """How long the old secret stays valid."""

    overlap: Duration = 0


class TokenForm(Struct, kw_only=True):
    """A token without its secret. `granted` has all actions of its role and the single ones."""

    id: str
    name: str
    role: str
    actions: list[str]
    granted: list[str]
    queues: list[str]
    created_at: Moment
    expires_at: Moment | None
    revoked_at: Moment | None
    is_live: bool


class NewTokenForm(TokenForm, kw_only=True):
    """A new token with its secret, which is shown this once."""

    secret: str
    warnings: list[str] = []


class TokenList(Struct, kw_only=True):
    """All tokens, the newest first."""

    items: list[TokenForm]


class AccessForm(Struct, kw_only=True):
    """The caller's own access: its name, and what it may do."""

    name: str
    role: str
    actions: list[str]
    queues: list[str]
    expires_at: Moment | None
    #: Whether this server refuses requests without a token.
    requires_token: bool
    #: Whether this server refuses every change.
    read_only: bool


def draft_of(form: TokenRequest, now: datetime) -> TokenDraft:
    """Make the draft of a token."""
    expires_at = moment_of(form.expires_at, "expires_at")
    if form.expires is not None:
        if expires_at is not None:
            raise InvalidRequest("expires: 'expires' and 'expires_at' are both given; give one", field="expires")
        try:
            expires_at = moment_of(now + parse_duration(form.expires, field="expires"), "expires")
        except OverflowError:
            raise InvalidRequest(f"expires: {form.expires} is too long; leave it out", field="expires") from None
    return TokenDraft(form.name, form.role, tuple(form.actions), tuple(form.queues), expires_at)


def token_form(token: Token, now: datetime) -> TokenForm:
    return TokenForm(**_fields(token, now))


def new_token_form(token: Token, now: datetime, secret: str, warnings: list[str]) -> NewTokenForm:
    return NewTokenForm(**_fields(token, now), secret=secret, warnings=warnings)


def _fields(token: Token, now: datetime) -> dict[str, Any]:
    return {
        "id": token.id,
        "name": token.name,
        "role": token.role,
        "actions": list(token.actions),
        "granted": sorted(token.granted),
        "queues": list(token.queues),
        "created_at": token.created_at,
        "expires_at": token.expires_at,
        "revoked_at": token.revoked_at,
        "is_live": token.is_live(now),
    }
