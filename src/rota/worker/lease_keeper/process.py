"""The lease-keeper process: renews the leases of one worker, and hands its jobs back when it dies.

It runs no user code, so nothing can block it. Every beat it renews what the worker holds, and passes on which jobs are
to be cancelled and which are lost. It reads the worker's messages at its beats, when the worker wakes it, and at the
worker's end: to be woken for each job would take CPU from the handler that is about to start.

It does not renew for a worker that was stopped (SIGSTOP): others should take its jobs, and the fence rejects its writes
when it continues. Nor does it renew for a worker that has sent nothing for a long time (`silence`: something holds its
GIL), or a job could run for ever.

The worker counts as dead when its process has ended, where the system reports that (a pidfd), or else at the end of the
pipe, which stays open while a child that the worker's code has forked still runs. The worker hands over the pidfd of
its own process: its process id might have been reused, or be unknown in another namespace. After the death the process
groups of its children are killed, and its jobs are handed back (handback.py), with the text of a crash in native code.
So those jobs run again in about a second instead of after a lease.

If the lease keeper itself dies, the worker renews in-process and starts another one.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
import time
from collections import deque
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager, suppress
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

import msgspec

from rota.core.errors import RotaError
from rota.core.lease import Renewal, WorkerId
from rota.core.settlement import JobError
from rota.ports.client import WorkSource
from rota.telemetry.logs import set_up
from rota.telemetry.outage import Outage
from rota.worker.lease_keeper.handback import OPEN_CLAIMS, DeadWorker, batches, hand_back
from rota.worker.lease_keeper.pipe import LazyReader, PipeReader, PipeWriter
from rota.worker.lease_keeper.protocol import (
    LeaseKey,
    MessageBuffer,
    MessageType,
    leases_message,
    read_child_groups,
    read_claim_id,
    read_lease_tokens,
    read_leases,
)
from rota.worker.outcomes import storable
from rota.worker.references import resolve

_log = logging.getLogger("rota.worker.lease_keeper")
LONGEST_CRASH_TEXT: Final = 8000
#: How long after the end of its pipe the worker's process may take to end.
LONGEST_DYING_SECONDS: Final = 1.0


class LeaseKeeperSetup(msgspec.Struct):
    """The worker's first message."""

    path: list[str]
    factory: str
    argument: Any
    name: str
    pid: int
    lease: float
    beat: float
    silence: float
    #: A pidfd of the worker, if the system has those. Missing from a worker of an earlier release.
    process: int | None = None
    #: Level and format of log lines; None leaves logging alone.
    logs: tuple[str, str] | None = None
    #: The worker's boot id, a part of its identity. Missing from a worker of an earlier release.
    boot: str = ""


