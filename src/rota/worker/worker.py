"""The worker: claims jobs, runs their handlers, renews their leases, and writes back their outcomes.

Threads and loops. On the loop on which `run` is awaited (the source loop): fetcher, reporter, heartbeat, watchdog, the
pipes of child processes. On the handler loop, in a thread of its own: async handlers. On threads of their own: sync
handlers. No user code runs on the source loop, so no user code can delay renewals, deadlines or the writing of
outcomes, unless it holds the GIL; for that case there is the lease-keeper process.

States: open -> draining (`stop`) -> draining without waiting (`stop` again) -> over. Cancelling `run` does not wait
either.

What happens when a part dies. A handler: that is its outcome. A thread or the handler loop: it cannot be killed, but it
can block; see deadlines.py. A child process: its job is lost, with the tail of its standard error. The lease keeper:
the worker renews in-process and starts another one. One of the tasks here (a bug in Rota): it is started again, see
supervision.py. The worker's process: the lease keeper hands its jobs back at once; without one, the leases lapse.
"""

from __future__ import annotations

import asyncio
import logging
import os
import random
import socket
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from rota.backoff import JitteredBackoff
from rota.core.cluster import Member, Role
from rota.core.ids import to_text
from rota.core.payload_schema import MOST_SCHEMAS
from rota.core.worker_orders import MOST_JOBS, NO_ORDERS, WorkerFacts, WorkerOrders
from rota.ports.client import AttemptReport, InputSource, StepKeeper, WorkSource
from rota.ports.clock import Rng
from rota.supervision import supervised
from rota.telemetry.outage import Outage
from rota.telemetry.tracing import Spans
from rota.worker.deadlines import Stopper, Watchdog, WatchdogAlarm
from rota.worker.drain import Drain
from rota.worker.executors.group import ExecutorGroup
from rota.worker.facts import CpuShare, open_files, resident_bytes, stacks
from rota.worker.fetcher import Fetcher, StoreTime
from rota.worker.handlers import Handlers
from rota.worker.heartbeat import LeaseHeartbeat, LeaseRenewer, LoopHeartbeat, UpdateSender
from rota.worker.intake import Intake
from rota.worker.lease_keeper.client import LeaseKeeperClient, LeaseTokens, SourceReference
from rota.worker.lease_keeper.protocol import LeaseKey
from rota.worker.log_capture import capture_records
from rota.worker.options import WorkerOptions
from rota.worker.outcomes import FailureLog, StopReason
from rota.worker.payload_schema import schemas_of
from rota.worker.reporter import OutcomeReporter
from rota.worker.step_calls import StepCalls
from rota.worker.tracker import AttemptTracker

if TYPE_CHECKING:
    from rota.encryption import Cipher

_log = logging.getLogger("rota.worker")
#: Sends a heartbeat, and returns the orders for the worker; None if they are passed to `apply_orders` otherwise.
Announce = Callable[[Member], Awaitable[WorkerOrders | None]]


#: Records the payload schemas of task types.
RegisterSchemas = Callable[[Mapping[str, str]], Awaitable[None]]
#: How often they are recorded anew: they are forgotten after 90 days.
_REGISTER_SECONDS: Final = 86_400.0
_REGISTER_AGAIN_SECONDS: Final = 60.0


