"""Edits over HTTP: conditional, refused where a job cannot change, and copies that name their origin."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from api.environment import ApiEnvironment, body_of
from rota.core.ids import JobId, to_number


async def job_of(env: ApiEnvironment, **fields: Any) -> dict[str, Any]:  # noqa: ANN401 - of a job
    job: dict[str, Any] = await env.submit(**fields)
    return job


async def test_an_edit_is_refused_if_the_job_changed_since_it_was_read(env: ApiEnvironment) -> None:
    job = await job_of(env)
    path = f"/v1/jobs/{job['id']}"
    tag = (await env.client.get(path)).headers["etag"]
    env.clock.move(timedelta(seconds=1))
    first = await env.client.patch(path, json={"priority": 9}, headers={"If-Match": tag})
    assert first.status_code == 200
    assert first.headers["etag"] != tag
    env.clock.move(timedelta(seconds=1))
    second = await env.client.patch(path, json={"priority": 8}, headers={"If-Match": first.headers["etag"]})
    assert second.status_code == 200
    late = await env.client.patch(path, json={"priority": 1}, headers={"If-Match": first.headers["etag"]})
    assert (late.status_code, late.json()["code"]) == (412, "precondition_failed")
    assert body_of(await env.client.get(path))["priority"] == 8


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({}, ""),
        ({"priority": 11}, "priority"),
        ({"max_attempts": 0}, "max_attempts"),
        ({"queue": "a b"}, "queue"),
        ({"run_at": "2026-01-01T00:00:00Z", "delay": 5}, "delay"),
        ({"tags": [""]}, "tags"),
        ({"type": "other"}, "type"),
    ],
)
async def test_a_wrong_edit_is_refused_with_its_field_and_changes_nothing(
    env: ApiEnvironment, body: dict[str, Any], field: str
) -> None:
    job = await job_of(env)
    refused = await env.client.patch(f"/v1/jobs/{job['id']}", json=body)
    assert refused.status_code == 422
    assert field in str(refused.json())
    (found,) = await env.store.get([JobId(to_number(job["id"]))])
    assert (found.priority, found.queue, found.tags) == (5, "default", ())


async def test_a_running_or_finished_job_is_not_changed_and_the_answer_says_what_to_do(env: ApiEnvironment) -> None:
    job = await job_of(env)
    await env.claim()
    refused = await env.client.patch(f"/v1/jobs/{job['id']}", json={"priority": 9})
    assert refused.status_code == 409
    assert "cancel it first" in refused.json()["detail"]
    dead = await env.dead()
    refused = await env.client.patch(f"/v1/jobs/{dead['id']}", json={"priority": 9})
    assert "retry it with changes" in refused.json()["detail"]


async def test_a_retry_with_changes_makes_a_new_job_once_for_each_key_and_leaves_the_old_one(
    env: ApiEnvironment,
) -> None:
    dead = await env.dead()
    path, body = f"/v1/jobs/{dead['id']}/retry", {"payload": {"fixed": True}, "priority": 8}
    made = [await env.client.post(path, json=body, headers={"Idempotency-Key": "once"}) for _ in range(2)]
    assert [one.status_code for one in made] == [201, 200]
    first, second = (one.json() for one in made)
    assert first["id"] == second["id"] != dead["id"]
    assert (first["retried_from"], first["payload"], first["priority"]) == (dead["id"], {"fixed": True}, 8)
    other = await env.client.post(path, json={"priority": 7}, headers={"Idempotency-Key": "once"})
    assert other.json()["code"] == "key_reused"
    assert body_of(await env.client.get(f"/v1/jobs/{dead['id']}"))["status"] == "dead"


async def test_a_waiting_job_is_not_retried_with_changes(env: ApiEnvironment) -> None:
    job = await job_of(env)
    refused = await env.client.post(f"/v1/jobs/{job['id']}/retry", json={"priority": 8})
    assert refused.status_code == 409
    assert "duplicate it" in refused.json()["detail"]


async def test_a_submission_is_checked_without_being_stored(env: ApiEnvironment) -> None:
    for body in ({"type": "mail", "priority": 99}, {"type": "mail", "after": ["0000000000001"]}, {"cron": "* * * * *"}):
        assert (await env.client.post("/v1/jobs:validate", json=body)).status_code == 422
    assert (await env.store.census()).total() == 0
