"""Circuit breakers over HTTP: reports of workers, options of submissions, and refusals."""

from __future__ import annotations

from typing import Any

import pytest

from api.environment import ApiEnvironment, body_of, problem_of
from builders import SECOND
from rota.core.breaker import BreakerRule, CircuitBreaker

STRIPE = CircuitBreaker("stripe", BreakerRule(least=2), tasks=(("shop", "mail"),))


async def _report(env: ApiEnvironment, jobs: list[dict[str, Any]], **fields: Any) -> None:  # noqa: ANN401 - any field
    reports = [{"id": job["id"], "fence": job["fence"], **fields} for job in jobs]
    body_of(await env.client.post("/v1/leases:settle", json={"reports": reports}))


async def test_what_workers_report_opens_and_closes_a_breaker(env: ApiEnvironment) -> None:
    await env.store.put_breaker(STRIPE)
    for _ in range(3):
        await env.submit(type="mail")
    failed = {"outcome": "failed", "error": {"kind": "ConnectionError", "message": "refused"}, "breaker": "stripe"}
    jobs = await env.claim(max=3)
    await _report(env, jobs[:1], **failed)
    assert body_of(await env.client.get("/v1/breakers/stripe"))["failed"] == 0
    await _report(env, jobs[1:], **failed, dependency=True)
    shown = body_of(await env.client.get("/v1/breakers/stripe"))
    assert (shown["state"], shown["opened"], shown["reason"]) == ("open", 1, "2 of 2 calls failed within 30s")
    assert body_of(await env.client.get(f"/v1/jobs/{jobs[1]['id']}"))["attempts"] == 0
    body_of(await env.client.post("/v1/breakers/stripe/open", json={"open_for": "1s"}))
    await env.submit(type="mail")
    env.clock.move(2 * SECOND)
    (probe,) = await env.claim(max=5)
    await _report(env, [probe], outcome="succeeded", breaker="stripe")
    assert body_of(await env.client.get("/v1/breakers/stripe"))["state"] == "closed"


async def test_a_job_may_have_a_breaker_of_its_own(env: ApiEnvironment) -> None:
    job = {
        "type": "http",
        "payload": {"url": "https://api.shop/x"},
        "breaker": "{host}",
        "on_success": {"breaker": "b"},
    }
    made = body_of(await env.client.post("/v1/jobs", json=job), 201)
    assert (made["concurrency_key"], made["on_success"]["concurrency_key"]) == ("breaker:api.shop", "breaker:b")


@pytest.mark.parametrize(
    ("job", "field"),
    [
        ({"breaker": "{host}"}, "breaker"),
        ({"breaker": "x", "concurrency_key": "k"}, "breaker"),
        ({"breaker": "x" * 196}, "breaker"),
        ({"retry": {"budget": 2}}, "retry.budget"),
        ({"retry": {"budget": 0.1, "budget_window": "2h"}}, "retry.budget_window"),
    ],
)
async def test_a_bad_breaker_or_budget_of_a_job_is_refused(
    env: ApiEnvironment, job: dict[str, Any], field: str
) -> None:
    problem = problem_of(await env.client.post("/v1/jobs", json=job), 422)
    assert [one["field"] for one in problem["errors"]] == [field]


@pytest.mark.parametrize(
    ("path", "body", "status"),
    [
        ("stripe/open", {"until": "2001-01-01T00:00:00Z"}, 422),
        ("stripe/open", {"until": "2099-01-01T00:00:00Z", "open_for": "1h"}, 422),
        ("stripe/open", {"open_for": 0}, 422),
        ("stripe/open", {"open_for": "soon"}, 422),
        ("stripe/close", {"until": "2099-01-01T00:00:00Z"}, 422),
        (f"{'x' * 193}/open", {}, 422),
    ],
)
async def test_a_bad_change_is_refused(env: ApiEnvironment, path: str, body: dict[str, Any], status: int) -> None:
    problem_of(await env.client.post(f"/v1/breakers/{path}", json=body), status)


async def test_a_breaker_that_is_not_known_is_not_found(env: ApiEnvironment) -> None:
    problem_of(await env.client.get("/v1/breakers/none"), 404)


async def test_limits_and_breakers_are_not_mixed_up(env: ApiEnvironment) -> None:
    await env.store.put_breaker(STRIPE)
    body_of(await env.client.post("/v1/breakers/stripe/open"))
    (limit,) = body_of(await env.client.get("/v1/limits"))["items"]
    assert (limit["name"], limit["breaker"]) == ("task:mail", "stripe")
    problem_of(await env.client.post("/v1/limits/breaker:stripe/open"), 422)
    attention = body_of(await env.client.get("/v1/attention"))["items"]
    assert "breaker_open" in {one["code"] for one in attention}
    assert "limit_closed" not in {one["code"] for one in attention}
