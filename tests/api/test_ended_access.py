"""Streams and long polls end with the token or the session that began them, without a further request."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import datetime, timedelta

import httpx
import pytest

from api.environment import ApiEnvironment, api_environment, served
from builders import new_job
from rota.api import ApiKey, ApiSettings
from rota.api.token_cache import TokenCache
from rota.core.access import TokenDraft
from rota.core.errors import StoreUnavailable
from rota.core.ids import to_text
from rota.ports.client import Actor

ROOT = "0123456789abcdef0123456789abcdef"
ANN = Actor("ann")
#: Instead of the four seconds of the server, so that the tests are quick.
FRESH_SECONDS = 0.05
End = Callable[[], Awaitable[object]]
STREAMS = ("/v1/events/stream", "/v1/events/stream?topics=jobs,workers", "/v1/jobs/{id}/events")
POLLS = {
    "claim": ("POST", "/v1/leases:claim", {"worker_id": "w", "boot_id": "b", "queues": ["empty"], "wait": 30}),
    "claim with an id": (
        "POST",
        "/v1/leases:claim",
        {"worker_id": "w", "boot_id": "b", "queues": ["empty"], "wait": 30, "claim_id": "c"},
    ),
    "older claim": ("GET", "/next-job?queue=empty&wait=30", None),
    "watch": ("POST", "/v1/leases:watch", {"worker_id": "w", "wait": 30}),
    "result": ("GET", "/v1/jobs/{id}/result?wait=30", None),
}


@pytest.fixture(autouse=True)
def fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rota.api.token_cache.FRESH_SECONDS", FRESH_SECONDS)


@pytest.fixture(autouse=True)
def waiting(monkeypatch: pytest.MonkeyPatch) -> asyncio.Event:
    """Is set when the server has begun to wait for a caller."""
    began, end_of = asyncio.Event(), TokenCache.end_of

    async def noted(self: TokenCache, token_id: str, expires_at: datetime | None) -> None:
        began.set()
        await end_of(self, token_id, expires_at)

    monkeypatch.setattr(TokenCache, "end_of", noted)
    return began


@pytest.fixture
async def env() -> AsyncIterator[ApiEnvironment]:
    async with api_environment(ApiSettings(keys=(ApiKey.of("token", ROOT),))) as one:
        yield one


@pytest.fixture
async def remote(env: ApiEnvironment) -> AsyncIterator[httpx.AsyncClient]:
    async with served(env.api) as address, httpx.AsyncClient(base_url=address, timeout=20) as client:
        yield client


async def token(env: ApiEnvironment) -> tuple[dict[str, str], End]:
    _, secret = await env.engine.tokens.create(TokenDraft("ci", "admin"), ANN)
    return {"Authorization": f"Bearer {secret}"}, lambda: env.engine.tokens.revoke("ci", ANN)


async def expiring_token(env: ApiEnvironment) -> tuple[dict[str, str], End]:
    expires_at = env.clock.moment + timedelta(hours=1)
    _, secret = await env.engine.tokens.create(TokenDraft("ci", "admin", expires_at=expires_at), ANN)

    async def end() -> None:
        env.clock.move(timedelta(hours=2))

    return {"Authorization": f"Bearer {secret}"}, end


async def session(env: ApiEnvironment, headers: dict[str, str]) -> dict[str, str]:
    begun = await env.client.post("/v1/session", headers=headers)
    return {"Cookie": begun.headers["set-cookie"].partition(";")[0], "Sec-Fetch-Site": "same-origin"}


async def session_of_a_revoked_token(env: ApiEnvironment) -> tuple[dict[str, str], End]:
    headers, end = await token(env)
    return await session(env, headers), end


async def session_of_the_bootstrap_token(env: ApiEnvironment) -> tuple[dict[str, str], End]:
    async def end() -> None:
        env.clock.move(timedelta(hours=13))

    return await session(env, {"Authorization": f"Bearer {ROOT}"}), end


Access = Callable[[ApiEnvironment], Awaitable[tuple[dict[str, str], End]]]
OTHERS: tuple[Access, ...] = (expiring_token, session_of_a_revoked_token, session_of_the_bootstrap_token)


def name_of(one: object) -> str:
    return getattr(one, "__name__", str(one))


@pytest.mark.parametrize(
    ("path", "access"), [(path, token) for path in STREAMS] + [(STREAMS[0], one) for one in OTHERS], ids=name_of
)
async def test_a_stream_ends_with_its_token(
    env: ApiEnvironment, remote: httpx.AsyncClient, path: str, access: Access
) -> None:
    job = await env.engine.jobs.submit([new_job()])
    path = path.replace("{id}", to_text(job[0].job_id))
    headers, end = await access(env)
    async with remote.stream("GET", path, headers=headers) as response:
        assert response.status_code == 200
        lines = response.aiter_lines()
        await anext(lines)
        await end()
        async with asyncio.timeout(5):
            async for _ in lines:
                pass
    assert (await remote.get("/v1/jobs", headers=headers)).status_code == 401


@pytest.mark.parametrize(
    ("poll", "access"), [(poll, token) for poll in POLLS] + [("claim", one) for one in OTHERS], ids=name_of
)
async def test_a_long_poll_ends_with_its_token(
    env: ApiEnvironment, remote: httpx.AsyncClient, waiting: asyncio.Event, poll: str, access: Access
) -> None:
    job = await env.engine.jobs.submit([new_job()])
    method, path, body = POLLS[poll]
    headers, end = await access(env)
    asking = asyncio.create_task(
        remote.request(method, path.replace("{id}", to_text(job[0].job_id)), json=body, headers=headers)
    )
    await waiting.wait()
    done, _ = await asyncio.wait((asking,), timeout=3 * FRESH_SECONDS)
    assert not done, "it goes on while the token is valid"
    await end()
    async with asyncio.timeout(5):
        response = await asking
    assert response.status_code in {200, 202, 204}
    assert response.json().get("jobs", []) == [] if response.content else True


async def test_a_claim_gets_no_job_after_its_token_was_revoked(
    env: ApiEnvironment, remote: httpx.AsyncClient, waiting: asyncio.Event
) -> None:
    headers, end = await token(env)
    _, path, body = POLLS["claim"]
    asking = asyncio.create_task(remote.post(path, json=body, headers=headers))
    await waiting.wait()
    await end()
    async with asyncio.timeout(5):
        await asking
    await env.engine.jobs.submit([new_job(queue="empty")])
    assert (await remote.post(path, json=body, headers=headers)).status_code == 401
    (job,) = await env.engine.get([(await env.engine.jobs.submit([new_job(queue="empty")]))[0].job_id])
    assert job.fence == 0


async def test_a_stream_goes_on_while_the_store_cannot_be_read(
    env: ApiEnvironment, remote: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    headers, end = await token(env)
    looks, has_failed = [0], asyncio.Event()

    async def fail(**_: object) -> None:
        looks[0] += 1
        if looks[0] == 3:
            has_failed.set()
        raise StoreUnavailable("away")

    monkeypatch.setattr("rota.api.token_cache._RETRY_SECONDS", 0.05)
    async with remote.stream("GET", "/v1/events/stream?topics=jobs", headers=headers) as response:
        lines = response.aiter_lines()
        await anext(lines)
        with monkeypatch.context() as away:
            away.setattr(env.store, "tokens", fail)
            async with asyncio.timeout(5):
                await has_failed.wait()
        await end()
        async with asyncio.timeout(5):
            async for _ in lines:
                pass
