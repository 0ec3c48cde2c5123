from __future__ import annotations

from datetime import timedelta

from builders import new_jobs
from engine.environment import EngineEnvironment
from rota.core.lifecycle import State
from rota.core.outcome import Succeeded
from rota.engine.jobs import RECOUNT_EVERY
from rota.ports.store import LATEST_COMMIT, Census, CompletedCount


async def _complete(env: EngineEnvironment, count: int) -> None:
    for job in await env.begin(*new_jobs(count)):
        await env.report(job, Succeeded())


async def test_completed_jobs_are_read_once_and_all_again_every_ten_minutes(env: EngineEnvironment) -> None:
    asked: list[CompletedCount | None] = []

    async def census(known: CompletedCount | None = None) -> Census:
        asked.append(known)
        return await env.store.census(known)

    env.faulty_store.census = census  # type: ignore[attr-defined]
    await _complete(env, 3)
    env.clock.move(LATEST_COMMIT + timedelta(seconds=5))
    await _complete(env, 1)
    for moment in (timedelta(0), timedelta(minutes=1), RECOUNT_EVERY, -2 * RECOUNT_EVERY):
        env.host_clock.step(moment)
        assert (await env.engine.census()).finished[State.COMPLETED] == 4
    assert [None if known is None else known.count for known in asked] == [None, 3, None, None]
