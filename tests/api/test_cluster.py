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
