"""Connections to PostgreSQL: the URL, the session settings, and the classes of driver errors.

Our statements go by keys and partial indexes, whatever the statistics of a table say that fills and empties all day. So
generic plans are forced, and scans that would read a whole table are switched off. A pooler such as pgbouncer in
transaction mode takes no such settings and gives every transaction another server session: then no statement is
prepared, nothing is left in a session, and the settings are made in each transaction. A pooler is detected because it
refuses, or forgets, the settings sent at connect.

The parameter `schema` of the URL names the schema of the store's tables. Every statement is qualified with it, so
neither our connections nor a caller's need it on their search_path. Without it, tables are found by the search_path.
"""

from __future__ import annotations

import asyncio
import os
import re
import ssl
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Final, NoReturn, TypeAlias
from urllib.parse import parse_qsl, urlsplit

import asyncpg
from asyncpg import exceptions

from rota.core.errors import InvalidRequest, RotaError, StoreUnavailable
from rota.core.redaction import redacted
from rota.sockets import detect_half_open_on
from rota.stores.postgres.statements import qualifier_of

if TYPE_CHECKING:
    AsyncpgConnection: TypeAlias = asyncpg.Connection[asyncpg.Record]
else:
    AsyncpgConnection = asyncpg.Connection

#: Deadline of connecting. With the deadline of a statement it makes 10 s.
CONNECT_SECONDS: Final = 3.0

_MARK: Final = "rota.direct"
#: jit is off because forced plans do not know the limit, take a claim for a big query, and would compile it each time.
_PLANS: Final[Mapping[str, str]] = {
    "plan_cache_mode": "force_generic_plan",
    "enable_seqscan": "off",
    "enable_bitmapscan": "off",
    "enable_hashjoin": "off",
    "enable_mergejoin": "off",
    "enable_material": "off",
    "jit": "off",
}
_FREE_PLANS: Final[Mapping[str, str]] = {
    **dict.fromkeys(_PLANS, "on"),
    "plan_cache_mode": "force_custom_plan",
    "jit": "off",
}
#: Time limits on the server of a list for a person, and of a count, which is made in the background. Both are less than
#: the session's deadline, after which the server would be taken for gone.
_LIST_TIMEOUT: Final = "SET LOCAL statement_timeout = '2s'"
_COUNT_TIMEOUT: Final = "SET LOCAL statement_timeout = '5s'"
_SESSION: Final[Mapping[str, str]] = {
    "application_name": "rota",
    "default_transaction_isolation": "read committed",
    # If this process freezes or its host vanishes, its locks are released soon.
    "idle_in_transaction_session_timeout": "30s",
    "tcp_keepalives_idle": "10",
    "tcp_keepalives_interval": "3",
    "tcp_keepalives_count": "3",
    _MARK: "yes",
}

_SCHEMA: Final = re.compile(r"(?!pg_|information_schema$)[a-z_][a-z0-9_]{0,62}", re.ASCII)
#: Type ids below this are fixed, and the same in every database of every release.
_FIRST_CUSTOM_TYPE: Final = 10_000
_known_types: Final[dict[int, Any]] = {}
#: The driver checks whether introspection has replaced an unnamed statement.
_NO_STATEMENT: Final = SimpleNamespace(name="none")


class MovedError(Exception):
    """A row seen a moment ago is no longer there: it was deleted between two statements."""


#: Two transactions conflicted, or one saw what another was just writing: the next try can succeed.
TRANSIENT: Final = (
    exceptions.TransactionRollbackError,
    exceptions.UniqueViolationError,
    exceptions.InvalidCachedStatementError,
    exceptions.OutdatedSchemaCacheError,
    MovedError,
)

#: The request itself cannot be stored. asyncpg has two errors of this name, one of the server's and one of its own.
REFUSED: Final = (exceptions.DataError, exceptions.IntegrityConstraintViolationError, UnicodeEncodeError)

