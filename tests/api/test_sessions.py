"""Browser sessions: what the cookie is, what ends a session, and what other sites can do with it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import timedelta

import httpx
import pytest

from api.staging import Stage, body_of, problem_of, staged
from rota.api import ApiKey, ApiSettings
from rota.api.sessions import LASTS
from rota.core.access import TokenDraft
from rota.ports.client import Actor

ROOT = "0123456789abcdef0123456789abcdef"
OURS = {"Sec-Fetch-Site": "same-origin"}


@pytest.fixture
async def stage() -> AsyncIterator[Stage]:
    async with staged(ApiSettings(keys=(ApiKey.of("token", ROOT),))) as one:
        yield one


async def begun(stage: Stage, token: str = ROOT, **headers: str) -> str:
    """Begin a session, and give the header that the browser was sent."""
    response = await stage.client.post("/v1/session", headers={"Authorization": f"Bearer {token}", **OURS, **headers})
    body_of(response, 201)
    stage.client.cookies.clear()
    return response.headers["set-cookie"]


def cookie(header: str) -> dict[str, str]:
    return {"Cookie": header.partition(";")[0], **OURS}


async def created(stage: Stage, draft: TokenDraft) -> tuple[str, str]:
    token, secret = await stage.engine.tokens.create(draft, Actor("ann"))
    return token.id, secret


async def test_a_session_may_do_what_its_token_may(stage: Stage) -> None:
    _, secret = await created(stage, TokenDraft("eve", "viewer", queues=("mail",)))
    session = cookie(await begun(stage, secret))
    mine = body_of(await stage.client.get("/v1/me", headers=session))
    assert (mine["name"], mine["role"], mine["queues"]) == ("eve", "viewer", ["mail"])
    assert mine["session_expires_at"] is not None
    body_of(await stage.client.get("/v1/jobs?queue=mail", headers=session))
    refused = problem_of(await stage.client.post("/v1/queues/mail/pause", headers=session), 403)
    assert "queues.pause" in refused["detail"]
    problem_of(await stage.client.get("/v1/jobs?queue=other", headers=session), 403)
    by_token = body_of(await stage.client.get("/v1/me", headers={"Authorization": f"Bearer {secret}"}))
    assert by_token["session_expires_at"] is None


async def test_the_cookie_is_out_of_reach_of_scripts_and_other_sites_and_has_no_token_in_it(stage: Stage) -> None:
    header = await begun(stage)
    assert "; HttpOnly; SameSite=Strict" in header
    assert "Max-Age=43200" in header
    assert "Secure" not in header
    assert ROOT not in header
    assert "; Path=/;" in header


async def test_over_tls_the_cookie_is_secure() -> None:
    settings = ApiSettings(keys=(ApiKey.of("token", ROOT),), proxies=("127.0.0.0/8",))
    async with staged(settings) as stage:
        assert (await begun(stage, **{"X-Forwarded-Proto": "https"})).endswith("; Secure")


async def test_a_session_ends_by_itself_and_cannot_be_made_longer(stage: Stage) -> None:
    session = cookie(await begun(stage))
    stage.clock.move(LASTS - timedelta(seconds=5))
    body_of(await stage.client.get("/v1/me", headers=session))
    problem_of(await stage.client.post("/v1/session", headers=session), 401)
    stage.clock.move(timedelta(seconds=10))
    problem_of(await stage.client.get("/v1/me", headers=session), 401)


async def test_a_session_ends_with_its_token(stage: Stage) -> None:
    _, revoked = await created(stage, TokenDraft("revoked", "viewer"))
    _, expiring = await created(stage, TokenDraft("expiring", "viewer", expires_at=stage.clock() + timedelta(hours=1)))
    first, second = cookie(await begun(stage, revoked)), cookie(await begun(stage, expiring))
    for session in (first, second):
        body_of(await stage.client.get("/v1/me", headers=session))
    await stage.client.delete("/v1/tokens/revoked", headers={"Authorization": f"Bearer {ROOT}"})
    problem_of(await stage.client.get("/v1/me", headers=first), 401)
    stage.clock.move(timedelta(hours=1))
    problem_of(await stage.client.get("/v1/me", headers=second), 401)


async def test_a_changed_bootstrap_token_ends_all_sessions(stage: Stage) -> None:
    token_id, secret = await created(stage, TokenDraft("eve", "viewer"))
    sessions = [cookie(await begun(stage)), cookie(await begun(stage, secret))]
    async with staged(ApiSettings(keys=(ApiKey.of("token", ROOT[::-1]),))) as other:
        for session in sessions:
            problem_of(await other.client.get("/v1/me", headers=session), 401)
    assert token_id in str(sessions)


async def test_a_forged_cookie_is_no_session(stage: Stage) -> None:
    token_id, secret = await created(stage, TokenDraft("eve", "viewer"))
    mine = cookie(await begun(stage, secret))["Cookie"].removeprefix("rota_session=")
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
        problem_of(await stage.client.get("/v1/me", headers=headers), 401)
    body_of(await stage.client.get("/v1/me", headers={"Cookie": f"a=1; rota_session={mine}; b=2"}))
    problem_of(await stage.client.get("/v1/me", headers={"Cookie": f"not_rota_session={mine}"}), 401)


CROSS_SITE: list[dict[str, str]] = [
    {},
    {"Sec-Fetch-Site": "cross-site"},
    {"Sec-Fetch-Site": "same-site"},
    {"Origin": "https://evil.example"},
    {"Origin": "null"},
    {"Origin": "http://127.0.0.1:1"},
]


@pytest.mark.parametrize("headers", CROSS_SITE)
async def test_a_page_of_another_site_changes_nothing(stage: Stage, headers: dict[str, str]) -> None:
    session = {"Cookie": cookie(await begun(stage))["Cookie"]}
    refused = problem_of(await stage.client.post("/v1/queues/mail/pause", headers={**session, **headers}), 403)
    assert refused["code"] == "cross_site"
    host = httpx.URL(str(stage.client.base_url)).netloc.decode()
    for own in (OURS, {"Origin": f"http://{host}"}):
        body_of(await stage.client.post("/v1/queues/mail/pause", headers={**session, **own}))


async def test_to_sign_out_removes_the_cookie(stage: Stage) -> None:
    session = cookie(await begun(stage))
    response = await stage.client.delete("/v1/session", headers=session)
    assert response.status_code == 204
    assert response.headers["set-cookie"].startswith("rota_session=; Path=/; Max-Age=0; HttpOnly")


async def test_the_ledger_names_the_token_of_a_session(stage: Stage) -> None:
    _, secret = await created(stage, TokenDraft("ann", "operator"))
    session = cookie(await begun(stage, secret))
    body_of(await stage.client.post("/v1/queues/mail/pause", headers={**session, "Rota-Client": "ui"}))
    entry = next(one for one in await stage.store.ledger() if one.action == "queues.pause" or "pause" in one.action)
    assert (entry.actor, entry.surface) == ("ann", "ui")
