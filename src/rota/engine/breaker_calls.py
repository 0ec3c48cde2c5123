"""Counting the outcomes of attempts for circuit breakers and retry budgets, and the changes of state that follow.

Successes are collected in memory and written twice a second, all of one name in one row of this process. Failures are
written with them at once, before the settlement is decided: whether the breaker is open decides whether the attempt
counts. A process that dies loses the successes of half a second, and the share of failures seems a little higher.

While a breaker is open, each outcome of its jobs is looked at, since it may be a probe's. A process caches the state
for half a second at most, and the first probe starts at least a second after the breaker opened; so a success of a
probe is never counted as one under a closed breaker.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Final, NamedTuple

from rota.core.breaker import CallCount, CircuitBreaker, after_failure, after_probe, budget_delay
from rota.core.decision import DecisionInputs
from rota.core.ids import JobId, to_text
from rota.core.job import Job
from rota.core.limit import breaker_limit
from rota.core.outcome import Failed, Outcome, Succeeded
from rota.core.submission import Delivery
from rota.engine.deps import EngineDeps
from rota.ports.client import AttemptReport
from rota.ports.wakeup import EVERY_QUEUE
from rota.telemetry.events import BreakerChanged

#: How long successes are collected. Less than the shortest time for which a breaker is open.
COLLECT_SECONDS: Final = 0.5
#: How many names are remembered between two writes; with more, all are written.
MOST_NAMES: Final = 1_000
#: How often a change of state is decided again because another process has changed the breaker.
MOST_TRIES: Final = 5
_NO_DELAY: Final = timedelta(0)


@dataclass(frozen=True, slots=True)
class CountEffects:
    """What the counts mean for the jobs of one batch of outcomes."""

    #: Jobs whose breaker is open.
    met_open: frozenset[JobId] = frozenset()
    #: By how much the retries of jobs are delayed.
    delays: Mapping[JobId, timedelta] = field(default_factory=dict)

    def applied_to(self, inputs: DecisionInputs, job_id: JobId) -> DecisionInputs:
        return replace(inputs, is_breaker_open=job_id in self.met_open, budget_delay=self.delays.get(job_id, _NO_DELAY))


UNCOUNTED: Final = CountEffects()


class _Call(NamedTuple):
    """A call of a dependency: the job that made it, without its payload."""

    job_id: JobId
    type: str
    key: str | None
    started_at: datetime | None


@dataclass(slots=True)
class _BreakerCalls:
    """The calls under one breaker that are not yet written."""

    succeeded: list[_Call] = field(default_factory=list)
    failed: list[_Call] = field(default_factory=list)


class CallCounter:
    """Counts outcomes, opens and closes breakers by them, and delays retries beyond a budget."""

    def __init__(self, deps: EngineDeps) -> None:
        self._deps = deps
        self._source: str | None = None
        self._calls: dict[str, _BreakerCalls] = {}
        #: Starts of job types with a budget, by the name and the window of the count.
        self._starts: dict[tuple[str, timedelta], int] = {}
        #: When each breaker was last looked at, and those that were open then.
        self._looked_at: dict[str, float] = {}
        self._open: set[str] = set()
        self._written_at = float("-inf")

    async def note(self, held: Sequence[tuple[Job, AttemptReport]]) -> CountEffects:
        """Count outcomes, and return what follows for the decisions about them."""
        retried = self._collect(held)
        now = self._deps.steady()
        if not (retried or self._is_due(now)):
            return UNCOUNTED
        calls, self._calls = self._calls, {}
        starts, self._starts = self._starts, {}
        if len(self._looked_at) + len(calls) > MOST_NAMES:
            self._looked_at.clear()
        self._looked_at.update(dict.fromkeys(calls, now))
        self._written_at = now
        return await self._count(calls, starts, retried)

    def _is_due(self, now: float) -> bool:
        """Whether what was collected is written now."""
        before = now - COLLECT_SECONDS
        if self._starts and self._written_at <= before:
            return True
        return any(
            one.failed or name in self._open or self._looked_at.get(name, before) <= before
            for name, one in self._calls.items()
        )

    def _collect(self, held: Iterable[tuple[Job, AttemptReport]]) -> list[Job]:
        """Collect calls and starts; return the jobs whose retries a budget bounds."""
        retried = []
        for job, report in held:
            outcome = report.outcome
            if report.breaker is not None:
                call = _Call(job.id, job.type, job.concurrency_key, job.started_at)
                if type(outcome) is Succeeded:
                    self._calls.setdefault(report.breaker, _BreakerCalls()).succeeded.append(call)
                elif type(outcome) is Failed and outcome.dependency:
                    self._calls.setdefault(report.breaker, _BreakerCalls()).failed.append(call)
            if job.backoff.budget is not None and type(outcome) in {Succeeded, Failed}:
                key = _budget_name(job), job.backoff.budget_window
                self._starts[key] = self._starts.get(key, 0) + 1
                if _is_retried(job, outcome):
                    retried.append(job)
        return retried

    async def _count(
        self, calls: Mapping[str, _BreakerCalls], starts: Mapping[tuple[str, timedelta], int], retried: Sequence[Job]
    ) -> CountEffects:
        known = {one.name: one for one in await self._deps.store.breakers(sorted(calls))} if calls else {}
        now = await self._deps.store.time()
        breakers = {name: known.get(name, CircuitBreaker(name)) for name in sorted(calls)}
        relevant = {name: _relevant(breakers[name], one, now) for name, one in calls.items()}
        budgets: dict[str, list[Job]] = {}
        for job in retried:
            budgets.setdefault(_budget_name(job), []).append(job)
        counts = [
            *(_call_count(breakers[name], one) for name, one in relevant.items() if not breakers[name].is_open),
            *(CallCount(name, span, number, len(budgets.get(name, ()))) for (name, span), number in starts.items()),
        ]
        counts = [one for one in counts if one.calls]
        sums = {one.name: one for one in await self._deps.store.count_calls(self._name, counts)} if counts else {}
        met_open: set[JobId] = set()
        for name, one in calls.items():
            breaker = breakers[name]
            if await self._change(breaker, relevant[name], sums.get(breaker_limit(name)), now):
                met_open.update(call.job_id for call in one.failed if breaker.concerns(call.type, call.key))
        return CountEffects(frozenset(met_open), self._delays(budgets, sums))

    async def _change(
        self, breaker: CircuitBreaker, calls: _BreakerCalls, count: CallCount | None, now: datetime
    ) -> bool:
        """Open or close a breaker by the calls that were counted, and return whether it is or was open."""
        for _ in range(MOST_TRIES):
            change = _change_of(breaker, calls, count, now)
            if change is None or await self._deps.store.put_breaker(change):
                self._note_state(change or breaker)
                if change is not None:
                    await self._tell(breaker, change)
                return breaker.is_open or (change is not None and change.is_open)
            breaker = next(iter(await self._deps.store.breakers([breaker.name])), CircuitBreaker(breaker.name))
            calls = _relevant(breaker, calls, now)
        return breaker.is_open

    def _note_state(self, breaker: CircuitBreaker) -> None:
        if breaker.is_open:
            self._open.add(breaker.name)
        else:
            self._open.discard(breaker.name)

    async def _tell(self, before: CircuitBreaker, after: CircuitBreaker) -> None:
        action = "closed" if not after.is_open else "reopened" if before.is_open else "opened"
        self._deps.telemetry.emit(BreakerChanged(after.name, action, after.reason or ""))
        if not after.is_open:
            await self._deps.broker.announce((EVERY_QUEUE,))

    def _delays(self, budgets: Mapping[str, Sequence[Job]], sums: Mapping[str, CallCount]) -> dict[JobId, timedelta]:
        delays = {}
        for name, jobs in budgets.items():
            if name not in sums:
                continue
            # Those of this batch are counted already.
            earlier = sums[name].failures - len(jobs)
            for place, job in enumerate(jobs):
                delays[job.id] = budget_delay(job.backoff, sums[name].calls, earlier + place, self._deps.rng())
        return delays

    @property
    def _name(self) -> str:
        """The name under which this process counts."""
        if self._source is None:
            self._source = to_text(self._deps.fresh_id())
        return self._source


def _budget_name(job: Job) -> str:
    """Return the name under which starts and retries of a job's type are counted, by the window."""
    return f"retries:{job.backoff.budget_window.total_seconds():g}:{job.type}"


