"""Guarded steps over HTTP: recorded under a fence, listed, and resolved by an operator."""

from __future__ import annotations

from typing import Any

from api.environment import ApiEnvironment, body_of, problem_of


async def held(env: ApiEnvironment) -> dict[str, Any]:
    await env.submit(type="mail", max_attempts=1)
    (job,) = await env.claim()
    return job


async def step(env: ApiEnvironment, job: dict[str, Any], act: str, **fields: Any) -> dict[str, Any]:  # noqa: ANN401
    request = {"id": job["id"], "fence": job["fence"], "key": "pay", "act": act, **fields}
    return body_of(await env.client.post("/v1/leases:step", json=request))


async def test_intent_and_outcome_are_written_down_and_shown(env: ApiEnvironment) -> None:
    job = await held(env)
    begun = await step(env, job, "intend")
    assert (begun["holds"], begun["is_new"], begun["step"]["ended_at"]) == (True, True, None)
    done = await step(env, job, "conclude", outcome='{"paid": 1}')
    assert done["step"]["result"] == {"paid": 1}
    assert (await step(env, job, "intend"))["is_new"] is False
    (shown,) = body_of(await env.client.get(f"/v1/jobs/{job['id']}/steps"))["items"]
    assert (shown["key"], shown["result"]) == ("pay", {"paid": 1})


async def test_a_stale_fence_writes_nothing(env: ApiEnvironment) -> None:
    job = await held(env)
    assert await step(env, job, "intend", fence=job["fence"] + 1) == {"holds": False, "is_new": False, "step": None}
    assert body_of(await env.client.get(f"/v1/jobs/{job['id']}/steps"))["items"] == []


async def test_an_intent_can_be_withdrawn(env: ApiEnvironment) -> None:
    job = await held(env)
    await step(env, job, "intend")
    assert (await step(env, job, "withdraw"))["holds"] is True
    assert (await step(env, job, "intend"))["is_new"] is True


async def test_an_operator_resolves_what_is_in_doubt_once(env: ApiEnvironment) -> None:
    job = await held(env)
    await step(env, job, "intend")
    path, word = f"/v1/jobs/{job['id']}/steps:resolve", {"key": "pay", "happened": True, "result": "receipt"}
    assert "the job runs" in problem_of(await env.client.post(path, json=word), 409)["detail"]
    await env.settle(job, "unknown", error={"kind": "OutcomeUnknown", "message": "who knows"})
    (shown,) = body_of(await env.client.post(path, json=word))["items"]
    assert shown["result"] == "receipt"
    assert "nothing is in doubt" in problem_of(await env.client.post(path, json=word), 409)["detail"]
    other = {"key": "other", "happened": False}
    assert "known are pay" in problem_of(await env.client.post(path, json=other), 422)["detail"]
    assert (await env.store.ledger())[0].action == "steps.resolve"


async def test_an_outcome_belongs_to_its_conclusion_and_must_be_json(env: ApiEnvironment) -> None:
    job = await held(env)
    for fields in ({"act": "intend", "outcome": "1"}, {"act": "conclude"}, {"act": "conclude", "outcome": "{"}):
        request = {"id": job["id"], "fence": job["fence"], "key": "pay", **fields}
        problem_of(await env.client.post("/v1/leases:step", json=request), 422)
