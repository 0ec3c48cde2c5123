"""The gate: what every run passes on its way in and out, wherever its handler runs."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import Context
from math import inf
from typing import Any

from rota.core.outcome import Failed, Outcome, Snoozed, Succeeded, Unknown
from rota.core.settlement import JobError
from rota.ports.clock import Dice
from rota.telemetry.tracing import Spans
from rota.worker.calling import NotJson
from rota.worker.context import CURRENT
from rota.worker.holding import Holding
from rota.worker.run import Run
from rota.worker.signals import GiveUp, OutcomeUnknown, RetryLater
from rota.worker.steps import Steps
from rota.worker.verdict import Stop, outcome_of

INJECTED = Failed(JobError("InjectedFailure", "this attempt failed on purpose: FAIL_RATE is set"))


class Gate:
    """Lets runs begin and writes down how they end. Called from every thread."""

    def __init__(
        self,
        holding: Holding,
        *,
        ring: Callable[[], None],
        clock: Callable[[], float],
        watch: Callable[[float], None],
        dice: Dice,
        fail_rate: float = 0.0,
        result_bytes: int = 4_000_000,
        steps_for: Callable[[Run], Steps] | None = None,
        spans: Spans | None = None,
        worker: str = "",
    ) -> None:
        self._steps_for = steps_for
        self._spans = spans
        self._worker = worker
        self._holding = holding
        self._ring = ring
        self._clock = clock
        self._watch = watch
        self._dice = dice
        self._fail_rate = fail_rate
        self._result_bytes = result_bytes

    def begin(self, run: Run) -> bool:
        """Say whether a run may begin: still ours, not told to stop, and surely within its lease."""
        if not self._holding.take(run):
            return False
        now = self._clock()
        if run.is_stopped or now > run.start_before:
            self._finish(run, run.outcome_unbegun())
            return False
        run.begin(now, self._steps_for)
        if self._fail_rate and self._dice() < self._fail_rate:
            self._finish(run, INJECTED)
            return False
        if run.deadline < inf:
            self._watch(run.deadline)
        return True

    def surround(self, run: Run, base: Context) -> Context:
        """Make what a handler that begins is surrounded by: its job, and its span where traces are sent."""
        context = base.copy()
        context.run(CURRENT.set, run.context)  # type: ignore[arg-type]
        if self._spans is not None:
            run.span = self._spans.begin(run.job, self._worker, context)
        return context

    def succeed(self, run: Run, result: Any) -> None:  # noqa: ANN401 - whatever the handler returned
        """End a run whose handler returned, be it in spite of being told to stop: its work is done."""
        try:
            text = run.handler.encode(result)
        except BaseException as raised:  # noqa: BLE001 - the result's own code may raise anything
            self.fail(run, raised)
            return
        self.keep(run, text)

    def keep(self, run: Run, text: str) -> None:
        """End a run whose result is already JSON."""
        if len(text) > self._result_bytes:
            told = f"the result is {len(text):,} characters of JSON; at most {self._result_bytes:,} are kept"
            self.fail(run, NotJson(f"{told}: store it elsewhere and return where"))
            return
        self._finish(run, None if run.stop is Stop.LOST else Succeeded(text))

    def end(self, run: Run, outcome: Outcome) -> None:
        """End a run whose handler ran elsewhere, with what that place made of it."""
        match outcome:
            case Succeeded(result):
                self.keep(run, result)
            case Snoozed() | Unknown() | Failed(permanent=True):
                self._finish(run, None if run.stop is Stop.LOST else outcome)
            case _:
                self._finish(run, outcome if run.stop is None else run.outcome_stopped())

    def fail(self, run: Run, raised: BaseException) -> None:
        """End a run whose handler raised."""
        if run.stop is None or isinstance(raised, RetryLater | GiveUp | NotJson | OutcomeUnknown):
            outcome = None if run.stop is Stop.LOST else outcome_of(raised, run.handler)
        else:
            outcome = run.outcome_stopped(raised)
        self._finish(run, outcome)

    def _finish(self, run: Run, outcome: Outcome | None) -> None:
        if run.span is not None and self._spans is not None:
            self._spans.end(run.span, None if isinstance(outcome, Succeeded) else type(outcome).__name__)
        if self._holding.finish(run, outcome):
            self._ring()
