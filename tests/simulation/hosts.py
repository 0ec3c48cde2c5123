"""Simulated hosts: each runs one program, has its own clock, and can crash, pause, and be started again.

A host runs one process at a time. `crash` is kill -9 or a pulled plug: all of the host's tasks are gone in the middle
of whatever they awaited. `start` after it runs the same program again under a new boot id, which tells the new process
from the old one. `pause` is SIGSTOP, `terminate` SIGTERM: the program hears of the latter through
`host.stopping` and is expected to end by itself.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from random import Random
from typing import Any

from simulation.clocks import WallClock
from simulation.history import History
from simulation.loop import Process, SimulatedLoop

Program = Callable[["Host"], Coroutine[Any, Any, None]]


class Host:
    """A machine with a name, a clock and a program."""

    def __init__(self, name: str, program: Program | None, loop: SimulatedLoop, history: History, rng: Random) -> None:
        self.name = name
        self.clock = WallClock(loop)
        self.boot = ""
        #: How many tasks of its own the process has under way.
        self.busy = 0
        self.process: Process = loop.create_process(f"{name} (not started)")
        self.process.is_alive = False
        self.stopping = asyncio.Event()
        #: When a process that was asked to end is to have ended.
        self.exit_by = float("inf")
        #: Told when the program has ended by itself.
        self.on_exit: Callable[[Host], None] | None = None
        self._program = program
        self._loop = loop
        self._history = history
        self._rng = rng
        self._boots = 0

    @property
    def is_up(self) -> bool:
        """Whether a process runs here, paused or not."""
        return self.process.is_alive

    def start(self) -> None:
        """Boot: run the program from its beginning, under a new boot id. Nothing happens if it runs already."""
        if self.is_up:
            return
        self._boots += 1
        self.busy = 0
        self.boot = f"{self.name}.{self._boots}-{self._rng.getrandbits(32):08x}"
        self.process = self._loop.create_process(self.boot)
        self.stopping = asyncio.Event()
        self._history.note("boot", host=self.name, boot=self.boot)
        if self._program is not None:
            context = self.process.context.copy()
            main = self._loop.create_task(self._program(self), name=f"{self.name}: main", context=context)
            main.add_done_callback(self._on_end, context=self._loop.world.context)

    def crash(self) -> None:
        """End the process at once, wherever it is."""
        self._loop.kill(self.process)

    def pause(self) -> None:
        """Stop the process where it is."""
        self._loop.pause(self.process)

    def resume(self) -> None:
        """Let a paused process go on."""
        self._loop.resume(self.process)

    def terminate(self, grace: float) -> None:
        """Ask the program to end within `grace` seconds."""
        if self.is_up and not self.stopping.is_set():
            self._history.note("sigterm", host=self.name, boot=self.boot, grace=round(grace * 1e6))
            self.exit_by = self._loop.time() + grace
            self.stopping.set()

    def _on_end(self, main: asyncio.Future[None]) -> None:
        """Notice that the program ended by itself; an exception that it did not catch ends the whole simulation."""
        if main.cancelled():
            return
        if (error := main.exception()) is not None:
            self._loop.call_exception_handler({"message": f"{self.name} failed: {error!r}", "exception": error})
            return
        self._history.note("exit", host=self.name, boot=self.boot)
        self._loop.kill(self.process)
        if self.on_exit is not None:
            self.on_exit(self)
