"""Forms of tokens and of the caller's own access."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any

from msgspec import Meta, Struct
from msgspec.structs import asdict

from rota.core.access import UNLIMITED, Token, TokenDraft, TokenLimits
from rota.core.duration import parse_duration
from rota.core.errors import InvalidRequest
from rota.core.passwords import NO_PASSWORD
from rota.wire.scalars import Duration, Moment, Name, QueueName, moment_of

_ActionName = Annotated[str, Meta(min_length=1, max_length=40)]
_Actions = Annotated[list[_ActionName], Meta(max_length=40)]
_Limit = Annotated[int, Meta(ge=1, le=1_000_000_000)]
#: Left out for all queues. An empty list is refused: it would mean all queues too, where none may have been intended.
_Queues = Annotated[list[QueueName], Meta(min_length=1, max_length=100)]


class TokenLimitsForm(Struct, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """How much one API process accepts of a token's requests; beyond it they are answered 429.

    `bytes_in_flight` counts the bodies of requests that are not answered yet.
    """

    requests_per_second: _Limit | None = None
    streams_per_second: _Limit | None = None
    bytes_in_flight: _Limit | None = None


class TokenRequest(Struct, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """A token to create: a role, single actions, or both. `queues` are names, or beginnings such as `mail-*`."""

    name: Name
    role: Annotated[str, Meta(max_length=40)] = ""
    actions: _Actions = []
    queues: _Queues = []
    limits: TokenLimitsForm | None = None
    expires_at: Moment | None = None
    #: Instead of `expires_at`: how long it is valid.
    expires: Duration | None = None


class UserRequest(TokenRequest, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """A user to add, with what a token has; without a password it can log in through a proxy only."""

    password: Annotated[str, Meta(max_length=1_000)] | None = None


class PasswordRequest(Struct, kw_only=True, forbid_unknown_fields=True):
    """A new password."""

    password: Annotated[str, Meta(max_length=1_000)]


class SessionRequest(Struct, kw_only=True, forbid_unknown_fields=True):
    """A user's name and password, for a session without a token."""

    user: Name | None = None
    password: Annotated[str, Meta(max_length=1_000)] | None = None


class UserForm(Struct, kw_only=True):
    """A user without the password. `granted` has all actions of its role and the single ones."""

    name: str
    role: str
    actions: list[str]
    granted: list[str]
    queues: list[str]
    limits: TokenLimitsForm
    has_password: bool
    created_at: Moment
    expires_at: Moment | None


class UserList(Struct, kw_only=True):
    """All users, by name."""

    items: list[UserForm]


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
    limits: TokenLimitsForm
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
    limits: TokenLimitsForm
    expires_at: Moment | None
    #: Whether this server refuses requests without a token.
    requires_token: bool
    #: Whether this server refuses every change.
    read_only: bool
    #: When the browser session of this request ends; null for a request with a token.
    session_expires_at: Moment | None
    #: The namespace of this request.
    namespace: str


def draft_of(form: TokenRequest, now: datetime) -> TokenDraft:
    expires_at = moment_of(form.expires_at, "expires_at")
    if form.expires is not None:
        if expires_at is not None:
            raise InvalidRequest("expires: 'expires' and 'expires_at' are both given; give one", field="expires")
        try:
            expires_at = moment_of(now + parse_duration(form.expires, field="expires"), "expires")
        except OverflowError:
            raise InvalidRequest(f"expires: {form.expires} is too long; leave it out", field="expires") from None
    limits = UNLIMITED if form.limits is None else TokenLimits(**asdict(form.limits))
    return TokenDraft(form.name, form.role, tuple(form.actions), tuple(form.queues), limits, expires_at)


def limits_form(limits: TokenLimits) -> TokenLimitsForm:
    return TokenLimitsForm(**limits.given)


def token_form(token: Token, now: datetime) -> TokenForm:
    return TokenForm(**_fields(token, now))


def user_form(user: Token) -> UserForm:
    return UserForm(
        name=user.name,
        role=user.role,
        actions=list(user.actions),
        granted=sorted(user.granted),
        queues=list(user.queues),
        limits=limits_form(user.limits),
        has_password=user.digest != NO_PASSWORD,
        created_at=user.created_at,
        expires_at=user.expires_at,
    )


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
        "limits": limits_form(token.limits),
        "created_at": token.created_at,
        "expires_at": token.expires_at,
        "revoked_at": token.revoked_at,
        "is_live": token.is_live(now),
    }
