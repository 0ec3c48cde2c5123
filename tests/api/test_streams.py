"""Server-sent events: the events of one job, and the live stream of all counts."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from api.environment import ApiEnvironment, api_environment, problem_of, served, until
from builders import new_job
from rota.api import ApiKey, ApiSettings, Limits
from rota.api import counts as counts_module
from rota.ports.store import Census


async def events(response: httpx.Response) -> AsyncIterator[tuple[str, str, Any]]:
    """Read server-sent events: number, kind, data."""
    number = kind = ""
    async for line in response.aiter_lines():
        name, _, value = line.partition(": ")
        if name == "id":
            number = value
        elif name == "event":
            kind = value
        elif name == "data":
            yield number, kind, json.loads(value)


async def test_a_job_tells_its_story_to_the_end(env: ApiEnvironment, remote: httpx.AsyncClient) -> None:
    job = await env.submit()
    async with remote.stream("GET", f"/v1/jobs/{job['id']}/events") as response:
        assert response.headers["content-type"] == "text/event-stream"
        story = events(response)
        assert (await anext(story))[2]["status"] == "pending"
        (claimed,) = await env.claim()
        assert (await anext(story))[2]["status"] == "running"
        renewal = {"id": job["id"], "fence": claimed["fence"], "progress": "50%"}
        await env.client.post("/v1/leases:renew", json={"renewals": [renewal]})
        assert (await anext(story))[1:] == ("progress", {"progress": "50%"})
        await env.settle(claimed, "succeeded", result=7, progress='{"done": 1}', log_tail="one\ntwo")
        assert (await anext(story))[1:] == ("progress", {"progress": {"done": 1.0}})
        _, kind, log = await anext(story)
        assert (kind, [line["message"] for line in log["items"]], log["attempt"]) == ("log", ["one", "two"], 1)
        number, kind, answer = await anext(story)
        assert (kind, answer["status"], answer["result"]) == ("job", "completed", 7)
        assert [event async for event in story] == []
    async with remote.stream("GET", f"/v1/jobs/{job['id']}/events", headers={"Last-Event-ID": number}) as response:
        assert [event async for event in events(response)] == []


async def test_the_story_of_an_unknown_job_is_not_found(remote: httpx.AsyncClient) -> None:
    problem_of(await remote.get("/v1/jobs/0000000000001/events"), 404)


async def test_the_live_stream_is_a_snapshot_and_then_what_changes(
    env: ApiEnvironment, remote: httpx.AsyncClient
) -> None:
    await env.submit()
    async with remote.stream("GET", "/v1/events/stream") as response:
        story = events(response)
        number, kind, snapshot = await anext(story)
        assert (kind, snapshot["stats"]["queue_depth"]) == ("snapshot", 1)
        job = await env.submit(type="second")
        async for _, kind, update in story:
            assert kind == "update"
            if any(one["id"] == job["id"] for one in update["jobs"]):
                assert update["stats"]["queue_depth"] == 2
                break
        async with remote.stream("GET", "/v1/events/stream", headers={"Last-Event-ID": number}) as second:
            again = events(second)
            _, kind, update = await anext(again)
            assert kind == "update"
    async with remote.stream("GET", "/v1/events/stream", headers={"Last-Event-ID": "00000000-7"}) as response:
        assert (await anext(events(response)))[1] == "snapshot"


async def test_the_live_stream_shows_what_nobody_told_it(env: ApiEnvironment, remote: httpx.AsyncClient) -> None:
    """It was done by another process, and the store, one on a server, does not notify of it."""
    async with remote.stream("GET", "/v1/events/stream") as response, asyncio.timeout(10):
        story = events(response)
        assert (await anext(story))[2]["stats"]["queue_depth"] == 0
        await asyncio.sleep(0.5)
        await env.engine.store.insert([new_job()])
        while (await anext(story))[2]["stats"]["queue_depth"] != 1:
            pass


async def test_at_most_four_updates_come_in_a_second(env: ApiEnvironment, remote: httpx.AsyncClient) -> None:
    async def submit_on_and_on() -> None:
        while True:
            await env.submit()
            await asyncio.sleep(0)

    loop = asyncio.get_running_loop()
    async with remote.stream("GET", "/v1/events/stream") as response:
        story = events(response)
        await anext(story)
        begun = loop.time()
        submitting = asyncio.create_task(submit_on_and_on())
        for _ in range(6):
            await anext(story)
        took = loop.time() - begun
        submitting.cancel()
    # Six updates have five pauses between them.
    assert took >= 5 * 0.24


async def test_streams_are_limited_and_end_when_the_server_stops() -> None:
    async with (
        api_environment(ApiSettings(limits=Limits(streams=1))) as env,
        served(env.api) as address,
        httpx.AsyncClient(base_url=address, timeout=20) as client,
        client.stream("GET", "/v1/events/stream") as response,
    ):
        lines = response.aiter_lines()
        await anext(lines)
        problem_of(await client.get("/v1/events/stream"), 429)
        env.api.close()
        assert "" in [line async for line in lines]
    assert not env.api.context.live._listeners


async def test_the_streams_of_one_caller_are_limited() -> None:
    """Otherwise one caller could hold all streams of the server."""
    keys = (ApiKey.of("ada", "one"), ApiKey.of("bob", "two"))
    limits = Limits(streams=3, streams_per_caller=2)
    async with (
        api_environment(ApiSettings(keys=keys, limits=limits)) as env,
        served(env.api) as address,
        httpx.AsyncClient(base_url=address, timeout=20, headers={"Authorization": "Bearer one"}) as client,
        client.stream("GET", "/v1/events/stream") as first,
        client.stream("GET", "/v1/events/stream") as second,
    ):
        await anext(first.aiter_lines())
        lines = second.aiter_lines()
        await anext(lines)
        assert "of yours" in problem_of(await client.get("/v1/events/stream"), 429)["detail"]
        async with client.stream("GET", "/v1/events/stream", headers={"Authorization": "Bearer two"}) as other:
            assert other.status_code == 200
        await second.aclose()
        await until(lambda: env.api.context.streams._open.total() == 1)
        async with client.stream("GET", "/v1/events/stream") as third:
            assert third.status_code == 200


async def test_a_stream_that_fails_at_once_is_answered_as_every_error(
    env: ApiEnvironment, remote: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Streams began outside of what answers every error: the server below answered in its own words."""

    async def fail(*_: object) -> None:
        raise ValueError("unforeseen")

    monkeypatch.setattr("rota.api.live.overview_now", fail)
    assert problem_of(await remote.get("/v1/events/stream"), 500)["code"] == "internal"
    assert not env.api.context.streams._open


