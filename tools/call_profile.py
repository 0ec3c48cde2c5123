"""Count the Python calls on the hot paths: module entries and call depth.

    PYTHONPATH=tests .venv/bin/python tools/call_profile.py [sqlite] [http] [postgres]

A *module entry* is a call of a function of Rota whose calling function of Rota is in another module, or that has no
caller of Rota. The *depth* is the number of nested functions of Rota. Few entries and a small depth mean that a reader
who follows a job through the code opens few files.

- `sqlite`: one claim, run and settlement of a worker in process, on a SQLite file.
- `http`: the same for a worker over HTTP; the API server runs in this process, so both sides count.
- `postgres`: one claim of one job on PostgreSQL, by the engine.

The worker has one slot. Its handler waits until the next job is stored; then counting begins. It ends when the first
job is settled and the handler of the second one has started: one claim, one start of a handler and one settlement.
This is counted several times, and the fewest entries are shown: on a busy machine a periodic look of the process, such
as that for webhooks, may fall into one of them.
"""

from __future__ import annotations

import asyncio
import sys
import threading
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from types import FrameType
from typing import Final

import rota
from rota.api import create_app
from rota.api.server.serve import bind, serve
from rota.core.lease import Claim, WorkerId
from rota.core.submission import NewJob
from rota.engine import Engine
from rota.ports.client import WorkSource
from rota.runtime.link import connect
from rota.telemetry.events import Event, JobsSettled
from rota.worker import Handlers, Worker, WorkerOptions, handler_of

SOURCE: Final = str(Path(rota.__file__).parent)
#: Long, so that no heartbeat comes while calls are counted.
LEASE: Final = timedelta(minutes=10)
WARM_UP_JOBS: Final = 20
#: How often the cycle of a worker is counted.
CYCLES: Final = 3


class CallProfile:
    """Counts calls of functions of Rota in all threads while it is on. Resumed coroutines count once."""

    def __init__(self) -> None:
        self.is_on = False
        self.entries: Counter[str] = Counter()
        self.calls = 0
        self.depth = 0
        self.deepest: list[str] = []
        self._seen: set[FrameType] = set()
        #: The profile that counts for this one, which is installed.
        self.counting = self

    def least(self, other: CallProfile) -> None:
        """Take the counts of another profile if they are fewer, or if this one has none."""
        if not self.entries or other.entries.total() < self.entries.total():
            self.entries, self.calls, self.depth, self.deepest = other.entries, other.calls, other.depth, other.deepest

    def install(self) -> None:
        threading.setprofile(self)
        sys.setprofile(self)

    def remove(self) -> None:
        threading.setprofile(None)
        sys.setprofile(None)

    def __call__(self, frame: FrameType, event: str, _argument: object) -> None:
        self.counting.count(frame, event)

    def count(self, frame: FrameType, event: str) -> None:
        """Count a call of a function of Rota."""
        if not self.is_on or event != "call" or not _is_ours(frame) or frame in self._seen:
            return
        self._seen.add(frame)  # kept, so that no other frame gets its identity
        stack = _our_stack(frame)
        self.calls += 1
        if len(stack) == 1 or stack[1].f_code.co_filename != frame.f_code.co_filename:
            self.entries[_module(frame)] += 1
        if len(stack) > self.depth:
            self.depth = len(stack)
            self.deepest = [f"{_module(one)}.{one.f_code.co_name}" for one in reversed(stack)]

    def show(self, name: str) -> None:
        total = sum(self.entries.values())
        print(f"{name}: {total} module entries, depth {self.depth}, {self.calls} calls, {len(self.entries)} modules")  # noqa: T201 - a command
        for module, count in self.entries.most_common(12):
            print(f"  {count:4} {module}")  # noqa: T201 - a command
        print("  deepest: " + " > ".join(self.deepest))  # noqa: T201 - a command


def _is_ours(frame: FrameType) -> bool:
    return frame.f_code.co_filename.startswith(SOURCE)


def _our_stack(frame: FrameType) -> list[FrameType]:
    """Return the functions of Rota on the stack, innermost first."""
    stack, one = [], frame
    while one is not None:
        if _is_ours(one):
            stack.append(one)
        one = one.f_back  # type: ignore[assignment] # None ends the loop
    return stack


def _module(frame: FrameType) -> str:
    return frame.f_code.co_filename.removeprefix(SOURCE).strip("/").removesuffix(".py").replace("/", ".")


