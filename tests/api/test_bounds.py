"""Queues with a depth limit: which submissions are refused, and how the limit is set."""

from __future__ import annotations

import asyncio
from datetime import datetime, timedelta

from api.environment import ApiEnvironment, body_of, problem_of, served
from builders import new_jobs
from rota.client import connect
from rota.core.history import BucketLength, Counted, HistoryFlush, Tally
from rota.core.queue import Lane
from rota.core.time import from_micros, to_micros
from rota.ports.client import Actor
from rota.ports.store import Receipt


async def bound(env: ApiEnvironment, depth: int | None, name: str = "default") -> dict[str, object]:
    return body_of(await env.client.patch(f"/v1/queues/{name}", json={"max_depth": depth}))


async def test_a_full_queue_answers_429_and_when_to_come_back(env: ApiEnvironment) -> None:
    assert (await bound(env, 1))["max_depth"] == 1
    await env.submit(type="mail")
    response = await env.client.post("/v1/jobs", json={"type": "mail"})
    problem = problem_of(response, 429)
    assert (problem["code"], response.headers["retry-after"]) == ("queue_full", "60")
    assert (problem["position"], problem["retry_after"], "expected_start" in problem) == (2, 60.0, False)
    assert "'default' is full" in problem["detail"]
    assert (await env.engine.census()).total() == 1


async def test_a_claim_makes_room_again(env: ApiEnvironment) -> None:
    await bound(env, 1)
    await env.submit(type="mail")
    await env.claim()
    await env.submit(type="mail")


async def test_in_a_batch_each_is_answered_by_itself(env: ApiEnvironment) -> None:
    await bound(env, 1, "narrow")
    jobs = [{"queue": "narrow"}, {"queue": "narrow"}, {"queue": "wide"}]
    reply = body_of(await env.client.post("/v1/jobs:batch", json={"jobs": jobs}))
    assert [item["status"] for item in reply["items"]] == [201, 429, 201]
    assert reply["items"][1]["error"]["code"] == "queue_full"
    assert (reply["created"], reply["refused"]) == (2, 1)


async def test_the_bound_can_be_taken_away(env: ApiEnvironment) -> None:
    await bound(env, 0)
    problem_of(await env.client.post("/v1/jobs", json={}), 429)
    await bound(env, None)
    await env.submit(type="mail")


async def test_the_ledger_names_the_operator_that_set_a_bound(env: ApiEnvironment) -> None:
    await bound(env, 7)
    (entry,) = await env.store.ledger()
    assert (entry.action, entry.target, entry.detail) == ("queues.limit", "default", "max_depth=7")


async def test_ten_at_once_do_not_squeeze_in(env: ApiEnvironment) -> None:
    await bound(env, 3)
    answers = await asyncio.gather(*(env.client.post("/v1/jobs", json={}) for _ in range(10)))
    assert sorted(answer.status_code for answer in answers) == [201] * 3 + [429] * 7


async def test_a_client_is_told_which_of_its_jobs_found_no_room(env: ApiEnvironment) -> None:
    await bound(env, 2)
    async with served(env.api) as url:
        client = connect([url])
        answers = await client.submit(new_jobs(3))
        await client.close()
    assert [one.receipt for one in answers] == [Receipt.CREATED, Receipt.CREATED, Receipt.QUEUE_FULL]


async def record_starts(env: ApiEnvironment, number: int, age: timedelta, queue: str = "default") -> None:
    """Add starts of jobs to the history, as the processes that ran them do."""
    tally = Tally()
    tally.counts["started"] = number
    flush = HistoryFlush(f"worker {queue} {age}", 1, [Counted(age, {Lane(queue, "mail"): tally})])
    await env.store.add_history(flush, now=env.clock())


async def test_the_time_to_come_back_is_that_of_the_queues_own_drain_rate(env: ApiEnvironment) -> None:
    await bound(env, 10)
    await env.engine.submit(new_jobs(10))
    # A job every four seconds for two minutes; and another queue that is much faster.
    start = BucketLength.MINUTE.start_of(to_micros(env.clock()))
    age = env.clock() - from_micros(start) + timedelta(minutes=1)
    await record_starts(env, round(age.total_seconds() / 4), age)
    await record_starts(env, 100_000, age, "fast")
    response = await env.client.post("/v1/jobs", json={"type": "mail"})
    problem = problem_of(response, 429)
    assert 4 <= int(response.headers["retry-after"]) <= 5
    assert problem["position"] == 11
    start_in = datetime.fromisoformat(problem["expected_start"]) - env.clock()
    assert timedelta(seconds=40) <= start_in <= timedelta(seconds=50)
    batch = body_of(await env.client.post("/v1/jobs:batch", json={"jobs": [{"type": "mail"}]}))
    assert batch["items"][0]["error"]["position"] == 11


async def test_a_paused_queue_says_when_it_goes_on(env: ApiEnvironment) -> None:
    await bound(env, 1)
    await env.submit(type="mail")
    await record_starts(env, 1_000, timedelta(seconds=30))
    until = env.clock() + timedelta(minutes=20)
    await env.engine.queues.pause("default", "repair", Actor("ada"), resume_at=until)
    response = await env.client.post("/v1/jobs", json={"type": "mail"})
    assert 1_200 <= int(response.headers["retry-after"]) <= 1_202
    await env.engine.queues.pause("default", "repair", Actor("ada"))
    unknown = await env.client.post("/v1/jobs", json={"type": "mail"})
    assert unknown.headers["retry-after"] == "60"
    assert "expected_start" not in unknown.json()
