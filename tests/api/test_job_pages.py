"""Lists are paged by number and by bytes, and include payloads only on request."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx
import pytest

from api.environment import HERE, ApiEnvironment, body_of, fields_of, problem_of
from builders import new_job
from rota.api.context import LARGE_PAGES
from rota.api.job_pages import PAGE_BYTES, job_batches
from rota.client import Client
from rota.client.transport import Transport
from rota.core.lifecycle import State
from rota.ports.store import JobQuery, JobSlice

LARGE = "x" * 1_000_000


async def everything(client: httpx.AsyncClient, path: str, **query: str | int) -> list[list[dict[str, Any]]]:
    """Read a list to its end, page by page."""
    pages = []
    cursor: str | None = None
    while True:
        asked = {**query, **({} if cursor is None else {"cursor": cursor})}
        page = body_of(await client.get(path, params=asked))
        pages.append(page["items"])
        cursor = page["next_cursor"]
        if cursor is None:
            return pages


async def fill(env: ApiEnvironment, count: int, payload: str = LARGE) -> list[str]:
    return [(await env.submit(payload=payload))["id"] for _ in range(count)]


async def test_a_list_shows_payloads_and_results_only_where_they_are_asked_for(env: ApiEnvironment) -> None:
    await env.dead()
    await env.submit(payload={"a": 1})
    for path in ("/v1/jobs", "/v1/dead-letters"):
        (item, *_) = body_of(await env.client.get(path))["items"]
        assert not {"payload", "result"} & set(item)
        (item, *_) = body_of(await env.client.get(path, params={"fields": "payload"}))["items"]
        assert "payload" in item
        assert "result" not in item
        (item, *_) = body_of(await env.client.get(path, params={"fields": "result,payload"}))["items"]
        assert {"payload", "result"} <= set(item)
        refused = problem_of(await env.client.get(path, params={"fields": "payload,paylod"}), 422)
        assert fields_of(refused) == {"fields"}


@pytest.mark.parametrize("path", ["/jobs", "/tasks"])
async def test_the_older_lists_show_whole_jobs(env: ApiEnvironment, path: str) -> None:
    await env.submit(payload={"a": 1})
    (item,) = (await env.client.get(path)).json()
    assert (item["payload"], item["result"]) == ({"a": 1}, None)


async def test_a_page_is_cut_by_its_bytes(env: ApiEnvironment) -> None:
    """Fifteen clients that did not read a list of 95 MB held 1.3 GB."""
    ids = await fill(env, 20)
    pages = await everything(env.client, "/v1/jobs", fields="payload", limit=500)
    assert [len(page) for page in pages] == [8, 8, 4]
    assert [job["id"] for page in pages for job in page] == ids[::-1]
    assert len(await everything(env.client, "/v1/jobs", limit=500)) == 1


async def test_a_job_beyond_the_bytes_of_a_page_has_one_of_its_own(
    env: ApiEnvironment, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rota.api.job_pages.PAGE_BYTES", 1_000)
    ids = await fill(env, 3, "y" * 2_000)
    pages = await everything(env.client, "/v1/jobs", fields="payload")
    assert [[job["id"] for job in page] for page in pages] == [[one] for one in ids[::-1]]


async def test_a_page_of_many_small_jobs_is_whole(env: ApiEnvironment) -> None:
    ids = await fill(env, 130, "z")
    pages = await everything(env.client, "/v1/jobs", fields="payload", limit=100)
    assert [len(page) for page in pages] == [100, 30]
    assert [job["id"] for page in pages for job in page] == ids[::-1]


async def test_an_older_list_is_cut_by_its_bytes_and_links_to_the_next_page(env: ApiEnvironment) -> None:
    ids = await fill(env, 10)
    first = await env.client.get("/jobs", params={"limit": 500})
    assert len(first.content) <= PAGE_BYTES
    second = await env.client.get(first.links["next"]["url"])
    assert [job["id"] for job in first.json() + second.json()] == ids[::-1]


async def test_jobs_by_id_beyond_the_bytes_of_an_answer_are_refused(env: ApiEnvironment) -> None:
    ids = ",".join(await fill(env, 10))
    assert len(body_of(await env.client.get("/v1/jobs", params={"ids": ids}))["items"]) == 10
    refused = await env.client.get("/v1/jobs", params={"ids": ids, "fields": "payload"})
    assert fields_of(problem_of(refused, 422)) == {"ids"}


async def test_a_claim_is_cut_by_its_bytes_and_the_rest_is_handed_back(env: ApiEnvironment) -> None:
    ids = await fill(env, 10)
    claimed = await env.claim(claim_id="c")
    assert [job["id"] for job in claimed] == ids[:8]
    rest = [await env.get(one) for one in ids[8:]]
    assert [(job["status"], job["attempts"]) for job in rest] == [("pending", 0)] * 2
    assert [job["id"] for job in await env.claim(claim_id="c")] == ids[:8]
    assert [job["id"] for job in await env.claim(claim_id="d")] == ids[8:]


async def test_a_client_finds_large_jobs_page_by_page(env: ApiEnvironment) -> None:
    ids = await fill(env, 10)
    client = Client(Transport([HERE], http_transport=httpx.ASGITransport(app=env.api)), clock=env.clock)
    found = await client.find(JobQuery(limit=600))
    await client.close()
    assert len(found) == len(ids)
    assert {len(job.payload) for job in found} == {len(LARGE) + 2}


async def test_follow_ups_count_for_the_bytes_of_a_page(env: ApiEnvironment) -> None:
    """They are shown with their payloads, and can be as large as the job's own."""
    follow_up = {"type": "mail", "payload": LARGE[:900_000]}
    for _ in range(12):
        await env.submit(on_success={"type": "mail", "on_failure": follow_up})
    assert [len(page) for page in await everything(env.client, "/v1/jobs", limit=500)] == [9, 3]


