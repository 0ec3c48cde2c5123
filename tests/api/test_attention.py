"""What needs attention, from the real situation on a store until its repair."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from api.staging import Stage, body_of, staged
from rota.api import ApiSettings
from rota.core.cluster import ALIVE_FOR, Member, Role
from rota.core.history import Counted, HistoryFlush, Tally
from rota.core.queue import Lane

WORKER = Member(role=Role.WORKER, name="w1", boot="b", queues=("default",), types=None, slots=1, version="1")


@pytest.fixture(autouse=True)
def counted_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    """Count for every answer: the counts may be two seconds old otherwise."""
    monkeypatch.setattr("rota.api.routes.health.COUNTED_WITHIN_SECONDS", 0.0)


async def codes(stage: Stage) -> dict[str, dict[str, object]]:
    answer = body_of(await stage.client.get("/v1/attention"))
    return {item["code"]: item for item in answer["items"]}


async def test_a_due_job_that_waits_long_is_named_until_it_is_claimed(stage: Stage) -> None:
    await stage.submit()
    stage.clock.move(timedelta(minutes=6))
    found = (await codes(stage))["oldest_due_over"]
    assert found["evidence"] == {"queue": "default", "seconds": 360.0}
    await stage.claim()
    assert "oldest_due_over" not in await codes(stage)


async def test_a_silent_worker_is_named_until_it_is_back(stage: Stage) -> None:
    await stage.store.beat([WORKER])
    assert "worker_stale" not in await codes(stage)
    stage.clock.move(ALIVE_FOR * 2)
    assert (await codes(stage))["worker_stale"]["link"] == "/workers"
    await stage.store.beat([replace(WORKER, boot="again")])
    assert "worker_stale" not in await codes(stage)


async def test_a_worker_that_left_in_order_is_not_missed(stage: Stage) -> None:
    await stage.store.beat([WORKER])
    await stage.store.leave([WORKER.boot])
    stage.clock.move(ALIVE_FOR * 2)
    assert "worker_stale" not in await codes(stage)


@pytest.mark.parametrize(("counter", "code"), [("dead", "dead_growing"), ("lost", "lease_churn")])
async def test_a_trend_is_named_until_it_is_over(stage: Stage, counter: str, code: str) -> None:
    tally = Tally()
    tally.counts[counter] = 10
    await stage.store.add_history(HistoryFlush("w", 1, [Counted(timedelta(0), {Lane("default", "mail"): tally})]))
    assert code in await codes(stage)
    stage.clock.move(timedelta(minutes=17))
    assert code not in await codes(stage)


async def test_a_schedule_that_does_not_fire_is_named_until_it_fires(stage: Stage) -> None:
    body = {"name": "often", "cron": "* * * * *", "job": {"type": "mail"}}
    assert (await stage.client.post("/v1/schedules", json=body)).is_success
    stage.clock.move(timedelta(minutes=3))
    assert (await codes(stage))["schedule_late"]["evidence"] == {"schedule": "often"}
    await stage.engine.schedules.fire(10)
    assert "schedule_late" not in await codes(stage)


async def test_a_long_pause_of_a_schedule_is_information_and_leaves_health_as_it_is(stage: Stage) -> None:
    body = {"name": "often", "cron": "* * * * *", "job": {"type": "mail"}}
    await stage.client.post("/v1/schedules", json=body)
    await stage.client.post("/v1/schedules/often/pause", json={})
    stage.clock.move(timedelta(days=8))
    assert (await codes(stage))["schedule_paused_long"]["severity"] == "info"
    await stage.client.post("/v1/schedules/often/resume", json={})
    assert "schedule_paused_long" not in await codes(stage)


async def test_processes_of_two_releases_are_named_until_one_leaves(stage: Stage) -> None:
    await stage.store.beat([WORKER, replace(WORKER, name="w2", boot="c", version="2")])
    assert (await codes(stage))["version_skew"]["evidence"] == {"w1": "1", "w2": "2"}
    await stage.store.leave(["c"])
    assert "version_skew" not in await codes(stage)


async def test_an_exposed_api_without_a_token_is_named() -> None:
    async with staged(ApiSettings(is_exposed=True)) as stage:
        assert (await codes(stage))["insecure"]["severity"] == "critical"
