"""Read routes of jobs: pages that neither skip nor repeat, filters, explanations, results."""

from __future__ import annotations

import asyncio
import timeit
from typing import Any

import httpx
import msgspec
import pytest

from api.staging import Stage, body_of, fields_of, problem_of
from building import HOUR
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


async def test_pages_give_every_job_once_newest_first(stage: Stage) -> None:
    ids = [(await stage.submit())["id"] for _ in range(10)]
    found = await pages(stage.client, "/v1/jobs?limit=3")
    assert [len(page) for page in found] == [3, 3, 3, 1]
    assert [job["id"] for page in found for job in page] == ids[::-1]


async def test_pages_are_not_disturbed_by_what_comes_meanwhile(stage: Stage) -> None:
    ids = [(await stage.submit())["id"] for _ in range(6)]
    seen: list[str] = []
    address: str | None = "/jobs?limit=2&status=pending"
    while address is not None:
        response = await stage.client.get(address)
        seen += [job["id"] for job in response.json()]
        await stage.submit()
        address = response.links["next"]["url"] if "next" in response.links else None
    assert seen == ids[::-1]


async def test_a_full_last_page_has_no_next(stage: Stage) -> None:
    for _ in range(4):
        await stage.submit()
    assert [len(page) for page in await pages(stage.client, "/v1/jobs?limit=2")] == [2, 2]
    assert "link" not in (await stage.client.get("/jobs?limit=4")).headers


@pytest.fixture
async def variety(stage: Stage) -> dict[str, str]:
    """One job in each state that can be had without effort."""
    done = await stage.submit(type="done")
    await stage.settle((await stage.claim())[0], "succeeded")
    dead = await stage.dead()
    retrying = await stage.submit(type="retrying")
    await stage.settle((await stage.claim())[0], "failed", error={"message": "x"})
    running = await stage.submit(type="running")
    await stage.claim("bob")
    pending = await stage.submit(type="pending", queue="other", tags=["red"])
    scheduled = await stage.submit(type="scheduled", delay=60)
    cancelled = await stage.submit(type="cancelled")
    await stage.client.delete(f"/v1/jobs/{cancelled['id']}")
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
    stage: Stage, variety: dict[str, str], query: str, expected: set[str]
) -> None:
    found = body_of(await stage.client.get("/v1/jobs", params=dict(part.split("=", 1) for part in query.split("&"))))
    assert {variety[job["id"]] for job in found["items"]} == expected


@pytest.mark.parametrize("query", ['type="ma*"', 'type=other,"ma*"', 'q=type:"ma*"'])
async def test_a_name_with_a_star_is_found_in_quotes(stage: Stage, query: str) -> None:
    job = await stage.submit(type="ma*")
    await stage.submit(type="mail")
    found = body_of(await stage.client.get("/v1/jobs", params=dict([query.split("=", 1)])))
    assert [one["id"] for one in found["items"]] == [job["id"]]


async def test_jobs_are_found_by_their_ids_in_that_order(stage: Stage) -> None:
    ids = [(await stage.submit())["id"] for _ in range(3)]
    wanted = [ids[1], "0000000000001", ids[0]]
    found = body_of(await stage.client.get(f"/v1/jobs?ids={','.join(wanted)}"))
    assert [job["id"] for job in found["items"]] == [ids[1], ids[0]]


async def test_attempts_are_listed_oldest_first(stage: Stage) -> None:
    job = await stage.submit()
    await stage.settle((await stage.claim("ada"))[0], "failed", error={"kind": "E", "message": "m"}, log_tail="bye")
    stage.clock.move(HOUR)
    await stage.engine.upkeep.promote(10)
    await stage.claim("ben")
    first, second = body_of(await stage.client.get(f"/v1/jobs/{job['id']}/attempts"))["items"]
    assert (first["fence"], first["worker_id"], first["event"], first["log_tail"]) == (1, "ada", "fail", "bye")
    assert (second["fence"], second["worker_id"], second["event"]) == (2, "ben", None)


