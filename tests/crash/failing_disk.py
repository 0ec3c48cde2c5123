"""Failing disk: the n-th write, sync, read or the like fails, once or until the fault is healed.

`live_through` is one life of a store on such a disk: it is opened, used by a load that takes refusals as they come,
read while the fault lasts, healed, used again, closed, verified, and opened as after a restart. It returns sentences
about everything that went wrong beside the fault itself. Tests go through every n.
"""

from __future__ import annotations

import contextlib
import random
import threading
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import count
from pathlib import Path
from typing import Final

import apsw

from crash.acknowledgements import Promises
from crash.apsw_connection import ApswConnection
from crash.pragma_override import PassedOn, Settings, altered
from crash.scratch import DATABASE, lay_down, memory_folder
from crash.verification import verify
from crash.workload import Identity, TickingClock, Verb, Workload
from rota.core.errors import StoreUnavailable
from rota.core.ids import JobId
from rota.stores.sqlite import SqliteStore
from rota.stores.sqlite.driver import SqliteConnection


class Call(StrEnum):
    """The calls of SQLite to a disk."""

    OPEN = "open"
    READ = "read"
    WRITE = "write"
    TRUNCATE = "truncate"
    SYNC = "sync"
    DELETE = "delete"


@dataclass(slots=True)
class DiskFault:
    """When and how calls fail. Without `at` nothing does, and calls are only counted."""

    call: Call = Call.WRITE
    at: int | None = None
    code: int = apsw.SQLITE_FULL
    #: From then on all calls of the kind fail, until `heal`.
    lasts: bool = False
    seen: Counter[Call] = field(default_factory=Counter)
    failed: int = 0
    #: How many calls of the store were refused for it.
    noticed: int = 0

    def count(self, call: Call) -> None:
        """Count a call, and fail it if it is its turn."""
        self.seen[call] += 1
        if call is not self.call or self.at is None:
            return
        if self.seen[call] == self.at or (self.lasts and self.seen[call] > self.at):
            self.failed += 1
            error = apsw.exception_for(self.code)
            # What SQLite says of such an error; apsw lets an error raised in Python speak for itself.
            error.args = ("database or disk is full" if self.code == apsw.SQLITE_FULL else "disk I/O error",)
            raise error

    def heal(self) -> None:
        """Let nothing fail any more."""
        self.at = None

    @property
    def is_final(self) -> bool:
        """Whether the content of the disk is unknown after such an error."""
        return self.code != apsw.SQLITE_FULL

    @property
    def words(self) -> str:
        """What a message about it must contain."""
        return "disk I/O error" if self.is_final else "full"


_names: Final = count()


class FaultyVfs(apsw.VFS):
    """Passes calls on to another VFS, with a fault. Registered under `name` until `unregister`."""

    def __init__(self, fault: DiskFault, base: str = "unix") -> None:
        self.name = f"fault-{next(_names)}"
        self._base = base
        self._fault = fault
        super().__init__(self.name, base)

    def xOpen(self, name: str | apsw.URIFilename | None, flags: list[int]) -> apsw.VFSFile:  # noqa: N802
        self._fault.count(Call.OPEN)
        return _FaultyFile(self._fault, self._base, name, flags)

    def xDelete(self, filename: str, syncdir: bool) -> None:  # noqa: FBT001, N802
        self._fault.count(Call.DELETE)
        super().xDelete(filename, syncdir)


class _FaultyFile(apsw.VFSFile):
    def __init__(self, fault: DiskFault, base: str, name: str | apsw.URIFilename | None, flags: list[int]) -> None:
        self._fault = fault
        super().__init__(base, name, flags)

    def xRead(self, amount: int, offset: int) -> bytes:  # noqa: N802
        self._fault.count(Call.READ)
        return bytes(super().xRead(amount, offset))

    def xWrite(self, data: bytes, offset: int) -> None:  # noqa: N802
        self._fault.count(Call.WRITE)
        super().xWrite(data, offset)

    def xTruncate(self, newsize: int) -> None:  # noqa: N802
        self._fault.count(Call.TRUNCATE)
        super().xTruncate(newsize)

    def xSync(self, flags: int) -> None:  # noqa: N802
        self._fault.count(Call.SYNC)
        super().xSync(flags)


class FaultyConnection(ApswConnection):
    """apsw raises on closing what a VFS in Python raised meanwhile; SQLite itself never fails to close."""

    def close(self) -> None:
        with contextlib.suppress(apsw.Error):
            super().close()


@dataclass(slots=True)
class Connections:
    """Connects through a VFS, with settings that make things happen sooner, and remembers what is still open."""

    vfs: str
    settings: Settings
    left_open: int = 0

    def __call__(self, path: str) -> SqliteConnection:
        made = _Counted(altered(lambda path: FaultyConnection(path, vfs=self.vfs), self.settings)(path), self)
        self.left_open += 1
        return made


class _Counted(PassedOn):
    def __init__(self, inner: SqliteConnection, connections: Connections) -> None:
        super().__init__(inner)
        self._connections = connections

    def close(self) -> None:
        super().close()
        self._connections.left_open -= 1


