"""Saved views over HTTP: whose they are, who may share them, and what is refused."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from api.environment import ApiEnvironment, api_environment, body_of
from rota.api import ApiKey, ApiSettings
from rota.core.access import ROLES
from rota.core.saved_view import MOST_VIEWS

SECRETS = {"ann": "ann-0123456789abcdef", "vic": "vic-0123456789abcdef", "bot": "bot-0123456789abcdef"}
KEYS = tuple(
    ApiKey.of(name, SECRETS[name], ROLES[role])
    for name, role in (("ann", "operator"), ("vic", "viewer"), ("bot", "worker"))
)
LATE = {"query": "q=late%3A%3E30s&columns=queue"}


def of(name: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {SECRETS[name]}"}


@pytest.fixture
async def env() -> AsyncIterator[ApiEnvironment]:
    async with api_environment(ApiSettings(keys=KEYS)) as one:
        yield one


async def names(env: ApiEnvironment, who: str) -> list[tuple[str, bool]]:
    views = body_of(await env.client.get("/v1/views", headers=of(who)))["items"]
    return [(one["name"], one["is_shared"]) for one in views]


async def save(env: ApiEnvironment, who: str, name: str, **body: object) -> int:
    response = await env.client.put(f"/v1/views/{name}", json={**LATE, **body}, headers=of(who))
    return response.status_code


async def test_a_view_is_seen_by_its_owner_only_and_a_shared_one_by_everybody(env: ApiEnvironment) -> None:
    assert [await save(env, "ann", "mine"), await save(env, "ann", "ours", is_shared=True)] == [200, 200]
    assert await save(env, "vic", "mine", query="status=dead") == 200
    assert await names(env, "ann") == [("ours", True), ("mine", False)]
    assert await names(env, "vic") == [("ours", True), ("mine", False)]
    gone = await env.client.delete("/v1/views/mine", headers=of("vic"))
    assert (gone.status_code, await names(env, "ann")) == (204, [("ours", True), ("mine", False)])
    assert [(entry.actor, entry.action, entry.target) for entry in await env.store.ledger()] == [
        ("ann", "views.save", "ours")
    ]


async def test_a_viewer_keeps_views_of_its_own_and_neither_shares_nor_removes_shared_ones(env: ApiEnvironment) -> None:
    assert await save(env, "vic", "mine") == 200
    assert await save(env, "vic", "ours", is_shared=True) == 403
    assert await save(env, "ann", "ours", is_shared=True) == 200
    refused = await env.client.delete("/v1/views/ours", params={"is_shared": "true"}, headers=of("vic"))
    assert (refused.status_code, "jobs.operate" in refused.text) == (403, True)
    missing = await env.client.delete("/v1/views/ours", headers=of("vic"))
    assert missing.status_code == 404
    assert (await env.client.get("/v1/views", headers=of("bot"))).status_code == 403
    assert await names(env, "vic") == [("ours", True), ("mine", False)]


async def test_where_no_token_is_needed_every_view_is_shared() -> None:
    async with api_environment() as env:
        view = body_of(await env.client.put("/v1/views/late", json=LATE))
        assert (view["is_shared"], view["saved_by"]) == (True, "anonymous")
        again = body_of(await env.client.get("/v1/views"))["items"]
        assert again == [view]


async def test_a_read_only_server_shows_views_and_keeps_none() -> None:
    async with api_environment(ApiSettings(keys=KEYS, read_only=True)) as env:
        assert await save(env, "ann", "mine") == 403
        assert await names(env, "ann") == []


async def test_there_are_at_most_a_hundred_views_of_an_owner(env: ApiEnvironment) -> None:
    for number in range(MOST_VIEWS):
        assert await save(env, "vic", f"view {number}") == 200
    assert await save(env, "vic", "view 7", query="status=dead") == 200, "one that is there may be replaced"
    refused = await env.client.put("/v1/views/more", json=LATE, headers=of("vic"))
    assert (refused.status_code, "remove one first" in refused.text) == (409, True)
    assert await save(env, "ann", "mine") == 200