async def test_small_jobs_before_large_ones_do_not_make_a_batch_large(env: ApiEnvironment) -> None:
    """A batch of 500 was read after twenty small jobs, up to half a gigabyte of them."""
    await fill(env, 60, "z")
    limits: list[int] = []
    find_some = env.engine.jobs.find_some

    async def spied(query: JobQuery) -> JobSlice:
        limits.append(query.limit)
        return await find_some(query)

    env.engine.jobs.find_some = spied  # type: ignore[method-assign]
    assert len(body_of(await env.client.get("/v1/jobs", params={"limit": 500}))["items"]) == 60
    assert max(limits) <= 51


async def test_few_large_pages_are_made_at_once(env: ApiEnvironment) -> None:
    """Two hundred callers that asked for 8 MB each at the same time took 3 GB."""
    await fill(env, 2)
    find_some, under_way, seen = env.engine.jobs.find_some, 0, list[int]()

    async def spied(query: JobQuery) -> JobSlice:
        nonlocal under_way
        under_way += 1
        seen.append(under_way)
        for _ in range(20):
            await asyncio.sleep(0)
        found = await find_some(query)
        under_way -= 1
        return found

    env.engine.jobs.find_some = spied  # type: ignore[method-assign]
    for path in ("/v1/jobs?fields=payload", "/jobs", "/v1/dead-letters?fields=result"):
        answers = await asyncio.gather(*(env.client.get(path) for _ in range(3 * LARGE_PAGES)))
        assert {answer.status_code for answer in answers} == {200}
        assert max(seen) == LARGE_PAGES
        seen.clear()
    # Lists without payloads do not wait for them.
    await asyncio.gather(*(env.client.get("/v1/jobs") for _ in range(3 * LARGE_PAGES)))
    assert max(seen) == 3 * LARGE_PAGES


async def test_an_export_goes_by_small_pieces(env: ApiEnvironment) -> None:
    ids = [await env.dead(payload=LARGE[:200_000]) for _ in range(12)]
    batches = job_batches(env.engine, JobQuery(states=(State.DEAD,)))
    pieces = [len(batch) async for batch in batches]
    assert sum(pieces) == len(ids)
    assert max(pieces) <= 3


