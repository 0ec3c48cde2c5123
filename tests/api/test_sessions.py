"""Browser sessions: what the cookie is, what ends a session, and what other sites can do with it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import timedelta

import httpx
import pytest

from api.environment import ApiEnvironment, api_environment, body_of, problem_of
from rota.api import ApiKey, ApiSettings
from rota.api.sessions import LASTS
from rota.core.access import TokenDraft
from rota.ports.client import Actor

ROOT = "0123456789abcdef0123456789abcdef"
OURS = {"Sec-Fetch-Site": "same-origin"}


@pytest.fixture
async def env() -> AsyncIterator[ApiEnvironment]:
    async with api_environment(ApiSettings(keys=(ApiKey.of("token", ROOT),))) as one:
        yield one


async def begun(env: ApiEnvironment, token: str = ROOT, **headers: str) -> str:
    """Begin a session, and give the header that the browser was sent."""
    response = await env.client.post("/v1/session", headers={"Authorization": f"Bearer {token}", **OURS, **headers})
    body_of(response, 201)
    env.client.cookies.clear()
    return response.headers["set-cookie"]


def cookie(header: str) -> dict[str, str]:
    return {"Cookie": header.partition(";")[0], **OURS}


async def created(env: ApiEnvironment, draft: TokenDraft) -> tuple[str, str]:
    token, secret = await env.engine.tokens.create(draft, Actor("ann"))
    return token.id, secret


async def test_a_session_may_do_what_its_token_may(env: ApiEnvironment) -> None:
    _, secret = await created(env, TokenDraft("eve", "viewer", queues=("mail",)))
    session = cookie(await begun(env, secret))
    mine = body_of(await env.client.get("/v1/me", headers=session))
    assert (mine["name"], mine["role"], mine["queues"]) == ("eve", "viewer", ["mail"])
    assert mine["session_expires_at"] is not None
    body_of(await env.client.get("/v1/jobs?queue=mail", headers=session))
    refused = problem_of(await env.client.post("/v1/queues/mail/pause", headers=session), 403)
    assert "queues.pause" in refused["detail"]
    problem_of(await env.client.get("/v1/jobs?queue=other", headers=session), 403)
    by_token = body_of(await env.client.get("/v1/me", headers={"Authorization": f"Bearer {secret}"}))
    assert by_token["session_expires_at"] is None


async def test_the_cookie_is_out_of_reach_of_scripts_and_other_sites_and_has_no_token_in_it(
    env: ApiEnvironment,
) -> None:
    header = await begun(env)
    assert "; HttpOnly; SameSite=Strict" in header
    assert "Max-Age=43200" in header
    assert "Secure" not in header
    assert ROOT not in header
    assert "; Path=/;" in header


async def test_over_tls_the_cookie_is_secure() -> None:
    settings = ApiSettings(keys=(ApiKey.of("token", ROOT),), proxies=("127.0.0.0/8",))
    async with api_environment(settings) as env:
        assert (await begun(env, **{"X-Forwarded-Proto": "https"})).endswith("; Secure")


async def test_a_session_ends_by_itself_and_cannot_be_made_longer(env: ApiEnvironment) -> None:
    session = cookie(await begun(env))
    env.clock.move(LASTS - timedelta(seconds=5))
    body_of(await env.client.get("/v1/me", headers=session))
    problem_of(await env.client.post("/v1/session", headers=session), 401)
    env.clock.move(timedelta(seconds=10))
    problem_of(await env.client.get("/v1/me", headers=session), 401)


async def test_a_session_ends_with_its_token(env: ApiEnvironment) -> None:
    _, revoked = await created(env, TokenDraft("revoked", "viewer"))
    _, expiring = await created(env, TokenDraft("expiring", "viewer", expires_at=env.clock() + timedelta(hours=1)))
    first, second = cookie(await begun(env, revoked)), cookie(await begun(env, expiring))
    for session in (first, second):
        body_of(await env.client.get("/v1/me", headers=session))
    await env.client.delete("/v1/tokens/revoked", headers={"Authorization": f"Bearer {ROOT}"})
    problem_of(await env.client.get("/v1/me", headers=first), 401)
    env.clock.move(timedelta(hours=1))
    problem_of(await env.client.get("/v1/me", headers=second), 401)


async def test_a_changed_bootstrap_token_ends_all_sessions(env: ApiEnvironment) -> None:
    token_id, secret = await created(env, TokenDraft("eve", "viewer"))
    sessions = [cookie(await begun(env)), cookie(await begun(env, secret))]
    async with api_environment(ApiSettings(keys=(ApiKey.of("token", ROOT[::-1]),))) as other:
        for session in sessions:
            problem_of(await other.client.get("/v1/me", headers=session), 401)
    assert token_id in str(sessions)


async def test_a_forged_cookie_is_no_session(env: ApiEnvironment) -> None:
    token_id, secret = await created(env, TokenDraft("eve", "viewer"))
    mine = cookie(await begun(env, secret))["Cookie"].removeprefix("rota_session=")
    seconds, signature, _ = mine.split(".")
    later = str(int(seconds) + 3600)
    forgeries = [
        f"{seconds}.{signature}.=token",
        f"{later}.{signature}.{token_id}",
        f"{seconds}.{'0' * 64}.{token_id}",
        f"{seconds}..{token_id}",
        f"{signature}.{seconds}.{token_id}",
        f"{'9' * 30}.{signature}.{token_id}",
        f"{seconds}.{signature}",
        "",
        "...",
        "é.é.é",
    ]
    for forged in forgeries:
        headers = [(b"cookie", f"rota_session={forged}".encode()), (b"sec-fetch-site", b"same-origin")]
        problem_of(await env.client.get("/v1/me", headers=headers), 401)
    body_of(await env.client.get("/v1/me", headers={"Cookie": f"a=1; rota_session={mine}; b=2"}))
    problem_of(await env.client.get("/v1/me", headers={"Cookie": f"not_rota_session={mine}"}), 401)


CROSS_SITE: list[dict[str, str]] = [
    {},
    {"Sec-Fetch-Site": "cross-site"},
    {"Sec-Fetch-Site": "same-site"},
    {"Origin": "https://evil.example"},
    {"Origin": "null"},
    {"Origin": "http://127.0.0.1:1"},
]


@pytest.mark.parametrize("headers", CROSS_SITE)
async def test_a_page_of_another_site_changes_nothing(env: ApiEnvironment, headers: dict[str, str]) -> None:
    session = {"Cookie": cookie(await begun(env))["Cookie"]}
    refused = problem_of(await env.client.post("/v1/queues/mail/pause", headers={**session, **headers}), 403)
    assert refused["code"] == "cross_site"
    host = httpx.URL(str(env.client.base_url)).netloc.decode()
    for own in (OURS, {"Origin": f"http://{host}"}):
        body_of(await env.client.post("/v1/queues/mail/pause", headers={**session, **own}))


async def test_to_sign_out_removes_the_cookie(env: ApiEnvironment) -> None:
    session = cookie(await begun(env))
    response = await env.client.delete("/v1/session", headers=session)
    assert response.status_code == 204
    assert response.headers["set-cookie"].startswith("rota_session=; Path=/; Max-Age=0; HttpOnly")


async def test_the_ledger_names_the_token_of_a_session(env: ApiEnvironment) -> None:
    _, secret = await created(env, TokenDraft("ann", "operator"))
    session = cookie(await begun(env, secret))
    body_of(await env.client.post("/v1/queues/mail/pause", headers={**session, "Rota-Client": "ui"}))
    entry = next(one for one in await env.store.ledger() if one.action == "queues.pause" or "pause" in one.action)
    assert (entry.actor, entry.surface) == ("ann", "ui")
