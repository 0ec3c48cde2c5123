"""The worker's side of its lease keeper: a heartbeat that runs in another process.

The lease keeper (process.py) gets a list of the held leases, in one small message for each batch and before any of its
handlers starts, since a handler may crash the process at once. It renews them whatever this process does, even if a
handler holds the GIL for minutes; and it notices the death of this process by a pidfd or by the end of its pipe. The
worker does not wait for it to be up, and does not wake it for each message: messages lie in the pipe, also after the
worker's death. It is woken with the worker's ALIVE messages, when something is urgent, and before the pipe is full. It
also gets the id of each claim before that is sent, so that it can hand back the claim's jobs if the worker dies.

Clocks: both processes read the host's monotonic clock, so the lease keeper reports when it *sent* a renewal, and leases
count from there. Its messages wait in the pipe while this process cannot read, and are read before any lease is treated
as lapsed (`renew_now`).

If the lease keeper dies, the worker renews in-process until another one runs. If the worker dies, the lease keeper
hands its jobs back. If both die, or the host does, the leases lapse.
"""

from __future__ import annotations

import asyncio
import faulthandler
import logging
import os
import subprocess
import sys
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from typing import Any, Final

from rota.backoff import JitteredBackoff
from rota.ports.client import AttemptReport
from rota.ports.clock import Rng
from rota.worker.attempt import RunningAttempt
from rota.worker.executors.processes import ProcessExecutor
from rota.worker.heartbeat import LoopHeartbeat
from rota.worker.lease_keeper.handback import OPEN_CLAIMS
from rota.worker.lease_keeper.pipe import PipeReader, PipeWriter
from rota.worker.lease_keeper.protocol import (
    LeaseKey,
    MessageBuffer,
    MessageType,
    child_groups_message,
    claim_id_message,
    empty_message,
    lease_tokens_message,
    leases_message,
    read_leases,
    read_renewed,
    setup_message,
)
from rota.worker.options import WorkerOptions
from rota.worker.outcomes import StopReason
from rota.worker.tracker import AttemptTracker

_log = logging.getLogger("rota.worker")
#: Released leases are sent together, with the next message or at the latest when this many have collected.
MOST_RELEASED: Final = 256
#: How many bytes may lie in the pipe before the lease keeper is woken. A pipe holds four times as many, but the kernel
#: gives less to a user with very many pipes; the lease keeper is woken when the pipe is full, too.
MOST_UNREAD: Final = 16_384
#: How long a lease keeper delays its imports: at most this part of a beat, so that it is up for its first renewal on a
#: busy machine too.
LONGEST_START_DELAY_SECONDS: Final = 3.0
START_DELAY_OF_BEAT: Final = 0.6


@dataclass(frozen=True, slots=True)
class SourceReference:
    """How another process reaches the source: a factory and its argument.

    `factory` names a function, as ``module:function``, that makes an async context manager of a `WorkSource` from
    `argument`, which is JSON.
    """

    factory: str
    argument: Any


#: Returns the tokens that prove to an API who holds a lease.
LeaseTokens = Callable[[Iterable[LeaseKey]], Mapping[LeaseKey, str]]


