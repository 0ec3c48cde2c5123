"""The course of a run: look, probe, load, see it run, judge, take away what was made.

A person may end each part with Ctrl-C and is given the report of what was measured until then; what was made is taken
away all the same, unless that is interrupted too. If this process is killed, its jobs stay, waiting in their own queue:
they bear a tag, which is said at the start.
"""

from __future__ import annotations

import asyncio
import signal
import statistics
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Final

from rota.cli.bench.load import Load, Yield
from rota.cli.bench.plan import QUEUE, Plan
from rota.cli.bench.report import Report
from rota.cli.bench.running import Run, Watch, until_run
from rota.cli.bench.targets import Crew, Strain, Target, Trouble
from rota.cli.bench.verdict import Evidence, limits
from rota.cli.exits import CommandFailed
from rota.cli.output import Progress, say

#: How often the way there and a single submission are timed, before the load.
PROBES: Final = 15
CLEANED_AT_ONCE: Final = 500


class Course:
    """One run against one target."""

    def __init__(self, plan: Plan, target: Target, *, is_quiet: bool = False) -> None:
        self._plan = plan
        self._target = target
        self._tell: Callable[[str], None] = (lambda _: None) if is_quiet else say
        self._stop = asyncio.Event()
        self._interruptions = 0
        #: Jobs that were made to time a submission alone.
        self._probes: list[str] = []
        self._may_discard = True

    async def run(self) -> Report:
        """Go through all of it."""
        with _caught(self.interrupt):
            crew = await self._crew()
            self._tell(f"loading {self._target.name}; every job bears the tag {self._plan.tag}")
            report = await self._measured(crew)
            return await self._cleaned(report)

    def interrupt(self) -> None:
        """End the part that is under way."""
        self._interruptions += 1
        self._stop.set()

    async def _crew(self) -> Crew | None:
        """Look at who would run the jobs, and refuse to wait for nobody."""
        try:
            crew = await self._target.crew()
        except Trouble:
            if self._plan.is_to_run:
                raise
            # Whoever may submit need not be allowed to look.
            return None
        queue = self._plan.queue
        if self._plan.is_to_run and crew.is_paused:
            raise CommandFailed(f"queue {queue!r} is paused, so nothing would run", fix=f"rota queues resume {queue}")
        if self._plan.is_to_run and not crew.workers:
            other = ", or name a queue that one serves with --queue" if queue == QUEUE else ""
            raise CommandFailed(
                f"no worker takes jobs from queue {queue!r}, so --wait would never end",
                fix=f"start one with `rota worker --queues {queue}`{other}",
            )
        return crew

    async def _measured(self, crew: Crew | None) -> Report:
        plan, target = self._plan, self._target
        round_trip = await _median(target.round_trip)
        # Counted before the probes are submitted: a probe that still runs must not be taken for somebody else's job.
        watch = Watch(target, crew.slots if crew else 0, await target.tide()) if plan.is_to_run else None
        alone = await _median(self._probe)
        before, host = await self._strain(), host_busy()
        watching = None if watch is None else asyncio.create_task(watch.keep_looking())
        begun = time.perf_counter()
        try:
            found = await self._load()
        finally:
            if watching is not None:
                watching.cancel()
                await asyncio.gather(watching, return_exceptions=True)
        spent = _spent(before, await self._strain(), time.perf_counter() - begun)
        busy = host_share(host, host_busy())
        run = None if watch is None or not found.ids else await self._until_run(watch, found)
        evidence = Evidence(
            rate=found.rate,
            made=len(found.ids),
            latency=statistics.fmean(found.latencies) if found.latencies else 0.0,
            errors=dict(found.errors),
            client_cpu=found.cpu_seconds / found.seconds,
            server_cpu=spent[0],
            host_cpu=busy,
            store=spent[1],
            alone=alone,
            round_trip=round_trip if target.is_http else None,
            is_http=target.is_http,
            crew=crew,
            run=run,
        )
        told = limits(plan, evidence)
        return Report(
            target.name, target.store, plan, found, run, evidence, told, is_interrupted=self._interruptions > 0
        )

    async def _probe(self) -> None:
        made = await self._target.submit(0, 1)
        self._probes += made.ids

    async def _strain(self) -> Sequence[Strain]:
        try:
            return await self._target.strain()
        except Trouble:
            # Of several addresses one may be away: then nothing is known, and the report goes on without it.
            return ()

    async def _load(self) -> Yield:
        bar = Progress("loading", round(self._plan.seconds * 10))

        def show(seconds: float, so_far: Yield) -> None:
            bar.show(round(seconds * 10), f"{seconds:.1f} s, {len(so_far.ids):,} jobs")

        found = await Load(self._plan, self._target).run(self._stop, show)
        bar.end()
        return found

    async def _until_run(self, watch: Watch, found: Yield) -> Run:
        bar = Progress("running", len(found.ids))
        try:
            return await until_run(self._plan, watch, found.ids, self._stop, bar.show)
        finally:
            bar.end()

    async def _cleaned(self, report: Report) -> Report:
        """Cancel and delete what has not run. What has stays as long as completed jobs do."""
        ids = [*self._probes, *report.found.ids]
        if self._plan.is_kept:
            self._tell(f"kept: {len(ids):,} jobs; see them with `rota jobs list --tag {self._plan.tag}`")
            return replace(report, left=len(ids))
        if report.run is not None and not report.run.left:
            return replace(report, discarded=0)
        self._stop.clear()
        bar = Progress("cleaning up", len(ids))
        gone = done = 0
        try:
            while done < len(ids) and not self._stop.is_set():
                gone += await self._take_away(ids[done : done + CLEANED_AT_ONCE])
                done += CLEANED_AT_ONCE
                bar.show(min(done, len(ids)))
        except Trouble as trouble:
            self._tell(f"what was made cannot be cancelled: {trouble}")
        bar.end()
        left = max(len(ids) - done, 0)
        if left:
            self._tell(f"left behind: {left:,} jobs; cancel them with `rota jobs list --tag {self._plan.tag}"
                       " --status pending --limit 1000000 -o ids | xargs rota jobs cancel --yes`")  # fmt: skip
        self._tell(f"deleted {gone:,} jobs that had not run" if gone else "no job was deleted")
        return replace(report, discarded=gone, left=left)

    async def _take_away(self, ids: Sequence[str]) -> int:
        await self._target.cancel(ids)
        if not self._may_discard:
            return 0
        try:
            return await self._target.discard(ids)
        except Trouble as trouble:
            # Not everyone may delete. What is cancelled stands in nobody's way.
            self._may_discard = False
            self._tell(f"cancelled, but not deleted ({trouble}): that is done when they are as old as completed jobs")
            return 0


