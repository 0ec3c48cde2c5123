"""Flights: statements that are sent without waiting for the answer to the one before.

The protocol lets a client send the next command while the server is busy with the last. The server reads them one by
one, runs each, and answers in the same order. So the next rows are written down while the last are stored, and the way
there and back is paid once for all; MariaDB's own clients send rows in bulk like this. The commands are written by hand
here, because the driver waits for each answer. The connection, the reading and the preparing are the driver's; what we
need of it that it does not offer is asked for before we fly, and where it is not found, nobody flies. Nor does anybody
through a proxy that cannot bear it: before its first flight a connection is asked two things at once.

What can go wrong, and what we do:

- A statement is refused. Those behind it are under way, and the server runs them, in a new transaction if the refusal
  ended the old one. Nothing more is sent, all answers are read, and the first refusal is raised. Whoever flies rolls
  back. So the commit is never part of a flight, but of a script, which ends where something is refused: one that comes
  behind rows first makes sure, within the server, that all of them were stored (`follow`).
- Something goes wrong on our side while commands are under way: the same.
- The connection is lost, an answer does not come in time, or the caller goes away: answers are left unread, and the
  connection can no longer be understood. Whoever has it drops it, as after any question that was cut off.
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

from rota.stores.mysql.packets import loads
from rota.stores.rows import Row

#: So many commands may be under way: enough that the server never waits for us, and all that is kept in memory.
MOST_UNDER_WAY: Final = 4
#: How long the proof that a connection is fit for flights may take.
PROOF_SECONDS: Final = 5.0
#: A statement, and what it is run for: ids, and a text for each of them, or None. A row for each would be a tuple that
#: is made to be taken apart, and goes through the collector's hands meanwhile.
Parcel = tuple[str, Sequence[int], Sequence[str] | None]
#: Fewer rows than this are not worth a command of their own.
FEWEST_TO_CARRY: Final = 8
#: A statement, the columns of numbers in which its rows differ, and what they have in common behind those.
Freight = tuple[str, tuple[Sequence[int], ...], Row]

#: What goes into one packet of the protocol; ours are far smaller, see `packets`.
_LARGEST_COMMAND: Final = 2**24 - 2
_QUERY: Final = b"\x03"
_PING: Final = b"\x0e"
#: COM_STMT_BULK_EXECUTE, the statement's handle, and that the types of the columns follow.
_BULK: Final = Struct("<BIH")
_BULK_EXECUTE: Final = 0xFA
_SEND_TYPES: Final = 128
_BIGINT: Final = b"\x08\x00"
#: Bytes, which the server takes as they are if they are right for the column. Text it would look through once more.
_BLOB: Final = b"\xfc\x00"
#: Before each value stands a zero: it is there.
_LONE_ID: Final = Struct("<xq").pack
_NUMBERS: Final = tuple(Struct("<" + "xq" * count).pack for count in range(3))
_ID: Final = Struct("<xqx").pack
#: Lengths up to this are one byte; the bytes above say how many follow.
_LONGEST_IN_A_BYTE: Final = 0xFA
#: The numbers of the driver's own errors begin with this many thousands.
_OF_THE_DRIVER: Final = 2


class Grounded(Exception):
    """There is no flying on this connection after all; nothing is under way."""


class Unfit(Exception):
    """Whatever is between us and the server does not bear two commands at once, and may now say anything."""


class Carrier:
    """Flies on one connection, with statements that it has had prepared there."""

    def __init__(self, raw: Any) -> None:  # noqa: ANN401 - the driver's types leave out what we ask for
        self._raw = raw
        #: By their text; good for as long as the connection is.
        self._handles: dict[str, int] = {}
        self._is_proven = False
        #: Whether the connection takes rows in bulk, and the driver is still made as we know it.
        self.is_able = bool(getattr(raw, "_bulk_supported", False)) and all(
            hasattr(raw, name) for name in ("_next_seq_id", "_write_bytes")
        )

    async def fly(self, script: str, parcels: Iterable[Parcel], patience: float) -> Sequence[Row]:
        """Run a script, if any, and then the parcels' statements; give the rows of the script's last statement.

        Each answer may take so many seconds.
        """
        if not self._is_proven:
            await self._prove()
        flight = _Flight(self._raw, patience)
        try:
            if script:
                flight.send(_QUERY + script.encode(), may_yield=True)
            for sql, ids, texts in parcels:
                if sql not in self._handles:
                    await flight.land()
                    self._handles[sql] = await self._prepare(sql, patience)
                for load in loads(ids, texts):
                    await flight.land(but=MOST_UNDER_WAY - 1)
                    if flight.refusal is not None:
                        raise flight.refusal
                    flight.send(_command(self._handles[sql], *load))
        except Exception:
            await flight.land()
            raise
        await flight.land()
        if flight.refusal is not None:
            raise flight.refusal
        return flight.rows

    async def be_ready(self, statements: Iterable[str], patience: float) -> None:
        """Make sure that these can be sent with `follow`; nothing is done by that. Each answer may take so long."""
        if not self._is_proven:
            await self._prove()
        for sql in statements:
            if sql not in self._handles:
                self._handles[sql] = await self._prepare(sql, patience)

    async def follow(self, freight: Freight, script: str, patience: float) -> Sequence[Row]:
        """Run a statement with its rows, and a script behind it; give the rows of the script's last statement.

        The script is under way before anybody knows what became of the rows: it has to see to that itself.
        """
        sql, columns, common = freight
        flight = _Flight(self._raw, patience)
        flight.send(_freight_command(self._handles[sql], columns, common))
        if script:
            flight.send(_QUERY + script.encode(), may_yield=True)
        await flight.land()
        if flight.refusal is not None:
            raise flight.refusal
        return flight.rows

    async def _prove(self) -> None:
        """See that the server is there, and then that it hears two commands at once."""
        flight = _Flight(self._raw, PROOF_SECONDS)
        flight.send(_PING)
        await flight.land()
        try:
            flight.send(_PING)
            flight.send(_PING)
            await flight.land()
        except (errors.MySQLError, OSError, EOFError) as error:
            raise Unfit from error
        if flight.refusal is not None:
            raise Unfit from flight.refusal
        self._is_proven = True

    async def _prepare(self, sql: str, patience: float) -> int:
        try:
            async with asyncio.timeout(patience):
                prepared = await self._raw.prepare(sql.replace("%s", "?"))
        except errors.MySQLError as error:
            if _is_of_the_server(error):
                raise Grounded from error
            raise
        handle: int | None = getattr(prepared, "_statement_id", None)
        if handle is None:
            raise Grounded
        return handle


class _Flight:
    """Commands under way, and what comes back of them."""

    def __init__(self, raw: Any, patience: float) -> None:  # noqa: ANN401 - see above
        self._raw = raw
        self._patience = patience
        #: For each command under way, whether it may answer with rows, or more than once.
        self._under_way: deque[bool] = deque()
        #: What the last such command yielded last.
        self.rows: Sequence[Row] = ()
        #: What went wrong first.
        self.refusal: errors.MySQLError | None = None

    def send(self, command: bytes, *, may_yield: bool = False) -> None:
        """Send a command."""
        if len(command) > _LARGEST_COMMAND:
            raise ValueError(f"a command of {len(command)} bytes would have to be cut")
        # With its header in one piece: for a header by itself the server would wake up, and wait again.
        self._raw._write_bytes(len(command).to_bytes(4, "little") + command)  # noqa: SLF001 - found to be there
        self._under_way.append(may_yield)

    async def land(self, *, but: int = 0) -> None:
        """Read the answers to all commands, but for some of the last. A refusal is noted; what is worse is raised."""
        while len(self._under_way) > but:
            try:
                async with asyncio.timeout(self._patience):
                    await self._read(may_yield=self._under_way.popleft())
            except TimeoutError:
                # What comes now would be taken for the answer to something else.
                self._under_way.clear()
                raise
            except errors.MySQLError as error:
                self.refusal = self.refusal or error
                if not _is_of_the_server(error):
                    # Nothing more will come. If the server said why, before it went, that is what we tell.
                    self._under_way.clear()
                    raise self.refusal from error

    async def _read(self, *, may_yield: bool) -> None:
        # The packets of an answer are counted from the command that it belongs to.
        self._raw._next_seq_id = 1  # noqa: SLF001 - found to be there
        if not may_yield:
            await self._raw.read_packet()
            return
        is_more = True
        while is_more:
            result: Any = MySQLResult(self._raw)
            await result.read()
            is_more = bool(result.has_next)
        self.rows = result.rows or ()


def _command(handle: int, ids: Sequence[int], texts: Sequence[str] | None) -> bytes:
    """Write the command that runs a statement for each id, and its text if there is one."""
    head = _BULK.pack(_BULK_EXECUTE, handle, _SEND_TYPES)
    if texts is None:
        return b"".join((head, _BIGINT, *map(_LONE_ID, ids)))
    encoded = list(map(str.encode, texts))
    values = zip(map(_ID, ids), map(_length, map(len, encoded)), encoded, strict=True)
    return b"".join((head, _BIGINT, _BLOB, *[one + length + text for one, length, text in values]))


def _freight_command(handle: int, columns: tuple[Sequence[int], ...], common: Row) -> bytes:
    """Write the command that runs a statement for each row of numbers; what rows have in common is written once."""
    head = _BULK.pack(_BULK_EXECUTE, handle, _SEND_TYPES)
    types = (_BIGINT,) * len(columns), (_BIGINT if isinstance(value, int) else _BLOB for value in common)
    end = b"".join(map(_value, common))
    return b"".join((head, *chain(*types), end.join(map(_NUMBERS[len(columns)], *columns)), end))


def _value(value: int | str) -> bytes:
    """Write a number or a text."""
    if isinstance(value, int):
        return _LONE_ID(value)
    text = value.encode()
    return b"\0" + _length(len(text)) + text


@lru_cache(maxsize=4096)
def _length(number: int) -> bytes:
    """Write a length as the protocol does: the shorter, the fewer bytes."""
    if number <= _LONGEST_IN_A_BYTE:
        return number.to_bytes(1, "little")
    for mark, size in ((b"\xfc", 2), (b"\xfd", 3)):
        if number < 1 << 8 * size:
            return mark + number.to_bytes(size, "little")
    return b"\xfe" + number.to_bytes(8, "little")


def _is_of_the_server(error: errors.MySQLError) -> bool:
    """Whether the server said so. What the driver says of the connection has numbers of its own, or none."""
    code = error.args[0] if error.args else None
    return isinstance(code, int) and code > 0 and code // 1000 != _OF_THE_DRIVER