class Worker:
    """Runs handlers for the jobs of one source. With `store_time` it claims jobs ahead of their time."""

    def __init__(
        self,
        source: WorkSource,
        handlers: Handlers,
        options: WorkerOptions,
        *,
        announce_member: Announce | None = None,
        register_schemas: RegisterSchemas | None = None,
        lease_keeper: SourceReference | None = None,
        steps: StepKeeper | None = None,
        inputs: InputSource | None = None,
        spans: Spans | None = None,
        store_time: StoreTime | None = None,
        rng: Rng = random.random,
        clock: Callable[[], float] = time.monotonic,
        cipher: Cipher | None = None,
        lease_tokens: LeaseTokens | None = None,
    ) -> None:
        self.options = options
        if cipher is not None:
            source, steps, inputs = encrypted_work(source, steps, inputs, cipher)
        self.cipher = cipher
        self.source = source
        self.handlers = handlers
        self.lease_keeper = lease_keeper
        self.lease_tokens = lease_tokens
        self.steps = steps
        self.inputs = inputs
        self.spans = spans
        self.store_time = store_time
        self.rng = rng
        self.clock = clock
        self._announce_member = announce_member
        self._register_schemas = register_schemas
        self._register_at = clock()
        self._started_at = datetime.now(UTC)
        self._stop_requested = asyncio.Event()
        self._outage = Outage(_log, "announcing the worker")
        self._parts: WorkerParts | None = None
        self._cpu = CpuShare()
        self._orders = NO_ORDERS
        self._stacks = ""
        self._stacks_at: datetime | None = None

    async def run(self) -> None:
        """Work until stopped; when this returns, every claimed job is finished or handed back."""
        parts = self._parts = WorkerParts(self)
        work = asyncio.create_task(self._work(parts), name="rota-worker")
        is_cancelled = False
        while not work.done():
            try:
                await asyncio.shield(work)
            except asyncio.CancelledError:
                is_cancelled = True
                self.stop()
                parts.drain.stop_waiting()
            except Exception:  # noqa: BLE001 - raised below, by `result`
                break
        work.result()
        if is_cancelled:
            raise asyncio.CancelledError

    def stop(self) -> None:
        """Drain and end; a second call skips the waiting. To be called on the worker's loop, as signal handlers are."""
        if self._stop_requested.is_set() and self._parts is not None:
            self._parts.drain.stop_waiting()
        self._stop_requested.set()

    def cancel(self, leases: Iterable[LeaseKey]) -> None:
        """Stop these jobs at once, if the worker holds them, rather than with the next heartbeat.

        To be called on the worker's loop.
        """
        if self._parts is not None:
            self._parts.cancel(leases)

    def apply_orders(self, orders: WorkerOrders) -> None:
        """Apply orders of operators. To be called on the worker's loop, after each heartbeat."""
        before, self._orders = self._orders, orders
        parts = self._parts
        if orders.quiet != before.quiet:
            _log.info("worker %s: %s by order", self.options.name, "quiet" if orders.quiet else "claiming jobs again")
        if parts is not None:
            parts.set_quiet(is_quiet=orders.quiet)
        if orders.stacks > before.stacks and parts is not None:
            self._stacks, self._stacks_at = parts.stacks(), datetime.now(UTC)
        if orders.stop and not self.is_draining:
            _log.info("worker %s: stopping by order", self.options.name)
            self.stop()

    @property
    def busy(self) -> int:
        """How many jobs the worker holds."""
        return 0 if self._parts is None else len(self._parts.tracker.held)

    @property
    def is_draining(self) -> bool:
        return self._stop_requested.is_set()

    def member(self) -> Member:
        """Describe this worker as a member of the cluster."""
        options = self.options
        return Member(
            role=Role.WORKER,
            name=options.name,
            boot=options.boot,
            host=options.host or socket.gethostname(),
            pid=os.getpid(),
            version=options.version,
            address=options.address,
            queues=options.queues,
            types=self.handlers.types,
            slots=options.concurrency,
            busy=self.busy,
            is_draining=self.is_draining,
            started_at=self._started_at,
            facts=self._facts(),
        )

    def _facts(self) -> WorkerFacts:
        parts = self._parts
        jobs = () if parts is None else tuple(to_text(job_id) for job_id, _ in list(parts.tracker.held)[:MOST_JOBS])
        return WorkerFacts(
            cpu=self._cpu.read(),
            rss=resident_bytes(),
            fds=open_files(),
            threads_left_behind=0 if parts is None else parts.abandoned,
            is_quiet=self._orders.quiet,
            jobs=jobs,
            sent_at=datetime.now(UTC),
            stacks=self._stacks,
            stacks_at=self._stacks_at,
        )

    async def _work(self, parts: WorkerParts) -> None:
        parts.start()
        announcing = asyncio.create_task(self._announce_regularly(), name="rota-worker-announce")
        try:
            await parts.work_until(self._stop_requested)
        finally:
            # Also when a part failed: held jobs must be handed back.
            self._stop_requested.set()
            await parts.close(self._announce())
            announcing.cancel()
            with suppress(asyncio.CancelledError):
                await announcing
        parts.raise_failure()

    async def _announce_regularly(self) -> None:
        while True:
            await self._announce()
            await self._register()
            await asyncio.sleep(self.options.beat.total_seconds() * (0.9 + 0.1 * self.rng()))

    async def _register(self) -> None:
        """Record the payload schemas once a day; after a failure again in a minute, since jobs run without them."""
        if self._register_schemas is None or self.clock() < self._register_at:
            return
        schemas = list(schemas_of(self.handlers).items())
        self._register_at = self.clock() + _REGISTER_SECONDS
        try:
            for start in range(0, len(schemas), MOST_SCHEMAS):
                await self._register_schemas(dict(schemas[start : start + MOST_SCHEMAS]))
        except Exception as error:  # noqa: BLE001 - as below
            self._register_at = self.clock() + _REGISTER_AGAIN_SECONDS
            _log.info("worker %s: the payload schemas of its tasks are not registered: %s", self.options.name, error)

    async def _announce(self) -> None:
        if self._announce_member is None:
            return
        try:
            orders = await self._announce_member(self.member())
            if orders is not None:
                before = self._orders
                self.apply_orders(orders)
                if orders.stacks > before.stacks:
                    # An operator waits for them.
                    await self._announce_member(self.member())
        except Exception as error:  # noqa: BLE001 - a worker that is not announced works nevertheless
            self._outage.failed(error)
        else:
            self._outage.worked()


