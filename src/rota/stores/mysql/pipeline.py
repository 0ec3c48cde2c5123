"""Pipelining: commands are sent without waiting for the response to the one before.

The server reads commands one by one, runs each, and responds in the same order. So the next rows are encoded while the
last are stored, and the round trip is paid once; MariaDB's own clients send bulk rows like this. The commands are
encoded here, because the driver waits for each response. Connecting, reading and preparing are the driver's; the
private parts of it that we need are checked first, and without them pipelining is off. Some proxies do not support it:
before its first use a connection sends two pings at once as a test.

What can fail, and what happens then:

- A statement fails. Those behind it are in flight, and the server runs them, in a new transaction if the failure
  ended the old one. Nothing more is sent, all responses are read, and the first error is raised. The caller rolls back.
  So the commit is never pipelined as a command of its own, but is part of a script, which ends at the first error. A
  script behind rows first checks, within the server, that all of them were stored (`insert`).
- An error on our side while commands are in flight: the same.
- The connection is lost, a response does not come in time, or the caller is cancelled: responses are left unread, and
  the connection is out of step. Its owner drops it, as after any cancelled query.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import chain
from struct import Struct
from typing import Any, Final

from asyncmy import errors
from asyncmy.connection import MySQLResult

from rota.stores.mysql.multi_row import split_batch
from rota.stores.rows import Row

#: The most commands in flight: enough that the server never waits for us; all of them are kept in memory.
MAX_IN_FLIGHT: Final = 4
#: How long the answers to two pings at once may take.
SELF_TEST_SECONDS: Final = 5.0
#: A statement, the ids it is run for, and a text for each of them, or None. Two columns instead of rows, because a
#: tuple for each row would only burden the garbage collector.
RowBatch = tuple[str, Sequence[int], Sequence[str] | None]
#: Fewer rows than this are not worth a bulk command.
MIN_BULK_ROWS: Final = 8
#: A statement, the number columns in which its rows differ, and the common columns behind those.
BulkInsert = tuple[str, tuple[Sequence[int], ...], Row]

#: The limit of one packet of the protocol; ours are far smaller, see `multi_row`.
_LARGEST_COMMAND: Final = 2**24 - 2
_QUERY: Final = b"\x03"
_PING: Final = b"\x0e"
#: COM_STMT_BULK_EXECUTE, the statement id, and the flag that column types follow.
_BULK: Final = Struct("<BIH")
_BULK_EXECUTE: Final = 0xFA
_SEND_TYPES: Final = 128
_BIGINT: Final = b"\x08\x00"
#: Bytes, which the server stores as they are if valid for the column. Text would be validated once more.
_BLOB: Final = b"\xfc\x00"
#: Each value is preceded by a zero byte: not NULL.
_LONE_ID: Final = Struct("<xq").pack
_NUMBERS: Final = tuple(Struct("<" + "xq" * count).pack for count in range(3))
_ID: Final = Struct("<xqx").pack
#: Lengths up to this take one byte; larger first bytes say how many follow.
_LONGEST_IN_A_BYTE: Final = 0xFA
#: Error numbers of the driver itself are in this thousand.
_DRIVER_THOUSAND: Final = 2


class CannotPipeline(Exception):
    """Statements cannot be prepared on this connection; nothing is in flight."""


class PipeliningBroken(Exception):
    """Two pipelined pings were not answered: a proxy does not support it, and the connection is out of step."""


class Pipeline:
    """Sends pipelined commands on one connection, with statements prepared there."""

    def __init__(self, raw: Any) -> None:  # noqa: ANN401 - the driver's types leave out its private parts
        self._raw = raw
        #: Statement ids by text, valid for as long as the connection.
        self._statement_ids: dict[str, int] = {}
        self._is_tested = False
        #: Whether the server takes bulk rows, and the driver has the private parts that we need.
        self.is_available = bool(getattr(raw, "_bulk_supported", False)) and all(
            hasattr(raw, name) for name in ("_next_seq_id", "_write_bytes")
        )

    async def run(self, script: str, batches: Iterable[RowBatch], seconds: float) -> Sequence[Row]:
        """Run a script, if any, and then the statements of the batches; return the rows of the script's last statement.

        Each response may take `seconds`.
        """
        if not self._is_tested:
            await self._test_pipelining(seconds)
        in_flight = _InFlight(self._raw, seconds)
        try:
            if script:
                in_flight.send(_QUERY + script.encode(), has_rows=True)
            for sql, ids, texts in batches:
                if sql not in self._statement_ids:
                    await in_flight.receive()
                    self._statement_ids[sql] = await self._prepare(sql, seconds)
                for part in split_batch(ids, texts):
                    await in_flight.receive(keeping=MAX_IN_FLIGHT - 1)
                    if in_flight.failure is not None:
                        raise in_flight.failure
                    in_flight.send(_command(self._statement_ids[sql], *part))
        except Exception:
            await in_flight.receive()
            raise
        await in_flight.receive()
        if in_flight.failure is not None:
            raise in_flight.failure
        return in_flight.rows

    async def prepare_all(self, statements: Iterable[str], seconds: float) -> None:
        """Prepare the statements of later `insert` calls; has no other effect."""
        if not self._is_tested:
            await self._test_pipelining(seconds)
        for sql in statements:
            if sql not in self._statement_ids:
                self._statement_ids[sql] = await self._prepare(sql, seconds)

    async def insert(self, bulk: BulkInsert, script: str, seconds: float) -> Sequence[Row]:
        """Run a bulk insert, and a script behind it; return the rows of the script's last statement.

        The script is in flight before the result of the insert is known, so it has to check that itself.
        """
        sql, columns, common = bulk
        in_flight = _InFlight(self._raw, seconds)
        in_flight.send(_bulk_insert_command(self._statement_ids[sql], columns, common))
        if script:
            in_flight.send(_QUERY + script.encode(), has_rows=True)
        await in_flight.receive()
        if in_flight.failure is not None:
            raise in_flight.failure
        return in_flight.rows

    async def _test_pipelining(self, seconds: float) -> None:
        """Ping the server once, and then twice at once.

        The first ping is an ordinary command with the usual time for its response: it proves that the connection works,
        so that only pipelining is blamed for pings without an answer.
        """
        alone = _InFlight(self._raw, seconds)
        alone.send(_PING)
        await alone.receive()
        in_flight = _InFlight(self._raw, SELF_TEST_SECONDS)
        try:
            in_flight.send_pings(2)
            await in_flight.receive()
        except (errors.MySQLError, OSError, EOFError) as error:
            raise PipeliningBroken from error
        if in_flight.failure is not None:
            raise PipeliningBroken from in_flight.failure
        self._is_tested = True

    async def _prepare(self, sql: str, seconds: float) -> int:
        try:
            async with asyncio.timeout(seconds):
                prepared = await self._raw.prepare(sql.replace("%s", "?"))
        except errors.MySQLError as error:
            if _is_from_server(error):
                raise CannotPipeline from error
            raise
        handle: int | None = getattr(prepared, "_statement_id", None)
        if handle is None:
            raise CannotPipeline
        return handle


class _InFlight:
    """The commands in flight on a connection, and their responses."""

    def __init__(self, raw: Any, seconds: float) -> None:  # noqa: ANN401 - see above
        self._raw = raw
        self._response_seconds = seconds
        #: For each command in flight, whether its response may have rows, or several results.
        self._commands: deque[bool] = deque()
        #: The rows of the last result of the last such command.
        self.rows: Sequence[Row] = ()
        #: The first error.
        self.failure: errors.MySQLError | None = None

    def send(self, command: bytes, *, has_rows: bool = False) -> None:
        if len(command) > _LARGEST_COMMAND:
            raise ValueError(f"a command of {len(command)} bytes is too long for one packet")
        # Header and command in one write: for a header alone the server would wake up and wait again.
        self._raw._write_bytes(len(command).to_bytes(4, "little") + command)  # noqa: SLF001 - checked by is_available
        self._commands.append(has_rows)

    def send_pings(self, count: int) -> None:
        """Send pings in one write: between two writes the first could be answered, and the test would prove nothing."""
        self._raw._write_bytes((len(_PING).to_bytes(4, "little") + _PING) * count)  # noqa: SLF001 - checked by is_available
        self._commands.extend([False] * count)

    async def receive(self, *, keeping: int = 0) -> None:
        """Read responses until `keeping` commands are in flight. Keeps the first error; a lost connection raises."""
        while len(self._commands) > keeping:
            try:
                async with asyncio.timeout(self._response_seconds):
                    await self._read(has_rows=self._commands.popleft())
            except TimeoutError:
                # A response that comes now would be taken for that of another command.
                self._commands.clear()
                raise
            except errors.MySQLError as error:
                self.failure = self.failure or error
                if not _is_from_server(error):
                    # No more responses will come. If the server gave a reason before, that one is raised.
                    self._commands.clear()
                    raise self.failure from error

    async def _read(self, *, has_rows: bool) -> None:
        # The packets of a response are numbered from its command.
        self._raw._next_seq_id = 1  # noqa: SLF001 - checked by is_available
        if not has_rows:
            await self._raw.read_packet()
            return
        is_more = True
        while is_more:
            result: Any = MySQLResult(self._raw)
            await result.read()
            is_more = bool(result.has_next)
        self.rows = result.rows or ()


def _command(handle: int, ids: Sequence[int], texts: Sequence[str] | None) -> bytes:
    """Encode a COM_STMT_BULK_EXECUTE packet: the statement runs once for each id, with its text if there is one."""
    head = _BULK.pack(_BULK_EXECUTE, handle, _SEND_TYPES)
    if texts is None:
        return b"".join((head, _BIGINT, *map(_LONE_ID, ids)))
    encoded = list(map(str.encode, texts))
    values = zip(map(_ID, ids), map(_length, map(len, encoded)), encoded, strict=True)
    return b"".join((head, _BIGINT, _BLOB, *[one + length + text for one, length, text in values]))


def _bulk_insert_command(handle: int, columns: tuple[Sequence[int], ...], common: Row) -> bytes:
    """Encode the command that runs a statement for each row; the common columns are encoded once."""
    head = _BULK.pack(_BULK_EXECUTE, handle, _SEND_TYPES)
    types = (_BIGINT,) * len(columns), (_BIGINT if isinstance(value, int) else _BLOB for value in common)
    end = b"".join(map(_value, common))
    return b"".join((head, *chain(*types), end.join(map(_NUMBERS[len(columns)], *columns)), end))


def _value(value: int | str) -> bytes:
    if isinstance(value, int):
        return _LONE_ID(value)
    text = value.encode()
    return b"\0" + _length(len(text)) + text


@lru_cache(maxsize=4096)
def _length(number: int) -> bytes:
    """Encode a length as the protocol does."""
    if number <= _LONGEST_IN_A_BYTE:
        return number.to_bytes(1, "little")
    for mark, size in ((b"\xfc", 2), (b"\xfd", 3)):
        if number < 1 << 8 * size:
            return mark + number.to_bytes(size, "little")
    return b"\xfe" + number.to_bytes(8, "little")


def _is_from_server(error: errors.MySQLError) -> bool:
    """Whether an error was sent by the server; errors of the driver have numbers of their own, or none."""
    code = error.args[0] if error.args else None
    return isinstance(code, int) and code > 0 and code // 1000 != _DRIVER_THOUSAND
