"""Seeing the jobs run: waiting until the workers are through, and when each job was leased and ended."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

from rota.cli.bench.plan import Plan
from rota.cli.bench.spread import Spread
from rota.cli.bench.targets import Target, Tide, Trouble

_LOOK_SECONDS: Final = 0.25
#: An API that says nothing for so long is not waited for.
SILENCE_SECONDS: Final = 10.0
#: How many jobs are looked at: enough for a p99, and few enough not to be a load of their own.
SAMPLE: Final = 2_000


@dataclass(slots=True)
class Run:
    """How the jobs ran. `ran` is reckoned by the store's clock, as the times are."""

    start: Spread = field(default_factory=lambda: Spread(()))
    finish: Spread = field(default_factory=lambda: Spread(()))
    #: Jobs ended a second, from the first that was made to the last that ended.
    rate: float = 0.0
    #: How many had not ended when we looked last.
    left: int = 0
    #: Of the slots, how many were in use on average while jobs waited; None if never seen so.
    busy: float | None = None
    is_out_of_patience: bool = False


@dataclass(slots=True)
class Watch:
    """Counts what waits and runs, beside the load and after it. `before` is what was there already."""

    target: Target
    slots: int
    before: Tide
    shares: list[float] = field(default_factory=list)

    async def look(self) -> int:
        """Say how many of our jobs have not ended. If others use the queue with the same type, theirs count too."""
        tide = await self.target.tide()
        if tide.waiting > self.before.waiting and self.slots:
            self.shares.append(min(tide.running / self.slots, 1.0))
        return max(tide.waiting + tide.running - self.before.waiting - self.before.running, 0)

    async def keep_looking(self) -> None:
        """Look again and again, until cancelled."""
        while True:
            with suppress(Trouble):
                await self.look()
            await asyncio.sleep(_LOOK_SECONDS)


async def until_run(
    plan: Plan, watch: Watch, made: Sequence[str], stop: asyncio.Event, show: Callable[[int], None]
) -> Run:
    """Wait until all have ended, or patience is at an end, or `stop` is set; `show` is told how many have."""
    run = Run()
    give_up_at = float("inf") if plan.patience_seconds is None else time.monotonic() + plan.patience_seconds
    heard_at = time.monotonic()
    run.left = len(made)
    while True:
        try:
            run.left = min(await watch.look(), len(made))
            is_attended = (await watch.target.crew()).workers > 0
            heard_at = time.monotonic()
        except Trouble:
            is_attended = time.monotonic() - heard_at < SILENCE_SECONDS
        show(len(made) - run.left)
        if not run.left or stop.is_set():
            break
        if time.monotonic() >= give_up_at or not is_attended:
            run.is_out_of_patience = True
            break
        await asyncio.sleep(_LOOK_SECONDS)
    run.busy = sum(watch.shares) / len(watch.shares) if watch.shares else None
    with suppress(Trouble):
        await _read_times(run, watch.target, made)
    return run


async def _read_times(run: Run, target: Target, made: Sequence[str]) -> None:
    """Look at some of the jobs, evenly from the first to the last."""
    step = -(-len(made) // SAMPLE) or 1
    times = await target.times(made[::step])
    run.start = Spread((one.started - one.created).total_seconds() for one in times if one.started)
    run.finish = Spread((one.finished - one.created).total_seconds() for one in times if one.finished)
    ends = [one.finished for one in times if one.finished]
    if ends:
        span = (max(ends) - min(one.created for one in times)).total_seconds()
        run.rate = (len(made) - run.left) / span if span > 0 else 0.0
