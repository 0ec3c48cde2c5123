"""Metrics over HTTP, and how jobs are counted for them."""

from __future__ import annotations

import asyncio
import shutil
import subprocess
from datetime import datetime, timedelta

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families as families_of

from api.environment import ApiEnvironment, body_of, problem_of, until
from builders import MINUTE
from rota.api import counts as counts_module
from rota.api.server.serve import Protection, bind_checked
from rota.core.errors import StoreUnavailable
from rota.ports.store import Census
from rota.runtime.api_server import serve_api
from rota.settings import Settings
from rota.telemetry.metric_definitions import ALL_METRICS, MetricSource

SCRAPER = {"Accept": "text/plain;version=0.0.4"}


async def scraped(client: httpx.AsyncClient) -> dict[str, float]:
    """Read a scrape: each sample by name and labels."""
    text = (await client.get("/metrics", headers=SCRAPER)).text
    return {
        " ".join([sample.name, *(f"{label}={value}" for label, value in sorted(sample.labels.items()))]): sample.value
        for family in families_of(text)
        for sample in family.samples
    }


async def lived(env: ApiEnvironment) -> None:
    """Let something of everything happen."""
    await env.submit(type="mail", queue="slow")
    await env.submit(type="mail")
    (done,) = await env.claim(max=1)
    await env.settle(done, "succeeded")
    await env.dead()


async def test_a_scrape_tells_of_the_whole_and_of_this_process(env: ApiEnvironment) -> None:
    await lived(env)
    found = await scraped(env.client)
    assert found["rota_jobs queue=slow state=pending type=mail"] == 1
    assert found["rota_queue_depth queue=slow"] == 1
    assert found["rota_queue_depth queue=default"] == 0
    assert found["rota_dead_letters"] == 1
    assert found["rota_jobs_finished state=completed"] == 1
    assert found["rota_jobs_submitted_total type=mail"] == 3
    assert found["rota_attempt_outcomes_total outcome=succeeded type=mail"] == 1
    assert found["rota_attempt_outcomes_total outcome=dead type=mail"] == 1
    assert found["rota_store_seconds_count operation=claim"] == 2
    assert found["rota_build_info version=1.2.3"] == 1
    assert found["rota_store_up"] == 1


async def test_a_queue_says_how_long_its_next_job_has_been_due(env: ApiEnvironment) -> None:
    await env.submit(type="mail", queue="a")
    env.clock.move(MINUTE)
    await env.submit(type="report", queue="a")
    await env.submit(type="report", queue="b", delay=60)
    env.clock.move(MINUTE)
    assert (await scraped(env.client))["rota_queue_oldest_due_seconds queue=a"] == 120
    assert (await scraped(env.client))["rota_queue_oldest_due_seconds queue=b"] == 0, "it is not due yet"
    shown = {one["name"]: one["due_since"] for one in body_of(await env.client.get("/v1/queues"))["items"]}
    assert datetime.fromisoformat(shown["a"]) == env.clock() - 2 * MINUTE
    assert shown["b"] is None
    await env.claim(queues=["a"])
    assert body_of(await env.client.get("/v1/queues/a"))["due_since"] is None


async def test_every_metric_that_is_shown_is_in_the_catalogue(env: ApiEnvironment) -> None:
    await lived(env)
    text = (await env.client.get("/metrics", headers=SCRAPER)).text
    shown = {line.split()[2] for line in text.splitlines() if line.startswith("# TYPE")}
    assert shown == {metric.name for metric in ALL_METRICS if metric.source is not MetricSource.WORKER}


async def test_the_cpu_time_of_the_process_grows_with_its_work(env: ApiEnvironment) -> None:
    before = (await scraped(env.client))["rota_process_cpu_seconds_total"]
    await lived(env)
    assert (await scraped(env.client))["rota_process_cpu_seconds_total"] > before > 0


@pytest.fixture
def taken(env: ApiEnvironment, monkeypatch: pytest.MonkeyPatch) -> list[Census]:
    """Every census that is taken."""
    taken, census = list[Census](), env.engine.jobs.census

    async def counted() -> Census:
        taken.append(await census())
        return taken[-1]

    monkeypatch.setattr(env.engine.jobs, "census", counted)
    return taken


async def test_few_jobs_are_counted_anew_for_each_request(env: ApiEnvironment, taken: list[Census]) -> None:
    for number in range(1, 4):
        await env.submit(queue="a")
        assert body_of(await env.client.get("/v1/stats"))["queue_depth"] == number
        assert body_of(await env.client.get("/v1/queues/a"))["depth"] == number
    assert len(taken) == 6


