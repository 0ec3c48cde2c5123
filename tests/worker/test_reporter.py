"""Outcomes: none is lost while the store is unavailable, and one that is refused fails alone."""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from typing import Any

import pytest

from rota.core.errors import InvalidRequest
from rota.core.ids import JobId
from rota.core.lifecycle import State
from rota.core.outcome import Succeeded
from rota.core.settlement import Reason
from rota.ports.client import AttemptReport
from worker.environment import LostResponses, RecordingSource, WorkerEnvironment


async def quick() -> str:
    return "fine"


@pytest.mark.parametrize("arrives", [False, True])
async def test_outcomes_survive_a_store_that_is_away(env: WorkerEnvironment, *, arrives: bool) -> None:
    source = RecordingSource(env.engine, on_settle=LostResponses(4, arrives=arrives))
    ids = await env.submit_many(20, "quick")
    async with env.worker(quick, source=source, concurrency=5):
        jobs = await env.ends_of(ids)
    assert [(job.state, job.attempts) for job in jobs] == [(State.COMPLETED, 1)] * 20


async def test_any_error_of_the_transport_is_survived(env: WorkerEnvironment) -> None:
    async def breaks(answer: Awaitable[Any]) -> Any:  # noqa: ANN401 - any answer
        if source.settled[3:]:
            return await answer
        answer.close()  # type: ignore[attr-defined]
        raise OSError("connection reset")

    source = RecordingSource(env.engine)
    source.on_settle = breaks
    async with env.worker(quick, source=source):
        job = await env.end_of(await env.submit("quick"))
    assert job.state is State.COMPLETED


class Choosy(RecordingSource):
    """A source that does not take results of a kind."""

    async def settle(self, reports: Sequence[AttemptReport]) -> Sequence[JobId]:
        if any(report.outcome == Succeeded('"bad"') for report in reports):
            raise InvalidRequest("result: not acceptable", field="result")
        return await super().settle(reports)


async def test_an_outcome_the_source_refuses_fails_its_own_job_and_no_other(env: WorkerEnvironment) -> None:
    async def says(word: str) -> str:
        return word

    words = ["good", "bad", "good", "bad", "good"]
    ids = [await env.submit("says", f'{{"word": "{word}"}}') for word in words]
    async with env.worker(says, source=Choosy(env.engine), concurrency=5):
        jobs = await env.ends_of(ids)
    assert [job.state for job in jobs] == [State.COMPLETED, State.DEAD, State.COMPLETED, State.DEAD, State.COMPLETED]
    assert jobs[1].reason is Reason.PERMANENT
    assert jobs[1].error is not None
    assert jobs[1].error.kind == "OutcomeRefused"
