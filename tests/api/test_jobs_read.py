"""Read routes of jobs: pages that neither skip nor repeat, filters, explanations, results."""

from __future__ import annotations

import asyncio
import timeit
from typing import Any

import httpx
import msgspec
import pytest

from api.environment import ApiEnvironment, body_of, fields_of, problem_of
from builders import HOUR
from rota.api import counts as counts_module
from rota.api.auth import NO_ACCESS
from rota.api.http import Request
from rota.api.job_filter import JobListQuery
from rota.core.cluster import Member, Role
from rota.core.log_lines import LogTail
from rota.stores import listing


async def pages(client: httpx.AsyncClient, path: str) -> list[list[dict[str, Any]]]:
    found = []
    cursor = ""
    while True:
        page = body_of(await client.get(f"{path}{cursor}"))
        found.append(page["items"])
        if page["next_cursor"] is None:
            return found
        cursor = f"&cursor={page['next_cursor']}"


async def test_pages_give_every_job_once_newest_first(env: ApiEnvironment) -> None:
    ids = [(await env.submit())["id"] for _ in range(10)]
    found = await pages(env.client, "/v1/jobs?limit=3")
    assert [len(page) for page in found] == [3, 3, 3, 1]
    assert [job["id"] for page in found for job in page] == ids[::-1]


async def test_pages_are_not_disturbed_by_what_comes_meanwhile(env: ApiEnvironment) -> None:
    ids = [(await env.submit())["id"] for _ in range(6)]
    seen: list[str] = []
    address: str | None = "/jobs?limit=2&status=pending"
    while address is not None:
        response = await env.client.get(address)
        seen += [job["id"] for job in response.json()]
        await env.submit()
        address = response.links["next"]["url"] if "next" in response.links else None
    assert seen == ids[::-1]


async def test_a_full_last_page_has_no_next(env: ApiEnvironment) -> None:
    for _ in range(4):
        await env.submit()
    assert [len(page) for page in await pages(env.client, "/v1/jobs?limit=2")] == [2, 2]
    assert "link" not in (await env.client.get("/jobs?limit=4")).headers


@pytest.fixture
async def variety(env: ApiEnvironment) -> dict[str, str]:
    """One job in each state that can be had without effort."""
    done = await env.submit(type="done")
    await env.settle((await env.claim())[0], "succeeded")
    dead = await env.dead()
    retrying = await env.submit(type="retrying")
    await env.settle((await env.claim())[0], "failed", error={"message": "x"})
    running = await env.submit(type="running")
    await env.claim("bob")
    pending = await env.submit(type="pending", queue="other", tags=["red"])
    scheduled = await env.submit(type="scheduled", delay=60)
    cancelled = await env.submit(type="cancelled")
    await env.client.delete(f"/v1/jobs/{cancelled['id']}")
    named = [("completed", done), ("dead", dead), ("retrying", retrying), ("running", running), ("pending", pending)]
    named += [("scheduled", scheduled), ("cancelled", cancelled)]
    return {job["id"]: name for name, job in named}


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("status=pending", {"pending"}),
        ("status=Done", {"completed"}),
        ("status=SUCCESS", {"completed"}),
        ("state=completed", {"completed"}),
        ("status=failed", {"retrying", "dead"}),
        ("status=FAILED", {"retrying", "dead"}),
        ("status=dead,Running", {"dead", "running"}),
        ("status=canceled", {"cancelled"}),
        ("status=in-progress", {"running"}),
        ("status=waiting", {"pending", "scheduled", "retrying"}),
        ("status=finished", {"completed", "dead", "cancelled"}),
        ("type=mail,done", {"dead", "completed"}),
        ("queue=other", {"pending"}),
        ("tag=red", {"pending"}),
        ("worker_id=bob", {"running"}),
        ("q=status:dead type:mail", {"dead"}),
        ("q=worker:bob", {"running"}),
        ("q=created:>1h", set()),
        ("q=created:<1h status:pending", {"pending"}),
        ("since=2030-01-01T00:00:00Z", set()),
        ("until=2030-01-01T00:00:00Z&type=done", {"completed"}),
        ("since=2199-12-31T23:59:59Z", set()),
        ("since=8999-12-31T23:59:59Z&status=finished", set()),
        ("until=8999-12-31T23:59:59Z&type=done", {"completed"}),
        ("until=1970-01-01T00:00:00Z", set()),
    ],
)
async def test_a_filter_finds_what_it_says(
    env: ApiEnvironment, variety: dict[str, str], query: str, expected: set[str]
) -> None:
    found = body_of(await env.client.get("/v1/jobs", params=dict(part.split("=", 1) for part in query.split("&"))))
    assert {variety[job["id"]] for job in found["items"]} == expected


