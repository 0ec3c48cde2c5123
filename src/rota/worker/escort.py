"""The worker's side of its companion: a heart that beats in another process.

The companion (companion.py) is told which leases are held, in one small message for each batch and before any of its
jobs begins, since a job may take the process down at once. It renews them whatever this process is doing, be it that
a handler holds the GIL for minutes; and it learns that this process died from what it is handed for that, or from the
end of its pipe. Nobody waits for it to be up, and nobody wakes it for each message: what it was told is in its pipe,
also if we are gone by the time it looks. It is rung for with our signs of life, when there is haste, and before the
pipe is full. It is told the name of each question too, before that is asked: if we die, it asks what came of it.

Clocks: both read the host's monotonic clock, so the companion says when it *sent* a renewal and we count from there.
What it said while we could not listen is still in the pipe, and is read before any lease is judged (`hurry`).

If the companion dies, we beat by ourselves until another one runs. If we die, it reports our leases as lost. If both
die, or the host does, the leases run out.
"""

from __future__ import annotations

import asyncio
import faulthandler
import logging
import os
import subprocess
import sys
from collections import deque
from collections.abc import Callable, Iterable
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from typing import Any, Final

from rota.core.patience import Patience
from rota.ports.clock import Dice
from rota.ports.faces import Report
from rota.worker.estate import QUESTIONS
from rota.worker.heartbeat import LoopHeart, Renewing
from rota.worker.holding import Holding
from rota.worker.leases import (
    Key,
    Messages,
    Word,
    kin_message,
    leases_message,
    plain_message,
    question_message,
    read_leases,
    read_renewed,
    setup_message,
)
from rota.worker.options import WorkerOptions
from rota.worker.pipe import PipeReader, PipeWriter
from rota.worker.run import Run
from rota.worker.verdict import Stop

_log = logging.getLogger("rota.worker")
#: Leases let go of are told together, with the next message or at the latest when there are so many.
MOST_LET_GO: Final = 256
#: How many bytes may lie in the pipe before the companion is rung for. It holds four times as many, but where its user
#: has very many pipes the kernel gives it less; it is rung for when the pipe is full, too.
MOST_UNHEARD: Final = 16_384
#: How long a companion leaves the machine to others before it loads what it needs: this much of a beat at the most.
#: The rest is for it to be up in time for its first beat, on a busy machine too.
LONGEST_REST_SECONDS: Final = 3.0
REST_OF_BEAT: Final = 0.6


@dataclass(frozen=True, slots=True)
class SourceReference:
    """How another process reaches the source: a factory, and what to give it.

    `factory` names a function, as ``module:function``, that makes an async context manager of a `WorkSource` from
    `argument`, which is JSON.
    """

    factory: str
    argument: Any


class Companion:
    """A running companion process and the pipes to it."""

    def __init__(self, setup: dict[str, Any], take: Callable[[Word, bytes], None], end: Callable[[], None]) -> None:
        loop = asyncio.get_running_loop()
        with ExitStack() as ours, ExitStack() as theirs:
            words_end, orders = _pipe(theirs, ours)
            bell_end, bell = _pipe(theirs, ours)
            answers, answers_end = _pipe(ours, theirs)
            last_words_end, self._last_words = _pipe(theirs, ours)
            inherited = (words_end, bell_end, answers_end, last_words_end)
            process = _own_process(theirs)
            rest = min(LONGEST_REST_SECONDS, setup["beat"] * REST_OF_BEAT)
            command = [sys.executable, "-m", "rota.worker.companion_start", *map(str, inherited), str(rest)]
            handed = inherited if process is None else (*inherited, process)
            self._process = subprocess.Popen(  # noqa: S603 - our own program
                command, stdin=subprocess.DEVNULL, pass_fds=handed, start_new_session=True
            )
            ours.pop_all()
        self._messages = Messages()
        self._take = take
        self._bell = PipeWriter(loop, bell)
        # What had to wait for room wants to be heard as well: until it is in the pipe, it would be lost with us.
        self._orders = PipeWriter(loop, orders, went_on=self._ring)
        self._unheard = 0
        self._answers = PipeReader(loop, answers, self._heard, end)
        self.tell(setup_message({**setup, "process": process}), rings=True)
        self._lends_ear = not faulthandler.is_enabled()
        if self._lends_ear:
            # A crash in native code leaves its traceback with the companion, as our last words.
            faulthandler.enable(self._last_words)

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    def tell(self, message: bytes, *, rings: bool = False) -> None:
        """Send a message. It is read sooner or later, and at once if it rings."""
        self._orders.write(message)
        self._unheard += len(message)
        if rings or self._unheard >= MOST_UNHEARD or self._orders.is_full:
            self._ring()

    def catch_up(self) -> None:
        """Read what it has said so far."""
        self._answers.drain()

    async def close(self) -> None:
        """Say goodbye and see it end."""
        self.tell(plain_message(Word.GOODBYE))
        self._orders.close()
        self._bell.close()
        self._answers.close()
        if self._lends_ear:
            faulthandler.disable()
        os.close(self._last_words)
        with suppress(subprocess.TimeoutExpired):
            await asyncio.get_running_loop().run_in_executor(None, self._process.wait, 2)
            return
        self._process.kill()
        self._process.wait()

    def _ring(self) -> None:
        self._unheard = 0
        self._bell.write(b"\0")

    def _heard(self, data: bytes) -> None:
        for word, body in self._messages.feed(data):
            self._take(word, body)