class LeaseKeeper:
    """Renews the leases of one worker."""

    def __init__(
        self, orders: int, wake_up: int, answers: int, crash_text: int, received: bytes, started_at: float
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._started_at = started_at
        self._held: dict[LeaseKey, None] = {}
        self._claim_ids: deque[str] = deque(maxlen=OPEN_CLAIMS)
        #: Tokens that the source has not got yet.
        self._lease_tokens: dict[LeaseKey, str] = {}
        self._child_groups: list[int] = []
        self._received_at = time.monotonic()
        self._messages = MessageBuffer()
        self._setup: LeaseKeeperSetup | None = None
        self._is_set_up = asyncio.Event()
        self._renew_now = asyncio.Event()
        self._has_left = asyncio.Event()
        self._has_died = asyncio.Event()
        self._ended_normally = False
        self._crash_text = crash_text
        self._answers = PipeWriter(self._loop, answers)
        self._receive(received)
        self._orders = LazyReader(self._loop, orders, self._receive, self._worker_left)
        self._wake_up = PipeReader(self._loop, wake_up, lambda _: self._orders.drain(), lambda: None)

    async def run(self) -> None:
        """Renew leases until the worker ends normally or dies."""
        await self._is_set_up.wait()
        setup = self._setup
        if setup is None:
            return
        if setup.logs is not None:
            set_up(*setup.logs)
        if setup.process is not None:
            self._watch(setup.process)
        else:
            self._has_died.set()
        sys.path[:] = setup.path
        opened: AbstractAsyncContextManager[WorkSource] = resolve(setup.factory)(setup.argument)
        async with opened as source:
            renewing = asyncio.create_task(self._renew_regularly(source, setup))
            await self._has_left.wait()
            renewing.cancel()
            if not self._ended_normally:
                await self._hand_back(source, setup)

    def _watch(self, pidfd: int) -> None:
        try:
            self._loop.add_reader(pidfd, self._worker_died, pidfd)
        except OSError as error:
            self._has_died.set()
            _log.debug("cannot watch the worker's process; only the end of its pipe will show its end: %s", error)

    def _worker_died(self, pidfd: int) -> None:
        # The pidfd stays readable, and would call this again and again.
        self._loop.remove_reader(pidfd)
        self._has_died.set()
        # Its last messages are still in the pipe.
        self._orders.drain()
        self._worker_left()

    def _worker_left(self) -> None:
        self._is_set_up.set()
        self._has_left.set()

    def _receive(self, data: bytes) -> None:  # noqa: C901 - one case for each type
        self._received_at = time.monotonic()
        for kind, body in self._messages.feed(data):
            match kind:
                case MessageType.SETUP:
                    self._setup = msgspec.json.decode(body, type=LeaseKeeperSetup)
                    self._is_set_up.set()
                case MessageType.HOLD:
                    self._held.update(dict.fromkeys(read_leases(body)))
                case MessageType.RELEASE:
                    for key in read_leases(body):
                        self._held.pop(key, None)
                case MessageType.CLAIM_ID:
                    self._claim_ids.append(read_claim_id(body))
                case MessageType.LEASE_TOKENS:
                    self._lease_tokens.update(read_lease_tokens(body))
                case MessageType.CHILD_GROUPS:
                    self._child_groups = read_child_groups(body)
                case MessageType.RENEW_NOW:
                    self._renew_now.set()
                case MessageType.NORMAL_END:
                    self._ended_normally = True
                case _:
                    pass

    async def _renew_regularly(self, source: WorkSource, setup: LeaseKeeperSetup) -> None:
        outage = Outage(_log, f"renewing leases for worker {setup.name}")
        # The first beat counts from the start of this process: leases held then have waited through the start delay.
        pause = max(0.0, self._started_at + setup.beat - time.monotonic())
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(pause):
                    await self._renew_now.wait()
            pause = setup.beat
            self._renew_now.clear()
            self._orders.drain()
            if self._held and self._should_renew(setup):
                try:
                    await self._renew(source, list(self._held), timedelta(seconds=setup.lease))
                    outage.worked()
                except Exception as error:  # noqa: BLE001 - a transport may raise anything; the next beat comes
                    outage.failed(error)
                    self._loop.call_later(setup.beat / 5, self._renew_now.set)

    def _should_renew(self, setup: LeaseKeeperSetup) -> bool:
        if time.monotonic() - self._received_at > setup.silence:
            message = "worker %s has sent nothing for %.0f s; its leases are not renewed and will lapse"
            _log.error(message, setup.name, setup.silence)
            return False
        return not is_stopped(setup.pid)

    def _pass_tokens(self, source: WorkSource) -> None:
        """Return the tokens of leases to a source that sends them: the client of an API."""
        add = getattr(source, "add_lease_tokens", None)
        if add is not None:
            add(self._lease_tokens)
        self._lease_tokens.clear()

    async def _renew(self, source: WorkSource, keys: Sequence[LeaseKey], lease: timedelta) -> None:
        self._pass_tokens(source)
        for batch in batches(keys):
            sent = time.monotonic()
            answers = await source.renew([Renewal(job_id, fence, lease) for job_id, fence in batch])
            renewed = {(one.job_id, one.fence): one.cancel for one in answers}
            lost = [key for key in batch if key not in renewed]
            cancelled = [key for key, is_cancelled in renewed.items() if is_cancelled]
            message = leases_message(MessageType.RENEWED, renewed, sent)
            for kind, some in ((MessageType.CANCEL, cancelled), (MessageType.LOST, lost)):
                if some:
                    message += leases_message(kind, some)
            self._answers.write(message)
            for key in lost:
                self._held.pop(key, None)

    async def _hand_back(self, source: WorkSource, setup: LeaseKeeperSetup) -> None:
        for pid in self._child_groups:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(pid, signal.SIGKILL)
        # The pipe may have ended while the worker lives: then it may still receive the jobs of its last claims.
        with suppress(TimeoutError):
            async with asyncio.timeout(LONGEST_DYING_SECONDS):
                await self._has_died.wait()
        claim_ids = tuple(self._claim_ids) if self._has_died.is_set() else ()
        message = f"worker {setup.name!r} (process {setup.pid}) died while it held this job"
        error = JobError("WorkerDied", message, self._read_crash_text())
        dead = DeadWorker(WorkerId(setup.name, setup.boot), tuple(self._held), claim_ids, error)
        self._pass_tokens(source)
        # Later than that, its leases have lapsed anyway.
        await hand_back(source, dead, give_up_at=time.monotonic() + setup.lease)

    def _read_crash_text(self) -> str:
        os.set_blocking(self._crash_text, False)
        try:
            data = os.read(self._crash_text, 1 << 16)
        except OSError:
            data = b""
        return storable(data.decode("utf-8", "replace"), LONGEST_CRASH_TEXT)


def is_stopped(pid: int) -> bool:
    """Return whether a process was stopped by a signal; False where the system does not report it."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:
        return False
    # The name in parentheses may contain anything; the state is the letter behind it.
    return stat.rpartition(b")")[2].split()[0] in {b"T", b"t"}


def keep_leases(orders: int, wake_up: int, answers: int, crash_text: int, received: bytes, started_at: float) -> None:
    """Run a lease keeper on these pipes; `received` was read from the orders before."""

    async def run() -> None:
        try:
            await LeaseKeeper(orders, wake_up, answers, crash_text, received, started_at).run()
        except RotaError as error:
            _log.error("cannot renew leases: %s", error)
            raise SystemExit(1) from None

    asyncio.run(run())
