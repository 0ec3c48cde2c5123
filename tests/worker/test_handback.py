"""Jobs of a dead worker: those it held are reported as lost, those that never reached it are handed back."""

from __future__ import annotations

import logging
import time
from collections.abc import Awaitable
from typing import Any

import pytest

from builders import error
from rota.core.errors import InvalidRequest, StoreUnavailable
from rota.core.job import Job
from rota.core.lease import Claim, WorkerId
from rota.core.lifecycle import State
from rota.core.outcome import Lost, Released
from rota.core.submission import Delivery
from rota.worker.lease_keeper.handback import OPEN_CLAIMS, DeadWorker, hand_back
from rota.worker.lease_keeper.protocol import LeaseKey
from worker.environment import LostResponses, RecordingSource, WorkerEnvironment

EVE = WorkerId("eve", "e")


def dead(*claim_ids: str, held: tuple[LeaseKey, ...] = ()) -> DeadWorker:
    return DeadWorker(EVE, held, claim_ids, error("died"))


async def run_hand_back(source: RecordingSource, worker: DeadWorker, seconds: float = 20.0) -> None:
    await hand_back(source, worker, give_up_at=time.monotonic() + seconds)


async def claimed(env: WorkerEnvironment, claim_id: str, **fields: Any) -> Job:  # noqa: ANN401 - any field of a job
    """Lease a job to a worker that never receives it."""
    await env.submit("quick", **fields)
    (job,) = await env.engine.claim(Claim(EVE, 1, types=("quick",), claim_id=claim_id))
    return job


async def test_held_jobs_are_lost_and_others_are_handed_back_without_an_attempt(env: WorkerEnvironment) -> None:
    await env.submit_many(2, "quick", max_attempts=5)
    held, unknown = await env.engine.claim(Claim(EVE, 2, types=("quick",), claim_id="q"))
    source = RecordingSource(env.engine)
    await run_hand_back(source, dead("q", held=((held.id, held.fence),)))
    jobs = [await env.look(job.id) for job in (held, unknown)]
    assert [(job.state, job.attempts, job.crashes, job.error is None) for job in jobs] == [
        (State.PENDING, 1, 1, False), (State.PENDING, 0, 0, True),
    ]  # fmt: skip


async def test_the_jobs_of_all_open_claims_are_handed_back(env: WorkerEnvironment) -> None:
    names = [f"q{number}" for number in range(OPEN_CLAIMS)]
    jobs = [await claimed(env, name) for name in names]
    await run_hand_back(RecordingSource(env.engine), dead(*names))
    assert {(await env.look(job.id)).state for job in jobs} == {State.PENDING}


async def test_nothing_new_is_leased_to_a_dead_worker(env: WorkerEnvironment) -> None:
    job_id = await env.submit("quick")
    source = RecordingSource(env.engine)
    await run_hand_back(source, dead("q"))
    assert (await env.look(job_id)).fence == 0
    assert (source.claimed, source.settled) == ([0], [])
    # By this stores know that no worker waits for more.
    assert (source.claims[0].queues, source.claims[0].worker) == ((), EVE)


async def test_a_worker_without_leases_and_claims_causes_no_request(env: WorkerEnvironment) -> None:
    source = RecordingSource(env.engine)
    await run_hand_back(source, dead())
    assert (source.claims, source.settled) == ([], [])


async def test_a_job_that_is_still_held_is_not_handed_back(env: WorkerEnvironment) -> None:
    """Its report was refused; whatever the reason, it may have begun."""
    job = await claimed(env, "q")

    async def refuse(answer: Awaitable[Any]) -> list[Any]:
        answer.close()  # type: ignore[attr-defined]
        return []

    source = RecordingSource(env.engine, on_settle=refuse)
    await run_hand_back(source, dead("q", held=((job.id, job.fence),)))
    ((report,),) = source.settled
    assert isinstance(report.outcome, Lost)
    assert source.claimed == [1]


async def test_an_at_most_once_job_is_lost_in_any_case(env: WorkerEnvironment) -> None:
    """The message that it was held may have been lost in a full pipe."""
    job = await claimed(env, "q", delivery=Delivery.AT_MOST_ONCE)
    await run_hand_back(RecordingSource(env.engine), dead("q"))
    assert (await env.look(job.id)).state is State.DEAD


@pytest.mark.parametrize("arrives", [False, True])
async def test_requests_are_repeated_while_the_store_is_unavailable(env: WorkerEnvironment, *, arrives: bool) -> None:
    job = await claimed(env, "q")
    source = RecordingSource(
        env.engine, on_claim=LostResponses(2, arrives=arrives), on_settle=LostResponses(2, arrives=arrives)
    )
    await run_hand_back(source, dead("q"))
    now = await env.look(job.id)
    assert (now.state, now.attempts, now.crashes) == (State.PENDING, 0, 0)
    assert {claim.claim_id for claim in source.claims} == {"q"}
    assert [report.outcome for report in source.settled[0]] == [Released(started=False)]


async def test_requests_are_not_repeated_for_longer_than_a_lease(env: WorkerEnvironment) -> None:
    source = RecordingSource(env.engine, on_claim=LostResponses(1000))
    await run_hand_back(source, dead("q"), seconds=0.3)
    assert 1 <= len(source.claims) <= 3


async def test_a_source_that_refuses_a_claim_without_queues_is_asked_once(
    env: WorkerEnvironment, caplog: pytest.LogCaptureFixture
) -> None:
    async def refuse(answer: Awaitable[Any]) -> Any:  # noqa: ANN401 - any answer
        answer.close()  # type: ignore[attr-defined]
        raise InvalidRequest("queues: name one")

    source = RecordingSource(env.engine, on_claim=refuse)
    with caplog.at_level(logging.DEBUG, "rota.worker.lease_keeper"):
        await run_hand_back(source, dead("q"))
    assert len(source.claims) == 1
    assert [record.levelname for record in caplog.records if record.name == "rota.worker.lease_keeper"] == ["DEBUG"]


async def test_held_jobs_are_reported_lost_though_claims_fail(env: WorkerEnvironment) -> None:
    job = await claimed(env, "q")

    async def away(answer: Awaitable[Any]) -> Any:  # noqa: ANN401 - any answer
        answer.close()  # type: ignore[attr-defined]
        raise StoreUnavailable("away")

    await run_hand_back(RecordingSource(env.engine, on_claim=away), dead("q", held=((job.id, job.fence),)), seconds=0.3)
    assert (await env.look(job.id)).crashes == 1
