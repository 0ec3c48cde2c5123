"""Cases of tokens and of the caller's own access."""

from __future__ import annotations

from api.route_cases.asking import Ask, acts, of
from api.staging import Stage
from rota.core.access import TokenDraft, digest_of_secret
from rota.ports.client import Actor


async def made(stage: Stage) -> tuple[str, str]:
    token, secret = await stage.engine.tokens.create(TokenDraft("ci", "submitter", queues=("mail",)), Actor("ann"))
    return token.id, secret


@of("POST /v1/tokens")
async def create(stage: Stage, ask: Ask) -> None:
    form = await ask(201, json={"name": "ci", "role": "worker", "queues": ["mail-*"], "expires": "1h"})
    (token,) = await stage.store.tokens()
    assert (token.name, token.role, token.queues) == ("ci", "worker", ("mail-*",))
    assert token.digest == digest_of_secret(form["secret"].encode())
    assert await acts(stage) == [("tokens.create", f"ci {token.id}")]


@of("GET /v1/tokens")
async def list_tokens(stage: Stage, ask: Ask) -> None:
    token_id, secret = await made(stage)
    listed = (await ask())["items"]
    assert [(one["id"], one["name"], one["is_live"]) for one in listed] == [(token_id, "ci", True)]
    assert secret not in str(listed)


@of("GET /v1/tokens/{id}")
async def get(stage: Stage, ask: Ask) -> None:
    token_id, _ = await made(stage)
    assert (await ask(name="ci"))["id"] == (await ask(name=token_id))["id"] == token_id


@of("DELETE /v1/tokens/{id}")
async def revoke(stage: Stage, ask: Ask) -> None:
    token_id, _ = await made(stage)
    assert (await ask(name="ci"))["is_live"] is False
    (token,) = await stage.store.tokens()
    assert token.id == token_id
    assert token.revoked_at is not None


@of("POST /v1/tokens/{id}/rotate")
async def rotate(stage: Stage, ask: Ask) -> None:
    old_id, old = await made(stage)
    form = await ask(201, name="ci", json={"overlap": "1h"})
    tokens = {token.id: token for token in await stage.store.tokens()}
    assert set(tokens) == {old_id, form["id"]}
    assert form["secret"] != old
    assert tokens[old_id].expires_at is not None


@of("GET /v1/me")
async def me(stage: Stage, ask: Ask) -> None:
    _, secret = await made(stage)
    mine = await ask(headers={"Authorization": f"Bearer {secret}"})
    assert (mine["name"], mine["role"], mine["queues"]) == ("ci", "submitter", ["mail"])


PASSWORD = "correct horse battery"  # noqa: S105 - a made-up one


@of("POST /v1/users")
async def add_user(stage: Stage, ask: Ask) -> None:
    form = await ask(201, json={"name": "ada", "role": "operator", "queues": ["mail"], "password": PASSWORD})
    assert (form["name"], form["has_password"], "password" in form) == ("ada", True, False)
    (user,) = await stage.engine.users.all()
    assert (user.role, user.queues) == ("operator", ("mail",))
    assert await stage.engine.users.check("ada", PASSWORD) == user
    assert await stage.engine.tokens.all() == []
    assert await acts(stage) == [("users.add", "ada")]


async def user(stage: Stage) -> None:
    await stage.engine.users.add(TokenDraft("ada", "viewer"), None, Actor("ann"))


@of("GET /v1/users")
async def list_users(stage: Stage, ask: Ask) -> None:
    await user(stage)
    assert [(one["name"], one["has_password"]) for one in (await ask())["items"]] == [("ada", False)]


@of("GET /v1/users/{id}")
async def get_user(stage: Stage, ask: Ask) -> None:
    await user(stage)
    assert (await ask(name="ada"))["role"] == "viewer"
    await ask(404, name="bob")


@of("DELETE /v1/users/{id}")
async def remove_user(stage: Stage, ask: Ask) -> None:
    await user(stage)
    await ask(name="ada")
    assert await stage.engine.users.all() == []


@of("POST /v1/users/{id}/password")
async def change_password(stage: Stage, ask: Ask) -> None:
    await user(stage)
    assert (await ask(name="ada", json={"password": PASSWORD}))["has_password"] is True
    assert await stage.engine.users.check("ada", PASSWORD) is not None
    await ask(422, name="ada", json={"password": "short"})


@of("POST /v1/session")
async def begin_session(stage: Stage, ask: Ask) -> None:
    """This server needs no token; sessions have tests of their own."""
    _, secret = await made(stage)
    assert (await ask(409, headers={"Authorization": f"Bearer {secret}"}))["code"] == "no_token_needed"


@of("DELETE /v1/session")
async def end_session(_stage: Stage, ask: Ask) -> None:
    ask.client.cookies.set("rota_session", "any", domain="127.0.0.1", path="/")
    await ask(204)
    assert not ask.client.cookies, "the server has removed it"
