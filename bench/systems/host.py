"""The process in which a system's client runs: `python -m bench.systems.host MODULE`.

It does what it is told, a line of JSON for each wish and for each answer, and measures the time of what is measured
where it happens. What the system itself prints goes to standard error.
"""

from __future__ import annotations

import asyncio
import importlib
import inspect
import json
import os
import sys
import time
import traceback
from collections.abc import Sequence
from importlib.metadata import version
from typing import Any, Final, TextIO

from bench.systems.protocol import Role, System

_BULK: Final = 1000


class Host:
    """The verbs of the harness, on a system."""

    def __init__(self, system: System) -> None:
        self._system = system

    async def describe(self) -> dict[str, object]:
        system = self._system
        return {
            "version": f"{system.package} {version(system.package)}",
            "keeps": system.keeps,
            "loses": system.loses,
            "can_submit_many": system.can_submit_many,
            "can_submit_at": system.can_submit_at,
            "is_shared": system.is_shared,
            "has_plain_way": system.has_plain_way,
        }

    async def commands(self, role: Role) -> dict[str, object]:
        return {"workers": self._system.worker_commands(role), "services": self._system.service_commands(role)}

    async def prepare(self) -> None:
        await done(self._system.prepare())

    async def open(self) -> None:
        await done(self._system.open())

    async def close(self) -> None:
        await done(self._system.close())

    async def one_by_one(self, first: int, count: int) -> float:
        submit = self._system.submit
        begun = time.perf_counter()
        if inspect.iscoroutinefunction(submit):
            for number in range(first, first + count):
                await submit(number)
        else:
            for number in range(first, first + count):
                submit(number)
        return time.perf_counter() - begun

    async def plainly(self, first: int, count: int) -> float:
        begun = time.perf_counter()
        for number in range(first, first + count):
            self._system.submit_plainly(number)
        return time.perf_counter() - begun

    async def together(self, first: int, count: int, callers: int) -> float:
        numbers = iter(range(first, first + count))

        async def call() -> None:
            for number in numbers:
                await done(self._system.submit(number))

        begun = time.perf_counter()
        await asyncio.gather(*(call() for _ in range(callers)))
        return time.perf_counter() - begun

    async def in_bulk(self, first: int, count: int) -> float:
        begun = time.perf_counter()
        for start in range(first, first + count, _BULK):
            await done(self._system.submit_many(range(start, min(start + _BULK, first + count))))
        return time.perf_counter() - begun

    async def spaced(self, first: int, count: int, gap: float) -> list[float]:
        """Submit one each `gap` seconds, and say when each was about to be submitted."""
        times = []
        due = time.monotonic()
        for number in range(first, first + count):
            await asyncio.sleep(max(0.0, due - time.monotonic()))
            due += gap
            times.append(time.monotonic())
            await done(self._system.submit(number))
        return times

    async def at(self, first: int, whens: Sequence[float]) -> None:
        for number, when in enumerate(whens, first):
            await done(self._system.submit_at(number, when))

    async def sleeping(self, first: int, count: int) -> None:
        for number in range(first, first + count):
            await done(self._system.submit_sleeping(number))

    async def finished(self) -> int | None:
        found = self._system.finished()
        return await found if inspect.isawaitable(found) else found


async def done(doing: Any) -> None:  # noqa: ANN401 - a coroutine, or nothing
    if inspect.isawaitable(doing):
        await doing


async def serve(host: Host, answers: TextIO) -> None:
    """Do what each line of standard input says, until it ends."""
    loop = asyncio.get_running_loop()
    # Read on a thread: a client may have tasks on its loop while it has no request.
    while line := await loop.run_in_executor(None, sys.stdin.readline):
        wish = json.loads(line)
        try:
            answer: dict[str, object] = {"answer": await getattr(host, wish["verb"])(**wish["with"])}
        except Exception:  # noqa: BLE001 - whatever a system raises is for the harness to tell
            answer = {"error": traceback.format_exc()}
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


def main() -> None:
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "w")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    module = importlib.import_module(sys.argv[1])
    with asyncio.Runner(loop_factory=new_loop) as runner:
        runner.run(serve(Host(module.Client()), answers))


def new_loop() -> asyncio.AbstractEventLoop:
    """Make the fastest loop that this environment has."""
    try:
        import uvloop  # noqa: PLC0415 - not in every environment
    except ImportError:
        return asyncio.new_event_loop()
    return uvloop.new_event_loop()


if __name__ == "__main__":
    main()
