"""What a job takes from the jobs before it: results of completed parents, in order, under the fence of its lease."""

from __future__ import annotations

import json
from typing import Any

import pytest

from builders import after, claim, failure, new_job, new_jobs
from engine.environment import EngineEnvironment
from rota.core.errors import InvalidRequest
from rota.core.ids import to_text
from rota.core.job import Job
from rota.core.outcome import Failed, Lost, Succeeded
from rota.core.settlement import JobError
from rota.core.submission import TAKES, Need, NewJob, Takes, Template
from rota.engine import inputs
from rota.ports.client import Actor


def taking(takes: Takes, *parents: NewJob, need: Need = Need.SUCCESS, **fields: Any) -> NewJob:  # noqa: ANN401
    return new_job(after=after(*parents, need=need), meta={TAKES: takes.value}, queue="next", **fields)


async def finish(env: EngineEnvironment, *results: object) -> None:
    """Complete the claimed jobs of the default queue, oldest first, with these results."""
    held = sorted(await env.engine.claim(claim()), key=lambda job: job.id)
    for job, result in zip(held, results, strict=True):
        await env.report(job, Succeeded(json.dumps(result)))


async def claimed(env: EngineEnvironment, job: NewJob) -> Job:
    (held,) = [one for one in await claim_next(env) if one.id == job.id]
    return held


async def claim_next(env: EngineEnvironment) -> list[Job]:
    return list(await env.engine.claim(claim(queues=("next",))))


async def test_the_result_of_the_only_parent(env: EngineEnvironment) -> None:
    parent = new_job()
    child = taking(Takes.RESULT, parent)
    await env.submit(parent, child)
    await finish(env, {"rows": 3})
    held = await claimed(env, child)
    assert json.loads(await env.engine.inputs.input_of(held.id, held.fence) or "") == {"rows": 3}


async def test_results_come_in_the_order_of_the_parents(env: EngineEnvironment) -> None:
    parents = new_jobs(3)
    child = taking(Takes.RESULTS, parents[2], parents[0], parents[1])
    await env.submit(*parents, child)
    await finish(env, "a", "b", "c")
    held = await claimed(env, child)
    assert json.loads(await env.engine.inputs.input_of(held.id, held.fence) or "") == ["c", "a", "b"]


async def test_a_parent_that_failed_has_no_result(env: EngineEnvironment) -> None:
    good, bad = new_job(), new_job()
    child = taking(Takes.RESULTS, bad, good, need=Need.END)
    await env.submit(good, bad, child)
    held = {job.id: job for job in await env.engine.claim(claim())}
    await env.report(held[good.id], Succeeded("1"))
    await env.report(held[bad.id], Failed(JobError("E", "no"), permanent=True))
    leased = await claimed(env, child)
    assert await env.engine.inputs.input_of(leased.id, leased.fence) == "[null,1]"


async def test_a_job_that_is_run_by_hand_after_a_failure_never_takes_nothing_for_a_result(
    env: EngineEnvironment,
) -> None:
    """Its dependency failed, so it was cancelled; then somebody retried it alone, and not the job before it."""
    parent = new_job()
    child, other = taking(Takes.RESULT, parent), taking(Takes.RESULTS, parent)
    await env.submit(parent, child, other)
    (held,) = await env.engine.claim(claim())
    await env.report(held, Failed(JobError("E", "no"), permanent=True))
    answers = await env.engine.retry([child.id, other.id], Actor("olga"))
    assert [one.refusal for one in answers] == [None, None]
    for leased in await claim_next(env):
        with pytest.raises(InvalidRequest, match=r"has not succeeded \(state: dead\); let that job succeed first"):
            await env.engine.inputs.input_of(leased.id, leased.fence)
    await env.engine.retry([parent.id], Actor("olga"))
    await finish(env, 7)
    assert await env.engine.inputs.input_of(leased.id, leased.fence) == "[7]"


async def test_a_result_of_a_lost_attempt_is_never_passed_on(env: EngineEnvironment) -> None:
    parent = new_job()
    child = taking(Takes.RESULT, parent)
    await env.submit(parent, child)
    (stale,) = await env.engine.claim(claim())
    await env.report(stale, Lost())
    (held,) = await env.engine.claim(claim())
    await env.report(stale, Succeeded('"stale"'))
    assert list(await claim_next(env)) == []
    await env.report(held, Succeeded('"fresh"'))
    await env.report(stale, Succeeded('"stale"'))
    leased = await claimed(env, child)
    assert await env.engine.inputs.input_of(leased.id, leased.fence) == '"fresh"'


async def test_a_handler_is_told_what_failed(env: EngineEnvironment) -> None:
    parent = new_job(payload='{"order": 7}')
    child = taking(Takes.FAILURE, parent, need=Need.FAILURE)
    await env.submit(parent, child)
    (held,) = await env.engine.claim(claim())
    await env.report(held, Failed(JobError("ValueError", "no such order"), permanent=True))
    leased = await claimed(env, child)
    assert json.loads(await env.engine.inputs.input_of(leased.id, leased.fence) or "") == {
        "id": to_text(parent.id),
        "type": parent.type,
        "state": "dead",
        "reason": "permanent",
        "error": {"kind": "ValueError", "message": "no such order"},
        "payload": {"order": 7},
    }


async def test_a_follow_up_takes_the_failure_of_its_job(env: EngineEnvironment) -> None:
    alert = Template("alert", queue="next", meta={TAKES: "failure"})
    parent = new_job(on_failure=alert)
    await env.submit(parent)
    (held,) = await env.engine.claim(claim())
    await env.report(held, Failed(failure().error, permanent=True))
    (leased,) = await claim_next(env)
    answer = json.loads(await env.engine.inputs.input_of(leased.id, leased.fence) or "")
    assert (answer["id"], answer["type"]) == (to_text(parent.id), parent.type)


async def test_a_stale_fence_gets_nothing(env: EngineEnvironment) -> None:
    parent = new_job()
    child = taking(Takes.RESULT, parent)
    await env.submit(parent, child)
    await finish(env, 1)
    held = await claimed(env, child)
    assert await env.engine.inputs.input_of(held.id, held.fence - 1) is None
    await env.report(held, Succeeded("2"))
    assert await env.engine.inputs.input_of(held.id, held.fence) is None


async def test_an_input_that_is_too_large_is_refused(env: EngineEnvironment, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inputs, "LARGEST_INPUT", 100)
    parents = new_jobs(2)
    child = taking(Takes.RESULTS, *parents)
    await env.submit(*parents, child)
    await finish(env, "x" * 60, "y" * 60)
    held = await claimed(env, child)
    with pytest.raises(InvalidRequest, match="longer than 100 characters"):
        await env.engine.inputs.input_of(held.id, held.fence)


@pytest.mark.parametrize(
    ("takes", "parents", "remedy"),
    [("result", 2, "take 'results' instead"), ("results", 0, "name one in 'after'"), ("all", 1, "must be one of")],
)
async def test_takes_that_cannot_work_is_refused_at_submission(
    env: EngineEnvironment, takes: str, parents: int, remedy: str
) -> None:
    before = new_jobs(parents)
    with pytest.raises(InvalidRequest, match=remedy) as refusal:
        await env.engine.submit([*before, new_job(after=after(*before), meta={TAKES: takes})])
    assert refusal.value.field == "takes"
