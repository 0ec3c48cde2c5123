"""One key, one job, however often and in whatever form the same request comes."""

from __future__ import annotations

import asyncio
from pathlib import Path

from api.staging import Stage, body_of, problem_of, staged


async def test_the_same_request_in_another_order_and_form_is_the_same(stage: Stage) -> None:
    first = await stage.client.post(
        "/v1/jobs", json={"type": "a", "payload": {"x": 1, "y": 2}}, headers={"Idempotency-Key": "k"}
    )
    job = body_of(first, 201)
    for path, headers, content in (
        ("/v1/jobs", {"Idempotency-Key": '"k"'}, '{"payload": {"y":2,  "x":1}, "type":"a"}'),
        ("/jobs", {}, '{"type":"a","payload":{"x":1,"y":2},"dedupe_key":"k"}'),
        ("/tasks", {"Idempotency-Key": "k"}, '{"type":"a","payload":{"x":1,"y":2},"idempotency_key":"k"}'),
    ):
        typed = {"Content-Type": "application/json", **headers}
        again = await stage.client.post(path, content=content, headers=typed)
        assert body_of(again)["id"] == job["id"]
        assert again.headers["idempotent-replayed"] == "true"
    assert "idempotent-replayed" not in first.headers
    assert len((await stage.client.get("/jobs")).json()) == 1


async def test_times_in_another_zone_are_the_same_request(stage: Stage) -> None:
    first = await stage.submit(idempotency_key="k", run_at="2026-04-01T12:00:00Z")
    again = await stage.client.post("/jobs", json={"dedupe_key": "k", "due_at": "2026-04-01T14:00:00+02:00"})
    assert body_of(again)["id"] == first["id"]


async def test_another_request_with_the_same_key_is_refused(stage: Stage) -> None:
    job = await stage.submit(idempotency_key="k", payload=1)
    refused = problem_of(await stage.client.post("/jobs", json={"idempotency_key": "k", "payload": 2}), 422)
    assert refused["code"] == "key_reused"
    assert (await stage.get(job["id"]))["payload"] == 1


async def test_ten_at_once_with_one_key_make_one_job(tmp_path: Path) -> None:
    async with staged(location=str(tmp_path / "rota.db")) as stage:
        requests = [stage.client.post("/jobs", json={"type": "a"}, headers={"Idempotency-Key": "k"}) for _ in range(10)]
        answers = await asyncio.gather(*requests)
        assert sorted(answer.status_code for answer in answers) == [200] * 9 + [201]
        assert len({answer.json()["id"] for answer in answers}) == 1
        assert body_of(await stage.client.get("/stats"))["queue_depth"] == 1


async def test_a_recurring_submission_is_safe_to_repeat_too(stage: Stage) -> None:
    request = {"type": "report", "cron": "@daily", "idempotency_key": "k"}
    schedule = body_of(await stage.client.post("/tasks", json=request), 201)
    again = await stage.client.post("/tasks", json=request)
    assert body_of(again)["id"] == schedule["id"]
    assert again.headers["idempotent-replayed"] == "true"
    problem_of(await stage.client.post("/tasks", json={**request, "cron": "@hourly"}), 422)
    assert len(body_of(await stage.client.get("/v1/schedules"))["items"]) == 1


async def test_a_key_in_the_header_is_checked_like_any_name(stage: Stage) -> None:
    for key in ("", '""', "a" * 201):
        problem_of(await stage.client.post("/jobs", json={}, headers={"Idempotency-Key": key}), 422)
