"""Start and end of an attempt, the same for every executor."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import Context
from math import inf
from typing import Any, Final

from rota.core.outcome import Failed, Outcome, Snoozed, Succeeded, Suspended, Unknown
from rota.core.settlement import JobError
from rota.ports.clock import Rng
from rota.telemetry.tracing import Spans
from rota.worker.arguments import NotJson
from rota.worker.attempt import RunningAttempt
from rota.worker.context import CURRENT
from rota.worker.exceptions import GiveUp, OutcomeUnknown, RetryLater, Suspend
from rota.worker.outcomes import StopReason, outcome_of
from rota.worker.steps import AttemptSteps
from rota.worker.tracker import AttemptTracker

INJECTED_FAILURE: Final = Failed(JobError("InjectedFailure", "this attempt failed on purpose: FAIL_RATE is set"))


class Execution:
    """Starts attempts and records their outcomes. Called from every thread."""

    def __init__(
        self,
        tracker: AttemptTracker,
        *,
        wake: Callable[[], None],
        clock: Callable[[], float],
        watch: Callable[[float], None],
        rng: Rng,
        fail_rate: float = 0.0,
        result_bytes: int = 4_000_000,
        steps_for: Callable[[RunningAttempt], AttemptSteps] | None = None,
        spans: Spans | None = None,
        worker: str = "",
    ) -> None:
        self._steps_for = steps_for
        self._spans = spans
        self._worker = worker
        self._tracker = tracker
        self._wake = wake
        self._clock = clock
        self._watch = watch
        self._rng = rng
        self._fail_rate = fail_rate
        self._result_bytes = result_bytes

    def begin(self, attempt: RunningAttempt) -> bool:
        """Return whether the handler may start: the job is still held, not stopped, and surely within its lease."""
        if not self._tracker.take(attempt):
            return False
        now = self._clock()
        if attempt.is_stopped or now > attempt.start_before:
            self._finish(attempt, attempt.outcome_not_started())
            return False
        attempt.begin(now, self._steps_for)
        if self._fail_rate and self._rng() < self._fail_rate:
            self._finish(attempt, INJECTED_FAILURE)
            return False
        if attempt.deadline < inf:
            self._watch(attempt.deadline)
        return True

    def handler_context(self, attempt: RunningAttempt, base: Context) -> Context:
        """Make the context variables of a handler that starts: its job, and its span if traces are exported."""
        context = base.copy()
        context.run(CURRENT.set, attempt.context)  # type: ignore[arg-type]
        if self._spans is not None:
            attempt.span = self._spans.begin(attempt.job, self._worker, context)
        return context

    def succeed(self, attempt: RunningAttempt, result: Any) -> None:  # noqa: ANN401 - whatever the handler returned
        """Finish an attempt whose handler returned. It counts even after a stop request: the work is done."""
        try:
            text = attempt.handler.encode(result)
        except BaseException as raised:  # noqa: BLE001 - the result's own code may raise anything
            self.fail(attempt, raised)
            return
        self._succeed_with(attempt, text)

    def _succeed_with(self, attempt: RunningAttempt, text: str) -> None:
        if len(text) > self._result_bytes:
            size = f"the result is {len(text):,} characters of JSON; at most {self._result_bytes:,} are kept"
            self.fail(attempt, NotJson(f"{size}: store it elsewhere and return where"))
            return
        self._finish(attempt, None if attempt.stop is StopReason.LOST else Succeeded(text))

    def finish_remote(self, attempt: RunningAttempt, outcome: Outcome) -> None:
        """Finish an attempt whose handler ran in a child process, with the outcome that the child reported."""
        match outcome:
            case Succeeded(result):
                self._succeed_with(attempt, result)
            case Snoozed() | Suspended() | Unknown() | Failed(permanent=True):
                self._finish(attempt, None if attempt.stop is StopReason.LOST else outcome)
            case _:
                self._finish(attempt, outcome if attempt.stop is None else attempt.outcome_stopped())

    def fail(self, attempt: RunningAttempt, raised: BaseException) -> None:
        """Finish an attempt whose handler raised."""
        if attempt.stop is None or isinstance(raised, RetryLater | GiveUp | NotJson | OutcomeUnknown | Suspend):
            outcome = None if attempt.stop is StopReason.LOST else outcome_of(raised, attempt.handler)
        else:
            outcome = attempt.outcome_stopped(raised)
        self._finish(attempt, outcome)

    def _finish(self, attempt: RunningAttempt, outcome: Outcome | None) -> None:
        if attempt.span is not None and self._spans is not None:
            self._spans.end(
                attempt.span, None if isinstance(outcome, Succeeded | Suspended) else type(outcome).__name__
            )
        if self._tracker.finish(attempt, outcome):
            self._wake()