async def test_of_many_jobs_an_older_count_must_do(
    env: ApiEnvironment, taken: list[Census], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(counts_module, "_FEW", 0)
    monkeypatch.setattr(counts_module, "_SHARE", 1e-9)
    await env.submit(queue="a")
    first = body_of(await env.client.get("/v1/stats"))
    env.clock.move(MINUTE)
    await env.submit(queue="a")
    assert body_of(await env.client.get("/v1/stats")) == first
    assert body_of(await env.client.get("/v1/queues/a"))["depth"] == 1
    assert len(taken) == 1


async def test_nobody_waits_for_a_count_of_many_jobs_but_the_first(
    env: ApiEnvironment, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With seven million jobs a count takes seconds: it goes on in the background, one at a time."""
    monkeypatch.setattr(counts_module, "_FEW", 0)
    monkeypatch.setattr(counts_module, "_SHARE", 1e9)
    census, may_end = env.engine.jobs.census, asyncio.Event()
    await env.submit(queue="a")
    assert body_of(await env.client.get("/v1/stats"))["queue_depth"] == 1

    async def slowly() -> Census:
        await may_end.wait()
        return await census()

    monkeypatch.setattr(env.engine.jobs, "census", slowly)
    await env.submit(queue="a")
    for _ in range(3):
        assert body_of(await env.client.get("/v1/stats"))["queue_depth"] == 1
    assert len(env.api.context.background_tasks) == 1
    may_end.set()
    await asyncio.gather(*env.api.context.background_tasks)
    assert body_of(await env.client.get("/v1/stats"))["queue_depth"] == 2


async def test_where_a_count_fails_in_the_background_the_last_one_is_shown_for_longer(
    env: ApiEnvironment, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(counts_module, "_FEW", 0)
    monkeypatch.setattr(counts_module, "_SHARE", 1e9)
    await env.submit(queue="a")
    body_of(await env.client.get("/v1/stats"))

    async def away() -> Census:
        raise StoreUnavailable("gone")

    monkeypatch.setattr(env.engine.jobs, "census", away)
    body_of(await env.client.get("/v1/stats"))
    await asyncio.gather(*env.api.context.background_tasks)
    assert body_of(await env.client.get("/v1/stats"))["queue_depth"] == 1


async def test_a_count_that_takes_too_long_is_no_store_that_is_away(
    env: ApiEnvironment, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def away() -> Census:
        raise StoreUnavailable("the count took too long")

    monkeypatch.setattr(env.engine.jobs, "census", away)
    health = body_of(await env.client.get("/health"))
    assert (health["status"] == "unhealthy", health["store_health"]) == (False, True)


@pytest.fixture
def may_count(env: ApiEnvironment, monkeypatch: pytest.MonkeyPatch) -> asyncio.Event:
    """Counting takes until this is set, and callers are not patient."""
    census, may_end = env.engine.jobs.census, asyncio.Event()

    async def slowly() -> Census:
        await may_end.wait()
        return await census()

    monkeypatch.setattr(env.engine.jobs, "census", slowly)
    monkeypatch.setattr(counts_module, "COUNT_TIMEOUT_SECONDS", 0.01)
    return may_end


async def test_before_the_first_count_is_done_counts_are_refused_and_nothing_else_waits(
    env: ApiEnvironment, may_count: asyncio.Event
) -> None:
    """With millions of jobs the first caller waited for seconds."""
    await env.submit(queue="a")
    refused = await env.client.get("/v1/stats")
    assert problem_of(refused, 503)["code"] == "not_counted"
    assert refused.headers["retry-after"] == "1"
    assert problem_of(await env.client.get("/v1/queues"), 503)["code"] == "not_counted"
    found = await scraped(env.client)
    assert found["rota_store_up"] == 1
    assert found["rota_jobs_submitted_total type=default"] == 1
    assert "rota_dead_letters" not in found
    assert body_of(await env.client.get("/health"))["store_health"] is True
    assert len(env.api.context.background_tasks) == 1, "one count for all of them"
    may_count.set()
    await asyncio.gather(*env.api.context.background_tasks)
    assert body_of(await env.client.get("/v1/stats"))["queue_depth"] == 1


async def test_the_first_count_is_begun_with_the_api(
    env: ApiEnvironment, taken: list[Census], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(counts_module, "_FEW", 0)
    monkeypatch.setattr(counts_module, "_SHARE", 1e-9)
    await env.submit(queue="a")
    ready = asyncio.get_running_loop().create_future()
    sockets = bind_checked("127.0.0.1", 0, Protection())
    serving = asyncio.create_task(serve_api(env.api, Settings(), sockets, ready, None))
    async with asyncio.timeout(10):
        await ready
        await until(lambda: taken)
    assert body_of(await env.client.get("/v1/stats"))["queue_depth"] == 1
    assert len(taken) == 1
    serving.cancel()
    await asyncio.gather(serving, return_exceptions=True)
    for one in sockets:
        one.close()


async def test_a_queue_that_is_paused_before_the_first_count_is_shown_when_it_is_counted(
    env: ApiEnvironment, may_count: asyncio.Event
) -> None:
    """What was done must not be answered with a refusal."""
    await env.submit(queue="a")
    pausing = asyncio.create_task(env.client.post("/v1/queues/a/pause", json={"reason": "r"}))
    async with asyncio.timeout(10):
        await until(lambda: env.api.context.background_tasks)
    assert problem_of(await env.client.get("/v1/queues/a"), 503)["code"] == "not_counted"
    may_count.set()
    shown = body_of(await pausing)
    assert (shown["is_paused"], shown["depth"]) == (True, 1)


async def test_an_old_count_of_many_jobs_is_shown_at_once_with_its_time_and_replaced(
    env: ApiEnvironment, taken: list[Census], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first page after a quiet night waited for a second, and was refused then."""
    monkeypatch.setattr(counts_module, "_FEW", 0)
    monkeypatch.setattr(counts_module, "_SHARE", 1e-9)
    await env.submit(queue="a")
    counted_at = body_of(await env.client.get("/v1/overview"))["counted_at"]
    await asyncio.gather(*env.api.context.background_tasks)
    before = len(taken)
    env.api.context.counts._ended -= 3600
    env.api.context.overview = None
    env.clock.move(timedelta(hours=1))
    await env.submit(queue="a")
    monkeypatch.setattr(counts_module, "COUNT_TIMEOUT_SECONDS", 0.0)
    shown = body_of(await env.client.get("/v1/overview"))
    assert (shown["due"], shown["counted_at"]) == (1, counted_at)
    assert sum(queue["due"] for queue in body_of(await env.client.get("/v1/queues"))["items"]) == 1
    await asyncio.gather(*env.api.context.background_tasks)
    assert len(taken) == before + 1
    env.api.context.overview = None
    assert body_of(await env.client.get("/v1/overview"))["due"] == 2


async def test_many_scrapers_cost_one_census(env: ApiEnvironment, taken: list[Census]) -> None:
    await asyncio.gather(*(env.client.get("/metrics", headers=SCRAPER) for _ in range(20)))
    await env.client.get("/metrics")
    assert len(taken) == 1


async def test_concurrent_requests_share_a_count_that_begins_after_they_came(
    env: ApiEnvironment, taken: list[Census], monkeypatch: pytest.MonkeyPatch
) -> None:
    census = env.engine.jobs.census

    async def slowly() -> Census:
        await asyncio.sleep(0.05)
        return await census()

    monkeypatch.setattr(env.engine.jobs, "census", slowly)
    await env.submit(queue="a")
    looks = await asyncio.gather(*(env.client.get("/v1/stats") for _ in range(20)))
    assert {body_of(look)["queue_depth"] for look in looks} == {1}
    assert len(taken) <= 4


async def test_without_a_store_a_scrape_still_answers(env: ApiEnvironment, monkeypatch: pytest.MonkeyPatch) -> None:
    await env.submit(type="mail")

    async def away() -> Census:
        raise StoreUnavailable("gone fishing")

    monkeypatch.setattr(env.engine.jobs, "census", away)
    found = await scraped(env.client)
    assert found["rota_store_up"] == 0
    assert found["rota_jobs_submitted_total type=mail"] == 1
    assert "rota_dead_letters" not in found


async def test_an_api_that_was_closed_counts_no_more(env: ApiEnvironment) -> None:
    await env.api.aclose()
    assert not env.engine.telemetry.has_listeners


async def test_promtool_has_nothing_to_complain_about(env: ApiEnvironment) -> None:
    """Asked where it is installed (Debian's package prometheus); the tests above read the text with a parser."""
    promtool = shutil.which("promtool")
    if promtool is None:
        return
    await lived(env)
    text = (await env.client.get("/metrics", headers=SCRAPER)).content
    checked = await asyncio.to_thread(
        subprocess.run, [promtool, "check", "metrics"], input=text, capture_output=True, check=False
    )
    assert (checked.returncode, checked.stdout, checked.stderr) == (0, b"", b"")