OF_EVERYTHING: Final[tuple[Verb, ...]] = (
    Workload.make_schedule,
    Workload.submit,
    Workload.submit_keyed,
    Workload.submit_batch,
    Workload.submit_workflow,
    Workload.fire,
    Workload.work,
    Workload.reap,
    Workload.promote,
    Workload.cancel,
    Workload.lead,
    Workload.record,
    Workload.prune,
    Workload.look,
)
A_LITTLE: Final[tuple[Verb, ...]] = (Workload.submit_keyed, Workload.work)


def _threads_of_stores() -> set[str]:
    """Name the stores' own threads; the event loop's pool grows as it likes."""
    return {thread.name for thread in threading.enumerate() if thread.name.startswith("rota-")}


@dataclass(slots=True)
class Life:
    """One life of a store on a faulty disk."""

    fault: DiskFault
    path: Path
    connections: Connections
    promises: Promises = field(default_factory=Promises)
    clock: TickingClock = field(default_factory=TickingClock)
    complaints: list[str] = field(default_factory=list)

    async def open(self) -> SqliteStore | None:
        """Open the store; if it refuses, it must say why, leave nothing behind, and open once the disk is well."""
        before = _threads_of_stores()
        try:
            return await SqliteStore.open(self.path, clock=self.clock, connect=self.connections)
        except StoreUnavailable as error:
            self.check_words(error)
            if str(self.path) not in str(error):
                self.complaints.append(f"the path is not in the message: {error}")
        behind = _threads_of_stores() - before
        if self.connections.left_open or behind:
            self.complaints.append(
                f"a refused opening left {self.connections.left_open} connections and {sorted(behind)} behind"
            )
        return None

    async def work(self, store: SqliteStore, generation: int, verbs: Sequence[Verb]) -> list[StoreUnavailable]:
        """Do this and that, one after the other, and give the refusals."""
        rng = random.Random(generation)
        load = Workload(store, Identity(0, generation), self.promises.take, rng, self.clock, keys=10, may_fail=True)
        for verb in verbs:
            await verb(load)
        for error in load.failures:
            self.check_words(error)
        return load.failures

    def check_words(self, error: StoreUnavailable) -> None:
        self.fault.noticed += 1
        if self.fault.words not in str(error):
            self.complaints.append(f"the message does not say what is wrong: {error}")

    async def check_reading(self, store: SqliteStore) -> None:
        """Whatever is wrong with writing, what was acknowledged can be read."""
        ids = [JobId(number) for number in sorted(self.promises.created)]
        missing = len(ids) - len(await store.get(ids))
        pruned = sum((await store.census()).pruned.values())
        if missing > pruned:
            self.complaints.append(f"{missing} acknowledged jobs cannot be read, and {pruned} were pruned")

    async def check_refusal(self, store: SqliteStore) -> None:
        """After an error that leaves the disk in doubt nothing is written any more, and the message says so."""
        before = self.fault.seen[Call.WRITE], self.fault.seen[Call.SYNC]
        for error in await self.work(store, 2, A_LITTLE):
            if "stopped after an error of the database" not in str(error) or "restart" not in str(error):
                self.complaints.append(f"the message does not say what to do: {error}")
        if (self.fault.seen[Call.WRITE], self.fault.seen[Call.SYNC]) != before:
            self.complaints.append("the disk was written to after it had failed")

    async def restart(self) -> None:
        """Open what is left as on a sound disk, use it, and verify it."""
        store = await SqliteStore.open(self.path, clock=self.clock)
        if await self.work(store, 3, A_LITTLE):
            self.complaints.append("writes are refused after a restart")
        await store.close()
        self.complaints += map(str, verify(self.path, self.promises))


async def live_through(fault: DiskFault, image: Mapping[str, bytes], settings: Settings) -> list[str]:
    """Live one life on a faulty disk that begins with `image`, and say what went wrong."""
    with memory_folder() as folder, troubled_vfs(fault) as vfs:
        lay_down(image, folder)
        life = Life(fault, folder / DATABASE, Connections(vfs, settings))
        store = await life.open()
        if store is None:
            fault.heal()
            store = await SqliteStore.open(life.path, clock=life.clock, connect=life.connections)
        failures = await life.work(store, 1, OF_EVERYTHING)
        if fault.call is not Call.READ:
            await life.check_reading(store)
        if not fault.is_final:
            fault.heal()
            if await life.work(store, 2, A_LITTLE):
                life.complaints.append("writes are refused although there is space again")
        elif failures and fault.call is not Call.READ:
            await life.check_refusal(store)
        await store.close()
        await life.restart()
    return life.complaints


async def open_through(fault: DiskFault, settings: Settings) -> list[str]:
    """Make a new database on a faulty disk, and once more when it is well; say what went wrong."""
    with memory_folder() as folder, troubled_vfs(fault) as vfs:
        life = Life(fault, folder / DATABASE, Connections(vfs, settings))
        store = await life.open()
        if store is not None:
            await store.close()
        fault.heal()
        await life.restart()
    return life.complaints


@contextlib.contextmanager
def troubled_vfs(fault: DiskFault, base: str = "unix") -> Iterator[str]:
    """Return the name of a faulty VFS."""
    vfs = FaultyVfs(fault, base)
    try:
        yield vfs.name
    finally:
        vfs.unregister()
