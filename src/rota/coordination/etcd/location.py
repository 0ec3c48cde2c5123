"""Etcd by URL: `etcd://user:password@host:2379,other:2379/prefix?ca=…`, `etcds://…` with TLS, or a bare list.

A bare list is what `ETCD_ENDPOINTS` holds: `host:2379,other:2379`, each with `http://` or `https://` before it or not.
"""

from __future__ import annotations

import ipaddress
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import parse_qsl, unquote, urlsplit

from rota.core.errors import InvalidRequest

_SCHEMES: Final = {"etcd": "http", "http": "http", "etcds": "https", "https": "https"}
_OPTIONS: Final = frozenset({"ca", "cert", "key", "verify"})
_PORT: Final = 2379
_PREFIX: Final = "rota"


@dataclass(frozen=True, slots=True)
class EtcdLocation:
    """The nodes, the credentials, and the prefix of all keys."""

    endpoints: tuple[str, ...]
    prefix: str = _PREFIX
    user: str = ""
    password: str = field(default="", repr=False)
    #: Files: the certificate authority of the nodes (default: the system's), and the client certificate with its key.
    ca: str | None = None
    cert: str | None = None
    key: str | None = None
    #: Whether the certificates of the nodes are verified.
    verify: bool = True

    @property
    def is_encrypted(self) -> bool:
        return self.endpoints[0].startswith("https")

    @property
    def is_exposed(self) -> bool:
        """Whether requests leave this machine without encryption or without verified certificates."""
        return not (self.is_encrypted and self.verify) and not all(map(_is_loopback, self.endpoints))

    def context(self) -> ssl.SSLContext | bool:
        """Make the TLS context; False without TLS."""
        if not self.is_encrypted:
            return False
        try:
            context = ssl.create_default_context(cafile=self.ca)
            if self.cert is not None:
                context.load_cert_chain(self.cert, self.key)
        except OSError as error:
            raise _unusable(f"its certificates cannot be read: {error}") from None
        if not self.verify:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        return context


def location_of(url: str) -> EtcdLocation:
    """Parse the address of an etcd."""
    scheme, separator, rest = url.strip().partition("://")
    if not separator or scheme in {"http", "https"}:
        return EtcdLocation(_endpoints(url.strip(), "http"))
    if scheme not in {"etcd", "etcds"}:
        raise _unusable(f"{scheme!r} is not a scheme of etcd; write etcd://host:2379/prefix, or etcds:// for TLS")
    rest, _, query = rest.partition("?")
    hosts, _, prefix = rest.partition("/")
    credentials, _, hosts = hosts.rpartition("@")
    user, _, password = credentials.partition(":")
    options = _options(query)
    return EtcdLocation(
        _endpoints(hosts, _SCHEMES[scheme]),
        prefix=unquote(prefix).strip("/") or _PREFIX,
        user=unquote(user),
        password=unquote(password),
        ca=options.get("ca"),
        cert=options.get("cert"),
        key=options.get("key"),
        verify=options.get("verify", "yes").lower() not in {"no", "false", "0", "off"},
    )


def _endpoints(listed: str, scheme: str) -> tuple[str, ...]:
    endpoints = tuple(_endpoint(one.strip(), scheme) for one in listed.split(",") if one.strip())
    if not endpoints:
        raise _unusable("it names no host")
    if len({one.partition("://")[0] for one in endpoints}) > 1:
        raise _unusable("some of its hosts use TLS and some do not")
    return endpoints


#: The wrong text is not shown: it may be a part of a password.
_ESCAPED: Final = ", with '/', '@' and ':' in a password as %2F, %40 and %3A"


def _endpoint(word: str, scheme: str) -> str:
    named, separator, rest = word.partition("://")
    scheme, word = (named, rest) if separator else (scheme, word)
    if "@" in word:
        rule = "user and password are given once, before the first host, as in etcds://user:password@host:2379"
        raise _unusable(f"{rule}{_ESCAPED}")
    try:
        parts = urlsplit(f"//{word}")
        host, port = parts.hostname, parts.port or _PORT
    except ValueError:
        raise _unusable(f"the text after a host's colon is not a port; write host:2379{_ESCAPED}") from None
    if scheme not in _SCHEMES or not host:
        raise _unusable(f"{word!r} is not a host with a port, such as localhost:2379")
    return f"{_SCHEMES[scheme]}://{f'[{host}]' if ':' in host else host}:{port}"


def _options(query: str) -> Mapping[str, str]:
    options = dict(parse_qsl(query, keep_blank_values=True))
    if unknown := sorted(set(options) - _OPTIONS):
        raise _unusable(f"{unknown[0]!r} is not an option; known options: {', '.join(sorted(_OPTIONS))}")
    return options


def _is_loopback(endpoint: str) -> bool:
    host = urlsplit(endpoint).hostname or ""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _unusable(why: str) -> InvalidRequest:
    return InvalidRequest(f"coordinator: not a usable address of etcd: {why}", field="coordinator")