class LeaseKeeperProcess:
    """A running lease-keeper process and the pipes to it."""

    def __init__(
        self, setup: dict[str, Any], on_message: Callable[[MessageType, bytes], None], on_end: Callable[[], None]
    ) -> None:
        loop = asyncio.get_running_loop()
        with ExitStack() as ours, ExitStack() as theirs:
            orders_end, orders = _pipe(theirs, ours)
            wake_up_end, wake_up = _pipe(theirs, ours)
            answers, answers_end = _pipe(ours, theirs)
            crash_text_end, self._crash_text = _pipe(theirs, ours)
            inherited = (orders_end, wake_up_end, answers_end, crash_text_end)
            pidfd = _own_pidfd(theirs)
            delay = min(LONGEST_START_DELAY_SECONDS, setup["beat"] * START_DELAY_OF_BEAT)
            command = [sys.executable, "-m", "rota.worker.lease_keeper.start", *map(str, inherited), str(delay)]
            self._process = subprocess.Popen(  # noqa: S603 - our own program
                command,
                stdin=subprocess.DEVNULL,
                pass_fds=inherited if pidfd is None else (*inherited, pidfd),
                start_new_session=True,
            )
            ours.pop_all()
        self._messages = MessageBuffer()
        self._on_message = on_message
        self._wake_up = PipeWriter(loop, wake_up)
        # Data that waits for room is lost if the worker dies: the lease keeper must read, to make room for it.
        self._orders = PipeWriter(loop, orders, on_flush=self._wake)
        self._unread = 0
        self._answers = PipeReader(loop, answers, self._on_answers, on_end)
        self.send(setup_message({**setup, "process": pidfd}), wake=True)
        self._owns_faulthandler = not faulthandler.is_enabled()
        if self._owns_faulthandler:
            # The lease keeper reads the traceback of a crash in native code, and reports it with the jobs.
            faulthandler.enable(self._crash_text)

    @property
    def pid(self) -> int:
        return self._process.pid

    def send(self, message: bytes, *, wake: bool = False) -> None:
        """Send a message. It is read at once if `wake` is set, and else with the next beat at the latest."""
        self._orders.write(message)
        self._unread += len(message)
        if wake or self._unread >= MOST_UNREAD or self._orders.is_full:
            self._wake()

    def read_answers(self) -> None:
        """Read the messages that are already in the pipe."""
        self._answers.drain()

    async def close(self) -> None:
        """Send the message of a normal end, and wait for the process to end."""
        self.send(empty_message(MessageType.NORMAL_END))
        self._orders.close()
        self._wake_up.close()
        self._answers.close()
        if self._owns_faulthandler:
            faulthandler.disable()
        os.close(self._crash_text)
        with suppress(subprocess.TimeoutExpired):
            await asyncio.get_running_loop().run_in_executor(None, self._process.wait, 2)
            return
        self._process.kill()
        self._process.wait()

    def _wake(self) -> None:
        self._unread = 0
        self._wake_up.write(b"\0")

    def _on_answers(self, data: bytes) -> None:
        for kind, body in self._messages.feed(data):
            self._on_message(kind, body)


def _pipe(reading: ExitStack, writing: ExitStack) -> tuple[int, int]:
    """Make a pipe whose ends are closed with the stacks: with `theirs` in any case, with `ours` if the start fails."""
    ends = os.pipe()
    for end, stack in zip(ends, (reading, writing), strict=True):
        stack.callback(os.close, end)
    return ends


def _own_pidfd(theirs: ExitStack) -> int | None:
    """Open a pidfd of this process, if the system has those."""
    if not hasattr(os, "pidfd_open"):
        return None
    try:
        pidfd = os.pidfd_open(os.getpid())
    except OSError as error:
        _log.debug("no pidfd of this process; the lease keeper will notice its end only by the pipe: %s", error)
        return None
    theirs.callback(os.close, pidfd)
    return pidfd


