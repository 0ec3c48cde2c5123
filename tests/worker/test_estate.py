"""What a dead worker leaves: what it held is lost, what it never heard of is handed back."""

from __future__ import annotations

import logging
import time
from collections.abc import Awaitable
from typing import Any

import pytest

from building import error
from rota.core.errors import InvalidRequest, StoreUnavailable
from rota.core.job import Job
from rota.core.lease import Claim, WorkerId
from rota.core.lifecycle import State
from rota.core.outcome import Lost, Released
from rota.core.submission import Delivery
from rota.worker.estate import QUESTIONS, Estate, give_back
from rota.worker.leases import Key
from worker.staging import Losing, Passing, Stage

EVE = WorkerId("eve", "e")


def left(*asked: str, held: tuple[Key, ...] = ()) -> Estate:
    return Estate(EVE, held, asked, error("died"))


async def settle(source: Passing, estate: Estate, seconds: float = 20.0) -> None:
    await give_back(source, estate, give_up_at=time.monotonic() + seconds)


async def claimed(stage: Stage, question: str, **fields: Any) -> Job:  # noqa: ANN401 - any field of a job
    """Lease a job to who will not hear of it."""
    await stage.submit("quick", **fields)
    (job,) = await stage.engine.claim(Claim(EVE, 1, types=("quick",), claim_id=question))
    return job


async def test_what_was_held_is_lost_and_what_was_not_is_as_if_nobody_had_had_it(stage: Stage) -> None:
    await stage.submit_many(2, "quick", max_attempts=5)
    held, unheard = await stage.engine.claim(Claim(EVE, 2, types=("quick",), claim_id="q"))
    source = Passing(stage.engine)
    await settle(source, left("q", held=((held.id, held.fence),)))
    jobs = [await stage.look(job.id) for job in (held, unheard)]
    assert [(job.state, job.attempts, job.crashes, job.error is None) for job in jobs] == [
        (State.PENDING, 1, 1, False), (State.PENDING, 0, 0, True),
    ]  # fmt: skip


async def test_all_the_questions_that_may_have_been_answered_are_asked_about(stage: Stage) -> None:
    names = [f"q{number}" for number in range(QUESTIONS)]
    jobs = [await claimed(stage, name) for name in names]
    await settle(Passing(stage.engine), left(*names))
    assert {(await stage.look(job.id)).state for job in jobs} == {State.PENDING}


async def test_nothing_new_is_leased_to_the_dead(stage: Stage) -> None:
    job_id = await stage.submit("quick")
    source = Passing(stage.engine)
    await settle(source, left("q"))
    assert (await stage.look(job_id)).fence == 0
    assert (source.claimed, source.settled) == ([0], [])
    # By this stores know that nobody waits for more.
    assert (source.claims[0].queues, source.claims[0].worker) == ((), EVE)


async def test_who_asked_nothing_and_held_nothing_leaves_nothing_to_be_said(stage: Stage) -> None:
    source = Passing(stage.engine)
    await settle(source, left())
    assert (source.claims, source.settled) == ([], [])


async def test_a_job_that_is_still_held_is_not_handed_back(stage: Stage) -> None:
    """Its report was refused; whatever the reason, it may have begun."""
    job = await claimed(stage, "q")

    async def refuse(answer: Awaitable[Any]) -> list[Any]:
        answer.close()  # type: ignore[attr-defined]
        return []

    source = Passing(stage.engine, on_settle=refuse)
    await settle(source, left("q", held=((job.id, job.fence),)))
    ((report,),) = source.settled
    assert isinstance(report.outcome, Lost)
    assert source.claimed == [1]


async def test_what_must_run_at_most_once_is_lost_in_any_case(stage: Stage) -> None:
    """That it was held may be in a pipe that was full."""
    job = await claimed(stage, "q", delivery=Delivery.AT_MOST_ONCE)
    await settle(Passing(stage.engine), left("q"))
    assert (await stage.look(job.id)).state is State.DEAD


@pytest.mark.parametrize("arrives", [False, True])
async def test_a_store_that_is_away_for_a_while_is_asked_again(stage: Stage, *, arrives: bool) -> None:
    job = await claimed(stage, "q")
    source = Passing(stage.engine, on_claim=Losing(2, arrives=arrives), on_settle=Losing(2, arrives=arrives))
    await settle(source, left("q"))
    now = await stage.look(job.id)
    assert (now.state, now.attempts, now.crashes) == (State.PENDING, 0, 0)
    assert {claim.claim_id for claim in source.claims} == {"q"}
    assert [report.outcome for report in source.settled[0]] == [Released(started=False)]


async def test_nobody_is_asked_for_longer_than_leases_last(stage: Stage) -> None:
    source = Passing(stage.engine, on_claim=Losing(1000))
    await settle(source, left("q"), seconds=0.3)
    assert 1 <= len(source.claims) <= 3


async def test_a_source_that_refuses_to_be_asked_for_no_queue_is_let_be(
    stage: Stage, caplog: pytest.LogCaptureFixture
) -> None:
    async def refuse(answer: Awaitable[Any]) -> Any:  # noqa: ANN401 - any answer
        answer.close()  # type: ignore[attr-defined]
        raise InvalidRequest("queues: name one")

    source = Passing(stage.engine, on_claim=refuse)
    with caplog.at_level(logging.DEBUG, "rota.worker.companion"):
        await settle(source, left("q"))
    assert len(source.claims) == 1
    assert [record.levelname for record in caplog.records if record.name == "rota.worker.companion"] == ["DEBUG"]


async def test_what_is_held_is_given_up_though_nobody_can_be_asked(stage: Stage) -> None:
    job = await claimed(stage, "q")

    async def away(answer: Awaitable[Any]) -> Any:  # noqa: ANN401 - any answer
        answer.close()  # type: ignore[attr-defined]
        raise StoreUnavailable("away")

    await settle(Passing(stage.engine, on_claim=away), left("q", held=((job.id, job.fence),)), seconds=0.3)
    assert (await stage.look(job.id)).crashes == 1
