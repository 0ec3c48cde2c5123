"""A value from another job becomes the first argument, whatever the payload is."""

from __future__ import annotations

import json
from datetime import timedelta

import pytest

from rota.core.ids import JobId
from rota.core.lifecycle import State
from rota.core.retry import Backoff
from rota.core.submission import TAKES, Dependency, Need, Takes
from rota.worker.inputs import with_input
from worker.environment import OPERATOR, WorkerEnvironment


@pytest.mark.parametrize(
    ("payload", "args", "kwargs"),
    [
        ("null", [7], {}),
        ('{"args":[1,2],"kwargs":{"a":3}}', [7, 1, 2], {"a": 3}),
        ('{"args":[1]}', [7, 1], {}),
        ('{"kwargs":{"a":3}}', [7], {"a": 3}),
        ('{"to":"a@b.c"}', [7], {"to": "a@b.c"}),
        ("{}", [7], {}),
        ("[1,2]", [7, [1, 2]], {}),
        ('"text"', [7, "text"], {}),
        ('{"args":5}', [7], {"args": 5}),
        ('{"args":[1],"kwargs":"x"}', [7], {"args": [1], "kwargs": "x"}),
    ],
)
def test_the_value_comes_before_the_arguments(payload: str, args: list[object], kwargs: dict[str, object]) -> None:
    assert json.loads(with_input(payload, "7")) == {"args": args, "kwargs": kwargs}


class _FailingInputs:
    """A source of inputs that fails as no source should, once."""

    def __init__(self) -> None:
        self.calls = 0

    async def input_of(self, job_id: JobId, fence: int) -> str | None:  # noqa: ARG002 - the port's names
        self.calls += 1
        if self.calls == 1:
            raise RuntimeError("planted")
        return "7"


async def test_an_input_that_cannot_be_read_fails_the_attempt(env: WorkerEnvironment) -> None:
    """The attempt kept its slot and its lease for ever if the source raised anything unexpected."""
    given: list[int] = []

    async def take(value: int) -> None:
        given.append(value)

    inputs = _FailingInputs()
    async with env.scheduler(), env.worker(take, inputs=inputs):
        parent = await env.submit("nobody")
        job_id = await env.submit(
            "take",
            after=(Dependency(parent, Need.END),),
            meta={TAKES: Takes.RESULT.value},
            backoff=Backoff(base=timedelta(0)),
        )
        await env.engine.cancel([parent], OPERATOR)
        job = await env.end_of(job_id)
    assert (job.state, job.attempts, given) == (State.COMPLETED, 2, [7])