async def test_a_stream_that_fails_later_ends(
    env: ApiEnvironment, remote: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = await env.submit()

    def fail(*_: object) -> None:
        raise ValueError("unforeseen")

    async with remote.stream("GET", f"/v1/jobs/{job['id']}/events") as response:
        story = events(response)
        await anext(story)
        monkeypatch.setattr("rota.api.routes.jobs_read.job_form", fail)
        await env.claim()
        assert [event async for event in story] == []
    assert not env.api.context.streams._open


async def test_a_stream_whose_client_disconnects_is_forgotten(env: ApiEnvironment, remote: httpx.AsyncClient) -> None:
    live = env.api.context.live
    async with remote.stream("GET", "/v1/events/stream") as response:
        await anext(events(response))
        assert len(live._listeners) == 1
    await until(lambda: not live._listeners)


async def test_streams_share_the_count_of_many_jobs(
    env: ApiEnvironment, remote: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each new stream counted by itself: after a restart, thirty of them kept a store of many jobs busy for seconds."""
    monkeypatch.setattr(counts_module, "_FEW", 0)
    monkeypatch.setattr(counts_module, "_SHARE", 0.000_001)
    await env.submit()
    await env.client.get("/v1/stats")
    counts = 0
    census = env.engine.jobs.census

    async def counted() -> Census:
        nonlocal counts
        counts += 1
        return await census()

    monkeypatch.setattr(env.engine.jobs, "census", counted)
    for _ in range(3):
        async with remote.stream("GET", "/v1/events/stream") as response:
            assert (await anext(events(response)))[1] == "snapshot"
    assert counts == 0
