"""Open tabs of the dashboard: fifty of them cost the store as much as one, and none shows a stale answer."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest

from api.environment import ApiEnvironment, api_environment, body_of
from builders import new_job
from rota.api import ApiKey, ApiSettings
from rota.api.topics import Topic
from rota.core.access import ROLES
from rota.stores.sqlite import SqliteStore

TAB = {"Rota-Client": "ui"}
TABS = 50
#: What the pages show, and the verb of the store that reads it.
TOPICS = {
    "/v1/jobs?limit=100": "find",
    "/v1/jobs?status=dead&limit=100": "find",
    "/v1/queues?limit=500": "queues",
    "/v1/limits?limit=500": "limits",
    "/v1/workers?all=true&limit=500": "members",
    "/v1/schedules?limit=500": "schedules",
    "/v1/workflows?limit=100": "workflows",
    "/v1/events?limit=100": "ledger",
    "/v1/dead-letters/groups": "dead_groups",
    "/v1/stats/history?since=1h&step=1m": "history",
    "/v1/system": "members",
    "/v1/attention": "condition",
    "/v1/overview": "members",
    "/v1/jobs:histogram?q=status:pending": "find_some",
    "/v1/schedules:recent?count=60&limit=100": "schedules",
    "/v1/system/doctor": "condition",
    "/v1/system/store": "sizes",
}


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """Count the calls of the store's verbs."""
    counts: Counter[str] = Counter()
    for name in set(TOPICS.values()) | {"find_some", "time"}:
        verb = getattr(SqliteStore, name)

        async def counting(self: SqliteStore, *values: object, _verb=verb, _name=name, **options: object) -> object:  # type: ignore[no-untyped-def]  # noqa: ANN001
            counts[_name] += 1
            # Let the other requests arrive meanwhile, as a store with a network does.
            await asyncio.sleep(0)
            return await _verb(self, *values, **options)

        monkeypatch.setattr(SqliteStore, name, counting)
    return counts


@pytest.mark.parametrize("path", TOPICS)
async def test_fifty_tabs_cost_the_store_as_much_as_one(env: ApiEnvironment, asked: Counter[str], path: str) -> None:
    await env.submit(type="mail")
    body_of(await env.client.get(path, headers=TAB))
    once = Counter(asked)
    env.api.context.shared_answers.forget()
    env.api.context.overview = env.api.context.problems = None
    asked.clear()
    answers = await asyncio.gather(*(env.client.get(path, headers=TAB) for _ in range(TABS)))
    assert len({answer.content for answer in answers}) == 1
    assert asked == once
    await asyncio.gather(*(env.client.get(path, headers=TAB) for _ in range(TABS)))
    assert asked == once, "nor do those that come a moment later"


async def test_programs_always_ask_the_store(env: ApiEnvironment, asked: Counter[str]) -> None:
    for _ in range(3):
        body_of(await env.client.get("/v1/events"))
        body_of(await env.client.get("/v1/events", headers={"Rota-Client": "cli"}))
    assert asked["ledger"] == 6


async def test_a_caller_that_acts_sees_the_effect_at_once(env: ApiEnvironment) -> None:
    path = "/v1/queues?limit=500"
    await env.submit(type="mail")
    assert [one["is_paused"] for one in body_of(await env.client.get(path, headers=TAB))["items"]] == [False]
    await env.client.post("/v1/queues/default/pause", json={}, headers=TAB)
    assert [one["is_paused"] for one in body_of(await env.client.get(path, headers=TAB))["items"]] == [True]


async def test_an_update_of_the_stream_ends_what_was_shared(env: ApiEnvironment) -> None:
    path = "/v1/jobs?limit=100"
    follow = env.api.context.live.follow(None)
    await anext(follow)
    assert body_of(await env.client.get(path, headers=TAB))["items"] == []
    await env.submit(type="mail")
    async with asyncio.timeout(10):
        while b"event: update" not in await anext(follow):
            pass
    assert len(body_of(await env.client.get(path, headers=TAB))["items"]) == 1
    await follow.aclose()


async def test_a_change_of_a_topic_ends_what_was_shared(env: ApiEnvironment) -> None:
    """A page reads again when its topic has changed: an answer from before would hide the change for seconds."""
    path, jobs = "/v1/jobs?limit=100", 0
    follow = env.api.context.live.follow(None, [Topic("jobs")])
    await anext(follow)
    change = asyncio.ensure_future(anext(follow))
    async with asyncio.timeout(10):
        while not change.done():
            # Again and again: the first look, which is the one to compare with, may come later than the change.
            await env.client.get(path, headers=TAB)
            await env.store.insert([new_job()])
            jobs += 1
            await asyncio.wait([change], timeout=0.6)
    assert b"event: changed" in change.result()
    assert len(body_of(await env.client.get(path, headers=TAB))["items"]) == jobs
    await follow.aclose()


async def test_tabs_with_another_access_share_nothing() -> None:
    keys = (ApiKey.of("all", "a" * 32), ApiKey.of("submitter", "b" * 32, ROLES["submitter"]))
    async with api_environment(ApiSettings(keys=keys)) as env:
        first = await env.client.get("/v1/queues", headers={**TAB, "Authorization": f"Bearer {'a' * 32}"})
        second = await env.client.get("/v1/queues", headers={**TAB, "Authorization": f"Bearer {'b' * 32}"})
        assert (first.status_code, second.status_code) == (200, 403)


async def test_a_tab_that_closes_does_not_take_the_answer_from_the_others(
    env: ApiEnvironment, monkeypatch: pytest.MonkeyPatch
) -> None:
    may_end = asyncio.Event()
    ledger = SqliteStore.ledger

    async def slowly(self: SqliteStore, **options: object) -> object:
        await may_end.wait()
        return await ledger(self, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(SqliteStore, "ledger", slowly)
    first = asyncio.create_task(env.client.get("/v1/events", headers=TAB))
    second = asyncio.create_task(env.client.get("/v1/events", headers=TAB))
    await asyncio.sleep(0.01)
    first.cancel()
    await asyncio.sleep(0)
    may_end.set()
    async with asyncio.timeout(10):
        assert (await second).status_code == 200


async def test_a_refusal_is_not_kept(env: ApiEnvironment) -> None:
    assert (await env.client.get("/v1/jobs?status=nothing", headers=TAB)).status_code == 422
    assert (await env.client.get("/v1/jobs?status=nothing", headers=TAB)).status_code == 422
    assert env.api.context.shared_answers._answers == {}