async def test_schedules_are_paged_by_their_bytes_too(env: ApiEnvironment) -> None:
    for number in range(60):
        payload = LARGE[:900_000] if number % 3 else ""
        body = {"name": f"s{number:02}", "cron": "@daily", "job": {"type": "mail", "payload": payload}}
        assert (await env.client.post("/v1/schedules", json=body)).status_code == 201
    pages = await everything(env.client, "/v1/schedules", limit=500)
    assert [schedule["name"] for page in pages for schedule in page] == [f"s{number:02}" for number in range(60)]
    assert {len(page) for page in pages[:-1]} <= {12, 13, 14}
    small = await everything(env.client, "/v1/schedules", limit=7)
    assert [len(page) for page in small] == [7] * 8 + [4]


async def test_results_of_a_workflow_are_paged_by_their_bytes_too(env: ApiEnvironment) -> None:
    nodes = [{"name": f"n{number:02}", "type": "mail"} for number in range(12)]
    workflow = body_of(await env.client.post("/v1/workflows", json={"name": "w", "nodes": nodes}), 201)
    for job in await env.claim():
        await env.settle(job, "succeeded", result=LARGE[:900_000])
    pages = await everything(env.client, f"/v1/workflows/{workflow['id']}/results", limit=500)
    assert [one["name"] for page in pages for one in page] == [f"n{number:02}" for number in range(12)]
    assert [len(page) for page in pages] == [9, 3]
    small = await everything(env.client, f"/v1/workflows/{workflow['id']}/results", limit=5)
    assert [len(page) for page in small] == [5, 5, 2]


async def test_queues_come_in_pages(env: ApiEnvironment) -> None:
    """Twenty thousand of them were an answer of 5 MB that took 3.4 s."""
    await env.engine.submit([new_job(queue=f"q{number:03}") for number in range(250)])
    pages = await everything(env.client, "/v1/queues")
    assert [len(page) for page in pages] == [100, 100, 50]
    names = [queue["name"] for page in pages for queue in page]
    assert names == sorted(names)
    assert len(set(names)) == 250
    assert fields_of(problem_of(await env.client.get("/v1/queues?cursor=x"), 422)) == {"cursor"}


async def test_the_types_of_a_queue_are_bounded(env: ApiEnvironment) -> None:
    await env.engine.submit([new_job(type=f"t{number:03}") for number in range(150)] + [new_job(type="zz")] * 1)
    await env.engine.submit([new_job(type="zz") for _ in range(3)])
    (queue,) = body_of(await env.client.get("/v1/queues"))["items"]
    assert (len(queue["types"]), queue["types_left_out"], queue["depth"]) == (100, 51, 154)
    assert "zz" in {one["type"] for one in queue["types"]}
    shown = body_of(await env.client.get(f"/v1/queues/{queue['name']}"))
    only_in_lists = ("rate_in", "rate_out", "drain_seconds", "paused_by")
    assert shown == queue | {name: shown[name] for name in only_in_lists}


async def test_workers_come_in_pages(env: ApiEnvironment) -> None:
    beats = [{"worker_id": f"w{number % 7}", "boot_id": f"b{number:03}"} for number in range(120)]
    assert (await env.client.post("/v1/workers:beat", json={"workers": beats})).status_code == 200
    pages = await everything(env.client, "/v1/workers", limit=50)
    assert [len(page) for page in pages] == [50, 50, 20]
    assert len({worker["boot_id"] for page in pages for worker in page}) == 120


async def test_the_lanes_of_the_counts_come_in_pages_and_a_client_reads_them_all(
    env: ApiEnvironment, monkeypatch: pytest.MonkeyPatch
) -> None:
    await env.engine.submit([new_job(type=f"t{number:04}") for number in range(700)])
    for path in ("/v1/stats", "/stats"):
        first = body_of(await env.client.get(path))
        assert (len(first["lanes"]), first["queue_depth"]) == (500, 700)
        second = body_of(await env.client.get(path, params={"cursor": first["next_cursor"]}))
        assert (len(second["lanes"]), second["next_cursor"]) == (200, None)
    monkeypatch.setattr("rota.client.client.LARGEST_LANES", 300)
    client = Client(Transport([HERE], http_transport=httpx.ASGITransport(app=env.api)), clock=env.clock)
    census = await client.census()
    await client.close()
    assert len(census.lanes) == census.total() == 700