@contextmanager
def _caught(heed: Callable[[], None]) -> Iterator[None]:
    """Call `heed` when a person or a service manager interrupts; where signals cannot be caught, they end us."""
    loop = asyncio.get_running_loop()
    signals = (signal.SIGINT, signal.SIGTERM)
    with suppress(NotImplementedError, RuntimeError, ValueError):
        for number in signals:
            loop.add_signal_handler(number, heed)
    try:
        yield
    finally:
        with suppress(NotImplementedError, RuntimeError, ValueError):
            for number in signals:
                loop.remove_signal_handler(number)


async def _median(act: Callable[[], Awaitable[None]]) -> float | None:
    """Time something a few times, one after the other; None if it fails: what fails is told by the load, by kind."""
    seconds = []
    for _ in range(PROBES):
        begun = time.perf_counter()
        try:
            await act()
        except Trouble:
            return None
        seconds.append(time.perf_counter() - begun)
    return statistics.median(seconds)


def _spent(before: Sequence[Strain], after: Sequence[Strain], seconds: float) -> tuple[float | None, float | None]:
    """Say how much CPU the busiest server used, in cores, and how long the store took for a submission.

    Behind one address there may be several processes, and then two readings may be of two: what cannot be true is not
    told.
    """
    pairs = list(zip(before, after, strict=False))
    used = [
        (later.cpu_seconds - earlier.cpu_seconds) / seconds
        for earlier, later in pairs
        if earlier.cpu_seconds is not None
        and later.cpu_seconds is not None
        and later.cpu_seconds >= earlier.cpu_seconds
    ]
    calls = sum(later.store_calls - earlier.store_calls for earlier, later in pairs)
    spent = sum(later.store_seconds - earlier.store_seconds for earlier, later in pairs)
    return max(used, default=None), spent / calls if calls > 0 and spent >= 0 else None


def host_busy() -> tuple[float, float] | None:
    """Read how long this host's cores have worked and how long they have been there; None where nobody says."""
    try:
        numbers = [
            float(word) for word in Path("/proc/stat").read_text(encoding="ascii").split("\n", 1)[0].split()[1:9]
        ]
    except (OSError, ValueError):
        return None
    idle = sum(numbers[3:5])
    return sum(numbers) - idle, sum(numbers)


def host_share(before: tuple[float, float] | None, after: tuple[float, float] | None) -> float | None:
    """Say which share of this host's cores was in use between two readings."""
    if before is None or after is None or after[1] <= before[1]:
        return None
    return (after[0] - before[0]) / (after[1] - before[1])