@pytest.mark.parametrize("query", ['type="ma*"', 'type=other,"ma*"', 'q=type:"ma*"'])
async def test_a_name_with_a_star_is_found_in_quotes(env: ApiEnvironment, query: str) -> None:
    job = await env.submit(type="ma*")
    await env.submit(type="mail")
    found = body_of(await env.client.get("/v1/jobs", params=dict([query.split("=", 1)])))
    assert [one["id"] for one in found["items"]] == [job["id"]]


async def test_jobs_are_found_by_their_ids_in_that_order(env: ApiEnvironment) -> None:
    ids = [(await env.submit())["id"] for _ in range(3)]
    wanted = [ids[1], "0000000000001", ids[0]]
    found = body_of(await env.client.get(f"/v1/jobs?ids={','.join(wanted)}"))
    assert [job["id"] for job in found["items"]] == [ids[1], ids[0]]


async def test_attempts_are_listed_oldest_first(env: ApiEnvironment) -> None:
    job = await env.submit()
    await env.settle((await env.claim("ada"))[0], "failed", error={"kind": "E", "message": "m"}, log_tail="bye")
    env.clock.move(HOUR)
    await env.engine.upkeep.promote(10)
    await env.claim("ben")
    first, second = body_of(await env.client.get(f"/v1/jobs/{job['id']}/attempts"))["items"]
    assert (first["fence"], first["worker_id"], first["event"], first["log_tail"]) == (1, "ada", "fail", "bye")
    assert (second["fence"], second["worker_id"], second["event"]) == (2, "ben", None)


async def test_the_log_of_an_attempt_is_read_by_line_and_from_a_line_on(env: ApiEnvironment) -> None:
    job = await env.submit()
    address = f"/v1/jobs/{job['id']}/logs"
    assert body_of(await env.client.get(address)) == {
        "attempt": 0, "attempts": 0, "is_running": False, "items": [], "encrypted": None,
    }  # fmt: skip
    tail = LogTail()
    tail.add("2026-01-01T00:00:00+00:00", "info", "one", "shop")
    tail.add("2026-01-01T00:00:01+00:00", "error", "two")
    (claimed,) = await env.claim("ada")
    renewal = {"id": claimed["id"], "fence": claimed["fence"], "log_tail": tail.text(), "progress": '{"done": 1}'}
    await env.client.post("/v1/leases:renew", json={"renewals": [renewal]})
    log = body_of(await env.client.get(address))
    assert (log["attempt"], log["is_running"]) == (1, True)
    assert log["items"] == [
        {"number": 1, "at": "2026-01-01T00:00:00+00:00", "level": "info", "logger": "shop", "message": "one"},
        {"number": 2, "at": "2026-01-01T00:00:01+00:00", "level": "error", "logger": None, "message": "two"},
    ]
    rest = body_of(await env.client.get(f"{address}?attempt=1&after=1"))
    assert [line["message"] for line in rest["items"]] == ["two"]
    (attempt,) = body_of(await env.client.get(f"/v1/jobs/{job['id']}/attempts"))["items"]
    assert attempt["progress"] == {"done": 1.0}
    assert attempt["log_tail"].splitlines()[0] == "2026-01-01T00:00:00+00:00 info    shop: one"
    await env.settle(claimed, "succeeded", progress='{"done": 2, "total": 2}')
    (attempt,) = body_of(await env.client.get(f"/v1/jobs/{job['id']}/attempts"))["items"]
    assert attempt["progress"] == {"done": 2.0, "total": 2.0}
    assert body_of(await env.client.get(address))["is_running"] is False
    refused = problem_of(await env.client.get(f"{address}?attempt=2"), 422)
    assert refused["errors"][0]["field"] == "attempt"


async def test_an_encrypted_log_is_given_as_it_is(env: ApiEnvironment) -> None:
    await env.submit()
    (claimed,) = await env.claim("ada")
    envelope = '{"rota.encrypted":{"key":"a"}}'
    await env.settle(claimed, "succeeded", log_tail=envelope, progress=envelope)
    log = body_of(await env.client.get(f"/v1/jobs/{claimed['id']}/logs"))
    assert (log["encrypted"], log["items"]) == (envelope, [])
    (attempt,) = body_of(await env.client.get(f"/v1/jobs/{claimed['id']}/attempts"))["items"]
    assert (attempt["progress"], attempt["log_tail"]) == (envelope, envelope)


async def test_a_waiting_job_explains_itself(env: ApiEnvironment) -> None:
    job = await env.submit(delay=60)
    answer = body_of(await env.client.get(f"/v1/jobs/{job['id']}/explain"))
    assert answer["reasons"][0]["code"] == "scheduled_future"
    assert answer["reasons"][0]["evidence"]["run_at"] == job["run_at"]