def _is_retried(job: Job, outcome: Outcome) -> bool:
    return (
        type(outcome) is Failed
        and not outcome.permanent
        and not job.is_spent
        and job.delivery is not Delivery.AT_MOST_ONCE
    )


def _relevant(breaker: CircuitBreaker, calls: _BreakerCalls, now: datetime) -> _BreakerCalls:
    """Return the calls of jobs that a breaker concerns and that started after its last change of state."""

    def chosen(made: Iterable[_Call]) -> list[_Call]:
        return [one for one in made if breaker.concerns(one.type, one.key) and breaker.counts(one.started_at, now)]

    return _BreakerCalls(chosen(calls.succeeded), chosen(calls.failed))


def _call_count(breaker: CircuitBreaker, calls: _BreakerCalls) -> CallCount:
    number = len(calls.succeeded) + len(calls.failed)
    return CallCount(breaker_limit(breaker.name), breaker.rule.window, number, len(calls.failed))


def _change_of(
    breaker: CircuitBreaker, calls: _BreakerCalls, count: CallCount | None, now: datetime
) -> CircuitBreaker | None:
    if breaker.is_open:
        if not calls.succeeded and not calls.failed:
            return None
        return after_probe(breaker, now, has_failed=not calls.succeeded)
    return after_failure(breaker, count, now) if count is not None and calls.failed else None
