"""Limits of single tokens: what is beyond them is answered 429, and others are not affected."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from api.environment import ApiEnvironment, api_environment, body_of, problem_of
from rota.api import ApiKey, ApiSettings, Limits
from rota.api.errors import HttpError
from rota.api.token_limits import Quota, TokenLimiter
from rota.core.access import TokenLimits

ROOT = "0123456789abcdef0123456789abcdef"
ADMIN = {"Authorization": f"Bearer {ROOT}"}


@pytest.fixture
async def env() -> AsyncIterator[ApiEnvironment]:
    async with api_environment(ApiSettings(keys=(ApiKey.of("token", ROOT),))) as one:
        yield one


async def given(env: ApiEnvironment, name: str = "slow", **limits: int) -> dict[str, str]:
    form = {"name": name, "role": "admin", "limits": limits}
    made = body_of(await env.client.post("/v1/tokens", json=form, headers=ADMIN), 201)
    assert made["limits"] == limits
    return {"Authorization": f"Bearer {made['secret']}"}


def limited(**limits: int) -> Quota:
    quota = Quota.of_key(ApiKey("slow", b"", limits=TokenLimits(**limits), token_id="abc"))  # noqa: S106 - an id
    assert quota is not None
    return quota


async def test_requests_beyond_the_rate_are_refused_with_the_time_to_wait(env: ApiEnvironment) -> None:
    slow = await given(env, requests_per_second=2)
    other = await given(env, "other", requests_per_second=2)
    statuses = [(await env.client.get("/v1/me", headers=slow)).status_code for _ in range(4)]
    assert statuses[:2] == [200, 200]
    assert 429 in statuses[2:]
    refused = await env.client.get("/v1/me", headers=slow)
    assert problem_of(refused, 429)["code"] == "token_limit"
    assert refused.headers["retry-after"] == "1"
    for headers in (other, ADMIN):
        body_of(await env.client.get("/v1/me", headers=headers))
    metrics = (await env.client.get("/metrics", headers={**ADMIN, "Accept": "text/plain"})).text
    assert 'reason="token_limit"} 0' not in metrics


def test_a_rate_allows_a_second_at_once_and_then_that_many_each_second() -> None:
    now = 100.0
    limiter, key = TokenLimiter(Limits(), lambda: now), limited(requests_per_second=10)

    def taken() -> int:
        count = 0
        while True:
            try:
                limiter.begin(key, {})
            except HttpError:
                return count
            count += 1

    assert taken() == 10
    assert taken() == 0
    now += 0.5
    assert taken() == 5
    now += 100
    assert taken() == 10


def test_bytes_of_requests_under_way_are_limited() -> None:
    limiter, key = TokenLimiter(Limits(body_bytes=1_000)), limited(bytes_in_flight=1_500)
    first = limiter.begin(key, {b"content-length": b"1000"})
    with pytest.raises(HttpError, match="bytes in flight"):
        limiter.begin(key, {b"content-length": b"501"})
    with pytest.raises(HttpError):
        limiter.begin(key, {b"transfer-encoding": b"chunked"})
    second = limiter.begin(key, {b"content-length": b"500"})
    assert limiter.begin(key, {}) == 0
    limiter.end(key, first)
    limiter.end(key, second)
    assert limiter.begin(key, {b"transfer-encoding": b"chunked"}) == 1_000
    assert not limiter._bytes or sum(limiter._bytes.values()) == 1_000


async def test_the_bytes_of_a_refused_request_are_given_back(env: ApiEnvironment) -> None:
    slow = await given(env, bytes_in_flight=40)
    for _ in range(3):
        problem_of(await env.client.post("/v1/jobs", json={"type": 1}, headers=slow), 422)
        body_of(await env.client.post("/v1/jobs", json={"type": "echo"}, headers=slow), 201)
    large = await env.client.post("/v1/jobs", json={"type": "echo", "payload": "x" * 40}, headers=slow)
    assert problem_of(large, 429)["code"] == "token_limit"


async def test_new_streams_are_limited(env: ApiEnvironment) -> None:
    slow = await given(env, streams_per_second=1)
    limiter = env.api.context.token_limiter
    body_of(await env.client.get("/v1/me", headers=slow))
    key = env.api.context.tokens.cached(slow["Authorization"].removeprefix("Bearer ").encode())
    assert key is not None
    quota = Quota.of_key(key)
    assert quota is not None
    limiter.begin_stream(quota)
    refused = await env.client.get("/v1/events/stream", headers=slow)
    assert problem_of(refused, 429)["code"] == "token_limit"
    body_of(await env.client.get("/v1/me", headers=slow))


async def test_a_rotated_token_keeps_its_limits_and_a_limited_one_hands_out_no_more(env: ApiEnvironment) -> None:
    slow = await given(env, requests_per_second=100)
    assert body_of(await env.client.get("/v1/me", headers=slow))["limits"] == {"requests_per_second": 100}
    for limits, status in (({}, 403), ({"requests_per_second": 101}, 403), ({"requests_per_second": 100}, 201)):
        form = {"name": "new", "role": "viewer", "limits": limits}
        response = await env.client.post("/v1/tokens", json=form, headers=slow)
        assert response.status_code == status, response.text
    rotated = body_of(await env.client.post("/v1/tokens/slow/rotate", json={}, headers=ADMIN), 201)
    assert rotated["limits"] == {"requests_per_second": 100}


@pytest.mark.parametrize("limits", [{"requests_per_second": 0}, {"bytes": 1}, {"streams_per_second": "x"}])
async def test_a_wrong_limit_is_refused(env: ApiEnvironment, limits: dict[str, object]) -> None:
    form = {"name": "slow", "role": "viewer", "limits": limits}
    problem_of(await env.client.post("/v1/tokens", json=form, headers=ADMIN), 422)
