"""One bench run: check the workers, probe, load, wait for completion, find the limits, delete the jobs.

Each phase may be ended with Ctrl-C, and the report shows what was measured until then; the jobs are deleted all the
same, unless that is interrupted too. If this process is killed, its jobs stay waiting in their own queue; they have a
tag, which is printed at the start.
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
from typing import Final, Protocol

from rota.bench.completion import BenchCompletion, QueueWatch, wait_until_finished
from rota.bench.limits import Measurements, find_limits
from rota.bench.load import Load, LoadResult
from rota.bench.plan import QUEUE, BenchPlan, BenchRefused
from rota.bench.report import BenchReport
from rota.bench.targets import RequestFailed, ServerUsage, Target, WorkerCapacity

#: How often a round trip and a single submission are timed before the load.
PROBES: Final = 15
DELETED_AT_ONCE: Final = 500


class ProgressBar(Protocol):
    """Shows the progress of a phase to a person."""

    def show(self, done: int, note: str = "") -> None: ...

    def end(self) -> None: ...


class BenchRun:
    """One run of a plan against one target. `say` prints a line for a person, `progress` makes a bar of a total."""

    def __init__(
        self,
        plan: BenchPlan,
        target: Target,
        *,
        progress: Callable[[str, int], ProgressBar],
        say: Callable[[str], None],
    ) -> None:
        self._plan = plan
        self._target = target
        self._progress = progress
        self._say = say
        self._stop = asyncio.Event()
        self._interruptions = 0
        #: Jobs that were submitted to time a submission without load.
        self._probes: list[str] = []
        self._may_discard = True

    async def run(self) -> BenchReport:
        with _on_interrupt(self.interrupt):
            capacity = await self._worker_capacity()
            self._say(f"loading {self._target.name}; every job has the tag {self._plan.tag}")
            return await self._clean_up(await self._measure(capacity))

    def interrupt(self) -> None:
        """End the current phase."""
        self._interruptions += 1
        self._stop.set()

    async def _worker_capacity(self) -> WorkerCapacity | None:
        """Read which workers would run the jobs; refuse to wait if there is none."""
        try:
            capacity = await self._target.capacity()
        except RequestFailed:
            if self._plan.is_to_run:
                raise
            # A token that may submit need not be allowed to read.
            return None
        queue = self._plan.queue
        if self._plan.is_to_run and capacity.is_paused:
            raise BenchRefused(f"queue {queue!r} is paused, so no job would run", f"rota queues resume {queue}")
        if self._plan.is_to_run and not capacity.workers:
            other = ", or name a queue that one serves with --queue" if queue == QUEUE else ""
            cause = f"no worker takes jobs from queue {queue!r}, so --wait would never end"
            raise BenchRefused(cause, f"start one with `rota worker --queues {queue}`{other}")
        return capacity

    async def _measure(self, capacity: WorkerCapacity | None) -> BenchReport:
        plan, target = self._plan, self._target
        round_trip = await _median_seconds(target.round_trip)
        # Counted before the probes are submitted: a probe that still runs must not count as another client's job.
        watch = QueueWatch(target, capacity.slots if capacity else 0, await target.counts()) if plan.is_to_run else None
        alone = await _median_seconds(self._probe)
        before, host = await self._usage(), host_busy()
        counting = None if watch is None else asyncio.create_task(watch.keep_counting())
        begun = time.perf_counter()
        try:
            load = await self._load()
        finally:
            if counting is not None:
                counting.cancel()
                await asyncio.gather(counting, return_exceptions=True)
        server_cpu, store = _used(before, await self._usage(), time.perf_counter() - begun)
        host_cpu = host_share(host, host_busy())
        completion = None if watch is None or not load.ids else await self._wait_until_finished(watch, load)
        measured = Measurements(
            rate=load.rate,
            made=len(load.ids),
            latency=statistics.fmean(load.latencies) if load.latencies else 0.0,
            errors=dict(load.errors),
            client_cpu=load.cpu_seconds / load.seconds,
            server_cpu=server_cpu,
            host_cpu=host_cpu,
            store=store,
            alone=alone,
            round_trip=round_trip if target.is_http else None,
            is_http=target.is_http,
            capacity=capacity,
            completion=completion,
        )
        limits = find_limits(plan, measured)
        return BenchReport(
            target.name, target.store, plan, load, completion, measured, limits, is_interrupted=self._interruptions > 0
        )

    async def _probe(self) -> None:
        submitted = await self._target.submit(0, 1)
        self._probes += submitted.ids

    async def _usage(self) -> Sequence[ServerUsage]:
        try:
            return await self._target.usage()
        except RequestFailed:
            # One of several addresses may not answer: then the usage is unknown, and the report goes without it.
            return ()

    async def _load(self) -> LoadResult:
        bar = self._progress("loading", round(self._plan.seconds * 10))

        def show(seconds: float, so_far: LoadResult) -> None:
            bar.show(round(seconds * 10), f"{seconds:.1f} s, {len(so_far.ids):,} jobs")

        result = await Load(self._plan, self._target).run(self._stop, show)
        bar.end()
        return result

    async def _wait_until_finished(self, watch: QueueWatch, load: LoadResult) -> BenchCompletion:
        bar = self._progress("running", len(load.ids))
        try:
            return await wait_until_finished(self._plan, watch, load.ids, self._stop, bar.show)
        finally:
            bar.end()

    async def _clean_up(self, report: BenchReport) -> BenchReport:
        """Cancel and delete jobs that have not run. The others stay as long as completed jobs are kept."""
        ids = [*self._probes, *report.load.ids]
        if self._plan.is_kept:
            self._say(f"kept: {len(ids):,} jobs; see them with `rota jobs list --tag {self._plan.tag}`")
            return replace(report, left=len(ids))
        if report.completion is not None and not report.completion.left:
            return replace(report, discarded=0)
        self._stop.clear()
        bar = self._progress("cleaning up", len(ids))
        deleted = done = 0
        try:
            while done < len(ids) and not self._stop.is_set():
                deleted += await self._delete(ids[done : done + DELETED_AT_ONCE])
                done += DELETED_AT_ONCE
                bar.show(min(done, len(ids)))
        except RequestFailed as failure:
            self._say(f"the jobs cannot be cancelled: {failure}")
        bar.end()
        left = max(len(ids) - done, 0)
        if left:
            self._say(f"left behind: {left:,} jobs; cancel them with `rota jobs list --tag {self._plan.tag}"
                      " --status pending --limit 1000000 -o ids | xargs rota jobs cancel --yes`")  # fmt: skip
        self._say(f"deleted {deleted:,} jobs that had not run" if deleted else "no job was deleted")
        return replace(report, discarded=deleted, left=left)

    async def _delete(self, ids: Sequence[str]) -> int:
        await self._target.cancel(ids)
        if not self._may_discard:
            return 0
        try:
            return await self._target.discard(ids)
        except RequestFailed as failure:
            # A token that may submit need not be allowed to delete. Cancelled jobs do no harm.
            self._may_discard = False
            self._say(f"cancelled, but not deleted ({failure}): they are pruned when they are as old as completed jobs")
            return 0


@contextmanager
def _on_interrupt(interrupt: Callable[[], None]) -> Iterator[None]:
    """Call a function on SIGINT and SIGTERM; where signals cannot be handled, they end the process."""
    loop = asyncio.get_running_loop()
    signals = (signal.SIGINT, signal.SIGTERM)
    with suppress(NotImplementedError, RuntimeError, ValueError):
        for number in signals:
            loop.add_signal_handler(number, interrupt)
    try:
        yield
    finally:
        with suppress(NotImplementedError, RuntimeError, ValueError):
            for number in signals:
                loop.remove_signal_handler(number)


async def _median_seconds(act: Callable[[], Awaitable[None]]) -> float | None:
    """Time a call a few times, one after the other; None if it fails: the load reports failures by kind."""
    seconds = []
    for _ in range(PROBES):
        begun = time.perf_counter()
        try:
            await act()
        except RequestFailed:
            return None
        seconds.append(time.perf_counter() - begun)
    return statistics.median(seconds)


def _used(
    before: Sequence[ServerUsage], after: Sequence[ServerUsage], seconds: float
) -> tuple[float | None, float | None]:
    """Return the CPU of the busiest server in cores, and the time of a submission in the store.

    Behind one address there may be several processes, and then two readings may be of two processes: differences that
    are not possible are left out.
    """
    pairs = list(zip(before, after, strict=False))
    cpu = [
        (later.cpu_seconds - earlier.cpu_seconds) / seconds
        for earlier, later in pairs
        if earlier.cpu_seconds is not None
        and later.cpu_seconds is not None
        and later.cpu_seconds >= earlier.cpu_seconds
    ]
    calls = sum(later.store_calls - earlier.store_calls for earlier, later in pairs)
    spent = sum(later.store_seconds - earlier.store_seconds for earlier, later in pairs)
    return max(cpu, default=None), spent / calls if calls > 0 and spent >= 0 else None


def host_busy() -> tuple[float, float] | None:
    """Read the busy time and the total time of this host's cores; None where the system does not tell."""
    try:
        numbers = [
            float(word) for word in Path("/proc/stat").read_text(encoding="ascii").split("\n", 1)[0].split()[1:9]
        ]
    except (OSError, ValueError):
        return None
    idle = sum(numbers[3:5])
    return sum(numbers) - idle, sum(numbers)


def host_share(before: tuple[float, float] | None, after: tuple[float, float] | None) -> float | None:
    """Return the share of this host's cores that was in use between two readings."""
    if before is None or after is None or after[1] <= before[1]:
        return None
    return (after[0] - before[0]) / (after[1] - before[1])
