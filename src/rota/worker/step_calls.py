"""Step calls: carry a handler's step requests to the store, on the source loop, and bring the answers back.

A step that was performed must be recorded: whatever fails on the way, the call is repeated until the attempt is asked
to stop (its lease is lost, or its time is up). Every call is safe to repeat.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from typing import Any, Final

from rota.backoff import JitteredBackoff
from rota.core.errors import InvalidRequest, RotaError, Unavailable
from rota.core.submission import Delivery
from rota.core.waiting import Wait
from rota.ports.caller_tx import CallerTxConfig
from rota.ports.client import StepKeeper
from rota.ports.clock import Rng
from rota.worker.attempt import RunningAttempt
from rota.worker.exceptions import Cancelled
from rota.worker.steps import AttemptSteps, StepAnswer, StepVerb
from rota.worker.transactions import TransactionSteps

_log = logging.getLogger("rota.worker")
#: Calls whose late answer is of no use: another worker may have the job by then.
_CHECKED: Final = frozenset({StepVerb.INTEND, StepVerb.WAIT})


class StepCalls:
    """Calls the step store on behalf of attempts."""

    def __init__(
        self, keeper: StepKeeper, rng: Rng, clock: Callable[[], float], caller_tx_config: CallerTxConfig | None = None
    ) -> None:
        self._keeper = keeper
        self._caller_tx_config = caller_tx_config
        self._clock = clock
        self._rng = rng
        self._loop = asyncio.get_running_loop()
        self._calls: set[asyncio.Task[Any]] = set()

    def steps_for(self, attempt: RunningAttempt) -> AttemptSteps:
        job = attempt.job
        return AttemptSteps(
            AttemptStepChannel(self, attempt), TransactionSteps(job.id, job.fence, self._caller_tx_config)
        )

    def start(self, call: Coroutine[Any, Any, StepAnswer], done: Callable[[asyncio.Task[StepAnswer]], None]) -> None:
        """Start a call from the source loop; `done` is called with its task when it ends."""
        self._loop.create_task(call).add_done_callback(done)

    def start_threadsafe(self, call: Coroutine[Any, Any, StepAnswer]) -> Future[StepAnswer]:
        """Start a call from any thread."""
        return asyncio.run_coroutine_threadsafe(call, self._loop)

    async def close(self, seconds: float) -> None:
        """Wait for calls under way, at most so long, and cancel the rest."""
        if self._calls:
            await asyncio.wait(self._calls, timeout=seconds)
        for task in list(self._calls):
            task.cancel()

    async def call(
        self, attempt: RunningAttempt, verb: StepVerb, key: str, outcome: str | None, wait: Wait | None = None
    ) -> StepAnswer:
        """Call the store until it answers, or until the attempt must stop."""
        if verb is StepVerb.WAIT and attempt.job.delivery is Delivery.AT_MOST_ONCE:
            raise InvalidRequest(
                f"step {key!r}: {attempt.job.name} has delivery at_most_once, so its handler cannot be run again after"
                " a wait; submit it with at_least_once, or do without the wait",
                field="delivery",
            )
        task = asyncio.current_task()
        assert task is not None
        self._calls.add(task)
        try:
            answer = await self._call_with_retries(attempt, verb, key, outcome, wait)
        finally:
            self._calls.discard(task)
        if verb in _CHECKED and (attempt.is_stopped or self._clock() > attempt.lease_until):
            # The answer took too long: another worker may perform the effect by now.
            raise Cancelled
        return answer

    async def _call_with_retries(
        self, attempt: RunningAttempt, verb: StepVerb, key: str, outcome: str | None, wait: Wait | None
    ) -> StepAnswer:
        backoff = JitteredBackoff(self._rng)
        while True:
            try:
                return await self._call_once(attempt, verb, key, outcome, wait)
            except Exception as error:
                if isinstance(error, RotaError) and not isinstance(error, Unavailable):
                    # Refused: the same call would be refused again.
                    raise
                pause = backoff.next()
                _log.warning("step %r could not be written; trying again in %.2f s: %s", key, pause, error)
                if attempt.is_stopped:
                    raise Cancelled from error
                await asyncio.sleep(pause)

    async def _call_once(
        self, attempt: RunningAttempt, verb: StepVerb, key: str, outcome: str | None, wait: Wait | None
    ) -> StepAnswer:
        job = attempt.job
        match verb:
            case StepVerb.INTEND:
                return await self._keeper.intend(job.id, job.fence, key)
            case StepVerb.CONCLUDE:
                step = await self._keeper.conclude(job.id, job.fence, key, outcome or "null")
                return None if step is None else (step, False)
            case StepVerb.WITHDRAW:
                await self._keeper.withdraw(job.id, job.fence, key)
                return None
            case StepVerb.WAIT:
                assert wait is not None
                step = await self._keeper.begin_wait(job.id, job.fence, wait)
                return None if step is None else (step, False)


class AttemptStepChannel:
    """The step calls of one attempt, from any thread of the worker."""

    def __init__(self, calls: StepCalls, attempt: RunningAttempt) -> None:
        self._calls = calls
        self._attempt = attempt

    def send(
        self, verb: StepVerb, key: str, outcome: str | None = None, wait: Wait | None = None
    ) -> Future[StepAnswer]:
        return self._calls.start_threadsafe(self._calls.call(self._attempt, verb, key, outcome, wait))
