"""Every route with every kind of token, kept in each store: what the route declares, and nothing else, is allowed."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import httpx
import pytest

from api.environment import HERE, ApiEnvironment
from api.test_auth import ask, bearer
from builders import ManualClock
from rota.api import ApiKey, ApiSettings, create_app
from rota.api.auth import PUBLIC_PATHS
from rota.api.routes import ROUTES
from rota.brokers.in_store import InStoreBroker
from rota.core.access import QUEUE_ACTIONS, ROLES, Action, TokenDraft
from rota.engine import Engine
from rota.ports.client import Actor
from rota.runtime.store import open_store
from servers.databases import empty_database
from servers.postgres import migrated_database, shared_server

ROOT = "0123456789abcdef0123456789abcdef"
ADMIN = bearer(ROOT)
#: Checked from the path alone, before the handler runs.
BY_PATH = {"queue", "job", "schedule", "none"}


@pytest.fixture(params=["sqlite", "postgres", "mariadb"])
async def env(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[ApiEnvironment]:
    if request.param == "sqlite":
        async with _staged(str(tmp_path_factory.mktemp("access") / "rota.db")) as one:
            yield one
        return
    lent: AbstractAsyncContextManager[str] = (
        empty_database() if request.param == "mariadb" else migrated_database(shared_server())
    )
    async with lent as url, _staged(url) as one:
        yield one


@asynccontextmanager
async def _staged(url: str) -> AsyncIterator[ApiEnvironment]:
    store = await open_store(url)
    broker = InStoreBroker(store)
    engine = Engine(store, broker)
    await engine.upkeep.timetable()
    api = create_app(engine, settings=ApiSettings(keys=(ApiKey.of("token", ROOT),)))
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app=api), base_url=HERE) as client:
        yield ApiEnvironment(ManualClock(), store, engine, api, client)
    await api.aclose()
    await broker.close()
    await store.close()


async def created(env: ApiEnvironment, name: str, **fields: object) -> tuple[str, str]:
    token, secret = await env.engine.tokens.create(TokenDraft(name, **fields), Actor("ann"))  # type: ignore[arg-type]
    return token.id, secret


async def test_every_route_opens_to_the_tokens_with_its_action_and_to_no_other(
    env: ApiEnvironment, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rota.api.token_cache.MOST_FAILURES", 1_000_000)
    secrets = {role: (await created(env, role, role=role))[1] for role in ROLES}
    revoked = (await created(env, "revoked", role="admin"))[1]
    await env.engine.tokens.revoke("revoked", Actor("ann"))
    expired_id, expired = await created(env, "expired", role="admin", expires_at=datetime.now(UTC) + timedelta(hours=1))
    (token,) = await env.store.tokens(ids=[expired_id])
    await env.store.put_tokens([replace(token, expires_at=datetime.now(UTC) - timedelta(seconds=1))])
    wrong = secrets["admin"][:-1] + ("0" if secrets["admin"][-1] != "0" else "1")
    asked = 0
    for route in ROUTES:
        where = f"{route.method} {route.path}"
        is_open = route.path in PUBLIC_PATHS
        for headers in ({}, bearer(wrong), bearer(expired), bearer(revoked)):
            assert (await ask(env, route, headers) == 401) != is_open, where
            asked += 1
        for role, secret in secrets.items():
            status = await ask(env, route, bearer(secret))
            may = is_open or route.action is Action.SIGNED_IN or route.action in ROLES[role]
            assert (status not in {401, 403}) == may, (where, role, status)
            asked += 1
    assert asked == len(ROUTES) * (4 + len(ROLES))


async def test_a_token_for_another_queue_reaches_nothing_by_a_path(env: ApiEnvironment) -> None:
    _, secret = await created(env, "elsewhere", role="admin", queues=("elsewhere",))
    answer = await env.client.post("/v1/jobs", json={"queue": "mail"}, headers=ADMIN)
    job_id = answer.json()["id"]
    draft = {"name": "daily", "cron": "@every 1h", "job": {"type": "x", "queue": "mail"}}
    made = await env.client.post("/v1/schedules", json=draft, headers=ADMIN)
    assert made.status_code == 201, made.text
    asked = 0
    for route in ROUTES:
        if route.action not in QUEUE_ACTIONS or route.queue_check.value not in BY_PATH:
            continue
        name = {"queue": "mail", "schedule": "daily"}.get(route.queue_check.value, job_id)
        path = route.path.replace("{id}", name).replace("{name}", name)
        response = await env.client.request(route.method, path, headers=bearer(secret))
        assert response.status_code in {403, 404}, (route.method, path, response.text)
        asked += 1
    assert asked > 20
