"""Lower bounds of the start latency: durable commits and one message between two processes.

Of two commits: one process commits a bare row and wakes another by the means that the store has (SQLite: a file whose
closing the kernel tells; PostgreSQL: a notice that goes with the commit), and that one commits a bare update. Both are
plain programs with a bare driver and nothing else to do, one thread each. From before the first commit to after the
second.

Of one commit, by the hands that have to be: on SQLite a loop, which must not wait for a disk, has a thread commit a
bare row and one that says whose it is, and send a datagram; the loop of another process, which must not wait for a
handler, has a loop on another thread begin a coroutine.

`python -m bench.ceilings.handover sqlite PATH`, `sqlite-once PATH` or `postgres DSN` is the other process: it prints
when each of its commits was done, or its coroutine began. All times are of CLOCK_MONOTONIC, which the processes of one
machine share.
"""

from __future__ import annotations

import asyncio
import ctypes
import os
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from queue import SimpleQueue
from typing import Final, Literal, Protocol

import asyncpg

from bench.ceilings import postgres, sqlite
from bench.environment import BenchEnvironment
from bench.systems.registry import Store
from rota._loop import new_loop
from rota.stores.sqlite.statements import statement

ROOT: Final = Path(__file__).resolve().parents[2]
_READY: Final = "ready"
_CHANNEL: Final = "bare"
_IN_CLOSE_NOWRITE: Final = 0x10
#: How many are done before it counts: what is done for the first time takes longer.
_WARM: Final = 3


class Giver(Protocol):
    """Commits a row and wakes the other process."""

    def give(self) -> None:
        """Do it once."""
        ...

    def close(self) -> None:
        """Let go."""
        ...


class Handover:
    """Measures hand-overs one after the other."""

    def __init__(self, giver: Giver | HandedGiver, taker: subprocess.Popen[bytes], log: Path) -> None:
        self._giver = giver
        self._taker = taker
        self._log = log

    def heard(self) -> str:
        """Wait for the next line of the other process."""
        assert self._taker.stdout is not None
        line = self._taker.stdout.readline()
        if not line:
            raise RuntimeError(f"the other process of the handover has ended: {self._log.read_text()[-2000:]}")
        return line.decode().strip()

    def measure(self, count: int, gap: float) -> list[float]:
        """Hand over one each `gap` seconds, and return how many milliseconds each took."""
        if isinstance(self._giver, HandedGiver):
            return self._giver.measure(count, gap, self.heard)
        took = []
        due = time.monotonic()
        for _ in range(count):
            time.sleep(max(0.0, due - time.monotonic()))
            due += gap
            begun = time.monotonic()
            self._giver.give()
            took.append((float(self.heard()) - begun) * 1000)
        return took


Kind = Literal["sqlite", "sqlite-once", "postgres"]


@contextmanager
def handover(store: Store, env: BenchEnvironment) -> Iterator[Handover | None]:
    """Return the hand-over with two commits on a fresh database of a store; None for a store without wake-ups."""
    if store in ("sqlite", "postgres"):
        with _handover(store, env) as made:
            yield made
    else:
        yield None


@contextmanager
def handover_once(store: Store, env: BenchEnvironment) -> Iterator[Handover | None]:
    """Return the hand-over with one commit; None where that is not measured."""
    if store == "sqlite":
        with _handover("sqlite-once", env) as made:
            yield made
    else:
        yield None


@contextmanager
def _handover(kind: Kind, env: BenchEnvironment) -> Iterator[Handover]:
    with ExitStack() as stack:
        match kind:
            case "sqlite" | "sqlite-once":
                where = str(Path(stack.enter_context(tempfile.TemporaryDirectory(dir=env.folder))) / "bare.db")
                giver: Giver | HandedGiver = SqliteGiver(where) if kind == "sqlite" else HandedGiver(where)
            case "postgres":
                where = env.servers.new_postgres_database()
                stack.callback(env.servers.drop_postgres_database, where)
                giver = PostgresGiver(where)
        stack.callback(giver.close)
        log = env.folder / f"handover-{kind}.log"
        variables = {**os.environ, "PYTHONPATH": os.pathsep.join((str(ROOT), str(ROOT / "tests")))}
        command = [sys.executable, "-m", "bench.ceilings.handover", kind, where]
        taker = env.process_group.start(command, variables, log=log, pipes=True)
        stack.callback(env.process_group.end, [taker], politely=False)
        made = Handover(giver, taker, log)
        assert made.heard() == _READY
        made.measure(_WARM, 0.0)
        yield made


class SqliteGiver:
    """Commits to a file, and knocks by opening and closing another."""

    def __init__(self, path: str) -> None:
        self._bare = sqlite.Bare(Path(path))
        self._door = _door(path)
        Path(self._door).touch()

    def give(self) -> None:
        (row,) = self._bare.plain_rows(1)
        self._bare.connection.execute(statement("insert_plain"), row)
        os.close(os.open(self._door, os.O_RDONLY))

    def close(self) -> None:
        self._bare.connection.close()


