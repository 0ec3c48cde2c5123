"""The cluster over HTTP: leader, members, and shared configuration."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import timedelta

import httpx
import pytest

from api.environment import ApiEnvironment, api_environment, body_of
from rota.api import ApiSettings
from rota.coordination.etcd import EtcdCoordinator, location_of
from rota.coordination.local import LocalCoordinator
from rota.core.cluster import Member, Role


@pytest.fixture
def coordinator() -> LocalCoordinator:
    return LocalCoordinator()


@pytest.fixture
async def cluster(coordinator: LocalCoordinator) -> AsyncIterator[ApiEnvironment]:
    async with api_environment(ApiSettings(coordinator=coordinator)) as env:
        yield env


async def test_the_cluster_is_shown_as_the_coordinator_knows_it(
    cluster: ApiEnvironment, coordinator: LocalCoordinator
) -> None:
    shown = body_of(await cluster.client.get("/v1/cluster"))
    assert shown == {
        "coordinator": "local",
        "coordinator_health": True,
        "current_leader": None,
        "term": None,
        "members": [],
        "configuration": {},
    }
    await coordinator.campaign("scheduler", "ada", timedelta(seconds=60))
    await coordinator.register([Member(Role.WORKER, "bob", "b1", slots=4, busy=1, address="here:1", version="9")])
    shown = body_of(await cluster.client.get("/v1/cluster"))
    assert (shown["current_leader"], shown["term"]) == ("ada", 1)
    (member,) = shown["members"]
    assert (member["worker_id"], member["role"], member["slots"], member["busy"], member["is_alive"]) == (
        "bob", "worker", 4, 1, True,
    )  # fmt: skip


async def lead_of(coordinator: LocalCoordinator, *schedulers: str) -> None:
    """Let the first of some schedulers lead."""
    await coordinator.register([Member(Role.SCHEDULER, name, name) for name in schedulers])
    await coordinator.register([Member(Role.WORKER, "w1", "w1")])
    await coordinator.campaign("scheduler", schedulers[0], timedelta(seconds=60))


async def test_the_lead_is_transferred_to_a_named_scheduler_or_to_any_other(
    cluster: ApiEnvironment, coordinator: LocalCoordinator
) -> None:
    await lead_of(coordinator, "ada", "bob", "eve")
    first = body_of(await cluster.client.post("/v1/cluster/leader:transfer", json={"to": "eve"}))
    assert first == {"current_leader": "eve", "term": 2, "previous_leader": "ada"}
    second = body_of(await cluster.client.post("/v1/cluster/leader:transfer", json={}))
    assert second == {"current_leader": "ada", "term": 3, "previous_leader": "eve"}
    (now, before) = [(entry.action, entry.target, entry.detail) for entry in await cluster.store.ledger()]
    assert (now, before) == (
        ("cluster.transfer_lead", "ada", "from eve"),
        ("cluster.transfer_lead", "eve", "from ada"),
    )


async def test_a_transfer_that_cannot_be_is_refused_and_the_leader_stays(
    cluster: ApiEnvironment, coordinator: LocalCoordinator
) -> None:
    refused = await cluster.client.post("/v1/cluster/leader:transfer", json={})
    assert (refused.status_code, refused.json()["code"]) == (409, "no_leader")
    await lead_of(coordinator, "ada")
    alone = await cluster.client.post("/v1/cluster/leader:transfer", json={})
    assert (alone.status_code, alone.json()["code"]) == (409, "no_other_scheduler")
    assert "the coordinator `local` knows this process only" in alone.json()["detail"]
    assert "rota scheduler" in alone.json()["fix"]
    await lead_of(coordinator, "ada", "bob")
    same = await cluster.client.post("/v1/cluster/leader:transfer", json={"to": "ada"})
    assert (same.status_code, same.json()["code"]) == (409, "already_leader")
    for name in ("w1", "nobody"):
        unknown = await cluster.client.post("/v1/cluster/leader:transfer", json={"to": name})
        assert (unknown.status_code, unknown.json()["errors"][0]["field"]) == (422, "to")
        assert "there are: bob" in unknown.json()["detail"]
    leads = await coordinator.leader("scheduler")
    assert leads is not None
    assert (leads.holder, leads.term) == ("ada", 1)
    assert await cluster.store.ledger() == []


async def test_the_configuration_is_set_recorded_and_forgotten(
    cluster: ApiEnvironment, coordinator: LocalCoordinator
) -> None:
    place = "/v1/cluster/configuration/log_level"
    assert (await cluster.client.put(place, json={"value": "DEBUG"})).status_code == 204
    assert (await coordinator.configuration()).values == {"log_level": "debug"}
    assert (await cluster.client.delete(place)).status_code == 204
    assert (await coordinator.configuration()).values == {}
    acts = [(entry.action, entry.target, entry.detail) for entry in await cluster.store.ledger()]
    assert acts == [("cluster.forget", "log_level", ""), ("cluster.configure", "log_level", "debug")]


async def test_a_key_without_an_effect_is_refused(cluster: ApiEnvironment, coordinator: LocalCoordinator) -> None:
    colour = await cluster.client.put("/v1/cluster/configuration/colour", json={"value": "red"})
    level = await cluster.client.put("/v1/cluster/configuration/log_level", json={"value": "loud"})
    gone = await cluster.client.delete("/v1/cluster/configuration/colour")
    assert [one.status_code for one in (colour, level, gone)] == [422, 422, 422]
    assert "log_level" in colour.json()["detail"]
    assert "debug, info, warning, error" in level.json()["detail"]
    assert (await coordinator.configuration()).values == {}


async def test_where_there_is_no_coordinator_there_is_no_cluster(client: httpx.AsyncClient) -> None:
    assert (await client.get("/v1/cluster")).status_code == 404


async def test_a_coordinator_that_is_away_is_no_store_that_is_away() -> None:
    nobody = EtcdCoordinator(location_of("127.0.0.1:1"), timeout=0.1)
    settings = ApiSettings(coordinator=nobody, coordinator_is_healthy=lambda: False)
    async with api_environment(settings) as env:
        refusal = await env.client.get("/v1/cluster")
        assert (refusal.status_code, refusal.json()["code"]) == (503, "coordinator_unavailable")
        assert refusal.headers["retry-after"] == "1"
        health = await env.client.get("/health")
        assert (health.status_code, health.json()["status"]) == (200, "degraded")
        scraped = await env.client.get("/metrics", headers={"Accept": "text/plain"})
        assert "rota_coordinator_up 0.0" in scraped.text
    await nobody.close()
