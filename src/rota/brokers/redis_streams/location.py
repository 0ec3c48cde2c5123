"""Redis by URL: a single server, a primary behind Sentinel, or a cluster. Valkey works like Redis."""

from __future__ import annotations

import ipaddress
import logging
import random
import ssl
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import parse_qsl, unquote

from redis.asyncio import Redis, RedisCluster, Sentinel
from redis.asyncio.cluster import ClusterNode
from redis.asyncio.retry import Retry
from redis.asyncio.sentinel import SentinelConnectionPool
from redis.backoff import NoBackoff
from redis.exceptions import ConnectionError as RedisConnectionError

from rota.core.errors import InvalidRequest
from rota.sockets import TCP_OPTIONS

_log = logging.getLogger("rota.broker")
#: How long to wait for a connection and for an answer. A server that hangs must not hold up a claim for longer.
CONNECT_SECONDS: Final = 1.0
ANSWER_SECONDS: Final = 2.0
_PORTS: Final = {"": 6379, "cluster": 6379, "sentinel": 26379}
_SCHEMES: Final = {"redis": False, "valkey": False, "rediss": True, "valkeys": True}
_EXAMPLES: Final = (
    "redis://host:6379/0, rediss://host, redis+sentinel://host1,host2/mymaster or redis+cluster://host1,host2"
)

Client = Redis | RedisCluster


@dataclass(frozen=True, slots=True)
class RedisLocation:
    """The parsed URL of a Redis server, of a set of Sentinels, or of a Redis cluster."""

    #: Empty for a single server, or `sentinel`, or `cluster`.
    kind: str
    hosts: tuple[tuple[str, int], ...]
    is_encrypted: bool = False
    user: str | None = None
    password: str | None = field(default=None, repr=False)
    database: int = 0
    master: str = ""
    #: A file of certificate authorities to trust instead of the system's.
    authorities: str | None = None

    @property
    def is_cluster(self) -> bool:
        return self.kind == "cluster"


def location_of(url: str) -> RedisLocation:
    """Parse a URL, or a bare `host:port`."""
    scheme, separator, rest = url.partition("://")
    if not separator:
        scheme, rest = "redis", url
    family, _, kind = scheme.partition("+")
    if family not in _SCHEMES or kind not in _PORTS:
        raise _refusal(f"{scheme!r} is not a known kind of broker; use {_EXAMPLES}")
    rest, _, query = rest.partition("?")
    place, _, path = rest.partition("/")
    user, password = None, None
    if "@" in place:
        credentials, _, place = place.rpartition("@")
        name, _, secret = credentials.partition(":")
        user, password = unquote(name) or None, unquote(secret) or None
    hosts = tuple(_host(part, _PORTS[kind]) for part in place.split(",") if part) or (("127.0.0.1", _PORTS[kind]),)
    words = [unquote(word) for word in path.split("/") if word]
    master = ""
    if kind == "sentinel":
        if not words:
            raise _refusal(
                "redis+sentinel:// needs the name of the master, as in redis+sentinel://host1,host2/mymaster"
            )
        master = words.pop(0)
    elif kind == "" and len(hosts) > 1:
        raise _refusal(f"several hosts mean Sentinel or a cluster; use {_EXAMPLES}")
    if words and kind == "cluster":
        raise _refusal("a cluster has no numbered databases; leave the number out")
    return RedisLocation(
        kind,
        hosts,
        is_encrypted=_SCHEMES[family],
        user=user,
        password=password,
        database=_database(words),
        master=master,
        authorities=_authorities(query),
    )


#: The wrong text is not shown: it may be a part of a password.
_ESCAPED: Final = ", and '/', '@' and ':' in a password as %2F, %40 and %3A"


def _refusal(why: str) -> InvalidRequest:
    return InvalidRequest(f"broker: {why}", field="broker")


def _host(text: str, port: int) -> tuple[str, int]:
    name, separator, number = text.rpartition(":")
    if not separator or number.endswith("]"):
        return text.strip("[]"), port
    if not number.isdigit():
        raise _refusal(f"the text after a host's colon is not a port; write host:6379{_ESCAPED}")
    return name.strip("[]") or "127.0.0.1", int(number)


def _database(words: list[str]) -> int:
    if not words:
        return 0
    if len(words) > 1 or not words[0].isdigit():
        raise _refusal(f"the text after the hosts is not the number of a database{_ESCAPED}")
    return int(words[0])


def _authorities(query: str) -> str | None:
    options = dict(parse_qsl(query))
    authorities = options.pop("ssl_ca_certs", None)
    if options:
        raise _refusal(f"{', '.join(sorted(options))}: unknown; the only option is ssl_ca_certs, a file of authorities")
    return authorities


def warn_of_plain_text(location: RedisLocation) -> None:
    """Log a warning if ids and passwords cross a network without encryption."""
    remote = [name for name, _ in location.hosts if not _is_loopback(name)]
    if remote and not location.is_encrypted:
        _log.warning("broker: %s is used without encryption; use rediss:// unless the network is private", remote[0])


def _is_loopback(name: str) -> bool:
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return name == "localhost"


def client_of(location: RedisLocation) -> Client:
    """Make a client, which connects when it is first used."""
    common = _common(location)
    if location.kind == "cluster":
        nodes = [ClusterNode(host, port) for host, port in location.hosts]
        return RedisCluster(startup_nodes=nodes, **common)
    if location.kind == "sentinel":
        sentinel_options = {key: value for key, value in common.items() if key not in {"username", "password"}}
        # redis-py leaves this class untyped.
        sentinel = Sentinel(  # type: ignore[no-untyped-call]
            location.hosts, sentinel_kwargs=sentinel_options, **common, db=location.database
        )
        master: Redis = sentinel.master_for(location.master)
        return master
    ((host, port),) = location.hosts
    return Redis(host=host, port=port, db=location.database, **common)


def sentinels_of(client: Client) -> list[Redis]:
    """Return the clients of the sentinels, which the driver does not close."""
    pool = client.connection_pool if isinstance(client, Redis) else None
    return list(pool.sentinel_manager.sentinels) if isinstance(pool, SentinelConnectionPool) else []


def pubsub_client_of(location: RedisLocation, client: Client) -> Redis:
    """Return a client for pub/sub. In a cluster every node gets all messages, so any node will do."""
    if isinstance(client, Redis):
        return client
    known = [(node.host, int(node.port)) for node in client.get_nodes()] or list(location.hosts)
    host, port = random.choice(known)  # noqa: S311 - no secret
    return Redis(host=host, port=port, **_common(location))


def _common(location: RedisLocation) -> dict[str, Any]:
    options: dict[str, Any] = {
        "username": location.user,
        "password": location.password,
        "decode_responses": True,
        "socket_connect_timeout": CONNECT_SECONDS,
        "socket_timeout": ANSWER_SECONDS,
        "socket_keepalive": True,
        "socket_keepalive_options": dict(TCP_OPTIONS),
        # No retries: without an answer, callers claim from the store.
        "retry": Retry(NoBackoff(), 1 if location.is_cluster else 0, supported_errors=(RedisConnectionError,)),
    }
    if location.is_encrypted:
        options |= {
            "ssl": True,
            "ssl_cert_reqs": "required",
            "ssl_check_hostname": True,
            "ssl_min_version": ssl.TLSVersion.TLSv1_2,
            "ssl_ca_certs": location.authorities,
        }
    return options
