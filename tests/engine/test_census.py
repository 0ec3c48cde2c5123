from __future__ import annotations

from datetime import timedelta

from building import new_jobs
from engine.staging import Bench
from rota.core.lifecycle import State
from rota.core.outcome import Succeeded
from rota.engine.jobs import RECOUNT_EVERY
from rota.ports.store import LATEST_COMMIT, Census, CompletedCount


async def _complete(bench: Bench, count: int) -> None:
    for job in await bench.begin(*new_jobs(count)):
        await bench.report(job, Succeeded())


async def test_completed_jobs_are_read_once_and_all_again_every_ten_minutes(bench: Bench) -> None:
    asked: list[CompletedCount | None] = []

    async def census(known: CompletedCount | None = None) -> Census:
        asked.append(known)
        return await bench.store.census(known)

    bench.line.census = census  # type: ignore[attr-defined]
    await _complete(bench, 3)
    bench.clock.move(LATEST_COMMIT + timedelta(seconds=5))
    await _complete(bench, 1)
    for moment in (timedelta(0), timedelta(minutes=1), RECOUNT_EVERY, -2 * RECOUNT_EVERY):
        bench.host_clock.step(moment)
        assert (await bench.engine.census()).finished[State.COMPLETED] == 4
    assert [None if known is None else known.count for known in asked] == [None, 3, None, None]
