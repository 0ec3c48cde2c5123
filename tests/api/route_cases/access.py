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
