"""The floor of a start: the least that two durable commits and one word between two processes take.

One process commits a bare row and wakes another by the means that the store has (SQLite: a file whose closing the
kernel tells; PostgreSQL: a notice that goes with the commit), and that one commits a bare update. Both are plain
programs with a bare driver and nothing else to do, one thread each. From before the first commit to after the second.

`python -m bench.ceilings.handover sqlite PATH` or `postgres DSN` is the other process: it prints when each of its
commits was done. All times are of CLOCK_MONOTONIC, which the processes of one machine share.
"""

from __future__ import annotations

import asyncio
import ctypes
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final, Protocol

import asyncpg

from bench.ceilings import postgres, sqlite
from bench.ground import Ground
from bench.systems.catalogue import Store
from rota.loops import new_loop
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
    """Hands over again and again, each time once the last has arrived."""

    def __init__(self, giver: Giver, taker: subprocess.Popen[bytes], log: Path) -> None:
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
        """Hand over one each `gap` seconds, and say how many milliseconds each took."""
        took = []
        due = time.monotonic()
        for _ in range(count):
            time.sleep(max(0.0, due - time.monotonic()))
            due += gap
            begun = time.monotonic()
            self._giver.give()
            took.append((float(self.heard()) - begun) * 1000)
        return took


@contextmanager
def handover(store: Store, ground: Ground) -> Iterator[Handover | None]:
    """Give what hands over on a fresh database of a store; None for a store that wakes nobody."""
    with ExitStack() as stack:
        match store:
            case "sqlite":
                where = str(Path(stack.enter_context(tempfile.TemporaryDirectory(dir=ground.folder))) / "bare.db")
                giver: Giver = SqliteGiver(where)
            case "postgres":
                where = ground.servers.new_postgres_database()
                stack.callback(ground.servers.drop_postgres_database, where)
                giver = PostgresGiver(where)
            case _:
                yield None
                return
        stack.callback(giver.close)
        log = ground.folder / "handover.log"
        told = {**os.environ, "PYTHONPATH": os.pathsep.join((str(ROOT), str(ROOT / "tests")))}
        command = [sys.executable, "-m", "bench.ceilings.handover", store, where]
        taker = ground.nursery.start(command, told, log=log, pipes=True)
        stack.callback(ground.nursery.end, [taker], politely=False)
        made = Handover(giver, taker, log)
        assert made.heard() == _READY
        made.measure(_WARM, 0.0)
        yield made


class SqliteGiver:
    """Commits to a file, and knocks as we do: by opening and closing another."""

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


def _door(path: str) -> str:
    return f"{path}-door"


class PostgresGiver:
    """Commits to a server, and has it tell in the same statement."""

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
    """Commit an update for each knock."""
    connection = sqlite.opened(Path(path))
    system = ctypes.CDLL(None, use_errno=True)
    ear = system.inotify_init1(os.O_CLOEXEC)
    if ear < 0 or system.inotify_add_watch(ear, os.fsencode(_door(path)), _IN_CLOSE_NOWRITE) < 0:
        raise OSError(ctypes.get_errno(), "the kernel does not tell")
    print(_READY, flush=True)
    number = 0
    while os.read(ear, 4096):
        number += 1
        connection.execute("UPDATE job SET state = 'running' WHERE id = ?", (number,))
        print(f"{time.monotonic():.6f}", flush=True)


async def take_from_postgres(dsn: str) -> None:
    """Commit an update for each notice."""
    connection = await asyncpg.connect(dsn)
    heard: asyncio.Queue[int] = asyncio.Queue()
    await connection.add_listener(_CHANNEL, lambda *told: heard.put_nowait(int(told[-1])))
    print(_READY, flush=True)
    while True:
        await connection.execute("UPDATE bare SET state = 'running' WHERE id = $1", await heard.get())
        print(f"{time.monotonic():.6f}", flush=True)


def main(arguments: Sequence[str]) -> None:
    store, where = arguments
    takers: dict[str, Callable[[], None]] = {
        "sqlite": lambda: take_from_sqlite(where),
        "postgres": lambda: asyncio.Runner(loop_factory=new_loop).run(take_from_postgres(where)),
    }
    takers[store]()


if __name__ == "__main__":
    main(sys.argv[1:])