class HandedGiver:
    """Commits to a file on a thread, and writes to the socket of the receiver."""

    def __init__(self, path: str) -> None:
        self._bare = sqlite.Bare(Path(path))
        self._bare.connection.execute("CREATE TABLE rota_claim (claim_id TEXT PRIMARY KEY, leases TEXT) WITHOUT ROWID")
        self._runner = asyncio.Runner(loop_factory=new_loop)
        self._address = _address(path)
        self._out = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._inbox: SimpleQueue[asyncio.Future[None] | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._commit, daemon=True)
        self._thread.start()

    def measure(self, count: int, gap: float, heard: Callable[[], str]) -> list[float]:
        """Hand over as `Handover.measure` does, on a loop that runs all the time."""
        return self._runner.run(self._measure(count, gap, heard))

    async def _measure(self, count: int, gap: float, heard: Callable[[], str]) -> list[float]:
        loop = asyncio.get_running_loop()
        took = []
        due = time.monotonic()
        for _ in range(count):
            await asyncio.sleep(max(0.0, due - time.monotonic()))
            due += gap
            begun = time.monotonic()
            done: asyncio.Future[None] = loop.create_future()
            self._inbox.put(done)
            await done
            took.append((float(await asyncio.to_thread(heard)) - begun) * 1000)
        return took

    def _commit(self) -> None:
        run = self._bare.connection.execute
        while (done := self._inbox.get()) is not None:
            (row,) = self._bare.plain_rows(1)
            run("BEGIN IMMEDIATE")
            run(statement("insert_plain"), row)
            run("INSERT INTO rota_claim VALUES (?, ?)", (f"claim-{row[0]}", f"[[{row[0]}, 1]]"))
            run("COMMIT")
            self._out.sendto(b"a job", self._address)
            done.get_loop().call_soon_threadsafe(done.set_result, None)

    def close(self) -> None:
        self._inbox.put(None)
        self._thread.join()
        self._runner.close()
        self._out.close()
        self._bare.connection.close()


def _address(path: str) -> str:
    """Name a socket that is no file."""
    return f"\0bare {Path(path).parent.name}"


def _door(path: str) -> str:
    return f"{path}-door"


class PostgresGiver:
    """Commits to a server, which notifies in the same statement."""

    def __init__(self, dsn: str) -> None:
        self._runner = asyncio.Runner(loop_factory=new_loop)
        self._connection: asyncpg.Connection = self._runner.run(asyncpg.connect(dsn))
        self._bare = postgres.Bare(self._connection)
        self._runner.run(self._bare.prepare())
        self._sql = f"WITH made AS ({self._bare.one} RETURNING id) SELECT pg_notify('{_CHANNEL}', id::text) FROM made"

    def give(self) -> None:
        (row,) = postgres.rows(1)
        self._runner.run(self._connection.execute(self._sql, *row))

    def close(self) -> None:
        self._runner.run(self._connection.close())
        self._runner.close()


def take_from_sqlite(path: str) -> None:
    """Commit an update for each request."""
    connection = sqlite.opened(Path(path))
    system = ctypes.CDLL(None, use_errno=True)
    ear = system.inotify_init1(os.O_CLOEXEC)
    if ear < 0 or system.inotify_add_watch(ear, os.fsencode(_door(path)), _IN_CLOSE_NOWRITE) < 0:
        raise OSError(ctypes.get_errno(), "the kernel does not tell")
    print(_READY, flush=True)
    number = 0
    while os.read(ear, 4096):
        number += 1
        connection.execute("UPDATE rota_job SET state = 'running' WHERE id = ?", (number,))
        print(f"{time.monotonic():.6f}", flush=True)


def take_letters(path: str) -> None:
    """Begin a coroutine on another loop for each datagram."""
    floor = asyncio.new_event_loop()
    threading.Thread(target=floor.run_forever, daemon=True).start()
    box = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
    box.bind(_address(path))
    loop = new_loop()
    begun: set[asyncio.Task[None]] = set()

    async def handle() -> None:
        print(f"{time.monotonic():.6f}", flush=True)

    def begin() -> None:
        begun.clear()
        begun.add(floor.create_task(handle()))

    def hear() -> None:
        box.recv(4096)
        floor.call_soon_threadsafe(begin)

    loop.add_reader(box.fileno(), hear)
    loop.call_soon(lambda: print(_READY, flush=True))
    loop.run_forever()


async def take_from_postgres(dsn: str) -> None:
    """Commit an update for each notice."""
    connection = await asyncpg.connect(dsn)
    heard: asyncio.Queue[int] = asyncio.Queue()
    await connection.add_listener(_CHANNEL, lambda *answer: heard.put_nowait(int(answer[-1])))
    print(_READY, flush=True)
    while True:
        await connection.execute("UPDATE bare SET state = 'running' WHERE id = $1", await heard.get())
        print(f"{time.monotonic():.6f}", flush=True)


def main(arguments: Sequence[str]) -> None:
    store, where = arguments
    takers: dict[str, Callable[[], None]] = {
        "sqlite": lambda: take_from_sqlite(where),
        "sqlite-once": lambda: take_letters(where),
        "postgres": lambda: asyncio.Runner(loop_factory=new_loop).run(take_from_postgres(where)),
    }
    takers[store]()


if __name__ == "__main__":
    main(sys.argv[1:])
