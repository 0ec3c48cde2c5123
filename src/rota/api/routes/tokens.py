"""Tokens: create, list, rotate and revoke; and the caller's own access. `{id}` is an id or a name.

A caller can create, rotate and revoke only tokens that grant no more than its own, so that `tokens.edit` does not give
away actions or queues that its holder lacks.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any, Final

from rota.api.errors import HttpError
from rota.api.http import Request, Response, json_response
from rota.api.permissions import require
from rota.api.router import Handler, Route
from rota.api.sessions import SESSION
from rota.core.access import ALL_ACTIONS, UNLIMITED, Action, Token, TokenDraft, check_draft, covers_queue
from rota.core.duration import parse_duration
from rota.core.namespace import DEFAULT
from rota.wire.access import (
    AccessForm,
    NewTokenForm,
    RotateRequest,
    TokenForm,
    TokenList,
    TokenRequest,
    draft_of,
    limits_form,
    new_token_form,
    token_form,
)


async def create(request: Request) -> Response:
    """Create a token; its secret is in the response and nowhere else."""
    now = await request.engine.store.time()
    draft = draft_of(await request.read(TokenRequest), now)
    check_draft(draft, now)
    require_no_more(request, draft)
    require_no_longer(request, draft)
    token, secret = await request.engine.tokens.create(draft, request.actor)
    return _new(request, token, secret)


async def list_tokens(request: Request) -> Response:
    """List tokens without their secrets, the newest first."""
    now = request.engine.clock()
    return json_response(TokenList(items=[token_form(token, now) for token in await request.engine.tokens.all()]))


async def get(request: Request) -> Response:
    token = await request.engine.tokens.one(request.path_params["id"])
    return json_response(token_form(token, request.engine.clock()))


async def revoke(request: Request) -> Response:
    """Revoke a token for good; a name revokes every token that has it."""
    require_no_more(request, await request.engine.tokens.one(request.path_params["id"]))
    token = await request.engine.tokens.revoke(request.path_params["id"], request.actor)
    request.context.tokens.forget()
    return json_response(token_form(token, request.engine.clock()))


async def rotate(request: Request) -> Response:
    """Replace a token by a new one with the same name and access."""
    body = await request.read_or(RotateRequest, RotateRequest())
    overlap: timedelta = parse_duration(body.overlap, field="overlap")
    old = await request.engine.tokens.one(request.path_params["id"])
    require_no_more(request, old)
    require_no_longer(request, old)
    token, secret = await request.engine.tokens.rotate(request.path_params["id"], overlap, request.actor)
    request.context.tokens.forget()
    return _new(request, token, secret)


async def me(request: Request) -> Response:
    """Show the caller's own access."""
    return json_response(access_form(request))


def access_form(request: Request) -> AccessForm:
    """Return the access of a request's caller."""
    key, settings = request.key, request.context.settings
    return AccessForm(
        name=key.name,
        role=key.role,
        actions=sorted(key.actions & ALL_ACTIONS),
        queues=list(key.queues),
        limits=limits_form(key.limits or UNLIMITED),
        expires_at=key.expires_at,
        requires_token=bool(settings.keys),
        read_only=settings.read_only,
        session_expires_at=request.scope.get(SESSION),
        namespace=request.engine.namespace or DEFAULT,
    )


def _new(request: Request, token: Token, secret: str) -> Response:
    warnings = []
    if not request.context.settings.keys:
        warnings.append("this server accepts requests without a token, since ROTA_TOKEN is not set")
    form = new_token_form(token, request.engine.clock(), secret, warnings)
    return json_response(form, 201, location=f"/v1/tokens/{token.id}", cache_control="no-store")


def require_no_more(request: Request, token: Token | TokenDraft) -> None:
    """Refuse to hand out, or to take away, more than the caller has itself."""
    key = request.key
    granted = Token("", token.name, b"", request.engine.clock(), token.role, token.actions).granted
    for action in sorted(granted - key.actions):
        require(key, Action(action))
    if key.queues and not (token.queues and all(covers_queue(key.queues, queue) for queue in token.queues)):
        limit = ", ".join(key.queues)
        detail = f"this token is limited to the queues {limit}, and so are the tokens that it may create or end"
        raise HttpError(403, "forbidden", detail, fix=f"give 'queues' among {limit}, or use a token without this limit")
    for name, most in (key.limits or UNLIMITED).given.items():
        if token.limits.given.get(name, most + 1) > most:
            detail = f"this token is limited to {most} {name}, and so are the tokens that it may create or end"
            raise HttpError(403, "forbidden", detail, fix=f"give '{name}' of {most} or less in 'limits'")


def require_no_longer(request: Request, token: Token | TokenDraft) -> None:
    """Refuse to hand out what outlives the caller's own token."""
    end = request.key.expires_at
    if end is not None and (token.expires_at is None or token.expires_at > end):
        detail = f"this token expires at {end.isoformat()}, and so must what it hands out"
        fix = f"give 'expires_at' of {end.isoformat()} or earlier, or use a token that lives longer"
        raise HttpError(403, "forbidden", detail, fix=fix)


def _route(method: str, path: str, action: Action, handler: Handler, summary: str, **more: Any) -> Route:  # noqa: ANN401
    return Route(method=method, path=path, action=action, handler=handler, summary=summary, tag="tokens", **more)


_ONE: Final = "/v1/tokens/{id}"
ROUTES = (
    _route(
        "POST",
        "/v1/tokens",
        Action.TOKENS_EDIT,
        create,
        "Create a token; its secret is shown this once",
        body=TokenRequest,
        responses={201: NewTokenForm},
        error_statuses=(409,),
    ),
    _route("GET", "/v1/tokens", Action.TOKENS_READ, list_tokens, "List tokens", responses={200: TokenList}),
    _route("GET", _ONE, Action.TOKENS_READ, get, "Show a token, by id or by name", responses={200: TokenForm}),
    _route("DELETE", _ONE, Action.TOKENS_EDIT, revoke, "Revoke a token for good", responses={200: TokenForm}),
    _route(
        "POST",
        f"{_ONE}/rotate",
        Action.TOKENS_EDIT,
        rotate,
        "Replace a token by a new one with the same name and access",
        body=RotateRequest,
        body_is_optional=True,
        responses={201: NewTokenForm},
        error_statuses=(409,),
    ),
    _route("GET", "/v1/me", Action.SIGNED_IN, me, "Show the caller's own access", responses={200: AccessForm}),
)