class SlotCycle:
    """A worker with one slot, whose handler waits until it is released."""

    def __init__(self, engine: Engine, source: WorkSource) -> None:
        self._engine = engine
        self._started = threading.Semaphore(0)
        self._released = threading.Semaphore(0)
        self._settled = asyncio.Semaphore(0)
        self._leave = engine.telemetry.listen(self._on_event)
        options = WorkerOptions(name="profile", concurrency=1, lease=LEASE, beat=LEASE / 2)
        self.worker = Worker(source, Handlers([handler_of(self._mail, type="mail")]), options)

    async def _mail(self, to: str) -> None:
        del to
        self._started.release()
        while not self._released.acquire(blocking=False):  # noqa: ASYNC110 - released from another event loop
            await asyncio.sleep(0.001)

    def _on_event(self, event: Event) -> None:
        if isinstance(event, JobsSettled):
            self._settled.release()

    async def submit(self) -> None:
        await self._engine.submit([NewJob(id=self._engine.fresh_id(), type="mail", payload='{"to":"a@b.c"}')])

    async def first(self) -> None:
        await self.submit()
        await asyncio.to_thread(self._started.acquire)

    async def next(self, profile: CallProfile | None = None) -> None:
        """Store the next job, let the running one end, and wait for its settlement and for the next start."""
        await self.submit()
        await asyncio.sleep(0.05)  # until the notification of the new job has been handled
        if profile is not None:
            profile.is_on = True
        self._released.release()
        await self._settled.acquire()
        await asyncio.to_thread(self._started.acquire)
        if profile is not None:
            profile.is_on = False

    async def end(self, running: asyncio.Task[None]) -> None:
        self._released.release()
        await self._settled.acquire()
        self._leave()
        self.worker.stop()
        await running


async def _profile_worker(profile: CallProfile, engine: Engine, source: WorkSource) -> None:
    cycle = SlotCycle(engine, source)
    running = asyncio.create_task(cycle.worker.run())
    await cycle.first()
    for _ in range(WARM_UP_JOBS):
        await cycle.next()
    for _ in range(CYCLES):
        one = CallProfile()
        profile.counting = one
        await cycle.next(one)
        profile.least(one)
    await cycle.end(running)


async def on_sqlite(profile: CallProfile) -> None:
    async with _sqlite_engine() as engine:
        await _profile_worker(profile, engine, engine)


async def over_http(profile: CallProfile) -> None:
    async with _sqlite_engine() as engine:
        sockets = bind("127.0.0.1", 0)
        port = sockets[0].getsockname()[1]
        ready = asyncio.Event()
        api = create_app(engine)
        serving = asyncio.create_task(
            serve(api, host="127.0.0.1", port=port, on_ready=lambda _host, _port: ready.set(), sockets=sockets)
        )
        await ready.wait()
        link = await connect(f"http://127.0.0.1:{port}")
        await _profile_worker(profile, engine, link.source)
        await link.close()
        serving.cancel()
        await asyncio.gather(serving, return_exceptions=True)


async def on_postgres(profile: CallProfile) -> None:
    from servers.postgres import migrated_database, shared_server  # noqa: PLC0415 - of the tests, for this path only

    async with migrated_database(shared_server()) as dsn:
        link = await connect(dsn)
        engine = link.engine
        assert engine is not None  # a store, not an API
        wanted = Claim(worker=WorkerId("profile", "boot"), limit=1, types=("mail",), lease=LEASE)
        await engine.submit(
            [NewJob(id=engine.fresh_id(), type="mail", payload='{"to":"a@b.c"}') for _ in range(WARM_UP_JOBS + 1)]
        )
        for _ in range(WARM_UP_JOBS):
            await engine.claim(wanted)
        profile.is_on = True
        await engine.claim(wanted)
        profile.is_on = False
        await link.close()


@asynccontextmanager
async def _sqlite_engine() -> AsyncIterator[Engine]:
    with TemporaryDirectory() as folder:
        link = await connect(f"{folder}/profile.db")
        assert link.engine is not None  # a store, not an API
        try:
            yield link.engine
        finally:
            await link.close()


PATHS: Final[dict[str, Callable[[CallProfile], Awaitable[None]]]] = {
    "sqlite": on_sqlite,
    "http": over_http,
    "postgres": on_postgres,
}


def main(arguments: list[str]) -> int:
    if unknown := [name for name in arguments if name not in PATHS]:
        print(f"unknown path {', '.join(unknown)}; take some of: {', '.join(PATHS)}", file=sys.stderr)  # noqa: T201 - a command
        return 2
    for name in arguments or PATHS:
        profile = CallProfile()
        profile.install()

        async def run(act: Callable[[CallProfile], Awaitable[None]] = PATHS[name], one: CallProfile = profile) -> None:
            await act(one)

        try:
            asyncio.run(run())
        finally:
            profile.remove()
        profile.show(name)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
