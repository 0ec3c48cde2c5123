"""Counters of the operations of a hot path: exact, so that they are equal on every machine and under every load.

- `Instructions`: bytecode instructions of Python, in our own code and whatever it calls, but not in the event loop,
  which turns as often as it pleases, nor in the tests. They differ between minor versions of Python.
- `SqliteSteps`: what SQLite's virtual machine does, statement by statement, as apsw tells it; apsw brings its own
  SQLite, so this does not depend on the machine's.
- `PostgresQueries`: statements and transactions that go to the server, each a round trip; but not the notices to
  others, which go by the clock.
- `MariadbQuestions`: what the server has been asked, as it tells itself. Several may come in one round trip.
"""

from __future__ import annotations

import asyncio
import selectors
import sys
import threading
from collections.abc import Awaitable, Callable, Mapping
from contextlib import ExitStack
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, Final, Protocol
from unittest.mock import patch

import apsw
import asyncmy

from crash.apsw_connection import ApswConnection
from rota.stores.postgres import PostgresStore
from rota.stores.postgres.session import Session

Act = Callable[[], Awaitable[object]]
Counts = Mapping[str, int]

_HERE: Final = str(Path(__file__).parent)
_LEFT_OUT: Final = (_HERE, str(Path(asyncio.__file__).parent), selectors.__file__, threading.__file__)


class Counter(Protocol):
    """Counts what happens while something is done."""

    async def counted(self, act: Act) -> Counts:
        """Do it, and say how much of what that was."""
        ...


class Instructions:
    """Counts bytecode instructions. Only on this thread: what is counted here must not leave it."""

    def __init__(self) -> None:
        self._count = 0
        self._ours: dict[CodeType, bool] = {}

    async def counted(self, act: Act) -> Counts:
        before, self._count = sys.gettrace(), 0
        sys.settrace(self._entered)
        try:
            await act()
        finally:
            sys.settrace(before)
        return {"instructions": self._count}

    def _entered(self, frame: FrameType, _event: str, _argument: object) -> Any:  # noqa: ANN401 - as Python wants it
        code = frame.f_code
        is_ours = self._ours.get(code)
        if is_ours is None:
            is_ours = self._ours[code] = not code.co_filename.startswith(_LEFT_OUT)
        if not is_ours:
            return None
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        return self._stepped

    def _stepped(self, _frame: FrameType, event: str, _argument: object) -> Any:  # noqa: ANN401 - as above
        if event == "opcode":
            self._count += 1
        return self._stepped


class SqliteSteps:
    """Counts what SQLite does on the connections that it has made. It is given to a store as its driver."""

    def __init__(self) -> None:
        self._steps = self._statements = self._commits = 0

    def connect(self, location: str) -> ApswConnection:
        connection = ApswConnection(location)
        connection._connection.trace_v2(apsw.SQLITE_TRACE_PROFILE, self._profiled)
        return connection

    async def counted(self, act: Act) -> Counts:
        self._steps = self._statements = self._commits = 0
        await act()
        return {"statements": self._statements, "commits": self._commits, "steps": self._steps}

    def _profiled(self, told: dict[str, Any]) -> None:
        self._statements += 1
        self._commits += told["sql"] == "COMMIT"
        self._steps += told["stmt_status"]["SQLITE_STMTSTATUS_VM_STEP"]


class PostgresQueries:
    """Counts statements of a store, and the transactions that they make; nothing else may use one meanwhile."""

    def __init__(self, store: PostgresStore) -> None:
        self._database = store._database
        self._statements = self._transactions = 0
        self._is_within = False

    async def counted(self, act: Act) -> Counts:
        self._statements = self._transactions = 0
        await self._at_rest()
        with ExitStack() as patches:
            for method in ("_query", "fetch", "execute"):
                patches.enter_context(patch.object(Session, method, self._counting(getattr(Session, method))))
            await act()
            # What an act leaves behind is a part of its cost.
            await self._at_rest()
        return {"statements": self._statements, "transactions": self._transactions}

    async def _at_rest(self) -> None:
        while self._database.writers.lent or self._database.readers.lent:  # noqa: ASYNC110 - nobody tells of it
            await asyncio.sleep(0)

    def _counting(self, run: Callable[..., Awaitable[object]]) -> Callable[..., Awaitable[object]]:
        async def counting(session: Session, what: str, *arguments: object, **options: object) -> object:
            self._count(what)
            return await run(session, what, *arguments, **options)

        return counting

    def _count(self, what: str) -> None:
        # A notice is sent when some time has passed since the last: how many there are is the clock's doing.
        if what == "notify":
            return
        self._statements += 1
        # One transaction at a time is open here: nothing is done at once.
        if what.startswith("BEGIN"):
            self._is_within = True
        else:
            if what.startswith(("COMMIT", "ROLLBACK")):
                self._is_within = False
            self._transactions += not self._is_within


class MariadbQuestions:
    """Counts all statements of a server; nothing else may use it meanwhile."""

    def __init__(self, port: int) -> None:
        self._port = port

    async def counted(self, act: Act) -> Counts:
        connection = await asyncmy.connect(host="127.0.0.1", port=self._port, user="root", autocommit=True)
        try:
            own = {"statements": 1, "commits": 0}
            before = await _status(connection)
            # A connection that was just closed may be counted a moment later.
            while _difference(before, before := await _status(connection)) != own:
                pass
            await act()
            spent = _difference(before, await _status(connection))
        finally:
            await connection.ensure_closed()
        return {name: spent[name] - own[name] for name in spent}


async def _status(connection: asyncmy.Connection) -> dict[str, int]:
    cursor = connection.cursor()
    await cursor.execute("SHOW GLOBAL STATUS WHERE Variable_name IN ('Questions', 'Com_commit')")
    found = {str(name): int(value) for name, value in await cursor.fetchall()}
    return {"statements": found["Questions"], "commits": found["Com_commit"]}


def _difference(before: Mapping[str, int], after: Mapping[str, int]) -> dict[str, int]:
    return {name: after[name] - before[name] for name in after}
