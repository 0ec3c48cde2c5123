"""Queues with a depth limit: which submissions are refused, and how the limit is set."""

from __future__ import annotations

import asyncio
from datetime import datetime, timedelta

from api.staging import Stage, body_of, problem_of, served
from building import new_jobs
from rota.client import connect
from rota.core.history import BucketLength, Counted, HistoryFlush, Tally
from rota.core.queue import Lane
from rota.core.time import from_micros, to_micros
from rota.ports.client import Actor
from rota.ports.store import Receipt


async def bound(stage: Stage, depth: int | None, name: str = "default") -> dict[str, object]:
    return body_of(await stage.client.patch(f"/v1/queues/{name}", json={"max_depth": depth}))


async def test_a_full_queue_answers_429_and_when_to_come_back(stage: Stage) -> None:
    assert (await bound(stage, 1))["max_depth"] == 1
    await stage.submit(type="mail")
    response = await stage.client.post("/v1/jobs", json={"type": "mail"})
    problem = problem_of(response, 429)
    assert (problem["code"], response.headers["retry-after"]) == ("queue_full", "60")
    assert (problem["position"], problem["retry_after"], "expected_start" in problem) == (2, 60.0, False)
    assert "'default' is full" in problem["detail"]
    assert (await stage.engine.census()).total() == 1


async def test_a_claim_makes_room_again(stage: Stage) -> None:
    await bound(stage, 1)
    await stage.submit(type="mail")
    await stage.claim()
    await stage.submit(type="mail")


async def test_in_a_batch_each_is_answered_by_itself(stage: Stage) -> None:
    await bound(stage, 1, "narrow")
    jobs = [{"queue": "narrow"}, {"queue": "narrow"}, {"queue": "wide"}]
    reply = body_of(await stage.client.post("/v1/jobs:batch", json={"jobs": jobs}))
    assert [item["status"] for item in reply["items"]] == [201, 429, 201]
    assert reply["items"][1]["error"]["code"] == "queue_full"
    assert (reply["created"], reply["refused"]) == (2, 1)


async def test_the_bound_can_be_taken_away(stage: Stage) -> None:
    await bound(stage, 0)
    problem_of(await stage.client.post("/v1/jobs", json={}), 429)
    await bound(stage, None)
    await stage.submit(type="mail")


async def test_the_ledger_names_the_operator_that_set_a_bound(stage: Stage) -> None:
    await bound(stage, 7)
    (entry,) = await stage.store.ledger()
    assert (entry.action, entry.target, entry.detail) == ("queues.limit", "default", "max_depth=7")


async def test_ten_at_once_do_not_squeeze_in(stage: Stage) -> None:
    await bound(stage, 3)
    answers = await asyncio.gather(*(stage.client.post("/v1/jobs", json={}) for _ in range(10)))
    assert sorted(answer.status_code for answer in answers) == [201] * 3 + [429] * 7


async def test_a_client_is_told_which_of_its_jobs_found_no_room(stage: Stage) -> None:
    await bound(stage, 2)
    async with served(stage.api) as url:
        client = connect([url])
        answers = await client.submit(new_jobs(3))
        await client.close()
    assert [one.receipt for one in answers] == [Receipt.CREATED, Receipt.CREATED, Receipt.QUEUE_FULL]


async def record_starts(stage: Stage, number: int, age: timedelta, queue: str = "default") -> None:
    """Add starts of jobs to the history, as the processes that ran them do."""
    tally = Tally()
    tally.counts["started"] = number
    flush = HistoryFlush(f"worker {queue} {age}", 1, [Counted(age, {Lane(queue, "mail"): tally})])
    await stage.store.add_history(flush, now=stage.clock())


async def test_the_time_to_come_back_is_that_of_the_queues_own_drain_rate(stage: Stage) -> None:
    await bound(stage, 10)
    await stage.engine.submit(new_jobs(10))
    # A job every four seconds for two minutes; and another queue that is much faster.
    start = BucketLength.MINUTE.start_of(to_micros(stage.clock()))
    age = stage.clock() - from_micros(start) + timedelta(minutes=1)
    await record_starts(stage, round(age.total_seconds() / 4), age)
    await record_starts(stage, 100_000, age, "fast")
    response = await stage.client.post("/v1/jobs", json={"type": "mail"})
    problem = problem_of(response, 429)
    assert 4 <= int(response.headers["retry-after"]) <= 5
    assert problem["position"] == 11
    start_in = datetime.fromisoformat(problem["expected_start"]) - stage.clock()
    assert timedelta(seconds=40) <= start_in <= timedelta(seconds=50)
    batch = body_of(await stage.client.post("/v1/jobs:batch", json={"jobs": [{"type": "mail"}]}))
    assert batch["items"][0]["error"]["position"] == 11


async def test_a_paused_queue_says_when_it_goes_on(stage: Stage) -> None:
    await bound(stage, 1)
    await stage.submit(type="mail")
    await record_starts(stage, 1_000, timedelta(seconds=30))
    until = stage.clock() + timedelta(minutes=20)
    await stage.engine.queues.pause("default", "repair", Actor("ada"), resume_at=until)
    response = await stage.client.post("/v1/jobs", json={"type": "mail"})
    assert 1_200 <= int(response.headers["retry-after"]) <= 1_202
    await stage.engine.queues.pause("default", "repair", Actor("ada"))
    unknown = await stage.client.post("/v1/jobs", json={"type": "mail"})
    assert unknown.headers["retry-after"] == "60"
    assert "expected_start" not in unknown.json()
