"""Cases of tokens and of the caller's own access."""

from __future__ import annotations

from api.environment import ApiEnvironment
from api.route_cases.route_case import RouteClient, ledger_actions, of
from rota.core.access import TokenDraft, digest_of_secret
from rota.ports.client import Actor


async def made(env: ApiEnvironment) -> tuple[str, str]:
    token, secret = await env.engine.tokens.create(TokenDraft("ci", "submitter", queues=("mail",)), Actor("ann"))
    return token.id, secret


@of("POST /v1/tokens")
async def create(env: ApiEnvironment, send: RouteClient) -> None:
    form = await send(201, json={"name": "ci", "role": "worker", "queues": ["mail-*"], "expires": "1h"})
    (token,) = await env.store.tokens()
    assert (token.name, token.role, token.queues) == ("ci", "worker", ("mail-*",))
    assert token.digest == digest_of_secret(form["secret"].encode())
    assert await ledger_actions(env) == [("tokens.create", f"ci {token.id}")]


@of("GET /v1/tokens")
async def list_tokens(env: ApiEnvironment, send: RouteClient) -> None:
    token_id, secret = await made(env)
    listed = (await send())["items"]
    assert [(one["id"], one["name"], one["is_live"]) for one in listed] == [(token_id, "ci", True)]
    assert secret not in str(listed)


@of("GET /v1/tokens/{id}")
async def get(env: ApiEnvironment, send: RouteClient) -> None:
    token_id, _ = await made(env)
    assert (await send(name="ci"))["id"] == (await send(name=token_id))["id"] == token_id


@of("DELETE /v1/tokens/{id}")
async def revoke(env: ApiEnvironment, send: RouteClient) -> None:
    token_id, _ = await made(env)
    assert (await send(name="ci"))["is_live"] is False
    (token,) = await env.store.tokens()
    assert token.id == token_id
    assert token.revoked_at is not None


@of("POST /v1/tokens/{id}/rotate")
async def rotate(env: ApiEnvironment, send: RouteClient) -> None:
    old_id, old = await made(env)
    form = await send(201, name="ci", json={"overlap": "1h"})
    tokens = {token.id: token for token in await env.store.tokens()}
    assert set(tokens) == {old_id, form["id"]}
    assert form["secret"] != old
    assert tokens[old_id].expires_at is not None


@of("GET /v1/me")
async def me(env: ApiEnvironment, send: RouteClient) -> None:
    _, secret = await made(env)
    mine = await send(headers={"Authorization": f"Bearer {secret}"})
    assert (mine["name"], mine["role"], mine["queues"]) == ("ci", "submitter", ["mail"])


PASSWORD = "correct horse battery"  # noqa: S105 - a made-up one


@of("POST /v1/users")
async def add_user(env: ApiEnvironment, send: RouteClient) -> None:
    form = await send(201, json={"name": "ada", "role": "operator", "queues": ["mail"], "password": PASSWORD})
    assert (form["name"], form["has_password"], "password" in form) == ("ada", True, False)
    (user,) = await env.engine.users.all()
    assert (user.role, user.queues) == ("operator", ("mail",))
    assert await env.engine.users.check("ada", PASSWORD) == user
    assert await env.engine.tokens.all() == []
    assert await ledger_actions(env) == [("users.add", "ada")]


async def user(env: ApiEnvironment) -> None:
    await env.engine.users.add(TokenDraft("ada", "viewer"), None, Actor("ann"))


@of("GET /v1/users")
async def list_users(env: ApiEnvironment, send: RouteClient) -> None:
    await user(env)
    assert [(one["name"], one["has_password"]) for one in (await send())["items"]] == [("ada", False)]


@of("GET /v1/users/{id}")
async def get_user(env: ApiEnvironment, send: RouteClient) -> None:
    await user(env)
    assert (await send(name="ada"))["role"] == "viewer"
    await send(404, name="bob")


@of("DELETE /v1/users/{id}")
async def remove_user(env: ApiEnvironment, send: RouteClient) -> None:
    await user(env)
    await send(name="ada")
    assert await env.engine.users.all() == []


@of("POST /v1/users/{id}/password")
async def change_password(env: ApiEnvironment, send: RouteClient) -> None:
    await user(env)
    assert (await send(name="ada", json={"password": PASSWORD}))["has_password"] is True
    assert await env.engine.users.check("ada", PASSWORD) is not None
    await send(422, name="ada", json={"password": "short"})


@of("POST /v1/session")
async def begin_session(env: ApiEnvironment, send: RouteClient) -> None:
    """This server needs no token; sessions have tests of their own."""
    _, secret = await made(env)
    assert (await send(409, headers={"Authorization": f"Bearer {secret}"}))["code"] == "no_token_needed"


@of("DELETE /v1/session")
async def end_session(_stage: ApiEnvironment, send: RouteClient) -> None:
    send.client.cookies.set("rota_session", "any", domain="127.0.0.1", path="/")
    await send(204)
    assert not send.client.cookies, "the server has removed it"
