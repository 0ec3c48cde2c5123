"""Location of a database, read from a URL or from a DSN in the format of Go's driver."""

from __future__ import annotations

import re
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NoReturn
from urllib.parse import parse_qsl, quote, unquote, urlsplit

from rota.core.errors import InvalidRequest
from rota.core.redaction import redacted

DEFAULT_PORT: Final = 3306
#: Such as root:root@tcp(127.0.0.1:3310)/scheduler?parseTime=true. The last @ ends the password, as in Go's driver.
_GO_STYLE: Final = re.compile(
    r"(?:(?P<who>.*)@)?(?P<net>tcp|unix)\((?P<address>[^()]*)\)/(?P<database>[^/?]*)(?:\?(?P<options>.*))?", re.DOTALL
)
_OUR_OPTIONS: Final = frozenset({"tls", "ssl_ca", "ssl_cert", "ssl_key"})
#: Options of Go's driver that have no effect here.
_OTHERS_OPTIONS: Final = frozenset(
    {
        "allowNativePasswords", "charset", "checkConnLiveness", "clientFoundRows", "collation", "interpolateParams",
        "loc", "maxAllowedPacket", "multiStatements", "parseTime", "readTimeout", "timeout", "writeTimeout",
    }
)  # fmt: skip
_TLS: Final = {"true": True, "1": True, "false": False, "0": False, "skip-verify": True}


@dataclass(frozen=True, slots=True)
class MysqlLocation:
    """A database on a server. Its name has no password."""

    host: str
    port: int
    user: str
    password: str
    database: str
    socket: str | None = None
    tls: str = "false"
    ssl_ca: str | None = None
    ssl_cert: str | None = None
    ssl_key: str | None = None

    @property
    def name(self) -> str:
        """The location in messages, without the password."""
        return f"mysql://{self.user}@{self.socket or f'{self.host}:{self.port}'}/{self.database}"

    def driver_arguments(self) -> dict[str, Any]:
        """Return the keyword arguments of asyncmy.connect."""
        return {
            "host": self.host,
            "port": self.port,
            "unix_socket": self.socket,
            "user": self.user,
            "password": self.password.encode(),
            "database": self.database,
            "charset": "utf8mb4",
            "ssl": self.tls_context(),
        }

    def tls_context(self) -> ssl.SSLContext | None:
        """Return the TLS context; None for a connection without TLS."""
        if not _TLS[self.tls]:
            return None
        for field, path in (("ssl_ca", self.ssl_ca), ("ssl_cert", self.ssl_cert), ("ssl_key", self.ssl_key)):
            if path is not None and not Path(path).is_file():
                _refuse(f"{field}={path!r} is not a file; name a PEM file")
        context = ssl.create_default_context(cafile=self.ssl_ca)
        if self.tls == "skip-verify":
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        if self.ssl_cert is not None:
            context.load_cert_chain(self.ssl_cert, self.ssl_key)
        return context


def location_of(text: str) -> MysqlLocation:
    match = _GO_STYLE.fullmatch(text)
    if match is None:
        return _of_url(text)
    user, _, password = (match["who"] or "").partition(":")
    options = _options(match["options"] or "")
    if match["net"] == "unix":
        return _location("localhost", DEFAULT_PORT, user, password, match["database"], options, match["address"])
    host, port = _host_and_port(match["address"])
    return _location(host, port, user, password, match["database"], options)


def with_database(text: str, database: str) -> str:
    """Return the same URL or DSN with another database."""
    match = _GO_STYLE.fullmatch(text)
    if match is not None:
        return f"{text[: match.start('database')]}{database}{text[match.end('database') :]}"
    head, _, query = text.partition("?")
    scheme, _, rest = head.partition("://")
    host = rest.partition("/")[0]
    return f"{scheme}://{host}/{quote(database)}{'?' if query else ''}{query}"


def _of_url(text: str) -> MysqlLocation:
    try:
        parts = urlsplit(text)
        port = parts.port or DEFAULT_PORT
    except ValueError:
        # Without the parser's message, which may have a part of the password in it.
        remedy = "write mysql://user:password@host:port/database, with %40 for @ in user and password"
        _refuse(f"{redacted(text)!r} is not a valid URL; {remedy}")
    options = _options(parts.query)
    user, password = unquote(parts.username or ""), unquote(parts.password or "")
    return _location(
        parts.hostname or "127.0.0.1", port, user, password, unquote(parts.path.removeprefix("/")), options
    )


def _location(
    host: str,
    port: int,
    user: str,
    password: str,
    database: str,
    options: Mapping[str, str],
    socket: str | None = None,
) -> MysqlLocation:
    if not database:
        _refuse("no database is named; write one after the slash, such as mysql://user@host/rota")
    return MysqlLocation(host, port, user or "root", password, database, socket, **options)


def _options(text: str) -> Mapping[str, str]:
    options = {}
    for name, value in parse_qsl(text, keep_blank_values=True):
        if name in _OUR_OPTIONS:
            options[name] = value
        elif name not in _OTHERS_OPTIONS:
            _refuse(f"{name!r} is not an option; options are {', '.join(sorted(_OUR_OPTIONS))}")
    if options.get("tls", "false") not in _TLS:
        _refuse(f"tls={options['tls']!r} is not valid; it is one of {', '.join(_TLS)}")
    if "tls" not in options and options.keys() & {"ssl_ca", "ssl_cert", "ssl_key"}:
        options["tls"] = "true"
    return options


def _host_and_port(address: str) -> tuple[str, int]:
    host, separator, port = address.rpartition(":")
    if not separator or host.count("[") != host.count("]"):
        host, port = address, str(DEFAULT_PORT)
    if not port.isdecimal():
        _refuse(f"{port!r} is not a port")
    return host.strip("[]") or "127.0.0.1", int(port)


def _refuse(why: str) -> NoReturn:
    raise InvalidRequest(f"store: {why}", field="store")