#: Whatever else a driver or a network can raise: the server is away, going away, coming back, full, or has become a
#: standby.
AWAY: Final = (OSError, TimeoutError, asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError)

FAULTS: Final = (*TRANSIENT, *REFUSED, *AWAY)


def error_of(error: BaseException) -> RotaError:
    """Return the error for the caller that stands for an error of the driver."""
    reason = str(error) or type(error).__name__
    if isinstance(error, REFUSED):
        return InvalidRequest(f"PostgreSQL cannot store this: {reason}")
    return StoreUnavailable(f"PostgreSQL: {reason}")


def split_schema(dsn: str) -> tuple[str, str | None]:
    """Split a store's URL into the URL for the driver and the schema that it names; refuses a bad schema name."""
    try:
        query = urlsplit(dsn).query
        schemas = [value for name, value in parse_qsl(query, keep_blank_values=True) if name == "schema"]
    except ValueError:
        _refuse(dsn)
    if not schemas:
        return dsn, None
    if len(schemas) > 1 or not _SCHEMA.fullmatch(schemas[0]):
        raise InvalidRequest(
            f"store: schema={','.join(schemas)!r} in the URL is not a schema name; write one name of at most 63"
            " lower-case letters, digits and underscores, that begins neither with a digit nor with pg_",
            field="store",
        )
    # Not put together again from its parts: urllib has rules of its own for URLs without a host.
    head, _, tail = dsn.partition("?")
    query = "&".join(part for part in tail.partition("#")[0].split("&") if part.partition("=")[0] != "schema")
    return f"{head}?{query}" if query else head, schemas[0]


def require_files(dsn: str) -> None:
    """Refuse a file in a store's URL that cannot be read; the driver would say which error it is, but not of which."""
    for name, value in parse_qsl(urlsplit(dsn).query):
        if name in {"sslrootcert", "sslcert", "sslkey", "sslcrl"} and not os.access(Path(value).expanduser(), os.R_OK):
            message = f"store: {name}={value!r} in the URL is not a file that can be read; give the path of a PEM file"
            raise InvalidRequest(message, field="store")


class _TypeCachingConnection(AsyncpgConnection):  # type: ignore[misc] # the driver has no types
    """A connection that shares the codecs of built-in types with other connections.

    The driver reads the codec of an array (bigint[], say) once for each connection, by a query that takes the server
    longer than all statements of a job together. It has no public option for this; if a release of the driver does it
    in another way, this method is not called, and each connection costs that query again.
    """

    __slots__ = ()

    async def _introspect_types(self, typeoids: Collection[int], *more: Any) -> tuple[Sequence[Any], Any]:  # noqa: ANN401 - the driver's
        if max(typeoids) >= _FIRST_CUSTOM_TYPE:
            result: tuple[Sequence[Any], Any] = await super()._introspect_types(typeoids, *more)
            return result
        statement: Any = _NO_STATEMENT
        missing = set(typeoids) - _known_types.keys()
        if missing:
            rows, statement = await super()._introspect_types(missing, *more)
            _known_types.update((row["oid"], row) for row in rows)
        return list(_known_types.values()), statement


