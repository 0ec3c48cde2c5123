"""The demo: its past is made once and is consistent on every store, and `tools/demo` shows live jobs soon."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from conformance.stores.adapters import STORES, Adapter
from journeys.system import DEMO, System, open_system
from rota.core.history import BucketLength, HistoryQuery
from rota.core.lifecycle import State
from rota.ports.store import JobQuery
from rota.runtime.store import open_store

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    "adapter", [one for one in STORES if one.name != "sqlite-memory"], ids=lambda adapter: adapter.name
)
async def test_the_past_is_made_once_and_every_store_has_it(adapter: Adapter, tmp_path: Path) -> None:
    async for place in adapter.place(tmp_path):
        said = [_seed(place) for _ in range(2)]
        assert "jobs made" in said[0]
        assert "left alone" in said[1]
        store = await open_store(place)
        try:
            census = await store.census()
            assert census.total(State.COMPLETED) > 2_000
            assert census.total(State.DEAD) > 50
            assert census.total(State.RUNNING) == 0
            assert len(await store.dead_groups(100)) >= 5
            assert {one.name for one in await store.queues()} == {"newsletter"}
            workflows = {one.name: one.state.value for one in await store.workflows()}
            assert workflows == {"order 1041": "completed", "order 1042": "failed", "month end": "running"}
            assert {one.name for one in await store.limits()} == {"queue:media", "task:charge_card"}
            (schedule,) = await store.schedules(names=["hourly stock report"])
            assert len(await store.occurrences(schedule.id, limit=100)) >= 19
            now = await store.time()
            query = HistoryQuery(BucketLength.HOUR, now.replace(year=now.year - 1), now)
            assert len(await store.history(query)) > 20 * 24
            dead = await store.find(JobQuery(states=(State.DEAD,), limit=5))
            for job in dead:
                assert len(await store.attempts(job.id)) == job.attempts
            assert [one for one in await store.check() if not one.startswith("setting ")] == []
        finally:
            await store.close()


def _seed(place: str) -> str:
    command = [sys.executable, str(DEMO / "seed.py"), place]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=120).stdout


@pytest.fixture
def system(tmp_path: Path) -> Iterator[System]:
    with open_system(tmp_path) as one:
        yield one


def test_the_demo_shows_live_jobs_and_three_workers_and_ends_with_all_of_them(system: System) -> None:
    command = [
        str(ROOT / "tools" / "demo"),
        str(Path(sys.executable).parent),
        str(system.port),
        str(system.folder / "d.db"),
    ]
    with (system.folder / "log-demo.txt").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, env=system.environment, start_new_session=True)
    system.started.append(process)
    system.until_up()
    workers = system.until(lambda: system.ask("GET", "/v1/workers")["items"], lambda found: len(found) == 3)
    assert {one["worker_id"] for one in workers} == {"shop-1", "shop-2", "media-1"}
    system.until(lambda: system.ask("GET", "/v1/jobs?q=type:take_order+created:<1m")["items"], bool)
    os.killpg(process.pid, signal.SIGINT)
    process.wait(60)
    with pytest.raises(ProcessLookupError):
        os.killpg(process.pid, 0)