async def test_the_log_of_an_attempt_is_read_by_line_and_from_a_line_on(stage: Stage) -> None:
    job = await stage.submit()
    address = f"/v1/jobs/{job['id']}/logs"
    assert body_of(await stage.client.get(address)) == {
        "attempt": 0, "attempts": 0, "is_running": False, "items": [], "encrypted": None,
    }  # fmt: skip
    tail = LogTail()
    tail.add("2026-01-01T00:00:00+00:00", "info", "one", "shop")
    tail.add("2026-01-01T00:00:01+00:00", "error", "two")
    (claimed,) = await stage.claim("ada")
    renewal = {"id": claimed["id"], "fence": claimed["fence"], "log_tail": tail.text(), "progress": '{"done": 1}'}
    await stage.client.post("/v1/leases:renew", json={"renewals": [renewal]})
    log = body_of(await stage.client.get(address))
    assert (log["attempt"], log["is_running"]) == (1, True)
    assert log["items"] == [
        {"number": 1, "at": "2026-01-01T00:00:00+00:00", "level": "info", "logger": "shop", "message": "one"},
        {"number": 2, "at": "2026-01-01T00:00:01+00:00", "level": "error", "logger": None, "message": "two"},
    ]
    rest = body_of(await stage.client.get(f"{address}?attempt=1&after=1"))
    assert [line["message"] for line in rest["items"]] == ["two"]
    (attempt,) = body_of(await stage.client.get(f"/v1/jobs/{job['id']}/attempts"))["items"]
    assert attempt["progress"] == {"done": 1.0}
    assert attempt["log_tail"].splitlines()[0] == "2026-01-01T00:00:00+00:00 info    shop: one"
    await stage.settle(claimed, "succeeded", progress='{"done": 2, "total": 2}')
    (attempt,) = body_of(await stage.client.get(f"/v1/jobs/{job['id']}/attempts"))["items"]
    assert attempt["progress"] == {"done": 2.0, "total": 2.0}
    assert body_of(await stage.client.get(address))["is_running"] is False
    refused = problem_of(await stage.client.get(f"{address}?attempt=2"), 422)
    assert refused["errors"][0]["field"] == "attempt"


async def test_an_encrypted_log_is_given_as_it_is(stage: Stage) -> None:
    await stage.submit()
    (claimed,) = await stage.claim("ada")
    envelope = '{"rota.encrypted":{"key":"a"}}'
    await stage.settle(claimed, "succeeded", log_tail=envelope, progress=envelope)
    log = body_of(await stage.client.get(f"/v1/jobs/{claimed['id']}/logs"))
    assert (log["encrypted"], log["items"]) == (envelope, [])
    (attempt,) = body_of(await stage.client.get(f"/v1/jobs/{claimed['id']}/attempts"))["items"]
    assert (attempt["progress"], attempt["log_tail"]) == (envelope, envelope)


async def test_a_waiting_job_explains_itself(stage: Stage) -> None:
    job = await stage.submit(delay=60)
    told = body_of(await stage.client.get(f"/v1/jobs/{job['id']}/explain"))
    assert told["reasons"][0]["code"] == "scheduled_future"
    assert told["reasons"][0]["evidence"]["run_at"] == job["run_at"]