class Connector:
    """Makes connections to one database, and detects whether there is a pooler in between."""

    def __init__(self, dsn: str) -> None:
        self._dsn, schema = split_schema(dsn)
        require_files(dsn)
        #: What stands before the names of tables: the schema with a dot, or nothing.
        self.qualifier = qualifier_of(schema)
        self.schema = schema
        # Of several hosts, the one that takes writes, also after a failover; unless the URL says otherwise.
        names = dict(parse_qsl(urlsplit(self._dsn).query, keep_blank_values=True))
        self._attributes = None if "target_session_attrs" in names else "read-write"
        self._is_probed = False
        #: Whether a pooler is in between. Known after the first connection.
        self.is_pooled = False
        self._makes_sync = False

    @property
    def begin_write(self) -> str:
        """What begins a transaction."""
        parts = ["BEGIN ISOLATION LEVEL READ COMMITTED", *self._pooled_plans()]
        if self.is_pooled and self._makes_sync:
            parts.append("SET LOCAL synchronous_commit = 'on'")
        return "; ".join(parts)

    @property
    def begin_list(self) -> str:
        """What begins a transaction that reads a list for a person: one snapshot, a short time limit."""
        parts = ["BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY", _LIST_TIMEOUT, *self._pooled_plans()]
        return "; ".join(parts)

    @property
    def begin_count(self) -> str:
        """What begins a transaction that counts in one snapshot."""
        return f"{self.begin_survey}; {_COUNT_TIMEOUT}"

    @property
    def begin_survey(self) -> str:
        """What begins a transaction that reads much in one snapshot, with the planner's own choice of plans."""
        # Not TO DEFAULT: the defaults of a session are the settings sent at connect.
        freed = [f"SET LOCAL {name} = '{value}'" for name, value in _FREE_PLANS.items()]
        return "; ".join(["BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY", *freed])

    def _pooled_plans(self) -> list[str]:
        if not self.is_pooled:
            return []
        return [f"SET LOCAL {name} = '{value}'" for name, value in _PLANS.items() if name != "plan_cache_mode"]

    async def __call__(self) -> AsyncpgConnection:
        if self.is_pooled:
            return await self._connect({})
        settings = {**_SESSION, **_PLANS}
        if self._makes_sync:
            settings["synchronous_commit"] = "on"
        try:
            connection = await self._connect(settings)
        except exceptions.ProtocolViolationError as error:
            if "startup parameter" not in str(error):
                raise
            self.is_pooled = True
            connection = await self._connect({})
        if not self._is_probed:
            connection = await self._probe_server(connection)
        return connection

    async def _probe_server(self, connection: AsyncpgConnection) -> AsyncpgConnection:
        """Read from the first connection how the server is set up."""
        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                # Without the driver's transaction, which would wait for its rollback after the timeout for ever.
                # Nothing is prepared yet: this may be a session that others share.
                await connection.execute("BEGIN")
                values = await connection.fetchrow(
                    "SELECT current_setting($1, true), current_setting('synchronous_commit')", _MARK
                )
                await connection.execute("COMMIT")
        except BaseException:
            connection.terminate()
            raise
        mark, synchronous_commit = values or (None, "")
        self._is_probed = True
        self.is_pooled = mark != "yes"
        # An acknowledged job must survive a crash, whatever this database is tuned for.
        self._makes_sync = synchronous_commit == "off"
        if self.is_pooled or self._makes_sync:
            await connection.close(timeout=CONNECT_SECONDS)
            return await self()
        return connection

    async def _connect(self, settings: Mapping[str, str]) -> AsyncpgConnection:
        options: dict[str, Any] = {"server_settings": dict(settings)} if settings else {"statement_cache_size": 0}
        try:
            connection = await asyncpg.connect(
                self._dsn,
                timeout=CONNECT_SECONDS,
                target_session_attrs=self._attributes,
                connection_class=_TypeCachingConnection,
                **options,
            )
        except exceptions.ClientConfigurationError as error:
            _refuse(self._dsn, f": {redacted(str(error))}")
        except ssl.SSLError:
            # A certificate that is not trusted is a ValueError too, and no fault of the URL.
            raise
        except ValueError:
            # Without its text: the driver may have taken a part of the password for a port.
            _refuse(self._dsn)
        detect_half_open_on(getattr(connection, "_transport", None))
        return connection


def _refuse(dsn: str, why: str = "") -> NoReturn:
    remedy = "write postgresql://user:password@host:port/database, with special characters in user and password as %40"
    raise InvalidRequest(f"store: {redacted(dsn)!r} cannot be read{why}; {remedy}", field="store") from None