def encrypted_work(
    source: WorkSource, steps: StepKeeper | None, inputs: InputSource | None, cipher: Cipher
) -> tuple[WorkSource, StepKeeper | None, InputSource | None]:
    """Put encryption between a worker and its source."""
    # Imported when needed: it is an extra.
    from rota.encryption.worker import EncryptedInputs, EncryptedSource, EncryptedSteps  # noqa: PLC0415

    return (
        EncryptedSource(source, cipher),
        None if steps is None else EncryptedSteps(steps, cipher),
        None if inputs is None else EncryptedInputs(inputs, cipher),
    )


class WorkerParts:
    """The parts of a running worker, in three groups: executors, leases, claims. Made on the source loop."""

    def __init__(self, worker: Worker) -> None:
        self._loop = asyncio.get_running_loop()
        self._is_single_threaded = not worker.options.own_loop
        self._rng = worker.rng
        self._captures_logs = worker.options.capture_logs
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self.tracker = AttemptTracker(self._wake_loop, self._failure_log(worker).write)
        self._alarm = WatchdogAlarm(self._call_soon)
        self._make_executors(worker)
        self._make_lease_side(worker)
        self._make_claim_side(worker)

    @staticmethod
    def _failure_log(worker: Worker) -> FailureLog:
        return FailureLog(worker.clock, has_messages=worker.cipher is None)

    def _make_executors(self, worker: Worker) -> None:
        options, rng, clock = worker.options, worker.rng, worker.clock
        self._step_calls = (
            None if worker.steps is None else StepCalls(worker.steps, rng, clock, options.caller_tx_config)
        )
        self._executors = ExecutorGroup(
            self.tracker, options, self._step_calls, worker.spans, watch=self._alarm.set, rng=rng, clock=clock
        )

    def _make_lease_side(self, worker: Worker) -> None:
        options, clock = worker.options, worker.clock
        self._reporter = OutcomeReporter(
            worker.source, self.tracker.outbox, JitteredBackoff(worker.rng), self._on_written
        )
        self._stopper = Stopper(self.tracker, self._alarm, options.stop_grace.total_seconds(), clock)
        self._heartbeat = self._make_heartbeat(worker)
        self._watchdog = Watchdog(
            self.tracker, self._executors.coroutines, self._stopper, self._alarm, options,
            heartbeat=self._heartbeat, clock=clock,
        )  # fmt: skip

    def _make_heartbeat(self, worker: Worker) -> LeaseHeartbeat:
        options, stop = worker.options, self._stopper.stop
        renewer = LeaseRenewer(worker.source, self.tracker, options.lease, clock=worker.clock, stop=stop)
        self._updates = UpdateSender(renewer, self.tracker)
        reports = self._reporter.unwritten_reports
        in_process = LoopHeartbeat(renewer, self.tracker, options, unwritten_reports=reports, rng=worker.rng)
        if worker.lease_keeper is None:
            return in_process
        return LeaseKeeperClient(
            worker.lease_keeper, in_process, self.tracker, self._executors.processes, options,
            stop=stop, rng=worker.rng, lease_tokens=worker.lease_tokens,
        )  # fmt: skip

    def _make_claim_side(self, worker: Worker) -> None:
        options, clock = worker.options, worker.clock
        self._intake = Intake(
            worker.handlers, self._executors, self.tracker, options,
            reporter=self._reporter, heartbeat=self._heartbeat, watchdog=self._watchdog, clock=clock,
            inputs=worker.inputs, rng=worker.rng, cipher=worker.cipher,
        )  # fmt: skip
        self._fetcher = Fetcher(
            worker.source, self._intake, options, worker.store_time,
            clock=clock, backoff=JitteredBackoff(worker.rng), expect_claim=self._heartbeat.expect_claim,
        )  # fmt: skip
        self.drain = Drain(self.tracker, self._reporter, self._stopper, options, clock=clock)

    def start(self) -> None:
        """Start the handler loop and the tasks."""
        if self._captures_logs:
            capture_records()
        self._executors.loop.start()
        for name, run in (
            ("reporter", self._reporter.run),
            ("watchdog", self._watchdog.run),
            ("heartbeat", self._heartbeat.run),
            ("updates", self._updates.run),
            ("fetcher", self._fetch),
        ):
            task = supervised(f"the worker's {name}", run, rng=self._rng)
            self._tasks[name] = asyncio.create_task(task, name=f"rota-worker-{name}")

    async def work_until(self, stopped: asyncio.Event) -> None:
        """Wait until the worker is stopped, or until one of the tasks fails."""
        stop = asyncio.create_task(stopped.wait())
        try:
            await asyncio.wait([stop, *self._tasks.values()], return_when=asyncio.FIRST_COMPLETED)
        finally:
            stop.cancel()

    def cancel(self, leases: Iterable[LeaseKey]) -> None:
        """Stop the attempts of these leases, as far as they are held here."""
        for key in leases:
            attempt = self.tracker.held.get(key)
            if attempt is not None:
                self._stopper.stop(attempt, StopReason.CANCEL)

    def set_quiet(self, *, is_quiet: bool) -> None:
        """Claim no more jobs, or claim again."""
        self._fetcher.set_quiet(is_quiet=is_quiet)

    @property
    def abandoned(self) -> int:
        """How many handlers that did not stop in time still run."""
        return self._executors.abandoned

    def stacks(self) -> str:
        """Return the stacks of the threads and async handlers of this process."""
        return stacks(self._executors.coroutines.tasks(), self._executors.processes.pids)

    async def close(self, announcing: Coroutine[Any, Any, None]) -> None:
        """Drain, hand back, and end all parts within the drain timeout."""
        self.drain.begin()
        self._intake.close()
        self._fetcher.stop()
        announcement = asyncio.create_task(announcing)
        await self._end("fetcher")
        await self._fetcher.close(self.drain.seconds_for_claim())
        self.drain.hand_back()
        await self.drain.finish()
        await asyncio.wait([self._tasks["reporter"]], timeout=self.drain.seconds_to_write())
        await asyncio.wait([announcement], timeout=self.drain.seconds_for_request())
        if self._reporter.unwritten:
            _log.error("%d outcomes could not be written; their leases will lapse", self._reporter.unwritten)
        announcement.cancel()
        for name in ("updates", "heartbeat", "watchdog", "reporter"):
            await self._end(name)
        await self._heartbeat.close()
        self._executors.stop_serving()
        if self._step_calls is not None:
            await self._step_calls.close(min(self.drain.seconds_left(), 1.0))
        await self._executors.close(min(max(self.drain.seconds_left(), 0.2), 1.0))

    def raise_failure(self) -> None:
        """Raise the exception of a task that failed, if one did."""
        for task in self._tasks.values():
            if task.done() and not task.cancelled() and task.exception() is not None:
                task.result()

    async def _fetch(self) -> None:
        await self._heartbeat.ready()
        await self._fetcher.run()

    async def _end(self, name: str) -> None:
        task = self._tasks[name]
        while not task.done():
            # More than once, if need be: a wait that ends at this very moment may swallow its cancellation.
            task.cancel()
            await asyncio.wait([task], timeout=0.25)

    def _call_soon(self, callback: Callable[[], None]) -> None:
        """Call a function on the source loop, from any thread."""
        if self._is_single_threaded:
            self._loop.call_soon(callback)
            return
        with suppress(RuntimeError):  # the loop is closed: an abandoned handler has returned too late
            self._loop.call_soon_threadsafe(callback)

    def _wake_loop(self) -> None:
        self._call_soon(self._on_finished)

    def _on_finished(self) -> None:
        """Write the outcomes of attempts that have finished, and claim for their slots."""
        self.tracker.woken()
        self._watchdog.attempts_finished()
        self._reporter.wake()
        self._fetcher.wake()
        self.drain.wake()

    def _on_written(self, reports: Sequence[AttemptReport]) -> None:
        self._heartbeat.release(reports)
        self._fetcher.wake()
