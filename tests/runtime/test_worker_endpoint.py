"""The HTTP endpoint of a worker: its pages, and who may read them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from datetime import timedelta

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families as families_of

from core.builders import job
from rota.core.errors import InvalidRequest, StoreUnavailable
from rota.core.ids import JobId
from rota.core.job import Job
from rota.core.lease import Claim, Renewal, Renewed, WorkerId
from rota.core.outcome import Failed, Outcome, Released, Succeeded
from rota.core.settlement import JobError
from rota.ports.client import AttemptReport
from rota.runtime import Link
from rota.runtime.link import link_of
from rota.runtime.worker_endpoint import MeteredSource, WorkerEndpoint
from rota.settings import Settings
from rota.stores.sqlite import SqliteStore
from rota.telemetry.metric_definitions import ALL_METRICS, MetricSource
from rota.telemetry.metrics import Metrics
from rota.worker import Handlers, Worker, WorkerOptions

SCRAPER = {"Accept": "text/plain"}
BEAT = timedelta(seconds=5)


@pytest.fixture
async def link() -> AsyncIterator[Link]:
    link = link_of(await SqliteStore.open(":memory:"))
    yield link
    await link.close()


def worker_of(link: Link) -> Worker:
    return Worker(link.source, Handlers(()), WorkerOptions("ada", concurrency=4))


def client_of(endpoint: WorkerEndpoint, address: str = "127.0.0.1") -> httpx.AsyncClient:
    transport = httpx.ASGITransport(app=endpoint.board, client=(address, 1))
    return httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1")


async def test_a_worker_is_ready_once_its_sign_of_life_was_taken(link: Link) -> None:
    endpoint, worker = WorkerEndpoint(Settings(worker_address=":0"), link, BEAT), worker_of(link)
    endpoint.show(worker)
    async with client_of(endpoint) as client:
        assert (await client.get("/livez")).status_code == 200
        assert (await client.get("/readyz")).status_code == 503
        assert (await client.get("/health")).json()["status"] == "degraded"
        await endpoint.announce(worker.member())
        assert (await client.get("/readyz")).status_code == 200
        health = (await client.get("/health")).json()
    expected = {"status": "healthy", "instance_id": "ada", "link_health": True, "slots": 4, "busy": 0}
    assert {name: health[name] for name in expected} == expected


async def test_a_worker_that_drains_is_alive_and_not_ready(link: Link) -> None:
    endpoint, worker = WorkerEndpoint(Settings(worker_address=":0"), link, BEAT), worker_of(link)
    endpoint.show(worker)
    await endpoint.announce(worker.member())
    worker.stop()
    async with client_of(endpoint) as client:
        assert (await client.get("/livez")).status_code == 200
        assert (await client.get("/readyz")).json() == {"status": "stopping"}
        assert (await client.get("/healthz")).status_code == 503
        assert (await client.get("/health")).json()["status"] == "stopping"


async def test_a_link_that_stays_silent_is_broken(link: Link) -> None:
    async def away(_member: object) -> None:
        raise StoreUnavailable("gone")

    endpoint = WorkerEndpoint(Settings(worker_address=":0"), link, timedelta(0))
    worker = worker_of(link)
    await endpoint.announce(worker.member())
    cut = WorkerEndpoint(Settings(worker_address=":0"), replace(link, announce_member=away), BEAT)
    with pytest.raises(StoreUnavailable):
        await cut.announce(worker.member())
    for one in (endpoint, cut):
        async with client_of(one) as client:
            assert (await client.get("/readyz")).status_code == 503


async def test_every_metric_of_a_worker_is_in_the_catalogue(link: Link) -> None:
    endpoint = WorkerEndpoint(Settings(worker_address=":0"), link, BEAT)
    endpoint.show(worker_of(link))
    async with client_of(endpoint) as client:
        text = (await client.get("/metrics", headers=SCRAPER)).text
    shown = {line.split()[2] for line in text.splitlines() if line.startswith("# TYPE")}
    assert shown == {metric.name for metric in ALL_METRICS if metric.source is not MetricSource.API}
    samples = {sample.name: sample.value for family in families_of(text) for sample in family.samples}
    assert (samples["rota_worker_slots"], samples["rota_worker_linked"]) == (4, 0)


async def test_a_worker_asks_for_the_token_that_the_api_asks_for(link: Link) -> None:
    settings = Settings(worker_address="0.0.0.0:0", token="secret", insecure=True)  # noqa: S106 - a test's own
    endpoint = WorkerEndpoint(settings, link, BEAT)
    async with client_of(endpoint, "10.0.0.9") as client:
        assert (await client.get("/livez")).status_code == 200
        for path in ("/health", "/metrics", "/elsewhere"):
            assert (await client.get(path)).status_code == 401
            token = {"Authorization": "Bearer secret"}
            assert (await client.get(path, headers=token)).status_code in {200, 404, 503}
        assert (await client.post("/livez")).status_code == 405


async def test_without_a_token_a_worker_stays_on_its_machine(link: Link) -> None:
    with pytest.raises(InvalidRequest, match=r"worker_address: '0\.0\.0\.0' can be reached"):
        WorkerEndpoint(Settings(worker_address="0.0.0.0:9090"), link, BEAT)
    assert WorkerEndpoint(Settings(worker_address=":9090"), link, BEAT).host == "127.0.0.1"


class Giving:
    """A source that returns what the test sets."""

    def __init__(self, jobs: Sequence[Job]) -> None:
        self.jobs = jobs
        self.taken: list[JobId] = []

    async def claim(self, claim: Claim, *, wait: timedelta = timedelta(0)) -> Sequence[Job]:  # noqa: ARG002
        return self.jobs

    async def renew(self, renewals: Sequence[Renewal]) -> Sequence[Renewed]:  # noqa: ARG002
        return ()

    async def settle(self, reports: Sequence[AttemptReport]) -> Sequence[JobId]:  # noqa: ARG002
        return self.taken


async def test_a_worker_over_http_counts_what_it_did() -> None:
    source, metrics = Giving([job(id=JobId(number), type="mail") for number in (1, 2, 3, 4)]), Metrics()
    metered = MeteredSource(source, metrics)
    await metered.claim(Claim(worker=WorkerId("ada", "boot"), limit=4, queues=("default",)))
    outcomes: Sequence[Outcome] = (Succeeded(), Failed(JobError("OSError", "no")), Released(), Succeeded())
    source.taken = [JobId(1), JobId(2), JobId(3)]
    await metered.settle([AttemptReport(JobId(number), 1, outcome) for number, outcome in enumerate(outcomes, 1)])
    counted = {tally.metric.name: dict(tally.values) for tally in metrics.collect()}
    assert counted["rota_attempts_total"] == {("mail",): 4}
    assert counted["rota_attempt_outcomes_total"] == {
        ("mail", "succeeded"): 1,
        ("mail", "failed"): 1,
        ("mail", "released"): 1,
    }
    assert counted["rota_settlements_refused_total"] == {(): 1}
