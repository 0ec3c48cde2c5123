"""Which outcomes a worker reports as those of a dependency, on every executor."""

from __future__ import annotations

from datetime import timedelta

import pytest

from rota.core.outcome import Failed, Outcome
from rota.core.settlement import JobError
from rota.worker import handler_of
from rota.worker.attempt import RunningAttempt
from rota.worker.builtin.http import HttpFailed, HttpServerFailed
from rota.worker.exceptions import ExceptionTypes, GiveUp
from rota.worker.executors.child_protocol import decode_outcome, encode_outcome
from rota.worker.handlers import Handler
from rota.worker.outcomes import StopReason, outcome_of, outcome_of_stop
from worker.environment import WorkerEnvironment


def _handler(errors: ExceptionTypes = (ConnectionError, TimeoutError)) -> Handler:
    return handler_of(lambda: None, type="call", breaker="stripe", dependency_errors=errors)


def _is_of_dependency(outcome: Outcome | None) -> bool:
    assert isinstance(outcome, Failed)
    return outcome.dependency


CASES = [
    (ConnectionError("refused"), True),
    (ConnectionResetError("reset"), True),
    (TimeoutError("slow"), True),
    (HttpServerFailed("answered 503"), True),
    (HttpFailed("answered 404"), False),
    (ValueError("a bug"), False),
    (OSError("disk"), False),
    (GiveUp("no such card"), False),
]


@pytest.mark.parametrize(("raised", "expected"), CASES, ids=lambda one: type(one).__name__)
def test_only_declared_exceptions_are_the_dependencys(raised: BaseException, *, expected: bool) -> None:
    handler = _handler()
    assert _is_of_dependency(outcome_of(raised, handler)) is expected


@pytest.mark.parametrize(("raised", "expected"), CASES[:-1], ids=lambda one: type(one).__name__)
def test_a_child_process_says_the_same(raised: BaseException, *, expected: bool) -> None:
    """The child does not know the breaker: the names of the exception's classes decide."""
    plain, handler = handler_of(lambda: None, type="call"), _handler()
    assert _is_of_dependency(decode_outcome(encode_outcome(outcome_of(raised, plain), raised), handler)) is expected


@pytest.mark.parametrize(("errors", "expected"), [((TimeoutError,), True), ((OSError,), True), ((ValueError,), False)])
def test_an_attempt_past_its_time_counts_as_a_timeout(errors: ExceptionTypes, *, expected: bool) -> None:
    outcome = outcome_of_stop(StopReason.TIMEOUT, timedelta(seconds=1), _handler(errors), None)
    assert _is_of_dependency(outcome) is expected


@pytest.mark.parametrize(
    ("key", "breaker"), [(None, "stripe"), ("account-7", "stripe"), ("breaker:api.shop", "api.shop")]
)
async def test_the_jobs_own_breaker_counts_before_the_tasks(
    env: WorkerEnvironment, key: str | None, breaker: str
) -> None:
    job_id = await env.submit("call", concurrency_key=key)
    attempt = RunningAttempt.__new__(RunningAttempt)
    attempt.job, attempt.handler = await env.look(job_id), _handler()
    assert attempt.breaker == breaker


def test_the_error_is_kept_as_it_was() -> None:
    outcome = outcome_of(ConnectionError("refused"), _handler())
    assert isinstance(outcome, Failed)
    assert outcome.error == JobError("ConnectionError", "refused", outcome.error.traceback)