class LeaseKeeperClient:
    """The heartbeat of a worker with a lease keeper; renews in-process while there is none."""

    def __init__(
        self,
        reference: SourceReference,
        in_process: LoopHeartbeat,
        tracker: AttemptTracker,
        processes: ProcessExecutor,
        options: WorkerOptions,
        *,
        stop: Callable[[RunningAttempt, StopReason], None],
        rng: Rng,
        lease_tokens: LeaseTokens | None = None,
    ) -> None:
        self._reference = reference
        self._lease_tokens = lease_tokens
        self._in_process = in_process
        self._tracker = tracker
        self._processes = processes
        self._options = options
        self._stop = stop
        self._sent_child_groups: list[int] = []
        self._lease = options.lease.total_seconds()
        self._beat = options.beat.total_seconds()
        self._backoff = JitteredBackoff(rng, longest=30.0)
        self._keeper: LeaseKeeperProcess | None = None
        self._released: list[LeaseKey] = []
        self._claim_ids: deque[str] = deque(maxlen=OPEN_CLAIMS)
        self._is_urgent = asyncio.Event()
        self._ready = asyncio.Event()

    async def ready(self) -> None:
        """Wait until a lease keeper accepts messages, or until it could not be started."""
        await self._ready.wait()

    async def run(self) -> None:
        """Keep a lease keeper running, and send it heartbeats of the worker."""
        while True:
            is_urgent = self._is_urgent.is_set()
            self._is_urgent.clear()
            if self._keeper is None:
                await self._in_process.beat()
                self._start()
                self._ready.set()
            else:
                self._keeper.send(self._take_released() + empty_message(MessageType.ALIVE), wake=True)
                if is_urgent:
                    await self._in_process.beat()
            pause = self._beat if self._keeper is not None else min(self._backoff.next(), self._beat)
            with suppress(TimeoutError):
                async with asyncio.timeout(pause):
                    await self._is_urgent.wait()

    def expect_claim(self, claim_id: str) -> None:
        """Send the id to the lease keeper at once; and to the next one, if this one dies or there is none."""
        self._claim_ids.append(claim_id)
        if self._keeper is not None:
            self._keeper.send(claim_id_message(claim_id))

    def hold(self, attempts: Iterable[RunningAttempt]) -> None:
        """Send the leases to the lease keeper at once."""
        if self._keeper is not None:
            keys = [one.key for one in attempts]
            message = self._take_released() + self._tokens_of(keys) + leases_message(MessageType.HOLD, keys)
            child_groups = self._processes.pids
            if child_groups != self._sent_child_groups:
                self._sent_child_groups = child_groups
                message += child_groups_message(child_groups)
            self._keeper.send(message)

    def release(self, reports: Iterable[AttemptReport]) -> None:
        """Send the released leases with the next message: to renew a settled job does no harm."""
        if self._keeper is not None:
            self._released += [(report.job_id, report.fence) for report in reports]
            if len(self._released) >= MOST_RELEASED:
                self._keeper.send(self._take_released())

    def renew_now(self) -> None:
        """Read the answers that came while this process could not read, and renew in-process too."""
        if self._keeper is not None:
            self._keeper.read_answers()
        if self._keeper is not None:
            self._keeper.send(empty_message(MessageType.RENEW_NOW), wake=True)
        self._is_urgent.set()

    async def close(self) -> None:
        keeper, self._keeper = self._keeper, None
        if keeper is not None:
            await keeper.close()

    def _start(self) -> None:
        options = self._options
        setup = {
            "path": [entry or os.getcwd() for entry in sys.path],  # noqa: PTH109 - as Python itself reads it
            "factory": self._reference.factory,
            "argument": self._reference.argument,
            "name": options.name,
            "boot": options.boot,
            "pid": os.getpid(),
            "lease": options.lease.total_seconds(),
            "beat": options.beat.total_seconds(),
            "silence": options.silence.total_seconds(),
            "logs": options.logs,
        }
        try:
            self._keeper = LeaseKeeperProcess(setup, self._on_message, self._on_keeper_end)
        except OSError as error:
            _log.warning("could not start the lease-keeper process; renewing leases in-process instead: %s", error)
            return
        self._released = []
        self._sent_child_groups = []
        self.hold(self._tracker.held.values())
        finished = [(report.job_id, report.fence) for report in self._in_process.unwritten_reports()]
        if finished:
            # Their handlers have started, and their outcomes are not yet written.
            self._keeper.send(self._tokens_of(finished) + leases_message(MessageType.HOLD, finished))
        # After the held leases: of the jobs of these claims it must know which have started.
        for claim_id in self._claim_ids:
            self._keeper.send(claim_id_message(claim_id))

    def _on_keeper_end(self) -> None:
        _log.warning("the lease-keeper process died; renewing leases in-process until another one runs")
        keeper, self._keeper = self._keeper, None
        if keeper is not None:
            self._reaping = asyncio.get_running_loop().create_task(keeper.close())
        self._is_urgent.set()

    def _tokens_of(self, keys: Iterable[LeaseKey]) -> bytes:
        tokens = {} if self._lease_tokens is None else self._lease_tokens(keys)
        return lease_tokens_message(tokens) if tokens else b""

    def _take_released(self) -> bytes:
        released, self._released = self._released, []
        return leases_message(MessageType.RELEASE, released) if released else b""

    def _on_message(self, kind: MessageType, body: bytes) -> None:
        self._backoff.reset()
        if kind is MessageType.RENEWED:
            sent, keys = read_renewed(body)
            for key in keys:
                attempt = self._tracker.held.get(key)
                if attempt is not None:
                    attempt.extend(sent, self._lease)
        else:
            self._stop_all(read_leases(body), StopReason.CANCEL if kind is MessageType.CANCEL else StopReason.LOST)

    def _stop_all(self, keys: Iterable[LeaseKey], reason: StopReason) -> None:
        for key in keys:
            attempt = self._tracker.held.get(key)
            if attempt is not None:
                self._stop(attempt, reason)