async def test_an_explanation_shares_the_count_of_many_jobs(
    env: ApiEnvironment, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It counted all jobs of the store by itself: half a second of CPU with seven million."""
    monkeypatch.setattr(counts_module, "_FEW", 0)
    monkeypatch.setattr(counts_module, "_SHARE", 0.000_001)
    job = await env.submit()
    worker = Member(Role.WORKER, "ada", "boot", queues=("default",), types=None, slots=1)
    await env.engine.store.beat([worker])
    await env.client.get("/v1/stats")

    async def refuse() -> None:
        pytest.fail("the store was asked to count all jobs")

    monkeypatch.setattr(env.engine.store, "census", refuse)
    found = body_of(await env.client.get(f"/v1/jobs/{job['id']}/explain"))["reasons"][0]
    assert (found["code"], found["evidence"]["waiting_in_queue"]) == ("about_to_start", 1)


async def test_a_result_is_there_or_not_yet(env: ApiEnvironment) -> None:
    job = await env.submit()
    address = f"/v1/jobs/{job['id']}/result"
    early = await env.client.get(address)
    assert body_of(early, 202)["is_finished"] is False
    assert early.headers["retry-after"] == "1"
    await env.settle((await env.claim())[0], "succeeded", result={"n": 2**80})
    answer = await env.client.get(address)
    assert body_of(answer)["status"] == "completed"
    assert '"n":1208925819614629174706176' in answer.text


@pytest.mark.parametrize("asked", [("?wait=30", {}), ("", {"Prefer": "respond-async, wait=30"})])
async def test_a_caller_that_waits_for_a_result_gets_it_at_once(
    env: ApiEnvironment, asked: tuple[str, dict[str, str]]
) -> None:
    job = await env.submit()
    address = f"/v1/jobs/{job['id']}/result{asked[0]}"
    waiting = asyncio.create_task(env.client.get(address, headers=asked[1]))
    (claimed,) = await env.claim()
    await env.settle(claimed, "succeeded", result="it")
    assert body_of(await asyncio.wait_for(waiting, 10))["result"] == "it"


async def test_an_older_path_shows_the_rule_a_job_came_from(env: ApiEnvironment) -> None:
    schedule = body_of(await env.client.post("/tasks", json={"cron": "@hourly"}), 201)
    job = body_of(await env.client.post(f"/tasks/{schedule['id']}/run-now"))
    shown = body_of(await env.client.get(f"/tasks/{job['id']}"))
    assert shown["schedule"] == schedule["schedule"]
    assert shown["next_run_at"] == shown["due_at"] == shown["schedule_at"] == shown["run_at"]


def test_reading_a_query_costs_little_more_than_converting_it(env: ApiEnvironment) -> None:
    """Once the annotations of the form were read anew for every page: 500 us, a hundred times the rest."""

    async def receive() -> dict[str, object]:
        raise AssertionError("a query has no body")

    call = Request({"query_string": b"limit=50&type=echo"}, receive, env.api.context, {}, NO_ACCESS, {})
    values = {"limit": "50", "type": "echo"}

    def convert() -> JobListQuery:
        return msgspec.convert(values, JobListQuery, strict=False)

    assert call.query(JobListQuery) == convert()
    bare = min(timeit.repeat(convert, number=100, repeat=20))
    assert min(timeit.repeat(lambda: call.query(JobListQuery), number=100, repeat=20)) < 50 * bare


@pytest.mark.parametrize("limit", ["0", "-3", "501", "x", ""])
async def test_a_limit_that_makes_no_page_is_refused(env: ApiEnvironment, limit: str) -> None:
    for path in ("/v1/jobs", "/jobs", "/tasks", "/v1/schedules", "/v1/dead-letters", "/v1/events"):
        assert fields_of(problem_of(await env.client.get(path, params={"limit": limit}), 422)) == {"limit"}


async def test_a_page_that_takes_long_ends_early_and_says_where_to_continue(
    env: ApiEnvironment, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No request reads all jobs: rare matches are found over several pages, some of them empty."""
    monkeypatch.setattr(listing, "MOST_CANDIDATES", 3)
    monkeypatch.setattr(listing.find_some, "__kwdefaults__", {"seconds": -1.0})
    rare = await env.submit(type="rare", tags=["x"])
    for _ in range(10):
        await env.submit(tags=["x"])
    found = await pages(env.client, "/v1/jobs?tag=x&type=rare&limit=3")
    assert [job["id"] for page in found for job in page] == [rare["id"]]
    assert found[0] == []
    assert len(found) > 2


async def test_a_cursor_of_another_order_is_refused(env: ApiEnvironment) -> None:
    """Lists of finished jobs are in another order; a cursor of one says nothing about a place in the other."""
    for _ in range(3):
        await env.submit()
    cursor = body_of(await env.client.get("/v1/jobs?limit=1"))["next_cursor"]
    refused = await env.client.get(f"/v1/jobs?limit=1&status=completed&cursor={cursor}")
    assert refused.status_code == 422
    assert "next_cursor" in refused.text
