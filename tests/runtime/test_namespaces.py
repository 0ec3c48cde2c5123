"""Namespaces on each store, over a socket: what is in one is in no answer of another."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from rota import Rota
from rota.core.errors import InvalidRequest
from rota.core.lease import Claim, WorkerId
from rota.core.namespace import Namespace
from rota.core.submission import NewJob
from rota.runtime import namespaces as module
from rota.runtime import open_link
from rota.runtime.components import RolePlan
from rota.runtime.link import work_source
from rota.runtime.namespace_stores import exists, store_url
from runtime.hosted_process import STORES, HostedProcess, empty_store, hosted_process

pytestmark = pytest.mark.usefixtures("hurried")


@pytest.fixture
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LOOK_SECONDS", 0.1)
    monkeypatch.setattr(module, "DROP_AFTER", timedelta(seconds=0.5))


@pytest.fixture(params=STORES)
async def url(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[str]:
    async with empty_store(request.param, tmp_path) as one:
        yield one


@pytest.fixture
async def host(url: str) -> AsyncIterator[HostedProcess]:
    async with hosted_process(url) as one:
        for name in ("acme", "beta"):
            await one.ask("POST", "/v1/namespaces", 201, json={"name": name})
        yield one


async def test_a_job_of_one_namespace_is_unknown_in_another(host: HostedProcess) -> None:
    job = (await host.ask("POST", "/v1/jobs", 201, namespace="acme", json={"type": "x", "queue": "secret"}))["id"]
    assert (await host.ask("GET", f"/v1/jobs/{job}", namespace="acme"))["queue"] == "secret"
    for other in ("", "beta", "default"):
        await host.ask("GET", f"/v1/jobs/{job}", 404, namespace=other)
        assert "secret" not in json.dumps(await host.ask("GET", "/v1/queues", namespace=other))
    await host.ask("GET", "/v1/jobs", 404, namespace="gone")


async def test_the_lease_keeper_of_a_killed_worker_does_not_make_a_dropped_namespace_again(url: str) -> None:
    gone = store_url(url, "gone")
    with pytest.raises(InvalidRequest, match="holds no store any more"):
        async with work_source({"url": gone}):
            pass
    assert not await exists(gone)


async def test_tabs_of_the_dashboard_share_no_answers_across_namespaces(host: HostedProcess) -> None:
    await host.ask("POST", "/v1/jobs", 201, namespace="acme", json={"type": "x"})
    tab = {"Rota-Client": "ui"}
    names = ("acme", "beta", "default") * 3
    listed = await asyncio.gather(*(host.ask("GET", "/v1/jobs", namespace=name, headers=tab) for name in names))
    assert [len(answer["items"]) for answer in listed] == [1, 0, 0] * 3


async def test_a_token_is_for_its_namespace_and_cannot_choose_another(host: HostedProcess) -> None:
    secret = await host.token("acme")
    assert secret.startswith("rota_acme_")
    me = await host.ask("GET", "/v1/me", token=secret)
    assert (me["name"], me["namespace"]) == ("ann", "acme")
    assert (await host.ask("GET", "/v1/me", token=secret, namespace="acme"))["namespace"] == "acme"
    unknown = await host.ask("GET", "/v1/me", 404, namespace="nowhere")
    for other in ("beta", "default", "nowhere"):
        refused = await host.ask("GET", "/v1/me", 404, token=secret, namespace=other)
        assert refused == json.loads(json.dumps(unknown).replace("nowhere", other))
    for path in ("/v1/namespaces", "/v1/namespaces/beta", "/v1/namespaces/acme"):
        await host.ask("GET", path, 404, token=secret)
    await host.ask("DELETE", "/v1/namespaces/beta?confirm=beta", 404, token=secret)
    await host.ask("POST", "/v1/namespaces", 404, token=secret, json={"name": "mine"})
    assert [one["name"] for one in (await host.ask("GET", "/v1/tokens", namespace="beta"))["items"]] == []


async def test_a_revoked_token_of_a_namespace_is_refused(host: HostedProcess) -> None:
    secret = await host.token("acme")
    await host.ask("GET", "/v1/me", token=secret)
    await host.ask("DELETE", "/v1/tokens/ann", namespace="acme")
    await host.ask("GET", "/v1/me", 401, token=secret)


async def test_only_tokens_with_the_action_may_choose_a_namespace(host: HostedProcess) -> None:
    admin, viewer = await host.token(""), await host.token("", "eve", role="viewer")
    assert (await host.ask("GET", "/v1/me", token=admin, namespace="acme"))["namespace"] == "acme"
    await host.ask("GET", "/v1/me", 404, token=viewer, namespace="acme")


async def test_a_session_stays_in_the_namespace_it_was_begun_in(host: HostedProcess) -> None:
    for sent in ({"namespace": "acme"}, {"token": await host.token("acme")}):
        answer = await host.ask("POST", "/v1/session", None, **sent)
        assert answer.status_code == 201
        cookie = {"Cookie": answer.headers["set-cookie"].partition(";")[0]}
        host.client.cookies.clear()
        me = await host.ask("GET", "/v1/me", token="", headers=cookie)
        assert me["namespace"] == "acme"
        await host.ask("GET", "/v1/me", 404, token="", namespace="beta", headers=cookie)


async def test_the_same_key_in_two_namespaces_makes_two_jobs(host: HostedProcess) -> None:
    body = {"type": "x", "idempotency_key": "order-1"}
    made = {}
    for name in ("acme", "beta"):
        made[name] = (await host.ask("POST", "/v1/jobs", 201, namespace=name, json=body))["id"]
    assert made["acme"] != made["beta"]
    for name, job in made.items():
        again = await host.ask("POST", "/v1/jobs", None, namespace=name, json=body)
        assert again.json()["id"] == job


async def test_a_worker_of_one_namespace_never_gets_jobs_of_another(host: HostedProcess, url: str) -> None:
    for name in ("", "acme", "beta"):
        await host.ask("POST", "/v1/jobs", 201, namespace=name, json={"type": "x", "payload": name})
    claim = {"worker_id": "w", "boot_id": "b", "max": 100}
    got = await host.ask("POST", "/v1/leases:claim", namespace="beta", json=claim)
    assert [job["payload"] for job in got["jobs"]] == ["beta"]
    link = await open_link(replace(host.settings, namespace="acme"), store_url(url, "acme"))
    try:
        jobs = await link.source.claim(Claim(WorkerId("w", "b"), 100))
        assert [json.loads(job.payload) for job in jobs] == ["acme"]
    finally:
        await link.close()


async def test_the_scheduler_serves_all_namespaces_also_new_ones(host: HostedProcess) -> None:
    await host.ask("POST", "/v1/namespaces", 201, json={"name": "late-1"})
    for name in ("acme", "late-1"):
        job = (await host.ask("POST", "/v1/jobs", 201, namespace=name, json={"type": "x", "delay": 0.2}))["id"]
        async with asyncio.timeout(20):
            while (await host.ask("GET", f"/v1/jobs/{job}", namespace=name))["status"] != "pending":
                pass


async def test_namespaces_survive_a_restart(url: str) -> None:
    async with hosted_process(url) as host:
        await host.ask("POST", "/v1/namespaces", 201, json={"name": "acme", "limits": {"jobs_waiting": 7}})
        secret = await host.token("acme")
        job = (await host.ask("POST", "/v1/jobs", 201, token=secret, json={"type": "x"}))["id"]
    async with hosted_process(url) as host:
        (listed,) = (await host.ask("GET", "/v1/namespaces"))["items"]
        assert (listed["name"], listed["limits"]) == ("acme", {"jobs_waiting": 7})
        assert (await host.ask("GET", f"/v1/jobs/{job}", token=secret))["id"] == job


async def test_a_namespace_that_another_process_created_is_served_at_once(url: str) -> None:
    api_only = RolePlan(schedules=False, serves=True, works=False, instance="other")
    async with hosted_process(url) as first, hosted_process(url, api_only) as second:
        await second.ask("GET", "/v1/jobs", 404, namespace="acme")
        await first.ask("POST", "/v1/namespaces", 201, json={"name": "acme"})
        secret = await first.token("acme")
        assert (await second.ask("GET", "/v1/me", token=secret))["namespace"] == "acme"


async def test_a_deleted_namespace_is_unknown_and_its_tables_are_dropped(host: HostedProcess, url: str) -> None:
    secret = await host.token("acme")
    await host.ask("POST", "/v1/jobs", 201, token=secret, json={"type": "x"})
    refused = await host.ask("DELETE", "/v1/namespaces/acme?confirm=beta", 422)
    assert refused["errors"][0]["field"] == "confirm"
    await host.ask("DELETE", "/v1/namespaces/acme?confirm=acme")
    await host.ask("GET", "/v1/jobs", 404, namespace="acme")
    answer = await host.ask("GET", "/v1/jobs", None, token=secret)
    assert answer.status_code in {401, 404}
    async with asyncio.timeout(20):
        while (await host.ask("POST", "/v1/namespaces", None, json={"name": "acme"})).status_code != 201:
            pass
    assert (await host.ask("GET", "/v1/jobs", namespace="acme"))["items"] == []
    await host.ask("GET", "/v1/me", 401, token=secret)
    acted = [one["action"] for one in (await host.ask("GET", "/v1/events"))["items"]]
    assert acted == ["namespaces.create", "namespaces.delete", "namespaces.create", "namespaces.create"]
    assert await exists(store_url(url, "acme"))


async def test_jobs_waiting_requests_and_bytes_are_limited(host: HostedProcess) -> None:
    await host.ask("PUT", "/v1/namespaces/acme/limits", json={"jobs_waiting": 3})
    statuses = []
    for _ in range(4):
        answer = await host.ask("POST", "/v1/jobs", None, namespace="acme", json={"type": "x"})
        statuses.append(answer.status_code)
    assert statuses == [201, 201, 201, 429]
    assert (answer.json()["code"], answer.headers["retry-after"]) == ("namespace_full", "1")
    assert (await host.ask("POST", "/v1/jobs:batch", 429, namespace="acme", json={"jobs": [{"type": "x"}]}))["code"]
    await host.ask("POST", "/v1/jobs", 201, namespace="beta", json={"type": "x"})
    await host.ask("POST", "/v1/jobs", 201, json={"type": "x"})
    await host.ask("PUT", "/v1/namespaces/acme/limits", json={"requests_per_second": 2, "bytes_in_flight": 100})
    large = await host.ask("POST", "/v1/jobs", 429, namespace="acme", json={"type": "x", "payload": "x" * 100})
    assert (large["code"], "bytes in flight" in large["detail"]) == ("namespace_limit", True)
    codes = [(await host.ask("GET", "/v1/queues", None, namespace="acme")).status_code for _ in range(5)]
    assert 429 in codes
    assert all([(await host.ask("GET", "/v1/queues", None)).status_code == 200 for _ in range(5)])
    await host.ask("PUT", "/v1/namespaces/acme/limits", json={})
    assert [(await host.ask("GET", "/v1/queues", None, namespace="acme")).status_code for _ in range(5)] == [200] * 5


async def test_the_live_stream_and_the_metrics_are_of_one_namespace(host: HostedProcess) -> None:
    headers = {"Authorization": f"Bearer {await host.token('acme')}"}
    seen = ""
    async with host.client.stream("GET", "/v1/events/stream", headers=headers) as stream:
        assert stream.status_code == 200
        for name in ("beta", "acme"):
            await host.ask("POST", "/v1/jobs", 201, namespace=name, json={"type": f"{name}x", "queue": f"{name}x"})
        is_deleted = False
        async with asyncio.timeout(20):
            # A stream of a deleted namespace ends.
            async for line in stream.aiter_lines():
                seen += line
                if "acmex" in seen and not is_deleted:
                    await host.ask("DELETE", "/v1/namespaces/acme?confirm=acme")
                    is_deleted = True
    assert is_deleted
    assert "betax" not in seen
    scrape = {"Accept": "text/plain"}
    metrics = await host.ask("GET", "/metrics", namespace="beta", headers=scrape)
    assert 'rota_jobs_submitted_total{type="betax"} 1' in metrics
    for other in ("", "beta"):
        assert "acmex" not in await host.ask("GET", "/metrics", namespace=other, headers=scrape)


@pytest.mark.parametrize("name", ["default", "Acme", "a_b", "a--b", "-a", "9a", "a" * 31, "ä", "a b"])
async def test_a_wrong_name_is_refused(tmp_path: Path, name: str) -> None:
    async with hosted_process(str(tmp_path / "rota.db")) as host:
        refused = await host.ask("POST", "/v1/namespaces", 422, json={"name": name})
        assert refused["errors"][0]["field"] == "name"
        await host.ask("GET", "/v1/namespaces/none", 404)
        await host.ask("PUT", "/v1/namespaces/none/limits", 404, json={})


async def test_a_store_that_is_not_ours_is_not_taken(host: HostedProcess, url: str) -> None:
    link = await open_link(replace(host.settings, namespace="acme"), store_url(url, "acme"))
    await link.close()
    assert link.engine is not None
    taken = await host.ask("POST", "/v1/namespaces", 409, json={"name": "acme"})
    assert "exists already" in taken["detail"]
    (listed,) = [one for one in await host.link.engine.store.namespaces() if one.name == "acme"]  # type: ignore[union-attr]
    await host.link.engine.store.put_namespace(  # type: ignore[union-attr]
        replace(listed, deleted_at=listed.created_at, dropped_at=listed.created_at)
    )
    foreign = await host.ask("POST", "/v1/namespaces", 409, json={"name": "acme"})
    assert "not of this deployment" in foreign["detail"]


async def test_a_process_in_a_namespace_serves_only_that(host: HostedProcess, url: str) -> None:
    secret, other = await host.token("acme"), await host.token("")
    async with hosted_process(url, namespace="acme") as inner:
        assert (await inner.ask("GET", "/v1/me"))["namespace"] == "acme"
        assert (await inner.ask("GET", "/v1/me", token=secret))["namespace"] == "acme"
        await inner.ask("GET", "/v1/me", 401, token=other)
        for name in ("beta", "default"):
            await inner.ask("GET", "/v1/me", 404, namespace=name)
        await inner.ask("GET", "/v1/namespaces", 404)


async def test_an_unknown_namespace_is_not_opened_by_a_process(url: str) -> None:
    async with hosted_process(url):
        with pytest.raises(InvalidRequest, match="rota namespaces create nobody"):
            async with hosted_process(url, namespace="nobody"):
                pass
        assert not await exists(store_url(url, "nobody"))


async def test_an_app_submits_to_its_namespace_in_process_and_over_http(host: HostedProcess, url: str) -> None:
    def submit() -> str:
        app = Rota(url, namespace="acme")
        task = app.task(name="greet")(lambda: None)
        try:
            return task.submit().id
        finally:
            app.close()

    job = await asyncio.to_thread(submit)
    assert (await host.ask("GET", f"/v1/jobs/{job}", namespace="acme"))["type"] == "greet"
    await host.ask("GET", f"/v1/jobs/{job}", 404)
    link = await open_link(replace(host.settings, namespace="beta"), host.address)
    try:
        new = NewJob(link.fresh_id(), "x", "1")
        (made,) = await link.control.submit([new])
        assert [job.id for job in await link.control.get([made.job_id])] == [made.job_id]
    finally:
        await link.close()
    assert len((await host.ask("GET", "/v1/jobs", namespace="beta"))["items"]) == 1
    assert (await host.ask("GET", "/v1/jobs"))["items"] == []


async def test_tables_that_a_crash_left_out_are_made_when_the_namespace_is_opened(
    host: HostedProcess, url: str
) -> None:
    assert host.link.engine is not None
    now = await host.link.engine.store.time()
    await host.link.engine.store.put_namespace(Namespace("late-1", now))
    assert (await host.ask("GET", "/v1/jobs", namespace="late-1"))["items"] == []
    assert await exists(store_url(url, "late-1"))
