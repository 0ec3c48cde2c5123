"""Queues with a depth limit: which submissions are refused, and how the limit is set."""

from __future__ import annotations

import asyncio

from api.staging import Stage, body_of, problem_of, served
from building import new_jobs
from rota.client import connect
from rota.ports.store import Receipt


async def bound(stage: Stage, depth: int | None, name: str = "default") -> dict[str, object]:
    return body_of(await stage.client.patch(f"/v1/queues/{name}", json={"max_depth": depth}))


async def test_a_full_queue_answers_429_and_when_to_come_back(stage: Stage) -> None:
    assert (await bound(stage, 1))["max_depth"] == 1
    await stage.submit(type="mail")
    response = await stage.client.post("/v1/jobs", json={"type": "mail"})
    problem = problem_of(response, 429)
    assert (problem["code"], response.headers["retry-after"]) == ("queue_full", "1")
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


async def test_who_set_a_bound_stands_in_the_ledger(stage: Stage) -> None:
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
