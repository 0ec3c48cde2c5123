"""Connections: how one is made, and what the server is told about how we want it to work.

Our statements go by keys and partial indexes, whatever the statistics of a table that fills and empties all day may say
at the moment, so plans are made once and without the ways that would read a whole table. A pooler such as pgbouncer in
transaction mode takes no such settings and lends us another session for every transaction: then nothing is prepared,
nothing is left in a session, and the settings are made anew in each transaction. We notice a pooler by its refusing, or
by its forgetting, what we say when connecting.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Collection, Mapping, Sequence
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Final, NoReturn, TypeAlias
from urllib.parse import parse_qs, urlsplit

import asyncpg

from rota.core.errors import InvalidRequest
from rota.core.redaction import redacted
from rota.sockets import notice_silence_of

if TYPE_CHECKING:
    Connection: TypeAlias = asyncpg.Connection[asyncpg.Record]
else:
    Connection = asyncpg.Connection

#: How long it may take to connect. With a statement that is waited for in vain it makes 10 s.
CONNECT_SECONDS: Final = 3.0

_MARK: Final = "rota.direct"
#: jit off with pinned plans: they do not know the limit, take a claim for a big query, and would compile it each time.
_PLANS: Final[Mapping[str, str]] = {
    "plan_cache_mode": "force_generic_plan",
    "enable_seqscan": "off",
    "enable_bitmapscan": "off",
    "enable_hashjoin": "off",
    "enable_mergejoin": "off",
    "enable_material": "off",
    "jit": "off",
}
_THINKING: Final[Mapping[str, str]] = {
    **dict.fromkeys(_PLANS, "on"),
    "plan_cache_mode": "force_custom_plan",
    "jit": "off",
}
#: How long a list for a person may take on the server; and a count, which few wait for: it is made in the background.
#: Both less than the session waits for an answer, which would take the server for gone.
_PATIENCE: Final = "SET LOCAL statement_timeout = '2s'"
_PATIENCE_TO_COUNT: Final = "SET LOCAL statement_timeout = '5s'"
_SESSION: Final[Mapping[str, str]] = {
    "application_name": "rota",
    "default_transaction_isolation": "read committed",
    # Should this process freeze or its host vanish, what it held is given back soon.
    "idle_in_transaction_session_timeout": "30s",
    "tcp_keepalives_idle": "10",
    "tcp_keepalives_interval": "3",
    "tcp_keepalives_count": "3",
    _MARK: "yes",
}


#: Below it, a number was given by hand, and stands for the same type in every database of every release.
_FIRST_OF_OTHERS: Final = 10_000
_learnt: Final[dict[int, Any]] = {}
#: The driver looks whether asking has taken the place of an unnamed statement.
_NOTHING_ASKED: Final = SimpleNamespace(name="none")


class _Knowing(Connection):  # type: ignore[misc] # the driver has no types
    """A connection that knows of the types that all servers have what another one has learnt.

    The driver asks for the codec of an array (bigint[], say) once for each connection, by a query that takes the server
    longer than all statements of a job together. It has no public way to be told; should it come to ask in another way,
    this is not called, and costs what it did.
    """

    __slots__ = ()

    async def _introspect_types(self, typeoids: Collection[int], *more: Any) -> tuple[Sequence[Any], Any]:  # noqa: ANN401 - the driver's
        if max(typeoids) >= _FIRST_OF_OTHERS:
            told: tuple[Sequence[Any], Any] = await super()._introspect_types(typeoids, *more)
            return told
        asked: Any = _NOTHING_ASKED
        missing = set(typeoids) - _learnt.keys()
        if missing:
            rows, asked = await super()._introspect_types(missing, *more)
            _learnt.update((row["oid"], row) for row in rows)
        return list(_learnt.values()), asked


class Connector:
    """Makes connections to one database, and knows whether a pooler stands between."""

    def __init__(self, dsn: str) -> None:
        self._dsn = dsn
        # Of several hosts, the one that takes writes; followed when it changes. Said in the address, that counts.
        try:
            names = parse_qs(urlsplit(dsn).query)
        except ValueError:
            _refuse(dsn)
        self._attributes = None if "target_session_attrs" in names else "read-write"
        self._knows = False
        #: Whether sessions are not our own. Known after the first connection.
        self.is_pooled = False
        self._makes_sync = False

    @property
    def preamble(self) -> str:
        """What begins a transaction."""
        parts = ["BEGIN ISOLATION LEVEL READ COMMITTED"]
        if self.is_pooled:
            parts += [f"SET LOCAL {name} = '{value}'" for name, value in _PLANS.items() if name != "plan_cache_mode"]
            if self._makes_sync:
                parts.append("SET LOCAL synchronous_commit = 'on'")
        return "; ".join(parts)

    @property
    def browse(self) -> str:
        """What begins a transaction that reads a list at one moment for a person, who will not wait for long."""
        parts = ["BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY", _PATIENCE]
        if self.is_pooled:
            parts += [f"SET LOCAL {name} = '{value}'" for name, value in _PLANS.items() if name != "plan_cache_mode"]
        return "; ".join(parts)

    @property
    def count(self) -> str:
        """What begins a transaction that counts at one moment."""
        return f"{self.survey}; {_PATIENCE_TO_COUNT}"

    @property
    def survey(self) -> str:
        """What begins a transaction that looks at much at one moment; the planner may think for itself."""
        # Not TO DEFAULT: the defaults of a session are what we said when connecting.
        freed = [f"SET LOCAL {name} = '{value}'" for name, value in _THINKING.items()]
        return "; ".join(["BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY", *freed])

    async def __call__(self) -> Connection:
        """Make a connection."""
        if self.is_pooled:
            return await self._connect({})
        settings = {**_SESSION, **_PLANS}
        if self._makes_sync:
            settings["synchronous_commit"] = "on"
        try:
            connection = await self._connect(settings)
        except asyncpg.exceptions.ProtocolViolationError as error:
            if "startup parameter" not in str(error):
                raise
            self.is_pooled = True
            connection = await self._connect({})
        if not self._knows:
            connection = await self._get_to_know(connection)
        return connection

    async def _get_to_know(self, connection: Connection) -> Connection:
        """Learn from the first connection how the server is set up."""
        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                # By hand: the driver would roll back once the time is up, and wait for that for ever. Nothing prepared
                # yet: this may be a session that others share.
                await connection.execute("BEGIN")
                values = await connection.fetchrow(
                    "SELECT current_setting($1, true), current_setting('synchronous_commit')", _MARK
                )
                await connection.execute("COMMIT")
        except BaseException:
            connection.terminate()
            raise
        mark, synchronous_commit = values or (None, "")
        self._knows = True
        self.is_pooled = mark != "yes"
        # An acknowledged job must survive a crash, whatever this database is tuned for.
        self._makes_sync = synchronous_commit == "off"
        if self.is_pooled or self._makes_sync:
            await connection.close(timeout=CONNECT_SECONDS)
            return await self()
        return connection

    async def _connect(self, settings: Mapping[str, str]) -> Connection:
        options: dict[str, Any] = {"server_settings": dict(settings)} if settings else {"statement_cache_size": 0}
        try:
            connection = await asyncpg.connect(
                self._dsn,
                timeout=CONNECT_SECONDS,
                target_session_attrs=self._attributes,
                connection_class=_Knowing,
                **options,
            )
        except asyncpg.exceptions.ClientConfigurationError as error:
            _refuse(self._dsn, f": {redacted(str(error))}")
        except ssl.SSLError:
            # A certificate that is not trusted is a ValueError too, and no fault of the URL.
            raise
        except ValueError:
            # Without what it says: it may have taken a part of the password for a port.
            _refuse(self._dsn)
        notice_silence_of(getattr(connection, "_transport", None))
        return connection


def _refuse(dsn: str, why: str = "") -> NoReturn:
    remedy = "write postgresql://user:password@host:port/database, with signs in user and password as in %40"
    raise InvalidRequest(f"store: {redacted(dsn)!r} cannot be read{why}; {remedy}", field="store") from None