def _pipe(reading: ExitStack, writing: ExitStack) -> tuple[int, int]:
    """Make a pipe whose ends are closed with the stacks: with `theirs` in any case, with `ours` if the start fails."""
    ends = os.pipe()
    for end, stack in zip(ends, (reading, writing), strict=True):
        stack.callback(os.close, end)
    return ends


def _own_process(theirs: ExitStack) -> int | None:
    """Open what tells whoever has it of the end of our process, if the system has that."""
    if not hasattr(os, "pidfd_open"):
        return None
    try:
        process = os.pidfd_open(os.getpid())
    except OSError as error:
        _log.debug("only the end of its pipe will tell the companion of ours: %s", error)
        return None
    theirs.callback(os.close, process)
    return process


class CompanionHeart:
    """Has leases kept by a companion process, and keeps them itself while there is none."""

    def __init__(
        self,
        reference: SourceReference,
        own: LoopHeart,
        renewing: Renewing,
        holding: Holding,
        options: WorkerOptions,
        *,
        stop: Callable[[Run, Stop], None],
        kin: Callable[[], list[int]],
        dice: Dice,
    ) -> None:
        self._reference = reference
        self._own = own
        self._renewing = renewing
        self._holding = holding
        self._options = options
        self._stop = stop
        self._kin = kin
        self._told_kin: list[int] = []
        self._lease = options.lease.total_seconds()
        self._beat = options.beat.total_seconds()
        self._patience = Patience(dice, longest=30.0)
        self._companion: Companion | None = None
        self._let_go: list[Key] = []
        self._asked: deque[str] = deque(maxlen=QUESTIONS)
        self._haste = asyncio.Event()
        self._ready = asyncio.Event()

    async def ready(self) -> None:
        """Wait until there is a companion that can be told of jobs, or none can be had."""
        await self._ready.wait()

    @property
    def companion_pid(self) -> int | None:
        """Which process the companion is."""
        return None if self._companion is None else self._companion.pid

    async def run(self) -> None:
        """Keep a companion, give it signs of life, and send what it cannot know: progress and log."""
        while True:
            is_haste = self._haste.is_set()
            self._haste.clear()
            if self._companion is None:
                await self._own.beat()
                self._start()
                self._ready.set()
            else:
                self._companion.tell(self._gone() + plain_message(Word.PULSE), rings=True)
                await (self._own.beat() if is_haste else self._tell_news())
            pause = self._beat if self._companion is not None else min(self._patience.next(), self._beat)
            with suppress(TimeoutError):
                async with asyncio.timeout(pause):
                    await self._haste.wait()

    def expect(self, question: str) -> None:
        """Tell the companion at once; and the next one, if this one dies or there is none."""
        self._asked.append(question)
        if self._companion is not None:
            self._companion.tell(question_message(question))

    def hold(self, runs: Iterable[Run]) -> None:
        """Tell the companion at once."""
        if self._companion is not None:
            message = self._gone() + leases_message(Word.HOLD, [run.key for run in runs])
            kin = self._kin()
            if kin != self._told_kin:
                self._told_kin = kin
                message += kin_message(kin)
            self._companion.tell(message)

    def let_go(self, reports: Iterable[Report]) -> None:
        """Tell the companion with the next message: to renew what is settled does no harm."""
        if self._companion is not None:
            self._let_go += [(report.job_id, report.fence) for report in reports]
            if len(self._let_go) >= MOST_LET_GO:
                self._companion.tell(self._gone())

    def hurry(self) -> None:
        """Read what the companion said while we could not listen, and beat by ourselves too."""
        if self._companion is not None:
            self._companion.catch_up()
        if self._companion is not None:
            self._companion.tell(plain_message(Word.BEAT_NOW), rings=True)
        self._haste.set()

    async def close(self) -> None:
        """Say goodbye to the companion."""
        companion, self._companion = self._companion, None
        if companion is not None:
            await companion.close()

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
            self._companion = Companion(setup, self._heard, self._lost_companion)
        except OSError as error:
            _log.warning("no companion could be started; the worker beats by itself: %s", error)
            return
        self._let_go = []
        self._told_kin = []
        self.hold(self._holding.runs.values())
        ended = [(report.job_id, report.fence) for report in self._own.open_reports()]
        if ended:
            # They have begun, and what came of them is not written yet.
            self._companion.tell(leases_message(Word.HOLD, ended))
        # Behind what is held: of what these have brought it must know what has begun.
        for question in self._asked:
            self._companion.tell(question_message(question))

    def _lost_companion(self) -> None:
        _log.warning("the companion died; the worker beats by itself until there is another")
        companion, self._companion = self._companion, None
        if companion is not None:
            self._reaping = asyncio.get_running_loop().create_task(companion.close())
        self._haste.set()

    def _gone(self) -> bytes:
        gone, self._let_go = self._let_go, []
        return leases_message(Word.LET_GO, gone) if gone else b""

    async def _tell_news(self) -> None:
        runs = [run for run in list(self._holding.runs.values()) if run.has_news]
        try:
            await self._renewing.renew(runs)
        except Exception as error:  # noqa: BLE001 - a transport may raise anything; the news will be told later
            _log.warning("progress could not be told: %s", error)

    def _heard(self, word: Word, body: bytes) -> None:
        self._patience.reset()
        if word is Word.RENEWED:
            sent, keys = read_renewed(body)
            for key in keys:
                run = self._holding.runs.get(key)
                if run is not None:
                    run.extend(sent, self._lease)
        else:
            self._stop_all(read_leases(body), Stop.CANCEL if word is Word.CANCEL else Stop.LOST)

    def _stop_all(self, keys: Iterable[Key], why: Stop) -> None:
        for key in keys:
            run = self._holding.runs.get(key)
            if run is not None:
                self._stop(run, why)