async def test_an_explanation_shares_the_count_of_many_jobs(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """It counted all jobs of the store by itself: half a second of CPU with seven million."""
    monkeypatch.setattr(counts_module, "_FEW", 0)
    monkeypatch.setattr(counts_module, "_SHARE", 0.000_001)
    job = await stage.submit()
    worker = Member(Role.WORKER, "ada", "boot", queues=("default",), types=None, slots=1)
    await stage.engine.store.beat([worker])
    await stage.client.get("/v1/stats")

    async def refuse() -> None:
        pytest.fail("the store was asked to count all jobs")

    monkeypatch.setattr(stage.engine.store, "census", refuse)
    found = body_of(await stage.client.get(f"/v1/jobs/{job['id']}/explain"))["reasons"][0]
    assert (found["code"], found["evidence"]["waiting_in_queue"]) == ("about_to_start", 1)


async def test_a_result_is_there_or_not_yet(stage: Stage) -> None:
    job = await stage.submit()
    address = f"/v1/jobs/{job['id']}/result"
    early = await stage.client.get(address)
    assert body_of(early, 202)["is_finished"] is False
    assert early.headers["retry-after"] == "1"
    await stage.settle((await stage.claim())[0], "succeeded", result={"n": 2**80})
    told = await stage.client.get(address)
    assert body_of(told)["status"] == "completed"
    assert '"n":1208925819614629174706176' in told.text


@pytest.mark.parametrize("asked", [("?wait=30", {}), ("", {"Prefer": "respond-async, wait=30"})])
async def test_a_caller_that_waits_for_a_result_gets_it_at_once(
    stage: Stage, asked: tuple[str, dict[str, str]]
) -> None:
    job = await stage.submit()
    address = f"/v1/jobs/{job['id']}/result{asked[0]}"
    waiting = asyncio.create_task(stage.client.get(address, headers=asked[1]))
    (claimed,) = await stage.claim()
    await stage.settle(claimed, "succeeded", result="it")
    assert body_of(await asyncio.wait_for(waiting, 10))["result"] == "it"


async def test_an_older_path_shows_the_rule_a_job_came_from(stage: Stage) -> None:
    schedule = body_of(await stage.client.post("/tasks", json={"cron": "@hourly"}), 201)
    job = body_of(await stage.client.post(f"/tasks/{schedule['id']}/run-now"))
    shown = body_of(await stage.client.get(f"/tasks/{job['id']}"))
    assert shown["schedule"] == schedule["schedule"]
    assert shown["next_run_at"] == shown["due_at"] == shown["schedule_at"] == shown["run_at"]


def test_reading_a_query_costs_little_more_than_converting_it(stage: Stage) -> None:
    """Once the annotations of the form were read anew for every page: 500 us, a hundred times the rest."""

    async def receive() -> dict[str, object]:
        raise AssertionError("a query has no body")

    call = Request({"query_string": b"limit=50&type=echo"}, receive, stage.api.context, {}, NO_ACCESS, {})
    values = {"limit": "50", "type": "echo"}

    def convert() -> JobListQuery:
        return msgspec.convert(values, JobListQuery, strict=False)

    assert call.query(JobListQuery) == convert()
    bare = min(timeit.repeat(convert, number=100, repeat=20))
    assert min(timeit.repeat(lambda: call.query(JobListQuery), number=100, repeat=20)) < 50 * bare


@pytest.mark.parametrize("limit", ["0", "-3", "501", "x", ""])
async def test_a_limit_that_makes_no_page_is_refused(stage: Stage, limit: str) -> None:
    for path in ("/v1/jobs", "/jobs", "/tasks", "/v1/schedules", "/v1/dead-letters", "/v1/events"):
        assert fields_of(problem_of(await stage.client.get(path, params={"limit": limit}), 422)) == {"limit"}


async def test_a_page_that_takes_long_ends_early_and_says_where_to_continue(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody waits for a walk over all jobs: what is rare is found over several answers, some of them empty."""
    monkeypatch.setattr(listing, "MOST_CANDIDATES", 3)
    monkeypatch.setattr(listing.find_some, "__kwdefaults__", {"seconds": -1.0})
    rare = await stage.submit(type="rare", tags=["x"])
    for _ in range(10):
        await stage.submit(tags=["x"])
    found = await pages(stage.client, "/v1/jobs?tag=x&type=rare&limit=3")
    assert [job["id"] for page in found for job in page] == [rare["id"]]
    assert found[0] == []
    assert len(found) > 2


async def test_a_cursor_of_another_order_is_refused(stage: Stage) -> None:
    """Lists of finished jobs are in another order; a cursor of one says nothing about a place in the other."""
    for _ in range(3):
        await stage.submit()
    cursor = body_of(await stage.client.get("/v1/jobs?limit=1"))["next_cursor"]
    refused = await stage.client.get(f"/v1/jobs?limit=1&status=completed&cursor={cursor}")
    assert refused.status_code == 422
    assert "next_cursor" in refused.text
