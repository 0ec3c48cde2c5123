"""The ferry: brings what handlers ask about their steps to the source's loop, and the answers back.

A step that was performed must be written down: whatever goes wrong on the way, it is asked again until the run is told
to stop (its lease is lost, its time is up). Every question is safe to repeat.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from typing import Any

from rota.core.errors import RotaError, Unavailable
from rota.core.patience import Patience
from rota.ports.clock import Dice
from rota.ports.faces import StepKeeper
from rota.ports.guest import House
from rota.worker.run import Run
from rota.worker.signals import Cancelled
from rota.worker.steps import Act, Reply, Steps
from rota.worker.within import Within

_log = logging.getLogger("rota.worker")


class Ferry:
    """Asks a keeper of steps on behalf of runs."""

    def __init__(self, keeper: StepKeeper, dice: Dice, clock: Callable[[], float], house: House | None = None) -> None:
        self._keeper = keeper
        self._house = house
        self._clock = clock
        self._dice = dice
        self._loop = asyncio.get_running_loop()
        self._crossings: set[asyncio.Task[Any]] = set()

    def steps_for(self, run: Run) -> Steps:
        """Open the steps of a run."""
        return Steps(Line(self, run), Within(run.job.id, run.job.fence, self._house))

    def start(self, crossing: Coroutine[Any, Any, Reply], done: Callable[[asyncio.Task[Reply]], None]) -> None:
        """Ask on the source's loop, from that loop, and tell when it is answered."""
        self._loop.create_task(crossing).add_done_callback(done)

    def cross(self, crossing: Coroutine[Any, Any, Reply]) -> Future[Reply]:
        """Ask on the source's loop, from any thread."""
        return asyncio.run_coroutine_threadsafe(crossing, self._loop)

    async def close(self, seconds: float) -> None:
        """Let what is under way be written, at most so long, and leave the rest."""
        if self._crossings:
            await asyncio.wait(self._crossings, timeout=seconds)
        for task in list(self._crossings):
            task.cancel()

    async def ask(self, run: Run, act: Act, key: str, outcome: str | None) -> Reply:
        """Ask until there is an answer, or the run must stop."""
        task = asyncio.current_task()
        assert task is not None
        self._crossings.add(task)
        try:
            reply = await self._ask_on(run, act, key, outcome)
        finally:
            self._crossings.discard(task)
        if act is Act.INTEND and (run.is_stopped or self._clock() > run.lease_until):
            # The answer took too long: the effect may be someone else's to perform by now.
            raise Cancelled
        return reply

    async def _ask_on(self, run: Run, act: Act, key: str, outcome: str | None) -> Reply:
        patience = Patience(self._dice)
        while True:
            try:
                return await self._ask_once(run, act, key, outcome)
            except Exception as error:
                if isinstance(error, RotaError) and not isinstance(error, Unavailable):
                    # Refused: asking again the same way will not help.
                    raise
                pause = patience.next()
                _log.warning("step %r could not be written; again in %.2f s: %s", key, pause, error)
                if run.is_stopped:
                    raise Cancelled from error
                await asyncio.sleep(pause)

    async def _ask_once(self, run: Run, act: Act, key: str, outcome: str | None) -> Reply:
        job = run.job
        match act:
            case Act.INTEND:
                return await self._keeper.intend(job.id, job.fence, key)
            case Act.CONCLUDE:
                step = await self._keeper.conclude(job.id, job.fence, key, outcome or "null")
                return None if step is None else (step, False)
            case Act.WITHDRAW:
                await self._keeper.withdraw(job.id, job.fence, key)
                return None


class Line:
    """One run's way across."""

    def __init__(self, ferry: Ferry, run: Run) -> None:
        self._ferry = ferry
        self._run = run

    def ask(self, act: Act, key: str, outcome: str | None = None) -> Future[Reply]:
        """Ask, from any thread."""
        return self._ferry.cross(self._ferry.ask(self._run, act, key, outcome))
