"""One idempotency key creates one job, however often and in whatever form the same request comes."""

from __future__ import annotations

import asyncio
from pathlib import Path

import httpx
import pytest

from api.environment import HERE, ApiEnvironment, api_environment, body_of, fields_of, problem_of
from builders import SECOND, ManualClock, at, key, new_job
from rota.client import Client
from rota.client.transport import Transport
from rota.core.submission import IdempotencyKey
from rota.ports.store import Receipt


async def test_the_same_request_in_another_order_and_form_is_the_same(env: ApiEnvironment) -> None:
    first = await env.client.post(
        "/v1/jobs", json={"type": "a", "payload": {"x": 1, "y": 2}}, headers={"Idempotency-Key": "k"}
    )
    job = body_of(first, 201)
    for path, headers, content in (
        ("/v1/jobs", {"Idempotency-Key": '"k"'}, '{"payload": {"y":2,  "x":1}, "type":"a"}'),
        ("/jobs", {}, '{"type":"a","payload":{"x":1,"y":2},"dedupe_key":"k"}'),
        ("/tasks", {"Idempotency-Key": "k"}, '{"type":"a","payload":{"x":1,"y":2},"idempotency_key":"k"}'),
    ):
        typed = {"Content-Type": "application/json", **headers}
        again = await env.client.post(path, content=content, headers=typed)
        assert body_of(again)["id"] == job["id"]
        assert again.headers["idempotent-replayed"] == "true"
    assert "idempotent-replayed" not in first.headers
    assert len((await env.client.get("/jobs")).json()) == 1


async def test_times_in_another_zone_are_the_same_request(env: ApiEnvironment) -> None:
    first = await env.submit(idempotency_key="k", run_at="2026-04-01T12:00:00Z")
    again = await env.client.post("/jobs", json={"dedupe_key": "k", "due_at": "2026-04-01T14:00:00+02:00"})
    assert body_of(again)["id"] == first["id"]


async def test_another_request_with_the_same_key_is_refused(env: ApiEnvironment) -> None:
    job = await env.submit(idempotency_key="k", payload=1)
    refused = problem_of(await env.client.post("/jobs", json={"idempotency_key": "k", "payload": 2}), 422)
    assert refused["code"] == "key_reused"
    assert (await env.get(job["id"]))["payload"] == 1


async def test_ten_at_once_with_one_key_make_one_job(tmp_path: Path) -> None:
    async with api_environment(location=str(tmp_path / "rota.db")) as env:
        requests = [env.client.post("/jobs", json={"type": "a"}, headers={"Idempotency-Key": "k"}) for _ in range(10)]
        answers = await asyncio.gather(*requests)
        assert sorted(answer.status_code for answer in answers) == [200] * 9 + [201]
        assert len({answer.json()["id"] for answer in answers}) == 1
        assert body_of(await env.client.get("/stats"))["queue_depth"] == 1


async def test_a_recurring_submission_is_safe_to_repeat_too(env: ApiEnvironment) -> None:
    request = {"type": "report", "cron": "@daily", "idempotency_key": "k"}
    schedule = body_of(await env.client.post("/tasks", json=request), 201)
    again = await env.client.post("/tasks", json=request)
    assert body_of(again)["id"] == schedule["id"]
    assert again.headers["idempotent-replayed"] == "true"
    problem_of(await env.client.post("/tasks", json={**request, "cron": "@hourly"}), 422)
    assert len(body_of(await env.client.get("/v1/schedules"))["items"]) == 1


async def test_a_key_in_the_header_is_checked_like_any_name(env: ApiEnvironment) -> None:
    for text in ("", '""', "a" * 201):
        problem_of(await env.client.post("/jobs", json={}, headers={"Idempotency-Key": text}), 422)


def client_of(env: ApiEnvironment, clock: ManualClock) -> Client:
    return Client(Transport([HERE], http_transport=httpx.ASGITransport(app=env.api)), clock=clock)


@pytest.mark.parametrize("idempotency", [None, key("k")], ids=["without a key", "with a key"])
async def test_a_client_that_repeats_a_submission_later_gets_its_job(
    env: ApiEnvironment, idempotency: IdempotencyKey | None
) -> None:
    """What is left until the expiry had become less, which made it another request, and it was refused."""
    clock = ManualClock()
    client = client_of(env, clock)
    job = new_job(expires_at=at(60), idempotency=idempotency)
    (first,) = await client.submit([job])
    clock.move(SECOND)
    (again,) = await client.submit([job])
    assert (first.receipt, again.receipt) == (Receipt.CREATED, Receipt.REPLAYED)
    assert again.job_id == first.job_id


async def test_a_call_with_a_delay_is_the_same_when_it_is_made_again(env: ApiEnvironment) -> None:
    client = client_of(env, ManualClock())
    answers = [await client.submit([new_job(run_at=at(60 + n), idempotency=key("k"))]) for n in range(2)]
    assert [answer.receipt for (answer,) in answers] == [Receipt.CREATED, Receipt.REPLAYED]


async def test_a_client_that_means_another_request_by_a_key_is_refused(env: ApiEnvironment) -> None:
    client = client_of(env, ManualClock())
    await client.submit([new_job(idempotency=key("k"))])
    (answer,) = await client.submit([new_job(idempotency=key("k", b"other"))])
    assert answer.receipt is Receipt.KEY_REUSED


async def test_a_fingerprint_without_a_key_is_refused(env: ApiEnvironment) -> None:
    problem = problem_of(await env.client.post("/v1/jobs", json={"idempotency_fingerprint": "f"}), 422)
    assert fields_of(problem) == {"idempotency_fingerprint"}
