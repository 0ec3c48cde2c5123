"""The companion: a small process beside a worker that keeps its leases, and speaks for it when it dies.

It runs no user code, so nothing can block it. It renews what the worker holds, every beat, and passes on which jobs
are to be stopped and which are lost. What the worker says it reads at its beats, when the worker rings, and when it is
gone: to be woken by each job would take the core of whoever begins that.

Whether to renew is more than whether the worker exists. A worker that was stopped (SIGSTOP) is not renewed for:
others should take its jobs, and the fence keeps it out when it comes back. A worker that has said nothing for a long
time (`silence`: something holds its GIL) is not renewed for either, or a job could run for ever.

The worker's death is the end of its process, where the system tells of that (a pidfd), or of the pipe: which does not
end while a child that the worker's code has forked lives on, since that has it open as well. The worker hands us what
tells of its process: by its number we might find another one that has the same, or, in a namespace of our own, none.
Then the process groups of its children are killed, and what it leaves is given back (estate.py), with what it had to
say last: a crash in native code leaves a traceback. So its jobs run again in about a second instead of a lease.

If the companion itself dies, the worker beats by itself and starts another. See companion_start.py for how it starts.
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

from rota.core.lease import Renewal, WorkerId
from rota.core.settlement import JobError
from rota.ports.faces import WorkSource
from rota.telemetry.logs import set_up
from rota.telemetry.outage import Outage
from rota.worker.estate import QUESTIONS, Estate, batches, give_back
from rota.worker.leases import Key, Messages, Word, leases_message, read_kin, read_leases, read_question
from rota.worker.pipe import LazyReader, PipeReader, PipeWriter
from rota.worker.references import resolve
from rota.worker.verdict import plain

_log = logging.getLogger("rota.worker.companion")
LONGEST_LAST_WORDS: Final = 8000
#: How long after the end of its pipe a worker's process may take to end.
LONGEST_DYING_SECONDS: Final = 1.0


class Setup(msgspec.Struct):
    """What the worker says first."""

    path: list[str]
    factory: str
    argument: Any
    name: str
    pid: int
    lease: float
    beat: float
    silence: float
    #: What tells of the end of its process, if the system has that. Nothing from a worker of an earlier release.
    process: int | None = None
    #: Level and form of log lines; None leaves them alone.
    logs: tuple[str, str] | None = None
    #: The mark of its start, by which its questions are known. Nor this.
    boot: str = ""


class Companion:
    """Keeps leases for one worker."""

    def __init__(self, orders: int, bell: int, answers: int, last_words: int, heard: bytes, began_at: float) -> None:
        self._loop = asyncio.get_running_loop()
        self._began_at = began_at
        self._held: dict[Key, None] = {}
        self._asked: deque[str] = deque(maxlen=QUESTIONS)
        self._kin: list[int] = []
        self._heard_at = time.monotonic()
        self._messages = Messages()
        self._setup: Setup | None = None
        self._told = asyncio.Event()
        self._beat_now = asyncio.Event()
        self._parted = asyncio.Event()
        self._died = asyncio.Event()
        self._said_goodbye = False
        self._last_words = last_words
        self._answers = PipeWriter(self._loop, answers)
        self._take(heard)
        self._orders = LazyReader(self._loop, orders, self._take, self._part)
        self._bell = PipeReader(self._loop, bell, lambda _: self._orders.drain(), lambda: None)

    async def run(self) -> None:
        """Keep leases until the worker says goodbye or dies."""
        await self._told.wait()
        setup = self._setup
        if setup is None:
            return
        if setup.logs is not None:
            set_up(*setup.logs)
        if setup.process is not None:
            self._watch(setup.process)
        else:
            self._died.set()
        sys.path[:] = setup.path
        opened: AbstractAsyncContextManager[WorkSource] = resolve(setup.factory)(setup.argument)
        async with opened as source:
            beating = asyncio.create_task(self._beat(source, setup))
            await self._parted.wait()
            beating.cancel()
            if not self._said_goodbye:
                await self._speak_for_the_dead(source, setup)

    def _watch(self, process: int) -> None:
        """Learn of the worker's end from its process."""
        try:
            self._loop.add_reader(process, self._bury, process)
        except OSError as error:
            self._died.set()
            _log.debug("only the end of its pipe will tell of the worker's: %s", error)

    def _bury(self, process: int) -> None:
        # It stays ended, and we would be told again and again.
        self._loop.remove_reader(process)
        self._died.set()
        # What it said last is in the pipe.
        self._orders.drain()
        self._part()

    def _part(self) -> None:
        self._told.set()
        self._parted.set()

    def _take(self, data: bytes) -> None:
        self._heard_at = time.monotonic()
        for word, body in self._messages.feed(data):
            match word:
                case Word.SETUP:
                    self._setup = msgspec.json.decode(body, type=Setup)
                    self._told.set()
                case Word.HOLD:
                    self._held.update(dict.fromkeys(read_leases(body)))
                case Word.LET_GO:
                    for key in read_leases(body):
                        self._held.pop(key, None)
                case Word.ASKED:
                    self._asked.append(read_question(body))
                case Word.KIN:
                    self._kin = read_kin(body)
                case Word.BEAT_NOW:
                    self._beat_now.set()
                case Word.GOODBYE:
                    self._said_goodbye = True
                case _:
                    pass

    async def _beat(self, source: WorkSource, setup: Setup) -> None:
        # The first counts from the start: what was held then has waited through our rest.
        outage = Outage(_log, f"renewing leases for worker {setup.name}")
        pause = max(0.0, self._began_at + setup.beat - time.monotonic())
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(pause):
                    await self._beat_now.wait()
            pause = setup.beat
            self._beat_now.clear()
            self._orders.drain()
            if self._held and self._should_renew(setup):
                try:
                    await self._renew(source, list(self._held), timedelta(seconds=setup.lease))
                    outage.worked()
                except Exception as error:  # noqa: BLE001 - a transport may raise anything; the next beat comes
                    outage.failed(error)
                    self._loop.call_later(setup.beat / 5, self._beat_now.set)

    def _should_renew(self, setup: Setup) -> bool:
        if time.monotonic() - self._heard_at > setup.silence:
            _log.error(
                "worker %s has said nothing for %.0f s: its leases are left to run out", setup.name, setup.silence
            )
            return False
        return not is_stopped(setup.pid)

    async def _renew(self, source: WorkSource, keys: Sequence[Key], lease: timedelta) -> None:
        for batch in batches(keys):
            sent = time.monotonic()
            answers = await source.renew([Renewal(job_id, fence, lease) for job_id, fence in batch])
            renewed = {(one.job_id, one.fence): one.cancel for one in answers}
            lost = [key for key in batch if key not in renewed]
            cancelled = [key for key, is_cancelled in renewed.items() if is_cancelled]
            message = leases_message(Word.RENEWED, renewed, sent)
            for word, some in ((Word.CANCEL, cancelled), (Word.LOST, lost)):
                if some:
                    message += leases_message(word, some)
            self._answers.write(message)
            for key in lost:
                self._held.pop(key, None)

    async def _speak_for_the_dead(self, source: WorkSource, setup: Setup) -> None:
        for pid in self._kin:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(pid, signal.SIGKILL)
        # Its pipe may have ended, and it lives: then what it has asked for it may just be given, and begin.
        with suppress(TimeoutError):
            async with asyncio.timeout(LONGEST_DYING_SECONDS):
                await self._died.wait()
        asked = tuple(self._asked) if self._died.is_set() else ()
        told = f"worker {setup.name!r} (process {setup.pid}) died while it held this job"
        error = JobError("WorkerDied", told, self._read_last_words())
        estate = Estate(WorkerId(setup.name, setup.boot), tuple(self._held), asked, error)
        # Later than that, its leases have run out anyway.
        await give_back(source, estate, give_up_at=time.monotonic() + setup.lease)

    def _read_last_words(self) -> str:
        os.set_blocking(self._last_words, False)
        try:
            words = os.read(self._last_words, 1 << 16)
        except OSError:
            words = b""
        return plain(words.decode("utf-8", "replace"), LONGEST_LAST_WORDS)


def is_stopped(pid: int) -> bool:
    """Say whether a process was stopped by a signal. Where that cannot be known, it was not."""
    try:
        told = Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:
        return False
    # The name in parentheses may contain anything; the state is the letter behind it.
    return told.rpartition(b")")[2].split()[0] in {b"T", b"t"}


def accompany(orders: int, bell: int, answers: int, last_words: int, heard: bytes, began_at: float) -> None:
    """Accompany the worker at the other end of these pipes, which has said something since we began."""

    async def run() -> None:
        await Companion(orders, bell, answers, last_words, heard, began_at).run()

    asyncio.run(run())
