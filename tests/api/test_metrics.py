"""What a scraper is told over HTTP."""

from __future__ import annotations

import asyncio
import shutil
import subprocess

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families as families_of

from api.staging import Stage, body_of
from building import MINUTE
from rota.api import counting
from rota.core.errors import StoreUnavailable
from rota.ports.store import Census
from rota.telemetry.catalogue import CATALOGUE, Source

SCRAPER = {"Accept": "text/plain;version=0.0.4"}


async def scraped(client: httpx.AsyncClient) -> dict[str, float]:
    """Read a scrape: each sample by name and labels."""
    text = (await client.get("/metrics", headers=SCRAPER)).text
    return {
        " ".join([sample.name, *(f"{label}={value}" for label, value in sorted(sample.labels.items()))]): sample.value
        for family in families_of(text)
        for sample in family.samples
    }


async def lived(stage: Stage) -> None:
    """Let something of everything happen."""
    await stage.submit(type="mail", queue="slow")
    await stage.submit(type="mail")
    (done,) = await stage.claim(max=1)
    await stage.settle(done, "succeeded")
    await stage.dead()


async def test_a_scrape_tells_of_the_whole_and_of_this_process(stage: Stage) -> None:
    await lived(stage)
    found = await scraped(stage.client)
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


async def test_every_metric_that_is_shown_is_in_the_catalogue(stage: Stage) -> None:
    await lived(stage)
    text = (await stage.client.get("/metrics", headers=SCRAPER)).text
    shown = {line.split()[2] for line in text.splitlines() if line.startswith("# TYPE")}
    assert shown == {metric.name for metric in CATALOGUE if metric.source is not Source.WORKER}


async def test_the_cpu_time_of_the_process_grows_with_its_work(stage: Stage) -> None:
    before = (await scraped(stage.client))["rota_process_cpu_seconds_total"]
    await lived(stage)
    assert (await scraped(stage.client))["rota_process_cpu_seconds_total"] > before > 0


@pytest.fixture
def taken(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> list[Census]:
    """Every census that is taken."""
    taken, census = list[Census](), stage.engine.jobs.census

    async def counted() -> Census:
        taken.append(await census())
        return taken[-1]

    monkeypatch.setattr(stage.engine.jobs, "census", counted)
    return taken


async def test_a_few_jobs_are_counted_anew_for_everyone_who_looks(stage: Stage, taken: list[Census]) -> None:
    for number in range(1, 4):
        await stage.submit(queue="a")
        assert body_of(await stage.client.get("/v1/stats"))["queue_depth"] == number
        assert body_of(await stage.client.get("/v1/queues/a"))["depth"] == number
    assert len(taken) == 6


async def test_of_many_jobs_an_older_count_must_do(
    stage: Stage, taken: list[Census], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(counting, "_FEW", 0)
    monkeypatch.setattr(counting, "_SHARE", 1e-9)
    await stage.submit(queue="a")
    first = body_of(await stage.client.get("/v1/stats"))
    stage.clock.move(MINUTE)
    await stage.submit(queue="a")
    assert body_of(await stage.client.get("/v1/stats")) == first
    assert body_of(await stage.client.get("/v1/queues/a"))["depth"] == 1
    assert len(taken) == 1


async def test_many_scrapers_cost_one_census(stage: Stage, taken: list[Census]) -> None:
    await asyncio.gather(*(stage.client.get("/metrics", headers=SCRAPER) for _ in range(20)))
    await stage.client.get("/metrics")
    assert len(taken) == 1


async def test_many_who_look_at_once_share_a_census_that_begins_after_they_asked(
    stage: Stage, taken: list[Census], monkeypatch: pytest.MonkeyPatch
) -> None:
    census = stage.engine.jobs.census

    async def slowly() -> Census:
        await asyncio.sleep(0.05)
        return await census()

    monkeypatch.setattr(stage.engine.jobs, "census", slowly)
    await stage.submit(queue="a")
    looks = await asyncio.gather(*(stage.client.get("/v1/stats") for _ in range(20)))
    assert {body_of(look)["queue_depth"] for look in looks} == {1}
    assert len(taken) <= 4


async def test_without_a_store_a_scrape_still_answers(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    await stage.submit(type="mail")

    async def away() -> Census:
        raise StoreUnavailable("gone fishing")

    monkeypatch.setattr(stage.engine.jobs, "census", away)
    found = await scraped(stage.client)
    assert found["rota_store_up"] == 0
    assert found["rota_jobs_submitted_total type=mail"] == 1
    assert "rota_dead_letters" not in found


async def test_an_api_that_was_closed_counts_no_more(stage: Stage) -> None:
    await stage.api.aclose()
    assert not stage.engine.telemetry.is_heard


async def test_promtool_has_nothing_to_complain_about(stage: Stage) -> None:
    """Asked where it is installed (Debian's package prometheus); the tests above read the text with a parser."""
    promtool = shutil.which("promtool")
    if promtool is None:
        return
    await lived(stage)
    text = (await stage.client.get("/metrics", headers=SCRAPER)).content
    checked = await asyncio.to_thread(
        subprocess.run, [promtool, "check", "metrics"], input=text, capture_output=True, check=False
    )
    assert (checked.returncode, checked.stdout, checked.stderr) == (0, b"", b"")
